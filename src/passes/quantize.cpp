// Products of 8-bit numbers. Each requires that the device has a kernel for the result, a constant
// w, and at most 2^15 products per sum.
//
// Linear(x, w, b, r){compute int8 or f8e4m3}  ⇒  QuantizedLinear(q, w / s, scales, s, zero points,
// b, r)
//   with (q, scales, zero points) = QuantizeRows(x), one for all readers of x
//   s: one scale for each column of w, the one among kClips that rounds the column with the least
//   error. With PassOptions::exact_weights w / s is not rounded here.
//   With PassOptions::factors: QuantizeRows(x, factor), and row k of w is divided by factor[k].
//   With PassOptions::ranges: q = QuantizeRows(x, factor, scale, zero); the product takes the same
//   scale and zero, a whole number, for all rows
//   f8e4m3 has no zero points, here and below. It takes a scale for all rows also where the weights
//   bound x (bounds.h): its numbers are as exact far below the largest one
// Linear(DequantizeLinear(x), DequantizeLinear(w), b, r)  ⇒  QuantizedLinear(x, w, scales, zero
//   points, b, r)      a Transpose between the product and w's DequantizeLinear becomes trans_w
//   requires: i8 or u8, or both f8e4m3; one scale for x; for w one, or one for each column
// Cast(MatMul(x - x_zero, w - w_zero))·s  ⇒  QuantizedLinear(x, w, scales, zero points)
//   of integers, as MatMulInteger is imported; s one number, or one number times a constant [N]
//   of u8 where the device takes only i8: the same numbers, 128 lower, with zero points 128 lower
// QuantizedLinear(…) + b, f(QuantizedLinear(…))  ⇒  QuantizedLinear with a bias, an activation
#include "passes/quantize.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "core/mapped_file.h"
#include "core/numerics.h"
#include "core/threads.h"
#include "ir/derivations.h"
#include "passes/bounds.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace vernier::passes {
namespace {

constexpr float kLargestQ8 = 127;
const auto kLargestF8 = static_cast<float>(largest_finite(DType::kF8E4M3));
constexpr int64_t kMostProducts = int64_t{1} << 15;  // of the operator's rule
// Shares of a column's largest weight that its scale may reach: the rest saturates.
constexpr std::array kClips{1.0F, 0.93F, 0.86F, 0.79F, 0.72F};

// The square error of numbers that are rounded to multiples of `scale`, at most `most` of them.
double error_of(std::span<const float> numbers, float scale, float most) {
  const float inverse = 1 / scale;
  double sum = 0;
  for (const float v : numbers) {
    const float q = std::clamp(std::nearbyint(v * inverse), -most, most);
    const double error = static_cast<double>(v) - static_cast<double>(q * scale);
    sum += error * error;
  }
  return sum;
}

// The smallest power of two in whose units no number is beyond f8e4m3. The type's steps grow with
// its numbers, so that nothing is gained by another scale; division by this one is exact.
float f8_scale(std::span<const float> numbers) {
  float largest = 0;
  for (const float v : numbers) largest = std::max(largest, std::abs(v));
  const float widest = largest / kLargestF8;
  if (!(widest > std::numeric_limits<float>::min()) || !std::isfinite(1 / widest)) return 1;
  int exponent = 0;
  const float part = std::frexp(widest, &exponent);  // in [0.5, 1)
  return std::ldexp(1.0F, part == 0.5F ? exponent - 1 : exponent);
}

// Is the column whole numbers of q8 in units of `scale`, up to the rounding of their product?
bool is_whole(std::span<const float> column, float scale) {
  constexpr float kRounding = 1e-3F;  // 127 · 2^-23 and that of the quotient are far less
  return std::ranges::all_of(column, [scale](float v) {
    const float q = v / scale;
    return std::abs(q - std::nearbyint(q)) <= kRounding && std::abs(q) <= kLargestQ8 + kRounding;
  });
}

// The weight in f32, its rows divided by their factors.
std::vector<float> divided(const Tensor& w, const WeightRounding& how) {
  std::vector<float> wide(static_cast<size_t>(w.elems()));
  const int64_t cols = w.shape()[1];
  for (int64_t i = 0; i < w.elems(); ++i) {
    float& value = wide[i] = static_cast<float>(w.float_at(i));
    if (!how.factors.empty()) value /= how.factors[how.trans_w ? i % cols : i / cols];
  }
  return wide;
}

}  // namespace

float best_scale(std::span<const float> numbers, float most, std::span<const float> shares) {
  float largest = 0;
  for (const float v : numbers) largest = std::max(largest, std::abs(v));
  const float widest = largest / most;
  if (!(widest > std::numeric_limits<float>::min()) || !std::isfinite(1 / widest)) return 1;
  float best = widest;
  double least = HUGE_VAL;
  for (const float share : shares) {
    const double error = error_of(numbers, widest * share, most);
    if (error >= least) continue;
    least = error;
    best = widest * share;
  }
  return best;
}

