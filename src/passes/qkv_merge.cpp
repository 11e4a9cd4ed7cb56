// Linear(x, w1, b1), Linear(x, w2, b2), … ⇒ Split(Linear(x, [w1 w2 …], [b1 b2 …]))
//   requires: weights and biases constant, of one type and orientation, no activation or residual;
//   each result reaches an Attention through layout changes only, or products with a constant for
//   its scores by relative position (a strided view of the result is free there); one request that
//   satisfies all. A missing bias is zero if another node has one.
// MatMul(heads of part i, t), MatMul(heads of part i + 1, u) of such a Split ⇒
//   Split(MatMul(heads of both parts, [t u]))
//   requires: both are an Attention's scores by relative position and nothing else's.
#include <algorithm>
#include <cstring>
#include <map>

#include "ir/derivations.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace vernier::passes {
namespace {

using enum OpKind;

bool reaches_attention(const Graph& graph, ValueId value, int depth = 0) {
  const auto& users = graph.value(value).users;
  if (users.empty() || depth > 4 || graph.is_output(value)) return false;
  return std::all_of(users.begin(), users.end(), [&](NodeId user) {
    const Node& n = graph.node(user);
    if (n.op == kAttention) return true;
    // Scores by relative position: a product of queries or keys with a table.
    const bool by_position =
        n.op == kMatMul && n.inputs[0] == value && constant_of(graph, n.inputs[1]) != nullptr;
    return (n.op == kReshape || n.op == kTranspose || by_position) &&
           reaches_attention(graph, n.outputs[0], depth + 1);
  });
}

bool mergeable(const Graph& graph, const Node& n) {
  if (n.op != kLinear || n.inputs.size() > 3) return false;
  if (n.attrs_as<LinearAttrs>().activation != Activation::kNone) return false;
  for (size_t i = 1; i < n.inputs.size(); ++i) {
    if (n.has_input(i) && !constant_of(graph, n.inputs[i])) return false;
  }
  return reaches_attention(graph, n.outputs[0]);
}

// Matrices side by side, [K, N1 + N2 + …], or stacked if transposed; so the matrices of heads,
// [1, H1 + H2 + …, K, N].
Tensor join(const std::vector<Tensor>& parts, bool rows_below) {
  const int64_t rank = static_cast<int64_t>(parts[0].rank());
  const int64_t lines = rank == 1 || rows_below ? 1 : parts[0].shape()[0];
  int64_t joined = 0;
  size_t bytes = 0;
  for (const Tensor& t : parts) {
    joined += rank == 1 || rows_below ? t.shape()[0] : t.shape()[1];
    bytes += t.bytes();
  }
  std::vector<std::byte> data;
  data.reserve(bytes);
  for (int64_t line = 0; line < lines; ++line) {
    for (const Tensor& t : parts) {
      const auto length = static_cast<std::ptrdiff_t>(t.bytes() / static_cast<size_t>(lines));
      const std::byte* from = t.data() + line * length;
      data.insert(data.end(), from, from + length);
    }
  }
  Shape shape = parts[0].shape();
  shape[rank > 1 && !rows_below ? 1 : 0] = joined;
  return Tensor::from_bytes(parts[0].dtype(), std::move(shape), data);
}

// The parts side by side as a constant of the graph; null stands for zeros.
ValueId joined(Graph& graph, const std::vector<Tensor>& parts, bool rows_below,
               std::vector<DerivationPtr> made) {
  const Tensor all = join(parts, rows_below);
  const ValueId id = graph.add_constant(all);
  const int64_t axis = all.rank() > 1 && !rows_below ? 1 : 0;
  if (std::ranges::find(made, nullptr) == made.end())
    graph.value(id).derivation = ir::derived(all.dtype(), all.shape(), kConcat,
                                             encode(AxisAttrs{.axis = axis}), std::move(made));
  return id;
}

bool merge(Graph& graph, const std::vector<NodeId>& group) {
  const Node& first = graph.node(group[0]);
  const auto attrs = first.attrs_as<LinearAttrs>();
  const ValueId x = first.inputs[0];
  std::vector<Tensor> weights, biases;
  std::vector<DerivationPtr> weights_made, biases_made;
  OriginSet origins;
  SplitAttrs split;
  split.axis = rank_of(graph, first.outputs[0]) - 1;
  bool any_bias = false;
  std::optional<Request> request = first.request;
  for (NodeId id : group) {
    const Node& n = graph.node(id);
    request = common_request(*request, n.request);
    if (!request) return false;
    weights.push_back(*constant_of(graph, n.inputs[1]));
    split.sizes.push_back(weights.back().shape()[attrs.trans_w ? 0 : 1]);
    const Tensor* bias = n.has_input(2) ? constant_of(graph, n.inputs[2]) : nullptr;
    any_bias = any_bias || bias;
    const std::vector<double> zeros(bias ? 0 : static_cast<size_t>(split.sizes.back()));
    biases.push_back(bias ? *bias
                          : Tensor::from(weights.back().dtype(), {split.sizes.back()},
                                         std::span<const double>(zeros)));
    weights_made.push_back(ir::derivation_of(graph, n.inputs[1]));
    biases_made.push_back(bias ? ir::derivation_of(graph, n.inputs[2])
                               : ir::derived_numbers(biases.back()));
    origins.add(graph, &n);
  }
  std::vector<ValueId> inputs{x, joined(graph, weights, attrs.trans_w, std::move(weights_made))};
  if (any_bias) inputs.push_back(joined(graph, biases, false, std::move(biases_made)));
  const ValueId all = ops::emit(graph, kLinear, std::move(inputs), attrs, origins.list());
  graph.producer(all)->request = *request;
  const ValueId parts = ops::emit(graph, kSplit, {all}, split, {}, static_cast<int>(group.size()));
  const std::vector<ValueId> outputs = graph.producer(parts)->outputs;
  for (size_t i = 0; i < group.size(); ++i)
    graph.replace_uses(graph.node(group[i]).outputs[0], outputs[i]);
  return true;
}

// Transpose(MatMul(Transpose(Reshape(part `part` of `split`)), table)): what queries or keys say of
// relative positions, [B, S, H, P].
struct PositionProduct {
  const Node* split = nullptr;
  size_t part = 0;
  const Node *reshape = nullptr, *product = nullptr;
};

std::optional<PositionProduct> position_product(const Graph& graph, const Node& attention,
                                                size_t input) {
  const std::vector<int64_t> heads_second{0, 2, 1, 3};
  const auto transposed = [&](ValueId value) -> const Node* {
    const Node* node = producer_of(graph, value, kTranspose);
    return node != nullptr && node->attrs_as<TransposeAttrs>().perm == heads_second ? node
                                                                                    : nullptr;
  };
  if (!attention.has_input(input) || sole_user(graph, attention.inputs[input]) == ir::kNoNode)
    return std::nullopt;
  const Node* behind = transposed(attention.inputs[input]);
  if (behind == nullptr || sole_user(graph, behind->inputs[0]) == ir::kNoNode) return std::nullopt;
  PositionProduct found;
  found.product = producer_of(graph, behind->inputs[0], kMatMul);
  if (found.product == nullptr) return std::nullopt;
  const Tensor* table = constant_of(graph, found.product->inputs[1]);
  const Node* before = transposed(found.product->inputs[0]);
  found.reshape = before == nullptr ? nullptr : producer_of(graph, before->inputs[0], kReshape);
  if (table == nullptr || table->rank() != 4 || table->shape()[0] != 1 || found.reshape == nullptr)
    return std::nullopt;
  const ValueId part = found.reshape->inputs[0];
  found.split = producer_of(graph, part, kSplit);
  const SymShape& heads = graph.value(found.reshape->outputs[0]).shape;
  if (found.split == nullptr || heads.size() != 4 || !(heads[2] == Dim(table->shape()[1])))
    return std::nullopt;
  found.part = static_cast<size_t>(std::ranges::find(found.split->outputs, part) -
                                   found.split->outputs.begin());
  return found;
}

// Queries and keys lie side by side, so that their heads are those of one array.
bool join_position_products(Graph& graph, const Node& attention) {
  using Input = AttentionAttrs::Input;
  const auto q = position_product(graph, attention, Input::kQueryPositions),
             k = position_product(graph, attention, Input::kKeyPositions);
  if (!q || !k || q->split != k->split || q->part + 1 != k->part) return false;
  const Tensor &t = *constant_of(graph, q->product->inputs[1]),
               &u = *constant_of(graph, k->product->inputs[1]);
  auto split = q->split->attrs_as<SplitAttrs>();
  const int64_t axis = rank_of(graph, q->split->inputs[0]) - 1;
  const auto request = common_request(q->product->request, k->product->request);
  if (t.dtype() != u.dtype() || t.shape() != u.shape() || !request || split.axis != axis ||
      split.sizes.size() != q->split->outputs.size() ||
      split.sizes[q->part] != split.sizes[k->part])
    return false;
  const int64_t heads = t.shape()[1];
  const ValueId table = joined(graph, {t, u}, false,
                               {ir::derivation_of(graph, q->product->inputs[1]),
                                ir::derivation_of(graph, k->product->inputs[1])});
  OriginSet origins;
  origins.add(graph, q->product);
  origins.add(graph, k->product);
  const size_t part = q->part, parts = split.sizes.size() - 1;
  split.sizes[part] *= 2;
  split.sizes.erase(split.sizes.begin() + static_cast<std::ptrdiff_t>(part) + 1);
  SymShape shape = graph.value(q->reshape->outputs[0]).shape;
  shape[2] = Dim(2 * heads);
  const ValueId of_queries = attention.inputs[Input::kQueryPositions],
                of_keys = attention.inputs[Input::kKeyPositions];
  const ValueId x = q->split->inputs[0];
  const ValueId rows = ops::emit(graph, kSplit, {x}, split, {}, static_cast<int>(parts));
  const ValueId joined_rows = graph.producer(rows)->outputs[part];
  const ValueId in_heads =
      emit_transpose(graph, emit_reshape(graph, joined_rows, shape, {}), {0, 2, 1, 3}, {});
  const ValueId product = ops::emit(graph, kMatMul, {in_heads, table}, NoAttrs{}, origins.list());
  graph.producer(product)->request = *request;
  const ValueId positions = emit_transpose(graph, product, {0, 2, 1, 3}, {});
  const ValueId first =
      ops::emit(graph, kSplit, {positions},
                SplitAttrs{.axis = 2, .num_outputs = 0, .sizes = {heads, heads}}, {}, 2);
  const std::vector<ValueId> outputs = graph.producer(first)->outputs;
  graph.replace_uses(of_queries, outputs[0]);
  graph.replace_uses(of_keys, outputs[1]);
  return true;
}

}  // namespace

int fuse_qkv(Graph& graph) {
  // By input, orientation and types; in graph order, so that the result does not depend on ids.
  std::map<std::tuple<ValueId, bool, DType>, std::vector<NodeId>> groups;
  std::vector<std::vector<NodeId>*> in_order;
  for (NodeId id : graph.order()) {
    const Node& n = graph.node(id);
    if (!mergeable(graph, n)) continue;
    auto& group =
        groups[{n.inputs[0], n.attrs_as<LinearAttrs>().trans_w, dtype_of(graph, n.inputs[1])}];
    if (group.empty()) in_order.push_back(&group);
    group.push_back(id);
  }
  int found = 0;
  for (const auto* group : in_order) {
    if (group->size() < 2) continue;
    found += merge(graph, *group);
  }
  for (NodeId id : graph.order()) {
    if (is_live(graph, id) && graph.node(id).op == kAttention)
      found += join_position_products(graph, graph.node(id));
  }
  return found;
}

}  // namespace vernier::passes
