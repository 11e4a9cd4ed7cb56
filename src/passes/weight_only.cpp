// Products whose weight alone is quantized. Each requires that the device has a kernel for the
// result, and a constant matrix w.
//
// Linear(x, w, b, r){compute w8}  ⇒  WeightOnlyLinear(x, w / s, s, b, r)
//   s: one scale for each column, as int8 has them (quantize.cpp)
// Linear(x, w, b, r){compute w4}  ⇒  the same with 4 bits; s: one for each column and kBlock rows,
//   the one among kShares that rounds these numbers with the least error
//   requires: w finite. With PassOptions::exact_weights w / s is not rounded
// Linear(x, DequantizeLinear(w), b, r)  ⇒  WeightOnlyLinear(x, w, scale, zero, b, r)
//   a Transpose between the product and w's DequantizeLinear becomes trans_w
//   requires: numbers of 4 bits, and x no DequantizeLinear; one scale, one for each column, or
//   blocks along the sums
#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "core/threads.h"
#include "ir/derivations.h"
#include "passes/passes.h"
#include "passes/quantize.h"
#include "passes/rewrite.h"

namespace vernier::passes {
namespace {

constexpr int64_t kBlock = 32;
constexpr float kLargestQ4 = 7;
// Shares of a block's largest weight that its scale may reach: the rest saturates.
constexpr std::array kShares{1.0F, 0.97F, 0.94F, 0.91F, 0.88F, 0.85F, 0.82F, 0.79F, 0.76F, 0.73F};

bool is_finite(const Tensor& t) {
  for (int64_t i = 0; i < t.elems(); ++i)
    if (!std::isfinite(t.float_at(i))) return false;
  return true;
}

int64_t num_blocks(int64_t depth) { return (depth + kBlock - 1) / kBlock; }

// In units of q4, or of exact numbers; scales [blocks, N].
QuantizedWeight weight_of_4_bits(const Tensor& w, bool trans_w, bool exact) {
  const int64_t k = w.shape()[trans_w ? 1 : 0], n = w.shape()[trans_w ? 0 : 1];
  std::vector<float> scales(static_cast<size_t>(num_blocks(k) * n));
  std::vector<float> values(exact ? static_cast<size_t>(w.elems()) : 0);
  std::vector<int8_t> bytes(exact ? 0 : static_cast<size_t>(w.elems()));
  const auto at = [&](int64_t row, int64_t column) {
    return trans_w ? column * k + row : row * n + column;
  };
  constexpr int64_t kLeastColumns = 64;
  in_parallel(n, kLeastColumns, [&](int64_t begin, int64_t end) {
    std::array<float, kBlock> numbers{};
    for (int64_t c = begin; c < end; ++c) {
      for (int64_t first = 0; first < k; first += kBlock) {
        const int64_t count = std::min(kBlock, k - first);
        for (int64_t i = 0; i < count; ++i)
          numbers[i] = static_cast<float>(w.float_at(at(first + i, c)));
        const float scale = best_scale(std::span(numbers).first(count), kLargestQ4, kShares);
        scales[first / kBlock * n + c] = scale;
        for (int64_t i = 0; i < count; ++i) {
          const float value = numbers[i] / scale;
          const auto to = static_cast<size_t>(at(first + i, c));
          if (exact)
            values[to] = value;
          else
            bytes[to] =
                static_cast<int8_t>(std::clamp(std::nearbyint(value), -kLargestQ4, kLargestQ4));
        }
      }
    }
  });
  return {exact ? Tensor::from_bytes(DType::kF32, w.shape(), std::as_bytes(std::span(values)))
                : Tensor::from_bytes(DType::kQ4, w.shape(), std::as_bytes(std::span(bytes))),
          Tensor::from_bytes(DType::kF32, {num_blocks(k), n}, std::as_bytes(std::span(scales)))};
}

// The Linear as a WeightOnlyLinear of these operands.
Node weight_only(const Node& linear, const WeightOnlyLinearAttrs& attrs,
                 const std::array<ValueId, 3>& weight_scale_zero) {
  Node wanted = linear;
  wanted.op = OpKind::kWeightOnlyLinear;
  wanted.attrs = encode(attrs);
  wanted.inputs = {linear.inputs[0],
                   weight_scale_zero[0],
                   weight_scale_zero[1],
                   weight_scale_zero[2],
                   linear.has_input(2) ? linear.inputs[2] : kNoValue,
                   linear.has_input(3) ? linear.inputs[3] : kNoValue};
  return wanted;
}

class Quantizer {
 public:
  Quantizer(Graph& graph, const PassOptions& options) : graph_(graph), options_(options) {}