QuantizedWeight quantized_weight(const Tensor& w, const WeightRounding& how) {
  const bool trans_w = how.trans_w, exact = how.exact, is_f8 = how.type == DType::kF8E4M3;
  const int64_t rows = w.shape()[0], cols = w.shape()[1];
  std::vector<float> wide;
  const auto* data = reinterpret_cast<const float*>(w.data());
  if (w.dtype() != DType::kF32 || !how.factors.empty()) {
    wide = divided(w, how);
    data = wide.data();
  }
  // Element k of column c is at c·column + k·step.
  const int64_t count = trans_w ? rows : cols, length = trans_w ? cols : rows;
  const int64_t column = trans_w ? cols : 1, step = trans_w ? 1 : cols;
  std::vector<float> scales(static_cast<size_t>(count));
  std::vector<float> values(exact ? static_cast<size_t>(w.elems()) : 0);
  std::vector<std::byte> bytes(exact ? 0 : static_cast<size_t>(w.elems()));
  const auto scale_of = [&](std::span<const float> gathered, int64_t c) {
    const float given = how.scales.empty() ? 0 : how.scales[c];
    if (is_f8) return f8_scale(gathered);
    return given > 0 && is_whole(gathered, given) ? given
                                                  : best_scale(gathered, kLargestQ8, kClips);
  };
  constexpr int64_t kLeastColumns = 64;
  in_parallel(count, kLeastColumns, [&](int64_t begin, int64_t end) {
    std::vector<float> gathered(static_cast<size_t>(length));
    for (int64_t c = begin; c < end; ++c) {
      for (int64_t k = 0; k < length; ++k) gathered[k] = data[c * column + k * step];
      const float scale = scales[c] = scale_of(gathered, c);
      for (int64_t k = 0; k < length; ++k) {
        const auto at = static_cast<size_t>(c * column + k * step);
        const float value = data[at] / scale;
        if (exact)
          values[at] = value;
        else
          store_float(how.type, value, &bytes[at]);
      }
    }
  });
  return {exact ? Tensor::from_bytes(DType::kF32, w.shape(), std::as_bytes(std::span(values)))
                : Tensor::from_bytes(how.type, w.shape(), bytes),
          Tensor::from_bytes(DType::kF32, {count}, std::as_bytes(std::span(scales)))};
}

std::vector<ProductName> product_names(const ir::Node& product) {
  std::vector<ProductName> names, all;
  for (const Origin& origin : product.origins) {
    all.push_back({origin.key, origin.name});
    const auto kind = parse_op_kind(origin.op_type);
    if (kind && (flags(*kind) & kProduct) != 0) names.push_back(all.back());
  }
  return names.empty() ? all : names;
}

namespace {

// What a map has of a node, by its key or by its name.
template <class Map>
const typename Map::mapped_type* entry_of(const ProductName& product, const Map& map) {
  auto at = map.find(product.key);
  if (at == map.end()) at = map.find(product.name);
  return at == map.end() ? nullptr : &at->second;
}

}  // namespace

SharedFactors factors_of(const ProductName& product, const ColumnFactors& factors) {
  const SharedFactors* found = entry_of(product, factors);
  return found == nullptr ? nullptr : *found;
}

SharedFactors factors_of(const ir::Node& product, const ColumnFactors& factors) {
  SharedFactors found;
  for (const ProductName& name : product_names(product)) {
    const SharedFactors own = factors_of(name, factors);
    if (!own || (found && *found != *own)) return nullptr;
    found = own;
  }
  return found;
}

std::vector<float> weight_scales_of(const ir::Node& product, const ColumnFactors& scales) {
  std::vector<float> all;
  for (const ProductName& name : product_names(product)) {
    const SharedFactors own = factors_of(name, scales);
    if (!own) return {};
    all.insert(all.end(), own->begin(), own->end());
  }
  return all;
}

std::optional<StaticRange> range_of(const ir::Node& product, const StaticRanges& ranges) {
  std::optional<StaticRange> found;
  for (const ProductName& name : product_names(product)) {
    const StaticRange* own = entry_of(name, ranges);
    if (own == nullptr || (found && *found != *own)) return std::nullopt;
    found = *own;
  }
  return found;
}

StaticRange range_of(const StaticScale& scale) {
  return {.low = (-double{kLargestQ8} - scale.zero) * scale.scale,
          .high = (double{kLargestQ8} - scale.zero) * scale.scale};
}

StaticScale static_scale(const StaticRange& range) {
  const auto scale = static_cast<float>((range.high - range.low) / (2 * kLargestQ8));
  return {scale, static_cast<float>(std::nearbyint(-(range.high + range.low) / 2 / scale))};
}

float static_f8_scale(const StaticRange& range) {
  return static_cast<float>(std::max(range.high, -range.low) / kLargestF8);
}

void release_weight(Graph& graph, ValueId weight) {
  ir::Value& value = graph.value(weight);
  if (!value.users.empty() || graph.is_output(weight)) return;
  drop_pages(value.constant.byte_span());
  const std::vector<float> none;
  value.shape = {Dim(0)};
  value.constant = Tensor::from_bytes(DType::kF32, {0}, std::as_bytes(std::span(none)));
}

