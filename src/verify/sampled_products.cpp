// Samples of products: see sampled_products.h.
#include "verify/sampled_products.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <numeric>
#include <random>
#include <utility>

#include "core/attrs.h"
#include "core/broadcast.h"
#include "core/evaluator.h"
#include "core/threads.h"
#include "evaluate/plan_evaluator.h"
#include "verify/metrics.h"
#include "verify/product_operands.h"
#include "verify/replay.h"
#include "verify/step_judge.h"

namespace vernier::verify {
namespace {

using backend::LaunchCall;
using backend::TensorArg;
using evaluate::kSingleUnit;

// Places of each column, and of each row; fewer of these where rows are many.
constexpr int64_t kOfColumn = 2, kOfRow = 4, kMostOfRows = 8192;
constexpr int64_t kReplayedRows = 2;
// As in the replay: of the noise of f32 on an element.
constexpr double kNoiseFactor = 8;
constexpr double kSubnormal = std::numeric_limits<float>::min();
// No activation of a Linear is steeper: GELU's slope is at most 1.129.
constexpr double kSteepest = 1.13;

// `count` of [0, all), ascending; all of them where there are no more.
std::vector<int64_t> drawn(int64_t all, int64_t count, std::mt19937_64& random) {
  std::vector<int64_t> places;
  if (all <= count) {
    places.resize(all);
    std::iota(places.begin(), places.end(), int64_t{0});
    return places;
  }
  while (std::ssize(places) < count) {
    const auto place = static_cast<int64_t>(random() % static_cast<uint64_t>(all));
    if (std::ranges::find(places, place) == places.end()) places.push_back(place);
  }
  std::ranges::sort(places);
  return places;
}

// y = f(alpha·x·w + added) + behind, of `batches` matrices [m, n], with sums over k.
struct Product {
  EvalTensor x;  // as the kernel multiplies them
  std::shared_ptr<const EvalTensor> w;
  int64_t m = 0, n = 0, k = 0;
  std::vector<int64_t> x_begins{0}, w_begins{0};      // by matrix, in elements
  int64_t x_row = 0, x_k = 1, w_k = 0, w_column = 1;  // strides
  double alpha = 1;
  Activation activation = Activation::kNone;
  std::function<double(int64_t row, int64_t column)> added, behind;

