// Products of 8-bit numbers that the build makes; those of the model's own: integer_products.cpp.
// Each requires that the device has a kernel for the result, a constant w, and at most 2^15
// products per sum.
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
//   bound x (bounds.h): its numbers are as exact far below the largest one. A norm's channels may
//   be so different that most would be too far below it: then its rows keep their scales
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

StaticRange range_of(const StaticScale& scale, DType type) {
  if (type == DType::kF8E4M3)
    return {.low = -double{kLargestF8} * scale.scale, .high = double{kLargestF8} * scale.scale};
  return {.low = (-double{kLargestQ8} - scale.zero) * scale.scale,
          .high = (double{kLargestQ8} - scale.zero) * scale.scale};
}

StaticScale static_scale(const StaticRange& range, DType type) {
  if (type == DType::kF8E4M3)
    return {static_cast<float>(std::max(range.high, -range.low) / kLargestF8), 0};
  const auto scale = static_cast<float>((range.high - range.low) / (2 * kLargestQ8));
  return {scale, static_cast<float>(std::nearbyint(-(range.high + range.low) / 2 / scale))};
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
      if (!fresh) continue;
      at->second.channels = normalized_channels(graph, linear.inputs[0]);
      if (!at->second.channels) at->second.most = magnitude_bound(graph, linear.inputs[0]);
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
    const std::optional<StaticRange> range = operand_range(linear, factors);
    const Rows rows = rows_of(linear, factors, range);
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
    if (options_.quantizes) options_.quantizes(graph_, linear, *weight, range);
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
  Rows rows_of(const Node& linear, const SharedFactors& factors,
               const std::optional<StaticRange>& range) {
    const ValueId x = linear.inputs[0];
    const DType type = linear.request.compute.type;
    const auto [at, fresh] = rows_.try_emplace({x, type, contents(factors), range});
    if (!fresh) return at->second;
    const bool has_zero = type == DType::kQ8;
    std::vector<ValueId> inputs{x};
    if (factors) inputs.push_back(add_factors(*factors));
    if (range) {
      inputs.resize(2, kNoValue);
      const StaticScale made = static_scale(*range, type);
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
    if (bound == bounds_.end()) return std::nullopt;
    if (bound->second.channels) return range_of_norm(*bound->second.channels, factors);
    if (!bound->second.most) return std::nullopt;
    // Roundings of both operands add at most 1/16 of each product's factors.
    constexpr double kRounded = 17.0 / 16 * 17.0 / 16;
    const double factor = factors ? *std::ranges::max_element(*factors) : 1;
    const double most = *bound->second.most * kRounded * factor;
    return StaticRange{.low = -most, .high = most};
  }
  // Nullopt where half of the channels would be less than 16 times as large as the smallest normal
  // number of f8e4m3, below which its steps are no longer a part of the number.
  static std::optional<StaticRange> range_of_norm(const NormalizedChannels& channels,
                                                  const SharedFactors& factors) {
    constexpr double kRounded = 65.0 / 64;  // the norm's result, in 16 bits
    constexpr double kLeastTypical = 16 * 0x1p-6;
    double most = 0;
    std::vector<double> typical;
    for (size_t k = 0; k < channels.most.size(); ++k) {
      const double factor = factors ? (*factors)[k] : 1;
      most = std::max(most, channels.most[k] * factor * kRounded);
      typical.push_back(channels.typical[k] * factor);
    }
    const auto middle = typical.begin() + std::ssize(typical) / 2;
    std::ranges::nth_element(typical, middle);
    if (!(most > 0) || *middle / most * kLargestF8 < kLeastTypical) return std::nullopt;
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
  struct Bounds {
    std::optional<NormalizedChannels> channels;  // of a norm's result
    std::optional<double> most;
  };
  std::map<ValueId, Bounds> bounds_;
  std::map<std::tuple<ValueId, DType, std::vector<float>, std::optional<StaticRange>>, Rows> rows_;
  std::map<std::tuple<ValueId, DType, bool, std::vector<float>, std::vector<float>>,
           QuantizedWeight>
      weights_;
  std::map<std::vector<float>, DerivationPtr> numbers_;
};

}  // namespace

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