namespace {

// Can all numbers be divided by the factors? False where one is NaN or infinite.
bool stays_finite(const Tensor& t, const SharedFactors& factors) {
  const float least = factors && !factors->empty() ? *std::ranges::min_element(*factors) : 1;
  const double limit = std::numeric_limits<float>::max() * std::min(1.0, double{least});
  for (int64_t i = 0; i < t.elems(); ++i)
    if (!(std::abs(t.float_at(i)) <= limit)) return false;
  return true;
}

class Quantizer {
 public:
  Quantizer(Graph& graph, const PassOptions& options) : graph_(graph), options_(options) {
    // Now, while all weights are there.
    for (const NodeId id : graph.order()) {
      const Node& linear = graph.node(id);
      if (linear.op != OpKind::kLinear || linear.request.compute.type != DType::kF8E4M3) continue;
      const auto [at, fresh] = bounds_.try_emplace(linear.inputs[0]);
      if (fresh) at->second = magnitude_bound(graph, linear.inputs[0]);
    }
  }

  bool quantize(NodeId id) {
    if (graph_.node(id).op != OpKind::kLinear) return false;
    const Node linear = graph_.node(id);  // nodes are added below
    if (!is_quantized_operand(linear.request.compute.type)) return false;
    const Tensor* weight = constant_of(graph_, linear.inputs[1]);
    const auto attrs = linear.attrs_as<LinearAttrs>();
    if (weight == nullptr || weight->rank() != 2 || weight->elems() == 0 ||
        weight->shape()[attrs.trans_w ? 1 : 0] > kMostProducts)
      return false;
    const SharedFactors factors =
        useful_factors(linear, static_cast<size_t>(weight->shape()[attrs.trans_w ? 1 : 0]));
    if (!stays_finite(*weight, factors)) return false;
    const Rows rows = rows_of(linear, factors);
    Node wanted = linear;
    wanted.op = OpKind::kQuantizedLinear;
    wanted.inputs = {rows.values,
                     linear.inputs[1],
                     rows.scales,
                     any_scale(),
                     rows.zeros,
                     kNoValue,
                     linear.has_input(2) ? linear.inputs[2] : kNoValue,
                     linear.has_input(3) ? linear.inputs[3] : kNoValue};
    if (!options_.takes(graph_, wanted)) return false;
    if (options_.quantizes) options_.quantizes(graph_, linear, *weight);
    const QuantizedWeight& made = weight_of(linear, *weight, factors);
    const DerivationPtr how = divided_weight(linear.inputs[1], attrs.trans_w, factors);
    wanted.inputs[1] = graph_.add_constant(made.values);
    wanted.inputs[3] = graph_.add_constant(made.scales);
    // Both of the real weight: whoever evaluates it divides by the scales.
    graph_.value(wanted.inputs[1]).derivation = how;
    graph_.value(wanted.inputs[3]).derivation = how;
    mutate(graph_, id, wanted.op, wanted.inputs, wanted.attrs);
    release_weight(graph_, linear.inputs[1]);
    return true;
  }

