// Products of the model's own 8-bit numbers. Each requires that the device has a kernel for the
// result, a constant w, and at most 2^15 products per sum.
//
// Linear(DequantizeLinear(x), DequantizeLinear(w), b, r)  ⇒  QuantizedLinear(x, w, scales, zero
//   points, b, r)      a Transpose between the product and w's DequantizeLinear becomes trans_w
//   requires: i8 or u8, or both f8e4m3; one scale for x; for w one, or one for each column
// Cast(MatMul(x - x_zero, w - w_zero))·s  ⇒  QuantizedLinear(x, w, scales, zero points)
//   of integers, as MatMulInteger is imported; s one number, or one number times a constant [N]
//   of u8 where the device takes only i8: the same numbers, 128 lower, with zero points 128 lower
// QuantizedLinear(…) + b, f(QuantizedLinear(…))  ⇒  QuantizedLinear with a bias, an activation
#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "core/numerics.h"
#include "ir/derivations.h"
#include "passes/passes.h"
#include "passes/quantize.h"
#include "passes/rewrite.h"

namespace vernier::passes {
namespace {

// A Transpose, or a Reshape whose sizes are known: a copy of another one would make other sizes.
bool is_fixed_view(const Node& n) {
  return n.op == OpKind::kTranspose ||
         (n.op == OpKind::kReshape && n.attrs_as<ShapeAttrs>().has_shape);
}

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
    if (is_fixed_view(from)) {
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
  if (!is_fixed_view(view)) return false;
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

}  // namespace vernier::passes
