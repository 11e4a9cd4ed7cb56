// Projections of products: see projection.h.
#include "verify/projection.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <limits>
#include <numeric>
#include <optional>
#include <random>
#include <span>
#include <utility>

#include "core/attrs.h"
#include "core/tasks.h"
#include "core/threads.h"
#include "evaluate/plan_evaluator.h"
#include "verify/metrics.h"
#include "verify/product_operands.h"
#include "verify/replay.h"

namespace vernier::verify {
namespace {

using namespace evaluate;  // NOLINT(google-build-using-namespace): its words are ours
using backend::LaunchCall;

// Of the deviation of a sum of independent errors with signs that r decides: exceeded once in
// 10^12.
constexpr double kDeviations = 7.5;
// Rounding to the nearest is off by at most half a unit; f32's own noise as in the replay.
constexpr double kHalf = 0.5;

// Can its result be projected? Not where a function comes behind the sum.
bool is_linear(const plan::Step& step) {
  const auto is_plain = [&] {
    if (step.op == OpKind::kWeightOnlyLinear)
      return decode<WeightOnlyLinearAttrs>(step.attrs).activation == Activation::kNone;
    if (step.op == OpKind::kLinear || step.op == OpKind::kQuantizedLinear)
      return decode<LinearAttrs>(step.attrs).activation == Activation::kNone;
    return step.op == OpKind::kMatMul;
  };
  return is_plain() && sums_in_f32(step);
}

// In ±[0.75, 1.25], so that two columns that change places have different ones.
std::vector<double> directions(size_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> size(0.75, 1.25);
  std::vector<double> r(count);
  for (double& v : r) v = (random() & 1) != 0 ? size(random) : -size(random);
  return r;
}

bool is_constant_weight(const plan::Plan& plan, const plan::Step& step) {
  if (!step.has_input(1)) return true;  // packed
  return plan.base_of(step.inputs[1]).kind == plan::PlanValue::Kind::kConstant;
}

// Sums beside each other, so that their loop becomes vectors.
constexpr size_t kSums = 4;
using Sums = std::array<double, kSums>;
double total(const Sums& sums) { return std::accumulate(sums.begin(), sums.end(), 0.0); }
// body(i, lane) for all i of [0, count).
template <class Body>
void in_lanes(size_t count, const Body& body) {
  size_t i = 0;
  for (; i + kSums <= count; i += kSums) {
    for (size_t lane = 0; lane < kSums; ++lane) body(i + lane, lane);
  }
  for (; i < count; ++i) body(i, 0);
}

// Of a weight in units of 1, on all threads.
void project_plainly(const EvalTensor& w, bool trans_w, const std::vector<double>& r,
                     ProjectedWeight& made) {
  const auto n = static_cast<int64_t>(r.size()), k = std::ssize(made.along);
  constexpr int64_t kLeastElems = int64_t{1} << 16;  // of a thread
  in_parallel(k, std::max<int64_t>(1, kLeastElems / n), [&](int64_t begin, int64_t end) {
    if (!trans_w) {
      for (int64_t term = begin; term < end; ++term) {
        const double* row = w.f.data() + term * n;
        Sums along{}, squares{};
        in_lanes(r.size(), [&](size_t column, size_t lane) {
          const double v = row[column] * r[column];
          along[lane] += v;
          squares[lane] += v * v;
        });
        made.along[term] = total(along);
        made.squares[term] = total(squares);
      }
      return;
    }
    for (int64_t column = 0; column < n; ++column) {
      const double* row = w.f.data() + column * k;
      for (int64_t term = begin; term < end; ++term) {
        const double v = row[term] * r[column];
        made.along[term] += v;
        made.squares[term] += v * v;
      }
    }
  });
}

ProjectedWeight projected(const EvalTensor& w, const ProductRoles& roles, const LaunchCall& call,
                          const std::vector<double>& r) {
  const int64_t rows = w.shape[0], cols = w.shape[1];
  const int64_t k = roles.trans_w ? cols : rows, n = roles.trans_w ? rows : cols;
  const std::optional<EvalTensor> scale = roles.scale ? given(call, *roles.scale) : std::nullopt;
  const std::optional<EvalTensor> zero = roles.zero ? given(call, *roles.zero) : std::nullopt;
  const auto one_of = [&](const std::optional<EvalTensor>& t, size_t term, size_t column,
                          double absent) {
    if (!t) return absent;
    if (t->elems() == 1) return t->value(0);
    const int64_t first = roles.block == 0 ? 0 : static_cast<int64_t>(term) / roles.block * n;
    return t->value(first + static_cast<int64_t>(column));
  };
  ProjectedWeight made{std::vector<double>(static_cast<size_t>(k), 0),
                       std::vector<double>(static_cast<size_t>(k), 0), 0};
  for (const double v : r) made.largest = std::max(made.largest, std::abs(v));
  if (!scale && !zero && w.is_float()) {
    project_plainly(w, roles.trans_w, r, made);
    return made;
  }
  for (int64_t i = 0; i < rows * cols; ++i) {
    const auto column = static_cast<size_t>(roles.trans_w ? i / cols : i % cols);
    const auto term = static_cast<size_t>(roles.trans_w ? i % cols : i / cols);
    const double v =
        (w.value(i) - one_of(zero, term, column, 0)) * one_of(scale, term, column, 1) * r[column];
    made.along[term] += v;
    made.squares[term] += v * v;
  }
  return made;
}

// What a row is judged by, beside its operand and its result.
struct RowLimits {
  const ProjectedWeight& w;
  const std::vector<double>& r;
  UnitInLastPlace unit;
  double absolute = 0, relative = 0;  // error that the kernel declares
  double summed = 0;                  // Numerics::sum_error
};

// A row of the operand, of the result, and of what was added behind the sum (bias, residual).
struct Row {
  std::span<const double> x, y, added;
};

// Adds what a row shows to `product`.
void judge_row(int64_t m, const Row& row, const RowLimits& limits, ProjectedProduct& product) {
  const ProjectedWeight& w = limits.w;
  Sums wants{}, noises{}, gots{}, roundings{}, sizes{}, sums{};
  in_lanes(row.x.size(), [&](size_t i, size_t lane) {
    const double v = row.x[i];
    wants[lane] += v * w.along[i];
    noises[lane] += v * v * w.squares[i];
  });
  in_lanes(row.y.size(), [&](size_t c, size_t lane) {
    const double v = row.y[c], direction = limits.r[c];
    const double off =
        kHalf * limits.unit.at_finite(v) + limits.absolute + limits.relative * std::abs(v);
    gots[lane] += (v - row.added[c]) * direction;
    sums[lane] += v * direction;
    roundings[lane] += direction * direction * off * off;
    sizes[lane] += v * v;
  });
  const double want = total(wants), got = total(gots), size = total(sizes);
  // Both operands off by u, each of K additions by u of what is summed up so far.
  const double steps = static_cast<double>(row.x.size()) * kSingleUnit * kSingleUnit *
                           (2 * total(noises) + w.largest * w.largest * size) +
                       limits.summed * limits.summed * total(noises);
  const double limit =
      kDeviations * std::sqrt(total(roundings) + steps) + std::numeric_limits<float>::min();
  const double error = std::abs(got - want);
  if (!std::isfinite(got) || !std::isfinite(want)) return;  // of the answers and the replay
  product.worst = std::max(product.worst, error / limit);
  const double rms = std::sqrt(size / static_cast<double>(row.y.size()));
  constexpr double kLeastDirection = 0.75;
  if (rms > 0) product.element = std::max(product.element, 2 * limit / kLeastDirection / rms);
  const double sum = std::abs(total(sums));
  if (sum > 0) product.factor = std::min(product.factor, 2 * limit / sum);
  if (error > limit && product.why.empty()) {
    product.why = fmt::format(
        "row {} of its result, projected on random numbers, is {:.8g}, and its operands' is "
        "{:.8g} ± {:.1e}",
        m, got, want, limit);
  }
}

// The operand of a product by rows, as its sum takes it.
class OperandRows {
 public:
  OperandRows(const LaunchCall& call, const ProductRoles& roles, const Rounding& rounding,
              int64_t k)
      : rounding_(rounding), rows_(call.in[0], k), k_(k) {
    if (roles.quantized) real_ = operand_of(call, roles, rounding);
    rounds_ = !roles.quantized && !leaves_operand(rounding, 0, call.in[0].dtype);
  }
  int64_t count() const { return rows_.count(); }
  void read(int64_t begin, int64_t end, EvalTensor& to) const {
    if (real_) {
      to.f.assign(real_->f.begin() + begin * k_, real_->f.begin() + end * k_);
      return;
    }
    rows_.read(begin, end, to);
    if (rounds_) round_operand(rounding_, 0, to);
  }