 private:
  struct Rows {
    ValueId values, scales, zeros;
  };
  // Null where they change nothing. Of a wrong number: `quantizes` may refuse them.
  SharedFactors useful_factors(const Node& linear, size_t channels) const {
    SharedFactors factors = factors_of(linear, options_.factors);
    if (!factors || factors->size() != channels) return nullptr;
    const bool changes = std::ranges::any_of(*factors, [](float f) { return f != 1; });
    return changes ? factors : nullptr;
  }
  // Readers of x with other factors, or another range, have rows of their own.
  Rows rows_of(const Node& linear, const SharedFactors& factors) {
    const ValueId x = linear.inputs[0];
    const auto range = operand_range(linear, factors);
    const DType type = linear.request.compute.type;
    const auto [at, fresh] = rows_.try_emplace({x, type, contents(factors), range});
    if (!fresh) return at->second;
    const bool has_zero = type == DType::kQ8;
    std::vector<ValueId> inputs{x};
    if (factors) inputs.push_back(add_factors(*factors));
    if (range) {
      inputs.resize(2, kNoValue);
      const StaticScale made = has_zero ? static_scale(*range)
                                        : StaticScale{.scale = static_f8_scale(*range), .zero = 0};
      inputs.push_back(add_scalar(graph_, DType::kF32, made.scale));
      if (has_zero) inputs.push_back(add_scalar(graph_, DType::kF32, made.zero));
    }
    at->second = add_rows(inputs, type, range ? 1 : has_zero ? 3 : 2, linear.request.by);
    if (range) {
      at->second.scales = inputs[2];
      if (has_zero) at->second.zeros = inputs[3];
    }
    return at->second;
  }
  // Of x·factor, for all rows: as calibrated, or as the weights bound it.
  std::optional<StaticRange> operand_range(const Node& linear, const SharedFactors& factors) const {
    if (const auto given = range_of(linear, options_.ranges)) return given;
    const auto bound = bounds_.find(linear.inputs[0]);
    if (bound == bounds_.end() || !bound->second) return std::nullopt;
    // Roundings of both operands add at most 1/16 of each product's factors.
    constexpr double kRounded = 17.0 / 16 * 17.0 / 16;
    const double factor = factors ? *std::ranges::max_element(*factors) : 1;
    const double most = *bound->second * kRounded * factor;
    return StaticRange{.low = -most, .high = most};
  }
  Rows add_rows(const std::vector<ValueId>& inputs, DType type, int outputs,
                const std::string& by) {
    const NodeId id =
        graph_.add_node(OpKind::kQuantizeRows, inputs, encode(QuantizeRowsAttrs{type}), outputs);
    Node& node = graph_.node(id);
    node.request.compute = {DType::kF32, false};
    node.request.by = by;
    ops::infer_node(graph_, id);
    const auto output = [&node](size_t i) {
      return i < node.outputs.size() ? node.outputs[i] : kNoValue;
    };
    return {output(0), output(1), output(2)};
  }
  // Stands for the scales until they are known to be wanted.
  ValueId any_scale() {
    if (any_scale_ == kNoValue) any_scale_ = add_scalar(graph_, DType::kF32, 1);
    return any_scale_;
  }
  const QuantizedWeight& weight_of(const Node& linear, const Tensor& weight,
                                   const SharedFactors& factors) {
    const bool trans_w = linear.attrs_as<LinearAttrs>().trans_w;
    const DType type = linear.request.compute.type;
    std::vector<float> scales = weight_scales_of(linear, options_.weight_scales);
    if (std::ssize(scales) != weight.shape()[trans_w ? 0 : 1]) scales.clear();
    const auto [at, fresh] = weights_.try_emplace(
        {linear.inputs[1], type, trans_w, contents(factors), std::move(scales)});
    if (fresh)
      at->second = quantized_weight(weight, {.type = type,
                                             .trans_w = trans_w,
                                             .exact = options_.exact_weights,
                                             .factors = std::get<3>(at->first),
                                             .scales = std::get<4>(at->first)});
    return at->second;
  }
  static std::vector<float> contents(const SharedFactors& factors) {
    return factors ? *factors : std::vector<float>();
  }
  ValueId add_factors(const std::vector<float>& values) {
    const DerivationPtr how = numbers_of(values);
    const ValueId id = graph_.add_constant(how->numbers);
    graph_.value(id).derivation = how;
    return id;
  }
  const DerivationPtr& numbers_of(const std::vector<float>& values) {
    DerivationPtr& how = numbers_[values];
    if (!how)
      how = ir::derived_numbers(Tensor::from_bytes(
          DType::kF32, {static_cast<int64_t>(values.size())}, std::as_bytes(std::span(values))));
    return how;
  }
  // The weight, its rows divided by their factors; null where nobody knows how it was made.
  DerivationPtr divided_weight(ValueId id, bool trans_w, const SharedFactors& factors) {
    const DerivationPtr weight = ir::derivation_of(graph_, id);
    if (!factors || !weight) return weight;
    const Shape shape = trans_w ? Shape{1, weight->shape[1]} : Shape{weight->shape[0], 1};
    const ShapeAttrs reshape{.shape = {shape.begin(), shape.end()}, .has_shape = true};
    DerivationPtr divisors =
        ir::derived(DType::kF32, shape, OpKind::kReshape, encode(reshape), {numbers_of(*factors)});
    return ir::derived(DType::kF32, weight->shape, OpKind::kDiv, encode(NoAttrs{}),
                       {weight, std::move(divisors)});
  }

  Graph& graph_;
  const PassOptions& options_;
  ValueId any_scale_ = kNoValue;
  std::map<ValueId, std::optional<double>> bounds_;
  std::map<std::tuple<ValueId, DType, std::vector<float>, std::optional<StaticRange>>, Rows> rows_;
  std::map<std::tuple<ValueId, DType, bool, std::vector<float>, std::vector<float>>,
           QuantizedWeight>
      weights_;
  std::map<std::vector<float>, DerivationPtr> numbers_;
};

// ---- products of the model's own integers

bool is_byte(DType type) { return type == DType::kI8 || type == DType::kU8; }

bool is_one_number(const Graph& graph, ValueId value) {
  return product(shape_of(graph, value)) == Dim(1);
}

// What DequantizeLinear takes apart: (values - zero)·scale.
struct Parts {
  ValueId values = kNoValue, scale = kNoValue, zero = kNoValue;
  int64_t axis = 0;  // of the scale, where it is a list
};

std::optional<Parts> dequantized(const Graph& graph, ValueId value) {
  value = under_casts(graph, value);
  const Node* n = producer_of(graph, value, OpKind::kDequantizeLinear);
  if (n == nullptr || dtype_of(graph, n->inputs[1]) != DType::kF32) return std::nullopt;
  const DType type = dtype_of(graph, n->inputs[0]);
  if (!is_byte(type) && type != DType::kF8E4M3) return std::nullopt;
  const auto attrs = n->attrs_as<QuantizeAttrs>();
  if (attrs.block_size != 0) return std::nullopt;
  Parts parts{n->inputs[0], n->inputs[1], n->has_input(2) ? n->inputs[2] : kNoValue, attrs.axis};
  if (parts.zero != kNoValue && is_uniform(graph, parts.zero, 0)) parts.zero = kNoValue;
  const int64_t rank = rank_of(graph, parts.values);
  if (parts.axis < 0) parts.axis += rank;
  return parts;
}

// The largest number of products in a sum is known and small enough.
bool sums_fit(const Graph& graph, ValueId w, bool trans_w) {
  const auto k = shape_of(graph, w)[trans_w ? 1 : 0].as_constant();
  return k && *k > 0 && *k <= kMostProducts;
}

// ---- u8 as i8: values and zero points 128 lower

constexpr int64_t kSignedOffset = 128;

// How a constant of u8 becomes one of i8.
DerivationPtr lowered(const DerivationPtr& from) {
  if (!from) return nullptr;
  const auto derive = [&](DType type, OpKind op, AttrBytes attrs, std::vector<DerivationPtr> of) {
    Shape shape = from->shape;
    return ir::derived(type, std::move(shape), op, std::move(attrs), std::move(of));
  };
  const auto cast = [&](DType type, DerivationPtr of) {
    return derive(type, OpKind::kCast, encode(CastAttrs{.to = type}), {std::move(of)});
  };
  const DerivationPtr offset = ir::derived_numbers(Tensor::scalar(DType::kI32, kSignedOffset));
  return cast(DType::kI8, derive(DType::kI32, OpKind::kSub, encode(NoAttrs{}),
                                 {cast(DType::kI32, from), offset}));
}

// Operands of one pass, made once each.
class SignedOperands {
 public:
  explicit SignedOperands(Graph& graph) : graph_(graph) {}

