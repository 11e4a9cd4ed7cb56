// LayerNorm(Gather(t1, i1) + Gather(t2, i2) + … + c) ⇒ EmbedNorm(i1, t1, i2, t2, …, scale, bias)
//   requires: the sum used once, norm over the last axis; tables constant matrices of one type,
//   gathered along axis 0; one request that satisfies all nodes. A constant addend c [.., H] is
//   treated as a table of its own rows.
#include <numeric>

#include "ir/derivations.h"
#include "passes/match.h"
#include "passes/passes.h"

namespace vernier::passes {
namespace {

using enum OpKind;

struct Lookup {
  ValueId ids, table;
};

bool is_lookup(const Graph& graph, const Node& n) {
  return n.op == kGather && n.attrs_as<AxisAttrs>().axis == 0 && constant_of(graph, n.inputs[0]) &&
         rank_of(graph, n.inputs[0]) == 2 && is_integer(dtype_of(graph, n.inputs[1]));
}

// [.., H] as a table of rows and the ids 0, 1, … of the leading shape.
Lookup as_table(Graph& graph, ValueId constant) {
  const Tensor& rows = *constant_of(graph, constant);
  const int64_t width = rows.shape().back(), count = rows.elems() / width;
  std::vector<int64_t> ids(static_cast<size_t>(count));
  std::iota(ids.begin(), ids.end(), 0);
  Shape lead(rows.shape().begin(), rows.shape().end() - 1);
  const Tensor numbered = Tensor::from(DType::kI64, std::move(lead), ids);
  const ValueId numbers = graph.add_constant(numbered);
  graph.value(numbers).derivation = ir::derived_numbers(numbered);
  return {numbers, ir::add_reshaped_constant(graph, constant, {count, width})};
}

constexpr int kMaxTerms = 64;  // nodes of one sum: a longer one is not an embedding

struct Sum {
  std::vector<ValueId> lookups;    // Gather results
  std::vector<ValueId> constants;  // rank 1 or more, last axis H
  OriginSet origins;
  Request request;  // of all nodes
  int nodes = 0;
};

bool collect(const Graph& graph, ValueId value, const Dim& width, Sum& sum) {
  const Node* n = graph.producer(value);
  if (const Tensor* t = constant_of(graph, value)) {
    if (t->rank() < 1 || t->elems() == 0 || !(Dim(t->shape().back()) == width)) return false;
    sum.constants.push_back(value);
    return true;
  }
  if (!n || !graph.single_use(value) || ++sum.nodes > kMaxTerms) return false;
  const auto request = vernier::fused_request(n->request, Part::kOther, sum.request, Part::kOther);
  if (!request) return false;
  sum.request = *request;
  sum.origins.add(graph, n);
  if (n->op == kAdd)
    return collect(graph, n->inputs[0], width, sum) && collect(graph, n->inputs[1], width, sum);
  if (!is_lookup(graph, *n)) return false;
  sum.lookups.push_back(value);
  return true;
}

bool fuse(Graph& graph, NodeId id) {
  const Node& n = graph.node(id);
  if (n.op != kLayerNorm || n.outputs.size() != 1) return false;
  const ValueId x = n.inputs[0];
  const auto norm = n.attrs_as<NormAttrs>();
  const int64_t rank = rank_of(graph, x);
  if ((norm.axis + rank) % rank != rank - 1) return false;
  Sum sum;
  sum.request = n.request;
  sum.origins.add(graph, &n);
  if (!collect(graph, x, shape_of(graph, x).back(), sum) || sum.lookups.empty()) return false;
  const DType dtype = dtype_of(graph, x);
  std::vector<ValueId> inputs;
  for (ValueId value : sum.lookups) {
    const Node& gather = *graph.producer(value);
    if (!graph.typed && dtype_of(graph, gather.inputs[0]) != dtype) return false;
    inputs.insert(inputs.end(), {gather.inputs[1], gather.inputs[0]});
  }
  for (ValueId value : sum.constants) {
    const Lookup lookup = as_table(graph, value);
    inputs.insert(inputs.end(), {lookup.ids, lookup.table});
  }
  EmbedNormAttrs attrs;
  attrs.tables = static_cast<int64_t>(sum.lookups.size() + sum.constants.size());
  attrs.epsilon = norm.epsilon;
  inputs.insert(inputs.end(), n.inputs.begin() + 1, n.inputs.end());
  const SymShape shape = shape_of(graph, n.outputs[0]);
  const ValueId out = ops::emit(graph, kEmbedNorm, std::move(inputs), attrs, sum.origins.list());
  graph.producer(out)->request = sum.request;
  graph.replace_uses(graph.node(id).outputs[0], emit_reshape(graph, out, shape, {}));
  return true;
}

}  // namespace

int fuse_embed_norm(Graph& graph) {
  int found = 0;
  for (NodeId id : std::vector<NodeId>(graph.order())) {
    if (is_live(graph, id)) found += fuse(graph, id);
  }
  return found;
}

}  // namespace vernier::passes