 private:
  const Rounding& rounding_;
  FloatRows rows_;
  std::optional<EvalTensor> real_;
  int64_t k_;
  bool rounds_ = false;
};

void add_block(const ProjectedProduct& of, ProjectedProduct& product) {
  product.worst = std::max(product.worst, of.worst);
  product.element = std::max(product.element, of.element);
  product.factor = std::min(product.factor, of.factor);
  if (product.why.empty()) product.why = of.why;
}

}  // namespace

Projection::Projection(const plan::Plan& plan, const backend::Backend& backend, uint64_t seed,
                       std::map<int32_t, ProjectedWeight>& weights, ConstantCache* constants)
    : plan_(plan), backend_(backend), seed_(seed), weights_(weights), constants_(constants) {}

void Projection::before_run(std::span<std::byte> arena) {
  Poison(kSignallingNan).before_run(arena);
  products_ = {};
  samples_.clear();
}
void Projection::before_step(std::span<std::byte> unwritten) {
  Poison(kSignallingNan).before_step(unwritten);
}

void Projection::after_step(int32_t index, const backend::LaunchCall& call) {
  const plan::Step& step = plan_.step(index);
  if ((flags(step.op) & kProduct) == 0 || step.op == OpKind::kAttention) return;
  if (project(index, call)) return;
  if (auto sampled = sample_product(plan_, backend_, index, call, seed_, constants_))
    samples_.push_back(std::move(*sampled));
  else
    ++products_.left_out;
}

const ProjectedProducts& Projection::products() {
  std::vector<SampledProduct> found(samples_.size());
  for_each_task(std::ssize(samples_), [&](int64_t i) {
    found[i] = judged(plan_, backend_, std::move(samples_[i]), constants_);
  });
  std::ranges::move(found, std::back_inserter(products_.sampled));
  samples_.clear();
  return products_;
}

// False: it cannot be projected.
bool Projection::project(int32_t index, const backend::LaunchCall& call) {
  const plan::Step& step = plan_.step(index);
  const backend::TensorArg& result = call.out[0];
  const bool fits = is_linear(step) && is_constant_weight(plan_, step) && result.data != nullptr &&
                    is_float(result.dtype) && result.rank >= 1 && result.elems() > 0 &&
                    call.in[0].data != nullptr && call.in[0].rank >= 1;
  if (!fits) return false;
  const ProductRoles roles = product_roles(step);
  const Rounding rounding = ideal_rounding(step.op, step.numerics);
  const auto n = static_cast<size_t>(result.dim(-1));
  const std::vector<double> r = directions(n, seed_ * 0x9e3779b97f4a7c15u + n);
  if (!weights_.contains(index)) {
    const auto held = weight_of(plan_, backend_, step, call, constants_);
    if (held->rank() != 2) return false;
    if (roles.quantized || leaves_operand(rounding, 1, held->dtype)) {
      weights_[index] = projected(*held, roles, call, r);
    } else {
      EvalTensor rounded = *held;
      round_operand(rounding, 1, rounded);
      weights_[index] = projected(rounded, roles, call, r);
    }
  }
  const ProjectedWeight& w = weights_[index];
  const auto k = static_cast<int64_t>(w.along.size()), cols = static_cast<int64_t>(n);
  const OperandRows x(call, roles, rounding, k);
  const FloatRows y(result, cols);
  const std::optional<EvalTensor> bias = given(call, roles.bias);
  const backend::TensorArg* residual =
      roles.residual < call.in.size() && call.in[roles.residual].data ? &call.in[roles.residual]
                                                                      : nullptr;
  const int64_t rows = y.count();
  if (call.in[0].elems() != rows * k || (residual && residual->elems() != result.elems()) ||
      (bias && bias->elems() != 1 && bias->elems() != cols))
    return false;
  std::vector<double> biases(n, 0);
  for (size_t c = 0; bias && c < n; ++c)
    biases[c] = bias->value(bias->elems() == 1 ? 0 : static_cast<int64_t>(c));
  std::optional<FloatRows> behind;
  if (residual) behind.emplace(*residual, cols);
  const RowLimits limits{.w = w,
                         .r = r,
                         .unit = UnitInLastPlace(result.dtype),
                         .absolute = step.numerics.approximation_abs,
                         .relative = step.numerics.approximation_rel,
                         .summed = step.numerics.sum_error};
  constexpr int64_t kBlock = 16;  // rows that are read at a time: they stay in the cache
  const int64_t blocks = (rows + kBlock - 1) / kBlock;
  std::vector<ProjectedProduct> judged(static_cast<size_t>(blocks));
  constexpr int64_t kLeastElems = int64_t{1} << 14;  // of a thread
  const int64_t least = std::max<int64_t>(1, kLeastElems / (kBlock * (k + cols)));
  in_parallel(blocks, least, [&](int64_t first, int64_t last) {
    EvalTensor operand, answer, added;
    for (int64_t block = first; block < last; ++block) {
      const int64_t begin = block * kBlock, end = std::min(begin + kBlock, rows);
      x.read(begin, end, operand);
      y.read(begin, end, answer);
      if (behind) behind->read(begin, end, added);
      for (int64_t m = begin; m < end; ++m) {
        const auto of = [&](EvalTensor& t, int64_t width) {
          return std::span(t.f).subspan((m - begin) * width, width);
        };
        const std::span<double> behind_sum = behind ? of(added, cols) : std::span(biases);
        for (int64_t c = 0; behind && c < cols; ++c) behind_sum[c] += biases[c];
        judge_row(m, {of(operand, k), of(answer, cols), behind_sum}, limits, judged[block]);
      }
    }
  });
  ProjectedProduct product{.step = index, .elems = result.elems()};
  for (const ProjectedProduct& block : judged) add_block(block, product);
  products_.products.push_back(std::move(product));
  return true;
}

}  // namespace vernier::verify