  // Makes u8 operands of a QuantizedLinear i8. False where nothing can be, or needs to be made so.
  bool make(Node& product) {
    bool changed = false;
    for (const auto& [values, zero] : {std::pair<size_t, size_t>{0, 4}, {1, 5}}) {
      product.inputs.resize(std::max(product.inputs.size(), zero + 1), kNoValue);
      if (dtype_of(graph_, product.inputs[values]) != DType::kU8) continue;
      const ValueId lower = values_of(product.inputs[values]);
      if (lower == kNoValue) return false;
      product.inputs[values] = lower;
      product.inputs[zero] = zero_of(product.inputs[zero]);
      changed = true;
    }
    return changed;
  }

 private:
  ValueId values_of(ValueId value) {
    const auto [at, fresh] = values_.try_emplace(value, kNoValue);
    if (fresh) at->second = make_values(value);
    return at->second;
  }
  ValueId make_values(ValueId value) {
    if (constant_of(graph_, value)) return lowered_constant(value);
    const Node* made = graph_.producer(value);
    if (made == nullptr) return kNoValue;
    const Node from = *made;  // nodes are added below
    std::vector<ValueId> inputs = from.inputs;
    AttrBytes attrs = from.attrs;
    if (from.op == OpKind::kReshape || from.op == OpKind::kTranspose) {
      inputs[0] = values_of(inputs[0]);
      if (inputs[0] == kNoValue) return kNoValue;
    } else if (from.op == OpKind::kQuantizeLinear) {
      auto as_i8 = from.attrs_as<QuantizeAttrs>();
      as_i8.dtype = DType::kI8;
      attrs = encode(as_i8);
      inputs.resize(3, kNoValue);
      inputs[2] = zero_of(inputs[2], kKeepsZero);
    } else {
      return kNoValue;
    }
    const ValueId lower = ops::emit(graph_, from.op, std::move(inputs), attrs, from.origins);
    graph_.producer(lower)->request = from.request;
    return lower;
  }
  // Nothing for a zero point of 0, unless it says the type.
  static constexpr bool kKeepsZero = true;
  ValueId zero_of(ValueId zero, bool keeps_zero = false) {
    if (zero == kNoValue)
      return graph_.add_constant(Tensor::scalar(DType::kI8, static_cast<double>(-kSignedOffset)));
    if (!keeps_zero && is_uniform(graph_, zero, kSignedOffset)) return kNoValue;
    const auto [at, fresh] = zeros_.try_emplace(zero, kNoValue);
    if (!fresh) return at->second;
    if (constant_of(graph_, zero)) return at->second = lowered_constant(zero);
    const std::vector<ir::Origin> none;
    const auto cast = [&](ValueId from, DType type) {
      return ops::emit(graph_, OpKind::kCast, {from}, CastAttrs{.to = type}, none);
    };
    const ValueId offset =
        graph_.add_constant(Tensor::scalar(DType::kI32, static_cast<double>(kSignedOffset)));
    const ValueId wide =
        ops::emit(graph_, OpKind::kSub, {cast(zero, DType::kI32), offset}, NoAttrs{}, none);
    return at->second = cast(wide, DType::kI8);
  }
  ValueId lowered_constant(ValueId value) {
    const Tensor& from = graph_.value(value).constant;
    std::vector<int64_t> numbers = from.integers();
    for (int64_t& number : numbers) number -= kSignedOffset;
    const DerivationPtr how = lowered(ir::derivation_of(graph_, value));
    const ValueId lower = graph_.add_constant(
        Tensor::from(DType::kI8, from.shape(), std::span<const int64_t>(numbers)));
    if (how) graph_.value(lower).derivation = how;
    return lower;
  }

