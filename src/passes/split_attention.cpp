// `--fuse attention=off`:
//   Attention(q, k, v, bias, keep) ⇒ softmax(where(keep, scale · q kᵀ + bias, fill)) v
//   as the nodes that a model without the composite has, each a step of its own. Scores and
//   probabilities are stored in f32; the products keep their requests.
//   requires: no rotary tables, no packed sequences, masks that replace scores (not masks_add);
//   with causal, as many queries as keys. Other attentions stay fused: they have no plain form.
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace vernier::passes {
namespace {

using enum OpKind;
using enum AttentionAttrs::Input;

class Split {
 public:
  Split(Graph& graph, NodeId id)
      : graph_(graph), node_(graph.node(id)), attrs_(node_.attrs_as<AttentionAttrs>()) {}

  bool possible() const {
    if (node_.inputs.size() > kKeep + 1 || (attrs_.masks_add && node_.has_input(kKeep)))
      return false;
    const SymShape &q = shape(kQ), &k = shape(kK);
    if (attrs_.causal && !(q[1] == k[1])) return false;
    return q[2] == k[2] || (q[2].is_constant() && k[2].is_constant());
  }

  ValueId run() {
    const ValueId q = transpose(input(kQ), {0, 2, 1, 3});
    const ValueId k = transpose(repeat_heads(input(kK)), {0, 2, 3, 1});
    const ValueId v = transpose(repeat_heads(input(kV)), {0, 2, 1, 3});
    ValueId scores = product(q, k, "scores", {DType::kF32, false});
    if (attrs_.scale != 1) scores = inner(kMul, {scores, scalar(attrs_.scale)}, "scores");
    if (node_.has_input(kBias)) scores = inner(kAdd, {scores, input(kBias)}, "scores");
    if (node_.has_input(kKeep)) scores = masked(scores, input(kKeep));
    if (attrs_.causal) scores = masked(scores, lower_triangle(scores));
    ValueId probs = inner(kSoftmax, {scores}, "probs", AxisAttrs{-1});
    if (attrs_.zero_nan_rows) {
      const ValueId is_nan = ops::emit(graph_, kIsNaN, {probs}, NoAttrs{}, {});
      probs = inner(kWhere, {is_nan, scalar(0), probs}, "probs");
    }
    return transpose(product(probs, v, "context", node_.request.store), {0, 2, 1, 3});
  }

 private:
  ValueId input(size_t i) const { return i < node_.inputs.size() ? node_.inputs[i] : kNoValue; }
  const SymShape& shape(size_t i) const { return shape_of(graph_, input(i)); }
  ValueId scalar(double c) { return add_scalar(graph_, DType::kF32, c); }
  ValueId transpose(ValueId v, std::vector<int64_t> perm) {
    return emit_transpose(graph_, v, std::move(perm), {});
  }

  // [B, S, Hk, D] as [B, S, H, D]: every key head for the queries that share it.
  ValueId repeat_heads(ValueId v) {
    const SymShape s = shape_of(graph_, v);
    const Dim heads = shape(kQ)[2];
    if (s[2] == heads) return v;
    const Dim group = heads.constant() / s[2].constant();
    const ValueId apart = emit_reshape(graph_, v, {s[0], s[1], s[2], Dim(1), s[3]}, {});
    const ValueId wide = emit_expand(graph_, apart, {s[0], s[1], s[2], group, s[3]}, {});
    return emit_reshape(graph_, wide, {s[0], s[1], heads, s[3]}, {});
  }

  // The ONNX nodes of this part; the first node created for a part carries them.
  std::vector<Origin> origins(std::string_view part, bool product) {
    std::vector<Origin> list;
    for (const Origin& origin : node_.origins) {
      const bool here = origin.part == part || (part == "scores" && !known_part(origin.part));
      if (here && is_product(origin) == product) list.push_back(origin);
    }
    return list;
  }
  static bool known_part(const std::string& part) {
    return part == "scores" || part == "probs" || part == "context";
  }
  static bool is_product(const Origin& origin) {
    const auto kind = parse_op_kind(origin.op_type);
    return kind && (flags(*kind) & kProduct) != 0;
  }

  ValueId product(ValueId a, ValueId b, std::string_view part, TypeRequest store) {
    const ValueId out = ops::emit(graph_, kMatMul, {a, b}, NoAttrs{}, origins(part, true));
    Request& request = graph_.producer(out)->request;
    request = node_.request;
    request.store = store;
    return out;
  }

  template <class A = NoAttrs>
  ValueId inner(OpKind op, std::vector<ValueId> inputs, std::string_view part,
                const A& attrs = A{}) {
    const ValueId out = ops::emit(graph_, op, std::move(inputs), attrs, origins(part, false));
    Request& request = graph_.producer(out)->request;
    request = node_.request;
    request.compute = node_.request.inner;
    request.inner = {};
    request.store = {DType::kF32, false};
    return out;
  }

  ValueId masked(ValueId scores, ValueId keep) {
    return inner(kWhere, {keep, scores, scalar(attrs_.fill)}, "scores");
  }

  ValueId lower_triangle(ValueId scores) {
    const SymShape s = shape_of(graph_, scores);
    const std::vector<int64_t> one{1};
    const ValueId yes =
        graph_.add_constant(Tensor::from(DType::kBool, {1, 1}, std::span<const int64_t>(one)));
    const ValueId all = emit_expand(graph_, yes, {s[2], s[3]}, {});
    TriluAttrs lower;
    lower.upper = false;
    return ops::emit(graph_, kTrilu, {all}, lower, {});
  }

  Graph& graph_;
  const Node node_;  // a copy: the graph grows
  AttentionAttrs attrs_;
};

}  // namespace

int split_attention(Graph& graph) {
  int found = 0;
  for (NodeId id : std::vector<NodeId>(graph.order())) {
    if (graph.node(id).op != kAttention || !is_live(graph, id)) continue;
    Split split(graph, id);
    if (!split.possible()) continue;
    const ValueId out = graph.node(id).outputs[0];
    graph.replace_uses(out, split.run());
    graph.drop_dead(id);
    ++found;
  }
  graph.remove_dead();
  return found;
}

}  // namespace vernier::passes