  int64_t rows() const { return std::ssize(x_begins) * m; }
  const double* x_of(int64_t row) const { return x.f.data() + x_begins[row / m] + row % m * x_row; }
  const double* w_of(int64_t row) const { return w->f.data() + w_begins[row / m]; }
};

double nothing(int64_t, int64_t) { return 0; }

// A value of an operand that has one for every element, every column, or all.
std::function<double(int64_t, int64_t)> by_place(std::optional<EvalTensor> t, int64_t n) {
  if (!t) return &nothing;
  return [t = std::move(*t), n](int64_t row, int64_t column) {
    const int64_t count = t.elems();
    return t.value(count == 1 ? 0 : count == n ? column : row * n + column);
  };
}

// What every product is made of.
struct Source {
  const plan::Plan& plan;
  const backend::Backend& backend;
  const plan::Step& step;
  const LaunchCall& call;
  ConstantCache* constants;
  Rounding rounding = ideal_rounding(step.op, step.numerics);
  std::shared_ptr<const EvalTensor> weight() const {
    return weight_of(plan, backend, step, call, constants);
  }
  std::shared_ptr<const EvalTensor> rounded_weight() const {
    std::shared_ptr<const EvalTensor> held = weight();
    if (leaves_operand(rounding, 1, held->dtype)) return held;
    EvalTensor w = *held;
    round_operand(rounding, 1, w);
    return std::make_shared<const EvalTensor>(std::move(w));
  }
  EvalTensor rounded_operand() const {
    EvalTensor x = *given(call, 0);
    if (!leaves_operand(rounding, 0, x.dtype)) round_operand(rounding, 0, x);
    return x;
  }
};

// Weights that are integers, in units of 1.
EvalTensor real_weight(const LaunchCall& call, const ProductRoles& roles, const EvalTensor& w) {
  const std::optional<EvalTensor> scale = given(call, *roles.scale),
                                  zero = given(call, *roles.zero);
  const int64_t cols = w.shape[1], n = roles.trans_w ? w.shape[0] : cols;
  const auto one_of = [&](const std::optional<EvalTensor>& t, int64_t term, int64_t column,
                          double absent) {
    if (!t) return absent;
    if (t->elems() == 1) return t->value(0);
    return t->value((roles.block == 0 ? 0 : term / roles.block * n) + column);
  };
  EvalTensor real(DType::kF32, w.shape);
  for (int64_t i = 0; i < w.elems(); ++i) {
    const int64_t column = roles.trans_w ? i / cols : i % cols;
    const int64_t term = roles.trans_w ? i % cols : i / cols;
    real.f[i] = (w.value(i) - one_of(zero, term, column, 0)) * one_of(scale, term, column, 1);
  }
  return real;
}

std::optional<Product> linear_of(const Source& source) {
  const auto& [plan, backend, step, call, constants, rounding] = source;
  const ProductRoles roles = product_roles(step);
  Product p;
  p.w = roles.scale ? source.weight() : source.rounded_weight();
  if (p.w->rank() != 2) return std::nullopt;
  if (roles.scale) p.w = std::make_shared<const EvalTensor>(real_weight(call, roles, *p.w));
  p.x = roles.quantized ? operand_of(call, roles, rounding) : source.rounded_operand();
  p.k = p.w->shape[roles.trans_w ? 1 : 0];
  p.n = p.w->shape[roles.trans_w ? 0 : 1];
  if (p.k == 0) return std::nullopt;
  p.m = p.x.elems() / p.k;
  p.x_row = p.k;
  p.w_k = roles.trans_w ? 1 : p.n;
  p.w_column = roles.trans_w ? p.k : 1;
  p.activation = step.op == OpKind::kWeightOnlyLinear
                     ? decode<WeightOnlyLinearAttrs>(step.attrs).activation
                     : decode<LinearAttrs>(step.attrs).activation;
  p.added = by_place(given(call, roles.bias), p.n);
  p.behind = by_place(given(call, roles.residual), p.n);
  return p;
}

std::optional<Product> matmul_of(const Source& source) {
  Product p;
  p.x = source.rounded_operand();
  p.w = source.rounded_weight();
  if (p.x.rank() < 2 || p.w->rank() < 2) return std::nullopt;
  p.m = p.x.shape[p.x.rank() - 2];
  p.k = p.x.shape.back();
  p.n = p.w->shape.back();
  p.x_row = p.k;
  p.w_k = p.n;
  const std::span<const int64_t> a(p.x.shape.data(), p.x.rank() - 2),
      b(p.w->shape.data(), p.w->rank() - 2);
  const Shape batch = broadcast_shape(a, b);
  p.x_begins.clear();
  p.w_begins.clear();
  for_each_broadcast(batch, std::array{broadcast_strides(a, batch), broadcast_strides(b, batch)},
                     [&](int64_t, const auto& at) {
                       p.x_begins.push_back(at[0] * p.m * p.k);
                       p.w_begins.push_back(at[1] * p.k * p.n);
                     });
  p.added = p.behind = &nothing;
  return p;
}

// C of a Gemm, broadcast to [M, N].
std::function<double(int64_t, int64_t)> broadcast_c(std::optional<EvalTensor> c, double beta,
                                                    int64_t m, int64_t n) {
  if (!c) return &nothing;
  const Shape strides = broadcast_strides(c->shape, Shape{m, n});
  return [c = std::move(*c), beta, strides](int64_t row, int64_t column) {
    return beta * c.value(row * strides[0] + column * strides[1]);
  };
}

std::optional<Product> gemm_of(const Source& source) {
  const LaunchCall& call = source.call;
  const auto attrs = decode<GemmAttrs>(source.step.attrs);
  Product p;
  p.x = source.rounded_operand();
  p.w = source.rounded_weight();
  if (p.x.rank() != 2 || p.w->rank() != 2) return std::nullopt;
  p.m = p.x.shape[attrs.trans_a ? 1 : 0];
  p.k = p.x.shape[attrs.trans_a ? 0 : 1];
  p.n = p.w->shape[attrs.trans_b ? 0 : 1];
  p.x_row = attrs.trans_a ? 1 : p.k;
  p.x_k = attrs.trans_a ? p.m : 1;
  p.w_k = attrs.trans_b ? 1 : p.n;
  p.w_column = attrs.trans_b ? p.k : 1;
  p.alpha = attrs.alpha;
  p.added = broadcast_c(given(call, 2), attrs.beta, p.m, p.n);
  p.behind = &nothing;
  return p;
}

std::optional<Product> product_of(const Source& source) {
  switch (source.step.op) {
    case OpKind::kLinear:
    case OpKind::kQuantizedLinear:
    case OpKind::kWeightOnlyLinear:
      return linear_of(source);
    case OpKind::kMatMul:
      return matmul_of(source);
    case OpKind::kGemm:
      return gemm_of(source);
    default:
      return std::nullopt;
  }
}

// An element that is looked at: its sum, and the squares of what was summed.
struct Place {
  int64_t row = 0, column = 0;
  double sum = 0, squares = 0;
};

Place place_of(const Product& p, int64_t row, int64_t column) {
  Place place{.row = row, .column = column};
  const double *x = p.x_of(row), *w = p.w_of(row) + column * p.w_column;
  for (int64_t term = 0; term < p.k; ++term) {
    const double v = x[term * p.x_k] * w[term * p.w_k];
    place.sum += v;
    place.squares += v * v;
  }
  return place;
}

// A place of each of some columns, in a row of its own, in the order of the weight.
void fill_columns(const Product& p, std::span<Place> places) {
  const size_t n = places.size();
  if (n == 0) return;
  std::vector<double> sums(n, 0), squares(n, 0);
  std::vector<const double*> x;
  for (const Place& place : places) x.push_back(p.x_of(place.row));
  const double* w = p.w_of(0) + places.front().column;
  for (int64_t term = 0; term < p.k; ++term, w += p.w_k) {
    for (size_t i = 0; i < n; ++i) {
      const double v = x[i][term * p.x_k] * w[i];
      sums[i] += v;
      squares[i] += v * v;
    }
  }
  for (size_t i = 0; i < n; ++i) {
    places[i].sum = sums[i];
    places[i].squares = squares[i];
  }
}

// A place of each column.
void fill_all_columns(const Product& p, std::span<Place> places) {
  constexpr int64_t kLeastProducts = int64_t{1} << 16;  // of a thread
  const bool in_order = p.w_column == 1 && p.x_begins.size() == 1;
  in_parallel(std::ssize(places), std::max<int64_t>(1, kLeastProducts / std::max<int64_t>(1, p.k)),
              [&](int64_t begin, int64_t end) {
                const std::span<Place> part = places.subspan(begin, end - begin);
                if (in_order) return fill_columns(p, part);
                for (Place& place : part) place = place_of(p, place.row, place.column);
              });
}

// Of an element: the chance that a sample looks at it.
double share_of(int64_t rows, int64_t columns, int64_t of_row, int64_t of_column) {
  const double by_row = static_cast<double>(of_row) / static_cast<double>(columns),
               by_column = static_cast<double>(of_column) / static_cast<double>(rows);
  return 1 - (1 - by_row) * (1 - by_column);
}

// Some places of every column, and some of every row.
std::vector<Place> places_of(const Product& p, int64_t of_row, int64_t of_column,
                             std::mt19937_64& random) {
  std::vector<Place> places(static_cast<size_t>(of_column * p.n));
  for (int64_t column = 0; column < p.n; ++column) {
    const std::vector<int64_t> own = drawn(p.rows(), of_column, random);
    for (int64_t i = 0; i < of_column; ++i)
      places[i * p.n + column] = {.row = own[i], .column = column};
  }
  for (int64_t i = 0; i < of_column; ++i)
    fill_all_columns(p, std::span(places).subspan(i * p.n, p.n));
  if (of_column == p.rows()) return places;  // all of them
  const size_t first = places.size();
  for (int64_t row = 0; row < p.rows(); ++row)
    for (const int64_t column : drawn(p.n, of_row, random))
      places.push_back({.row = row, .column = column});
  constexpr int64_t kLeastPlaces = 256;  // of a thread
  const std::span<Place> of_rows = std::span(places).subspan(first);
  in_parallel(std::ssize(of_rows), kLeastPlaces, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      of_rows[i] = place_of(p, of_rows[i].row, of_rows[i].column);
  });
  return places;
}

// f of each, by the evaluator of Linear: f(v·1).
std::vector<double> activated(Activation activation, std::vector<double> values) {
  if (activation == Activation::kNone) return values;
  EvalTensor x(DType::kF32, {static_cast<int64_t>(values.size()), 1}), one(DType::kF32, {1, 1});
  x.f = std::move(values);
  one.f = {1};
  const std::vector<const EvalTensor*> in{&x, &one};
  std::vector<EvalTensor> out;
  out.emplace_back(DType::kF32, x.shape);
  const AttrBytes attrs = encode(LinearAttrs{.activation = activation});
  const Rounding exact;
  evaluator(OpKind::kLinear)({attrs, in, out, exact});
  return std::move(out[0].f);
}

// Element `flat`, in row-major order, of a float array.
double element_of(const TensorArg& t, int64_t flat) {
  int64_t at = 0;
  for (int d = t.rank - 1; d >= 0; --d) {
    at += flat % t.dim(d) * t.stride(d);
    flat /= t.dim(d);
  }
  return load_float(t.dtype, t.data + at * static_cast<int64_t>(size_bytes(t.dtype)));
}

SampledProduct judge(const plan::Step& step, const Product& p, const TensorArg& result,
                     std::mt19937_64& random) {
  const int64_t of_column = std::min(kOfColumn, p.rows()),
                of_row = std::min(std::clamp<int64_t>(kMostOfRows / p.rows(), 1, kOfRow), p.n);
  const std::vector<Place> places = places_of(p, of_row, of_column, random);
  std::vector<double> sums;
  for (const Place& place : places)
    sums.push_back(p.alpha * place.sum + p.added(place.row, place.column));
  const std::vector<double> values = activated(p.activation, sums);
  const PointRounding stored = ideal_rounding(step.op, step.numerics).at(2);
  SampledProduct sampled{.share = share_of(p.rows(), p.n, of_row, of_column)};
  const UnitInLastPlace unit_of(result.dtype), stored_unit(stored.type);
  double largest_limit = 0, squares = 0;
  for (size_t i = 0; i < places.size(); ++i) {
    const auto& [row, column, sum, sum_squares] = places[i];
    const double behind = p.behind(row, column), want = values[i] + behind;
    const double got = element_of(result, row * p.n + column);
    if (!std::isfinite(got) || !std::isfinite(round_to(result.dtype, want)))
      continue;  // of the answers and the replay
    const double unit =
        std::max(unit_of.at(want), is_simulated(stored) ? stored_unit.at(want) : 0.0);
    const double noise = std::abs(p.alpha) * (std::sqrt(2 * sum_squares) + std::abs(sum)) +
                         std::abs(p.added(row, column));
    const double limit = unit + kSubnormal + step.numerics.approximation_abs +
                         step.numerics.approximation_rel * std::abs(want) +
                         kNoiseFactor * std::sqrt(static_cast<double>(p.k)) * kSingleUnit *
                             (kSteepest * noise + std::abs(values[i]) + std::abs(behind)) +
                         kNoiseFactor * step.numerics.sum_error * kSteepest * std::abs(p.alpha) *
                             (std::sqrt(sum_squares) + std::abs(sum));
    if (std::abs(got - want) > limit && sampled.why.empty()) {
      sampled.why =
          fmt::format("row {}, column {} of its result is {:.8g}, expected {:.8g} ± {:.1e}", row,
                      column, got, want, limit);
    }
    largest_limit = std::max(largest_limit, limit);
    squares += want * want;
  }
  // An element that is off by its limit may hide as much.
  if (squares > 0)
    sampled.element = 2 * largest_limit / std::sqrt(squares / static_cast<double>(places.size()));
  return sampled;
}

// ---- whole rows or images, replayed

// Some rows of its inputs `with_rows` and of its outputs.
std::optional<Sample> rows_of(const plan::Plan& plan, int32_t index, const LaunchCall& call,
                              std::span<const size_t> with_rows, int inner,
                              std::mt19937_64& random) {
  const int64_t all = rows_in(call.out[0], inner);
  if (all == 0) return std::nullopt;
  const std::vector<int64_t> rows = drawn(all, inner == 1 ? kReplayedRows : 1, random);
  std::optional<StepCopy> copy =
      copy_rows(plan, index, call, {.with_rows = with_rows, .inner = inner, .rows = rows});
  if (!copy) return std::nullopt;
  return Sample{
      .product = {.share = static_cast<double>(std::ssize(rows)) / static_cast<double>(all)},
      .rows = std::move(copy)};
}

// The whole step, where that is little work.
std::optional<Sample> replay_all(const plan::Plan& plan, const backend::Backend& backend,
                                 int32_t index, const LaunchCall& call) {
  constexpr double kMostProducts = 0x1p24;  // evaluated six times: a tenth of a second
  std::vector<Shape> in, out;
  std::vector<DType> in_types, out_types;
  const auto add = [](std::span<const TensorArg> args, auto& shapes, auto& types) {
    for (const TensorArg& arg : args) {
      shapes.emplace_back(arg.shape.begin(), arg.shape.begin() + arg.rank);
      types.push_back(arg.dtype);
    }
  };
  add(call.in, in, in_types);
  add(call.out, out, out_types);
  const double products = evaluate::sum_length(plan.step(index), in, out, in_types, out_types) *
                          static_cast<double>(call.out[0].elems());
  if (products > kMostProducts) return std::nullopt;
  Replay replay(plan, backend, kSignallingNan);
  replay.after_step(index, call);
  return Sample{.product = {.why = replay.steps().back().why, .share = 1}};
}

}  // namespace