  Graph& graph_;
  std::map<ValueId, ValueId> values_, zeros_;
};

// As `takes`; a product of u8 that the device does not take may become one of i8.
struct TakesBytes {
  const Takes& takes;
  SignedOperands& operands;
  bool operator()(const Graph& graph, Node& wanted) const {
    if (takes(graph, wanted)) return true;
    Node lower = wanted;
    if (!operands.make(lower) || !takes(graph, lower)) return false;
    wanted = std::move(lower);
    return true;
  }
};

// View(DequantizeLinear(x)) ⇒ DequantizeLinear(View(x)), so that a product behind it finds it.
bool view_integers(Graph& graph, NodeId id) {
  const Node view = graph.node(id);
  if (view.op != OpKind::kReshape && view.op != OpKind::kTranspose) return false;
  const Node* taken = producer_of(graph, view.inputs[0], OpKind::kDequantizeLinear);
  if (taken == nullptr || !graph.single_use(view.inputs[0]) || constant_of(graph, taken->inputs[0]))
    return false;
  const auto parts = dequantized(graph, view.inputs[0]);
  if (!parts || !is_one_number(graph, parts->scale) ||
      (parts->zero != kNoValue && !is_one_number(graph, parts->zero)))
    return false;
  const Node apart = *taken;
  std::vector<ValueId> inputs = view.inputs;
  inputs[0] = parts->values;
  const ValueId turned = ops::emit(graph, view.op, std::move(inputs), view.attrs, view.origins);
  graph.producer(turned)->request = view.request;
  std::vector<ValueId> operands = apart.inputs;
  operands[0] = turned;
  graph.node(id).origins = apart.origins;
  graph.node(id).request = apart.request;
  mutate(graph, id, OpKind::kDequantizeLinear, std::move(operands), apart.attrs);
  return true;
}

// A product of two DequantizeLinears becomes one of their integers.
bool multiply_integers(Graph& graph, NodeId id, const TakesBytes& takes) {
  const Node& linear = graph.node(id);
  if (linear.op != OpKind::kLinear) return false;
  const auto x = dequantized(graph, linear.inputs[0]);
  if (!x || !is_one_number(graph, x->scale) ||
      (x->zero != kNoValue && !is_one_number(graph, x->zero)))
    return false;
  auto attrs = linear.attrs_as<LinearAttrs>();
  ValueId weight = under_casts(graph, linear.inputs[1]);
  if (const Node* turn = producer_of(graph, weight, OpKind::kTranspose)) {
    weight = turn->inputs[0];
    attrs.trans_w = !attrs.trans_w;
  }
  const auto w = dequantized(graph, weight);
  if (!w || !constant_of(graph, w->values) || rank_of(graph, w->values) != 2 ||
      !sums_fit(graph, w->values, attrs.trans_w))
    return false;
  if (is_byte(dtype_of(graph, x->values)) != is_byte(dtype_of(graph, w->values))) return false;
  const int64_t columns = attrs.trans_w ? 0 : 1;
  if (!is_one_number(graph, w->scale) && w->axis != columns) return false;
  Node wanted = linear;
  wanted.op = OpKind::kQuantizedLinear;
  wanted.attrs = encode(attrs);
  wanted.inputs = {x->values,
                   w->values,
                   x->scale,
                   w->scale,
                   x->zero,
                   w->zero,
                   linear.has_input(2) ? linear.inputs[2] : kNoValue,
                   linear.has_input(3) ? linear.inputs[3] : kNoValue};
  if (!takes(graph, wanted)) return false;
  OriginSet origins;
  origins.add(graph, &graph.node(id));
  origins.add_value(graph, linear.inputs[1]);
  origins.add_value(graph, weight);
  mutate(graph, id, wanted.op, wanted.inputs, wanted.attrs);
  graph.node(id).origins = origins.list();
  return true;
}

// A constant matrix of integers as bytes and their zero point, one or one for each column: values =
// bytes - zero. Empty if they do not fit.
struct Bytes {
  Tensor values;
  std::optional<Tensor> zero;
};
std::optional<Bytes> as_bytes(const Tensor& integers) {
  const auto columns = static_cast<size_t>(integers.shape()[1]);
  std::vector<int64_t> low(columns, 0), high(columns, 0);
  for (int64_t i = 0; i < integers.elems(); ++i) {
    const auto c = static_cast<size_t>(i) % columns;
    low[c] = std::min(low[c], integers.integer_at(i));
    high[c] = std::max(high[c], integers.integer_at(i));
  }
  const int64_t lowest = *std::ranges::min_element(low), highest = *std::ranges::max_element(high);
  const bool is_signed = lowest >= -128 && highest <= 127;
  for (size_t c = 0; c < columns; ++c)
    if (high[c] - low[c] > 255) return std::nullopt;
  const bool together = highest - lowest <= 255;
  const DType type = is_signed ? DType::kI8 : DType::kU8;
  std::vector<int64_t> zeros(columns, 0);
  for (size_t c = 0; c < columns && !is_signed; ++c) zeros[c] = together ? -lowest : -low[c];
  std::vector<int64_t> bytes;
  for (int64_t i = 0; i < integers.elems(); ++i)
    bytes.push_back(integers.integer_at(i) + zeros[static_cast<size_t>(i) % columns]);
  Bytes result{Tensor::from(type, integers.shape(), std::span<const int64_t>(bytes)), {}};
  if (!is_signed && together) zeros.resize(1);
  if (!is_signed)
    result.zero =
        Tensor::from(type, {static_cast<int64_t>(zeros.size())}, std::span<const int64_t>(zeros));
  return result;
}

// The bytes under a Cast to i32.
ValueId bytes_under_cast(const Graph& graph, ValueId value) {
  const Node* cast = producer_of(graph, value, OpKind::kCast);
  return cast && is_byte(dtype_of(graph, cast->inputs[0])) ? cast->inputs[0] : kNoValue;
}

// x - zero of a product of integers.
struct Centered {
  ValueId bytes = kNoValue, zero = kNoValue;
  std::optional<Tensor> constant_zero = {};
};
std::optional<Centered> centered(const Graph& graph, ValueId value) {
  if (const ValueId bytes = bytes_under_cast(graph, value); bytes != kNoValue)
    return Centered{.bytes = bytes};
  const Node* minus = producer_of(graph, value, OpKind::kSub);
  if (minus == nullptr) return std::nullopt;
  const ValueId bytes = bytes_under_cast(graph, minus->inputs[0]);
  if (bytes == kNoValue || !is_one_number(graph, minus->inputs[1])) return std::nullopt;
  if (const Tensor* zero = constant_of(graph, minus->inputs[1])) {
    const int64_t number = zero->integer_at(0);
    if (number == 0) return Centered{.bytes = bytes};
    return Centered{
        .bytes = bytes,
        .constant_zero = Tensor::scalar(dtype_of(graph, bytes), static_cast<double>(number))};
  }
  ValueId zero = minus->inputs[1];
  if (const Node* view = producer_of(graph, zero, OpKind::kReshape)) zero = view->inputs[0];
  zero = bytes_under_cast(graph, zero);
  if (zero == kNoValue || dtype_of(graph, zero) != dtype_of(graph, bytes)) return std::nullopt;
  return Centered{.bytes = bytes, .zero = zero};
}

// The bytes as constants of the graph, and how they were made of the integers.
struct ByteConstants {
  ValueId values = kNoValue, zero = kNoValue;
};
ByteConstants add_bytes(Graph& graph, ValueId integers, const Bytes& bytes) {
  const Tensor& values = bytes.values;
  ByteConstants added{.values = graph.add_constant(values)};
  DerivationPtr how = ir::derivation_of(graph, integers);
  const auto cast = [&](DType type, DerivationPtr from) {
    Shape shape = from->shape;
    return ir::derived(type, std::move(shape), OpKind::kCast, encode(CastAttrs{.to = type}),
                       {std::move(from)});
  };
  if (bytes.zero) {
    added.zero = graph.add_constant(*bytes.zero);
    DerivationPtr zeros = ir::derived_numbers(*bytes.zero);
    graph.value(added.zero).derivation = zeros;
    if (how) {
      const DType type = how->dtype;
      how = ir::derived(type, values.shape(), OpKind::kAdd, encode(NoAttrs{}),
                        {how, cast(type, std::move(zeros))});
    }
  }
  if (how) graph.value(added.values).derivation = cast(values.dtype(), std::move(how));
  return added;
}

struct Scales {
  ValueId x = kNoValue, w = kNoValue;
};
// `scale` of a product with N columns as one of x and one of w.
std::optional<Scales> split_scales(const Graph& graph, ValueId scale, const Dim& columns) {
  if (dtype_of(graph, scale) != DType::kF32) return std::nullopt;
  if (is_one_number(graph, scale)) return Scales{.x = scale};
  const Node* both = producer_of(graph, scale, OpKind::kMul);
  if (both == nullptr) return std::nullopt;
  for (size_t i : {size_t{0}, size_t{1}}) {
    const ValueId x = both->inputs[i], w = both->inputs[1 - i];
    const SymShape& list = shape_of(graph, w);
    if (is_one_number(graph, x) && constant_of(graph, w) && list.size() == 1 && list[0] == columns)
      return Scales{.x = x, .w = w};
  }
  return std::nullopt;
}

// Cast(MatMul of integers)·scale.
bool scale_integers(Graph& graph, NodeId id, const TakesBytes& takes) {
  const Node& scaled = graph.node(id);
  if (scaled.op != OpKind::kMul) return false;
  for (size_t i : {size_t{0}, size_t{1}}) {
    const Node* cast = producer_of(graph, scaled.inputs[i], OpKind::kCast);
    if (cast == nullptr || !graph.single_use(scaled.inputs[i])) continue;
    const Node* product = producer_of(graph, cast->inputs[0], OpKind::kMatMul);
    if (product == nullptr || !graph.single_use(cast->inputs[0])) continue;
    const Tensor* weight = constant_of(graph, product->inputs[1]);
    const auto x = centered(graph, product->inputs[0]);
    if (weight == nullptr || weight->rank() != 2 || weight->elems() == 0 || !x ||
        rank_of(graph, x->bytes) < 2 || !sums_fit(graph, product->inputs[1], false) ||
        !same_shape(shape_of(graph, scaled.outputs[0]), shape_of(graph, product->outputs[0])))
      continue;
    const auto scales =
        split_scales(graph, scaled.inputs[1 - i], shape_of(graph, product->outputs[0]).back());
    const auto bytes = as_bytes(*weight);
    if (!scales || !bytes) continue;
    const ByteConstants stored = add_bytes(graph, product->inputs[1], *bytes);
    Node wanted = scaled;
    wanted.op = OpKind::kQuantizedLinear;
    wanted.attrs = encode(QuantizedLinearAttrs{});
    wanted.inputs = {x->bytes,
                     stored.values,
                     scales->x,
                     scales->w == kNoValue ? add_scalar(graph, DType::kF32, 1) : scales->w,
                     x->constant_zero ? graph.add_constant(*x->constant_zero) : x->zero,
                     stored.zero};
    OriginSet origins;
    origins.add(graph, &graph.node(id));
    origins.add(graph, cast);
    origins.add(graph, product);
    if (!takes(graph, wanted)) continue;
    mutate(graph, id, wanted.op, wanted.inputs, wanted.attrs);
    graph.node(id).origins = origins.list();
    return true;
  }
  return false;
}

// The QuantizedLinear that makes `value` for one reader, and whose result is still the bare sum.
const Node* bare_product(const Graph& graph, ValueId value) {
  const Node* product = producer_of(graph, value, OpKind::kQuantizedLinear);
  if (product == nullptr || !graph.single_use(value) || product->has_input(7)) return nullptr;
  return product->attrs_as<QuantizedLinearAttrs>().activation == Activation::kNone ? product
                                                                                   : nullptr;
}

bool absorb(Graph& graph, NodeId id, const Node& product, std::vector<ValueId> inputs,
            const QuantizedLinearAttrs& attrs) {
  const auto request = fused_request(product, graph.node(id));
  if (!request) return false;
  OriginSet origins;
  origins.add(graph, &product);
  origins.add(graph, &graph.node(id));
  mutate(graph, id, OpKind::kQuantizedLinear, std::move(inputs), attrs);
  graph.node(id).origins = origins.list();
  graph.node(id).request = *request;
  return true;
}

bool absorb_bias(Graph& graph, NodeId id) {
  const Node& sum = graph.node(id);
  if (sum.op != OpKind::kAdd) return false;
  for (size_t i : {size_t{0}, size_t{1}}) {
    const Node* product = bare_product(graph, sum.inputs[i]);
    const ValueId bias = sum.inputs[1 - i];
    if (product == nullptr || product->has_input(6) || !constant_of(graph, bias)) continue;
    const SymShape& shape = shape_of(graph, bias);
    if (shape.size() != 1 || !(shape[0] == shape_of(graph, sum.outputs[0]).back())) continue;
    std::vector<ValueId> inputs = product->inputs;
    inputs.resize(7, kNoValue);
    inputs[6] = bias;
    if (absorb(graph, id, *product, std::move(inputs), product->attrs_as<QuantizedLinearAttrs>()))
      return true;
  }
  return false;
}

bool absorb_activation(Graph& graph, NodeId id) {
  const auto activation = activation_of(graph.node(id));
  if (!activation) return false;
  const Node* product = bare_product(graph, graph.node(id).inputs[0]);
  if (product == nullptr) return false;
  auto attrs = product->attrs_as<QuantizedLinearAttrs>();
  attrs.activation = *activation;
  return absorb(graph, id, *product, product->inputs, attrs);
}

}  // namespace

