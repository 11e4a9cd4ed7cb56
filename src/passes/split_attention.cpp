// `--fuse attention=off`:
//   Attention(q, k, v, bias, keep) ⇒ softmax(where(keep, scale · q kᵀ + bias, fill)) v
//   as the nodes that a model without the composite has, each a step of its own. Scores and
//   probabilities are stored in f32; the products keep their requests.
//   requires: no rotary tables, no packed sequences, masks that replace scores (not masks_add);
//   with causal, as many queries as keys. Other attentions stay fused: they have no plain form.
// Also where the device has no kernel for scores by relative position:
//   Attention{x, list} ⇒ scores + GatherElements(x, list[i − j + Sk])
#include <algorithm>
#include <array>
#include <cmath>

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
    for (size_t i : {kStartsQ, kStartsK, kCosines, kSines, kPlaces})
      if (node_.has_input(i)) return false;
    if (attrs_.masks_add && (node_.has_input(kKeep) || node_.has_input(kKeepQueries))) return false;
    if (attrs_.zero_hidden_rows && attrs_.fill != -HUGE_VAL) return false;
    const SymShape &q = shape(kQ), &k = shape(kK);
    if (attrs_.causal && !(q[1] == k[1])) return false;
    return q[2] == k[2] || (q[2].is_constant() && k[2].is_constant());
  }

  ValueId run() {
    const ValueId q = transpose(input(kQ), {0, 2, 1, 3});
    const ValueId k = transpose(repeat_heads(input(kK)), {0, 2, 3, 1});
    const ValueId v = transpose(repeat_heads(input(kV)), {0, 2, 1, 3});
    ValueId scores = product(q, k, "scores", {DType::kF32, false});
    scores = with_positions(scores);
    if (attrs_.scale != 1) scores = inner(kMul, {scores, scalar(attrs_.scale)}, "scores");
    if (node_.has_input(kBias)) scores = inner(kAdd, {scores, input(kBias)}, "scores");
    for (size_t i : {kKeep, kKeepQueries})
      if (node_.has_input(i)) scores = masked(scores, input(i));
    if (attrs_.causal) scores = masked(scores, lower_triangle(scores));
    ValueId probs = inner(kSoftmax, {scores}, "probs", AxisAttrs{-1});
    if (attrs_.zero_nan_rows) {
      const ValueId is_nan = ops::emit(graph_, kIsNaN, {probs}, NoAttrs{}, {});
      probs = inner(kWhere, {is_nan, scalar(0), probs}, "probs");
    }
    // Beside a key that is seen, those hidden by -inf have the probability 0.
    for (size_t i : {kKeep, kKeepQueries}) {
      if (attrs_.zero_hidden_rows && node_.has_input(i))
        probs = inner(kWhere, {input(i), probs, scalar(0)}, "probs");
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

  // Adds what relative positions say of the products.
  ValueId with_positions(ValueId scores) {
    if (node_.has_input(kQueryPositions)) {
      const ValueId x = transpose(input(kQueryPositions), {0, 2, 1, 3});
      const ValueId list = by_distance(input(kQueryBuckets));
      scores = inner(kAdd, {scores, gathered(x, list, shape_of(graph_, scores))}, "scores");
    }
    if (node_.has_input(kKeyPositions)) {
      const ValueId x = transpose(input(kKeyPositions), {0, 2, 1, 3});
      const ValueId list = transpose(by_distance(input(kKeyBuckets)), {1, 0});
      SymShape by_key = shape_of(graph_, scores);
      std::swap(by_key[2], by_key[3]);
      const ValueId added = transpose(gathered(x, list, by_key), {0, 1, 3, 2});
      scores = inner(kAdd, {scores, added}, "scores");
    }
    return scores;
  }
  // list[i − j + Sk], [Sq, Sk]
  ValueId by_distance(ValueId list) {
    const Dim queries = shape(kQ)[1], keys = shape(kK)[1];
    const ValueId i = emit_reshape(graph_, range(keys, keys + queries), {queries, Dim(1)}, {});
    const ValueId j = emit_reshape(graph_, range(0, keys), {Dim(1), keys}, {});
    const ValueId at = ops::emit(graph_, kSub, {i, j}, NoAttrs{}, {});
    return ops::emit(graph_, kGather, {list, at}, AxisAttrs{0}, {});
  }
  ValueId range(const Dim& begin, const Dim& end) {
    return ops::emit(graph_, kRange,
                     {emit_size(graph_, begin), emit_size(graph_, end), emit_size(graph_, 1)},
                     NoAttrs{}, {});
  }
  ValueId gathered(ValueId x, ValueId index, const SymShape& wide) {
    const ValueId out =
        ops::emit(graph_, kGatherElements, {x, emit_expand(graph_, index, wide, {})}, AxisAttrs{-1},
                  origins("scores", false));
    Request& request = graph_.producer(out)->request;
    request = node_.request;  // not f32 in all modes: kernels that move elements convert nothing
    request.inner = {};
    return out;
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

namespace {

bool reads_positions(const Node& node) {
  return std::ranges::any_of(std::array{kQueryPositions, kKeyPositions, kKeepQueries},
                             [&](size_t i) { return node.has_input(i); });
}

// Those that `wanted` says.
template <class Wanted>
int split_some(Graph& graph, const Wanted& wanted) {
  int found = 0;
  for (NodeId id : std::vector<NodeId>(graph.order())) {
    if (graph.node(id).op != kAttention || !is_live(graph, id) || !wanted(graph.node(id))) continue;
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

}  // namespace

int split_attention(Graph& graph) {
  return split_some(graph, [](const Node&) { return true; });
}

int split_refused_attention(Graph& graph, const PassOptions& options) {
  if (!options.takes) return 0;
  return split_some(graph, [&](const Node& node) {
    return reads_positions(node) && !options.takes(graph, node);
  });
}

}  // namespace vernier::passes
