// Projections of products: see projection.h.
#include "verify/projection.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <random>

#include "core/attrs.h"
#include "evaluate/plan_evaluator.h"
#include "verify/product_operands.h"
#include "verify/replay.h"
#include "verify/sampled_products.h"

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
  for (int64_t i = 0; i < rows * cols; ++i) {
    const auto column = static_cast<size_t>(roles.trans_w ? i / cols : i % cols);
    const auto term = static_cast<size_t>(roles.trans_w ? i % cols : i / cols);
    const double v =
        (w.value(i) - one_of(zero, term, column, 0)) * one_of(scale, term, column, 1) * r[column];
    made.along[term] += v;
    made.squares[term] += v * v;
  }
  for (const double v : r) made.largest = std::max(made.largest, std::abs(v));
  return made;
}

}  // namespace

Projection::Projection(const plan::Plan& plan, const backend::Backend& backend, uint64_t seed,
                       std::map<int32_t, ProjectedWeight>& weights)
    : plan_(plan), backend_(backend), seed_(seed), weights_(weights) {}

void Projection::before_run(std::span<std::byte> arena) {
  Poison(kSignallingNan).before_run(arena);
  products_ = {};
}
void Projection::before_step(std::span<std::byte> unwritten) {
  Poison(kSignallingNan).before_step(unwritten);
}

void Projection::after_step(int32_t index, const backend::LaunchCall& call) {
  const plan::Step& step = plan_.step(index);
  if ((flags(step.op) & kProduct) == 0 || step.op == OpKind::kAttention) return;
  if (project(index, call)) return;
  if (auto sampled = sample_product(plan_, backend_, index, call, seed_))
    products_.sampled.push_back(std::move(*sampled));
  else
    ++products_.left_out;
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
    EvalTensor w = weight_of(plan_, backend_, step, call);
    if (w.rank() != 2) return false;
    if (!roles.quantized) round_operand(rounding, 1, w);
    weights_[index] = projected(w, roles, call, r);
  }
  const ProjectedWeight& w = weights_[index];
  const EvalTensor x = operand_of(call, roles, rounding);
  const EvalTensor y = EvalTensor::from(copy_of(result));
  const std::optional<EvalTensor> bias = given(call, roles.bias),
                                  residual = given(call, roles.residual);
  const size_t k = w.along.size(), rows = y.f.size() / n;
  if (x.f.size() != rows * k || (residual && residual->f.size() != y.f.size()) ||
      (bias && bias->elems() != 1 && bias->elems() != static_cast<int64_t>(n)))
    return false;
  ProjectedProduct product{.step = index};
  product.elems = y.elems();
  for (size_t m = 0; m < rows; ++m) {
    double want = 0, noise = 0, got = 0, rounding_error = 0, size = 0, sum = 0;
    for (size_t i = 0; i < k; ++i) {
      const double v = x.f[m * k + i];
      want += v * w.along[i];
      noise += v * v * w.squares[i];
    }
    for (size_t c = 0; c < n; ++c) {
      const double v = y.f[m * n + c];
      const double added =
          (bias ? bias->value(bias->elems() == 1 ? 0 : static_cast<int64_t>(c)) : 0) +
          (residual ? residual->f[m * n + c] : 0);
      const double unit = kHalf * ulp(result.dtype, v) + step.numerics.approximation_abs +
                          step.numerics.approximation_rel * std::abs(v);
      got += (v - added) * r[c];
      sum += v * r[c];
      rounding_error += r[c] * r[c] * unit * unit;
      size += v * v;
    }
    // Both operands off by u, each of K additions by u of what is summed up so far.
    const double steps = static_cast<double>(k) * kSingleUnit * kSingleUnit *
                         (2 * noise + w.largest * w.largest * size);
    const double limit =
        kDeviations * std::sqrt(rounding_error + steps) + std::numeric_limits<float>::min();
    const double error = std::abs(got - want);
    if (!std::isfinite(got) || !std::isfinite(want)) continue;  // of the answers and the replay
    product.worst = std::max(product.worst, error / limit);
    const double rms = std::sqrt(size / static_cast<double>(n));
    constexpr double kLeastDirection = 0.75;
    if (rms > 0) product.element = std::max(product.element, 2 * limit / kLeastDirection / rms);
    if (std::abs(sum) > 0) product.factor = std::min(product.factor, 2 * limit / std::abs(sum));
    if (error > limit && product.why.empty()) {
      product.why = fmt::format(
          "row {} of its result, projected on random numbers, is {:.8g}, and its operands' is "
          "{:.8g} ± {:.1e}",
          m, got, want, limit);
    }
  }
  products_.products.push_back(std::move(product));
  return true;
}

}  // namespace vernier::verify
