// softmax(scale · q kᵀ + bias, masked) v ⇒ Transpose(Attention(Transpose(q), …, Transpose(v)))
//   with q, k, v [B, H, S, D] (or [B·H, S, D]); the transposes to [B, S, H, D] cancel against the
//   exporter's own in canonicalise.
//   scale          constant factors after the product, on q or on k (also √ on both), before or
//                  after masks
//   bias           every added term, times the factors that follow it
//   keep, fill     Where(keep, scores, fill); Where(keep, 0, fill) added, if fill <= −1e30 (then
//                  scores + fill equals fill in f64 and f32); several masks if their fills are
//                  equal
//   causal         a mask proven to be j <= i + (Sk − Sq) (index.h); an added triangle of c <= −1e8
//                  if it is the only term: the diagonal bounds every row's maximum, so exp(c) is 0
//   rotary         q and k both as x·cos + rotate_half(x)·sin with the same tables
//   zero_nan_rows  Where(IsNaN(p), 0, p)
//   requires: softmax over the last axis; probabilities and scores not used elsewhere; no bias
//     added after a mask unless its fill is −inf, or <= −1e30 (then the mask becomes a bias too)
#include "passes/attention.h"

#include <algorithm>
#include <cmath>

#include "passes/attention_parts.h"
#include "passes/canonicalise.h"
#include "passes/passes.h"

namespace vernier::passes {
namespace {

using enum OpKind;

void collect_parts(const Graph& graph, const AttentionMatch& m, OriginSet& origins) {
  const ValueId below_probs[] = {m.probs};
  const ValueId below_scores[] = {m.scores};
  const ValueId operands[] = {m.q, m.k_transposed, m.v};
  origins.add_value(graph, m.scores, "scores");
  origins.add_value(graph, m.probs, "probs");
  origins.add_value(graph, m.out, "context");
  OriginSet guards, masks, scales;
  std::vector<ValueId> stop(std::begin(below_probs), std::end(below_probs));
  stop.push_back(m.v);
  collect_origins(graph, m.out, stop, guards);
  stop.assign(std::begin(below_scores), std::end(below_scores));
  for (const ScoreTerm& term : m.terms) stop.push_back(term.value);
  collect_origins(graph, m.probs, stop, masks);
  collect_origins(graph, m.scores, operands, scales);
  for (const auto& [set, part] :
       {std::pair{&guards, "probs"}, std::pair{&masks, "scores"}, std::pair{&scales, "scores"}}) {
    origins.add_list(set->list(), part);
  }
}

ValueId transposed(Graph& graph, ValueId v, std::vector<int64_t> perm, const OriginSet& origins) {
  return emit_transpose(graph, v, std::move(perm), origins.list());
}

// [N, S, D] as [B, H, S, D].
ValueId split_heads(Graph& graph, ValueId v, const HeadSplit& heads, const OriginSet& origins) {
  const SymShape s = shape_of(graph, v);
  if (s.size() == 4) return v;
  return emit_reshape(graph, v, {heads.batch, heads.heads, s[1], s[2]}, origins.list());
}

// A mask or bias over [N, Sq, Sk] as one over [B, H, Sq, Sk].
ValueId split_mask(Graph& graph, ValueId v, int64_t rank, const HeadSplit& heads,
                   const OriginSet& origins) {
  const SymShape s = v == kNoValue ? SymShape{} : shape_of(graph, v);
  if (v == kNoValue || rank == 4 || s.size() != 3) return v;
  const bool per_head = !(s[0] == Dim(1));
  return emit_reshape(
      graph, v, {per_head ? heads.batch : Dim(1), per_head ? heads.heads : Dim(1), s[1], s[2]},
      origins.list());
}

bool replace_attention(Graph& graph, const AttentionMatch& m) {
  const int64_t rank = rank_of(graph, m.scores);
  const auto masks = combine_terms(graph, m);
  if (!masks) return false;
  const HeadSplit heads = head_split(graph, m);
  OriginSet origins;
  collect_parts(graph, m, origins);
  origins.add_list(masks->origins, "scores");
  const DType dtype = dtype_of(graph, m.q);
  ValueId bias = split_mask(graph, masks->bias, rank, heads, origins);
  if (bias != kNoValue && dtype_of(graph, bias) != dtype) {
    CastAttrs cast;
    cast.to = dtype;
    bias = ops::emit(graph, kCast, {bias}, cast, origins.list());
  }
  const ValueId keep = split_mask(graph, masks->keep, rank, heads, origins);

  ValueId q = m.q, k = untransposed_key(graph, m.k_transposed, origins.list());
  const auto rotary = match_rotary(graph, q, k);
  std::vector<ValueId> inputs{kNoValue, kNoValue, kNoValue, bias, keep};
  AttentionAttrs attrs;
  attrs.scale = m.scale;
  attrs.causal = masks->causal;
  attrs.fill = masks->fill;
  attrs.zero_nan_rows = m.zero_nan_rows;
  if (rotary) {
    q = rotary->q;
    k = rotary->k;
    attrs.rotary_interleaved = rotary->interleaved;
    const ValueId cos = rotary_table(graph, rotary->cos, origins.list());
    const ValueId sin = rotary_table(graph, rotary->sin, origins.list());
    inputs.insert(inputs.end(), {kNoValue, kNoValue, cos, sin});
    origins.add_list(rotary->origins, "q");
  }
  const auto to_bshd = [&](ValueId operand) {
    return transposed(graph, split_heads(graph, operand, heads, origins), {0, 2, 1, 3}, origins);
  };
  inputs[0] = to_bshd(q);
  inputs[1] = to_bshd(k);
  inputs[2] = to_bshd(m.v);
  while (inputs.back() == kNoValue) inputs.pop_back();
  const ValueId out = ops::emit(graph, kAttention, std::move(inputs), attrs, origins.list());
  const SymShape shape = shape_of(graph, m.out);
  const ValueId heads_first = transposed(graph, out, {0, 2, 1, 3}, origins);
  graph.replace_uses(m.out, emit_reshape(graph, heads_first, shape, origins.list()));
  if (dtype_of(graph, m.probs) != dtype)
    graph.producer(out)->request = {{dtype_of(graph, m.probs), false}, {}, {}, "model"};
  return true;
}

}  // namespace

int raise_attention(Graph& graph) {
  int found = 0;
  for (NodeId id : std::vector<NodeId>(graph.order())) {
    if (!is_live(graph, id) || graph.node(id).apart) continue;
    const auto match = match_attention(graph, id);
    if (match && replace_attention(graph, *match)) ++found;
  }
  return found;
}

}  // namespace vernier::passes
