// f(c1, …, cn) ⇒ its value, by the FP64 evaluator.
//   requires: every input constant; the result not much larger than its inputs (an Expand or a Tile
//   must not become weights); a layout change of a large constant with other uses is not folded
// A value whose symbolic contents are all numbers ⇒ the constant.
// Equal constants become one.
#include "core/byte_twins.h"
#include "core/mapped_file.h"
#include "ir/derivations.h"
#include "ops/evaluate.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace vernier::passes {
namespace {

constexpr int64_t kMaxElems = int64_t{1} << 28;
constexpr int64_t kSmallElems = 1024;     // always folded
constexpr int64_t kLargeElems = 1 << 16;  // a layout change of more than this is not duplicated

std::optional<int64_t> elems_of(const Graph& graph, ValueId value) {
  return product(shape_of(graph, value)).as_constant();
}

// Is the result much larger than the constants it replaces?
bool too_large(const Graph& graph, const Node& node, int64_t result_elems) {
  if (result_elems <= kSmallElems) return false;
  int64_t input_elems = 0;
  bool shared = false;
  for (ValueId in : node.inputs) {
    if (in == kNoValue) continue;
    if (!graph.value(in).is_constant()) return true;
    input_elems += graph.value(in).constant.elems();
    shared = shared || graph.value(in).users.size() > 1;
  }
  if (result_elems > 2 * input_elems) return true;
  return shared && node.op == OpKind::kTranspose && result_elems > kLargeElems;
}

// A product of two matrices in at most 2^30 operations: those of 512 relative positions and a
// weight of 1024 x 1024 (DeBERTa), about 0.1 s.
bool is_quick_product(const Graph& graph, const Node& node) {
  constexpr double kMostWork = 0x1p30;
  if (node.op != OpKind::kMatMul && node.op != OpKind::kLinear) return false;
  const SymShape& x = shape_of(graph, node.inputs[0]);
  const auto inner = x.empty() ? std::nullopt : x.back().as_constant();
  const auto results = elems_of(graph, node.outputs[0]);
  if (!inner || !results) return false;
  return 2.0 * static_cast<double>(*inner) * static_cast<double>(*results) <= kMostWork;
}

bool is_expensive(const Graph& graph, const Node& node) {
  // The evaluators of products are slow: weights above this size are not multiplied at build time.
  if (is_quick_product(graph, node)) return false;
  const bool contraction = node.op == OpKind::kMatMul || node.op == OpKind::kGemm ||
                           node.op == OpKind::kLinear || node.op == OpKind::kConv ||
                           node.op == OpKind::kEinsum || node.op == OpKind::kAttention;
  if (!contraction) return false;
  for (ValueId in : node.inputs) {
    if (in != kNoValue && graph.value(in).is_constant() &&
        graph.value(in).constant.elems() > kLargeElems)
      return true;
  }
  return false;
}

// A weight of 8 bits that a product may take as it is (quantize.cpp).
bool is_quantized_weight(const Graph& graph, const Node& node) {
  if (node.op != OpKind::kDequantizeLinear || rank_of(graph, node.outputs[0]) != 2) return false;
  const DType type = dtype_of(graph, node.inputs[0]);
  if (type != DType::kI8 && type != DType::kU8 && type != DType::kF8E4M3) return false;
  const auto multiplies = [&](NodeId id) {
    const OpKind op = graph.node(id).op;
    return op == OpKind::kMatMul || op == OpKind::kGemm || op == OpKind::kLinear;
  };
  return std::ranges::any_of(graph.value(node.outputs[0]).users, [&](NodeId user) {
    if (graph.node(user).op != OpKind::kTranspose) return multiplies(user);
    return std::ranges::any_of(graph.value(graph.node(user).outputs[0]).users, multiplies);
  });
}

int merge_equal_constants(Graph& graph) {
  ByteTwins twins;
  int merged = 0;
  for (size_t i = 0; i < graph.num_values(); ++i) {
    const auto id = static_cast<ValueId>(i);
    const ir::Value& v = graph.value(id);
    if (!v.is_constant() || v.users.empty() || graph.is_output(id)) continue;
    const std::string kind = std::string(name(v.dtype)) + ' ' +
                             std::string(name(v.constant.dtype())) + str(v.constant.shape());
    const auto twin = twins.find_or_add(kind, v.constant, id);
    if (!twin) continue;
    graph.replace_uses(id, *twin);
    ++merged;
  }
  return merged;
}

}  // namespace

namespace {

// Memory of the evaluator: operands and results, 8 bytes per element.
uint64_t evaluation_bytes(const Graph& graph, const Node& node) {
  constexpr uint64_t kElemBytes = 8;
  uint64_t elems = 0;
  for (const auto& values : {node.inputs, node.outputs}) {
    for (ValueId id : values)
      if (id != kNoValue) elems += static_cast<uint64_t>(elems_of(graph, id).value_or(0));
  }
  return saturating_product(elems, kElemBytes);
}

bool fold_watched(Graph& graph, NodeId id, const Watch& watch) {
  const Node& node = graph.node(id);
  if ((flags(node.op) & kDataDependent) != 0 || is_expensive(graph, node)) return false;
  if (!graph.typed && is_quantized_weight(graph, node)) return false;
  for (ValueId out : node.outputs) {
    if (out == kNoValue) continue;
    const auto elems = elems_of(graph, out);
    if (!elems || too_large(graph, node, *elems)) return false;
  }
  // Sizes that the host computes for each shape are not constants.
  if (node.op == OpKind::kShapeValues && !integers_of(graph, node.outputs[0])) return false;
  const auto where = [&] { return "folding node '" + node.name + "'"; };
  watch.check_time(where);
  watch.check_memory(evaluation_bytes(graph, node), where);
  const auto results = ops::fold_node(graph, id, kMaxElems);
  if (!results) return false;
  std::vector<DerivationPtr> derivations(results->size());
  for (size_t i = 0; i < results->size() && !node.inputs.empty(); ++i) {
    if (node.has_output(i))
      derivations[i] = ir::derived(graph, (*results)[i], node.op, node.attrs, node.inputs, i);
  }
  for (ValueId in : node.inputs) {
    if (in != kNoValue) drop_pages(graph.value(in).constant.byte_span());  // of a model's file
  }
  const std::vector<ValueId> ids = node.outputs;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] == kNoValue) continue;
    graph.make_constant(ids[i], (*results)[i]);
    graph.value(ids[i]).derivation = std::move(derivations[i]);
  }
  return true;
}

}  // namespace

bool fold_constant(Graph& graph, NodeId id) { return fold_watched(graph, id, {}); }

int fold(Graph& graph) { return fold(graph, {}); }

int fold(Graph& graph, const Watch& watch) {
  int changes = 0;
  for (NodeId id : std::vector<NodeId>(graph.order())) changes += fold_watched(graph, id, watch);
  return changes + merge_equal_constants(graph);
}

}  // namespace vernier::passes