int multiply_as_integers(Graph& graph, const PassOptions& options) {
  SignedOperands signed_operands(graph);
  const TakesBytes takes{options.takes, signed_operands};
  int found = 0;
  for (NodeId id : std::vector<NodeId>(graph.order())) {
    if (!is_live(graph, id)) continue;
    const bool changed = view_integers(graph, id) || multiply_integers(graph, id, takes) ||
                         scale_integers(graph, id, takes) || absorb_bias(graph, id) ||
                         absorb_activation(graph, id);
    found += changed;
  }
  return found + fold_weights(graph, options);
}

int quantize_linear(Graph& graph, const PassOptions& options) {
  int found = 0;
  Quantizer quantizer(graph, options);
  for (NodeId id : std::vector<NodeId>(graph.order())) {
    if (is_live(graph, id)) found += quantizer.quantize(id);
  }
  return found;
}

int fold_weights(Graph& graph) { return fold_weights(graph, {}); }

// Weights that no product of integers took, and none will take, are plain constants from here on,
// in the model's type: they are rounded where they are stored.
int fold_weights(Graph& graph, const PassOptions& options) {
  int found = 0;
  const std::set<NodeId> kept = held_weights(graph, options);
  for (NodeId id : std::vector<NodeId>(graph.order())) {
    Node& node = graph.node(id);
    const bool folds = node.op == OpKind::kDequantizeLinear || node.op == OpKind::kTranspose;
    if (!folds || kept.contains(id) || !is_live(graph, id) || !constant_of(graph, node.inputs[0]))
      continue;
    if (node.op == OpKind::kDequantizeLinear) node.request.store = {DType::kF32, false};
    ops::infer_node(graph, id);
    found += fold_constant(graph, id);
  }
  for (NodeId id : std::vector<NodeId>(graph.order())) {
    if ((flags(graph.node(id).op) & kProduct) == 0) continue;
    for (size_t i = 0; i < graph.node(id).inputs.size(); ++i) {
      const ValueId in = graph.node(id).inputs[i];
      if (in == kNoValue || constant_of(graph, in)) continue;
      const ValueId base = under_casts(graph, in);
      if (base != in && constant_of(graph, base)) graph.set_input(id, i, base);
    }
  }
  return found;
}

}  // namespace vernier::passes