  bool quantize(NodeId id) {
    if (graph_.node(id).op != OpKind::kLinear) return false;
    const Node linear = graph_.node(id);  // nodes are added below
    const DType type = linear.request.compute.type;
    if (!is_weight_only(type)) return false;
    const Tensor* weight = constant_of(graph_, linear.inputs[1]);
    if (weight == nullptr || weight->rank() != 2 || weight->elems() == 0 || !is_finite(*weight))
      return false;
    const auto plain = linear.attrs_as<LinearAttrs>();
    const bool is_4_bits = type == DType::kW4;
    const WeightOnlyLinearAttrs attrs{.activation = plain.activation,
                                      .trans_w = plain.trans_w,
                                      .block_size = is_4_bits ? kBlock : 0,
                                      .bits = is_4_bits ? 4 : 8};
    Node wanted = weight_only(linear, attrs, {linear.inputs[1], any_scale(), kNoValue});
    if (!options_.takes(graph_, wanted)) return false;
    const QuantizedWeight& made = weight_of(linear.inputs[1], *weight, attrs);
    const DerivationPtr how = ir::derivation_of(graph_, linear.inputs[1]);
    wanted.inputs[1] = graph_.add_constant(made.values);
    wanted.inputs[2] = graph_.add_constant(made.scales);
    // Both of the real weight: whoever evaluates it divides by the scales.
    graph_.value(wanted.inputs[1]).derivation = how;
    graph_.value(wanted.inputs[2]).derivation = how;
    mutate(graph_, id, wanted.op, wanted.inputs, wanted.attrs);
    release_weight(graph_, linear.inputs[1]);
    return true;
  }

 private:
  // Stands for the scales until they are known to be wanted.
  ValueId any_scale() {
    if (any_scale_ == kNoValue) any_scale_ = add_scalar(graph_, DType::kF32, 1);
    return any_scale_;
  }
  const QuantizedWeight& weight_of(ValueId id, const Tensor& weight,
                                   const WeightOnlyLinearAttrs& attrs) {
    const auto [at, fresh] = weights_.try_emplace({id, attrs.trans_w, attrs.bits});
    if (fresh) {
      at->second = attrs.bits == 4 ? weight_of_4_bits(weight, attrs.trans_w, options_.exact_weights)
                                   : quantized_weight(weight, {.trans_w = attrs.trans_w,
                                                               .exact = options_.exact_weights});
    }
    return at->second;
  }