std::optional<Sample> sample_product(const plan::Plan& plan, const backend::Backend& backend,
                                     int32_t index, const LaunchCall& call, uint64_t seed,
                                     ConstantCache* constants) {
  const plan::Step& step = plan.step(index);
  const TensorArg& result = call.out[0];
  if (!result.data || !is_float(result.dtype) || result.elems() == 0 || result.rank < 1 ||
      call.in.empty() || !call.in[0].data)
    return std::nullopt;
  std::seed_seq seeds{seed, static_cast<uint64_t>(index), static_cast<uint64_t>(result.elems())};
  std::mt19937_64 random(seeds);
  std::optional<Sample> sampled;
  if (step.op == OpKind::kLinearAddLayerNorm) {
    constexpr size_t kWithRows[] = {0, 3};  // x and the residual
    sampled = rows_of(plan, index, call, kWithRows, 1, random);
  } else if (step.op == OpKind::kConv) {
    constexpr size_t kWithRows[] = {0};
    sampled = rows_of(plan, index, call, kWithRows, result.rank - 1, random);
  } else if (step.op == OpKind::kEinsum || step.op == OpKind::kConvTranspose) {
    sampled = replay_all(plan, backend, index, call);
  } else if (sums_in_f32(step) && result.dtype != DType::kQ8) {
    const auto product = product_of({plan, backend, step, call, constants});
    if (!product || product->rows() * product->n != result.elems() || product->x.f.empty() ||
        product->w->f.empty())
      return std::nullopt;
    sampled = Sample{.product = judge(step, *product, result, random)};
  }
  if (sampled) sampled->product.step = index;
  return sampled;
}

SampledProduct judged(const plan::Plan& plan, const backend::Backend& backend, Sample sample,
                      ConstantCache* constants) {
  if (sample.rows) sample.product.why = judge_step(plan, backend, *sample.rows, constants).why;
  return std::move(sample.product);
}

}  // namespace vernier::verify