  Graph& graph_;
  const PassOptions& options_;
  ValueId any_scale_ = kNoValue;
  std::map<std::tuple<ValueId, bool, int64_t>, QuantizedWeight> weights_;
};

// ---- weights that the model holds in 4 bits

bool is_byte(DType type) { return type == DType::kI8 || type == DType::kU8; }

bool is_one_number(const Graph& graph, ValueId value) {
  return product(shape_of(graph, value)) == Dim(1);
}

// Are all numbers of 4 bits, -8 … 7 or 0 … 15?
bool has_4_bits(const Tensor& t) {
  const int64_t low = t.dtype() == DType::kI8 ? -8 : 0;
  for (int64_t i = 0; i < t.elems(); ++i)
    if (t.integer_at(i) < low || t.integer_at(i) > low + 15) return false;
  return true;
}

// A product and the weight that it reads through DequantizeLinear. Scale and zero point are those
// of the model, [N, blocks] where `turned`.
struct Held {
  WeightOnlyLinearAttrs attrs;
  ValueId values = kNoValue, scale = kNoValue, zero = kNoValue;
  bool turned = false;
  std::vector<NodeId> nodes;  // DequantizeLinear, Transpose
};

std::optional<Held> held_weight(const Graph& graph, const Node& linear) {
  if (linear.op != OpKind::kLinear ||
      producer_of(graph, under_casts(graph, linear.inputs[0]), OpKind::kDequantizeLinear))
    return std::nullopt;
  const auto plain = linear.attrs_as<LinearAttrs>();
  Held held;
  held.attrs = {.activation = plain.activation, .trans_w = plain.trans_w, .bits = 4};
  ValueId weight = under_casts(graph, linear.inputs[1]);
  if (const Node* turn = producer_of(graph, weight, OpKind::kTranspose)) {
    held.nodes.push_back(graph.value(weight).producer);
    held.attrs.trans_w = !held.attrs.trans_w;
    weight = turn->inputs[0];
  }
  weight = under_casts(graph, weight);
  const Node* made = producer_of(graph, weight, OpKind::kDequantizeLinear);
  if (made == nullptr) return std::nullopt;
  held.nodes.push_back(graph.value(weight).producer);
  held.values = made->inputs[0];
  held.scale = made->inputs[1];
  if (made->has_input(2)) held.zero = made->inputs[2];
  const Tensor* values = constant_of(graph, held.values);
  const bool is_known = values != nullptr && constant_of(graph, held.scale) != nullptr &&
                        (held.zero == kNoValue || constant_of(graph, held.zero) != nullptr);
  if (!is_known || !is_byte(values->dtype()) || values->rank() != 2 || values->elems() == 0 ||
      dtype_of(graph, held.scale) != DType::kF32 || !has_4_bits(*values) ||
      (held.zero != kNoValue && !has_4_bits(*constant_of(graph, held.zero))))
    return std::nullopt;
  const auto attrs = made->attrs_as<QuantizeAttrs>();
  const int64_t axis = attrs.axis < 0 ? attrs.axis + 2 : attrs.axis;
  const int64_t columns = held.attrs.trans_w ? 0 : 1;
  if (attrs.block_size > 0) {
    if (axis == columns) return std::nullopt;
    held.attrs.block_size = attrs.block_size;
    held.turned = held.attrs.trans_w;
  } else if (!is_one_number(graph, held.scale) && axis != columns) {
    return std::nullopt;
  }
  return held;
}

bool takes(const Graph& graph, const Node& linear, const Held& held, const PassOptions& options) {
  if (!options.takes || options.off.contains("weight_only")) return false;
  const bool is_zero = held.zero == kNoValue || is_uniform(graph, held.zero, 0);
  return options.takes(
      graph,
      weight_only(linear, held.attrs, {held.values, held.scale, is_zero ? kNoValue : held.zero}));
}

// A constant [N, blocks] as [blocks, N].
ValueId turned(Graph& graph, ValueId id) {
  const Tensor from = *constant_of(graph, id);
  if (from.rank() != 2) return id;
  const int64_t rows = from.shape()[0], cols = from.shape()[1];
  const size_t width = size_bytes(from.dtype());
  std::vector<std::byte> bytes(from.bytes());
  for (int64_t i = 0; i < from.elems(); ++i)
    std::copy_n(from.data() + static_cast<size_t>(i) * width, width,
                bytes.data() + static_cast<size_t>(i % cols * rows + i / cols) * width);
  const Tensor made = Tensor::from_bytes(from.dtype(), {cols, rows}, bytes);
  const ValueId to = graph.add_constant(made);
  const std::array<ValueId, 1> inputs{id};
  graph.value(to).derivation =
      ir::derived(graph, made, OpKind::kTranspose, encode(TransposeAttrs{.perm = {1, 0}}), inputs);
  return to;
}

bool take_as_it_is(Graph& graph, NodeId id, const PassOptions& options) {
  const Node linear = graph.node(id);
  std::optional<Held> held = held_weight(graph, linear);
  if (!held || !takes(graph, linear, *held, options)) return false;
  if (held->zero != kNoValue && is_uniform(graph, held->zero, 0)) held->zero = kNoValue;
  if (held->turned) {
    held->scale = turned(graph, held->scale);
    if (held->zero != kNoValue) held->zero = turned(graph, held->zero);
  }
  OriginSet origins;
  origins.add(graph, &graph.node(id));
  for (const NodeId node : held->nodes) origins.add(graph, &graph.node(node));
  const Node wanted = weight_only(linear, held->attrs, {held->values, held->scale, held->zero});
  mutate(graph, id, wanted.op, wanted.inputs, wanted.attrs);
  graph.node(id).origins = origins.list();
  return true;
}

}  // namespace

std::set<NodeId> held_weights(const Graph& graph, const PassOptions& options) {
  std::set<NodeId> nodes;
  for (const NodeId id : graph.order()) {
    if (!is_live(graph, id)) continue;
    const auto held = held_weight(graph, graph.node(id));
    if (held && takes(graph, graph.node(id), *held, options))
      nodes.insert(held->nodes.begin(), held->nodes.end());
  }
  return nodes;
}

int quantize_weights(Graph& graph, const PassOptions& options) {
  int found = 0;
  Quantizer quantizer(graph, options);
  for (const NodeId id : std::vector<NodeId>(graph.order())) {
    if (is_live(graph, id)) found += quantizer.quantize(id) || take_as_it_is(graph, id, options);
  }
  return found + fold_weights(graph);
}

}  // namespace vernier::passes
