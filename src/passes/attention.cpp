// softmax(scale · q kᵀ + bias, masked) v ⇒ Transpose(Attention(Transpose(q), …, Transpose(v)))
//   with q, k, v [B, H, S, D] (or [B·H, S, D]); the transposes to [B, S, H, D] cancel against the
//   exporter's own in canonicalise.
//   scale          constant factors after the product, on q or on k (also √ on both), before or
//                  after masks
//   bias           every added term, times the factors that follow it
//   keep, fill     Where(keep, scores, fill); Where(keep, 0, fill) added, if fill <= −1e30 (then
//                  scores + fill equals fill in f64 and f32); several masks if their fills are
//                  equal
//                  scores·b + fill·(1 − b), b of 0 and 1
//   causal         a mask proven to be j <= i + (Sk − Sq) (index.h); an added triangle of c <= −1e8
//                  if it is the only term: the diagonal bounds every row's maximum, so exp(c) is 0
//   rotary         q and k both as x·cos + rotate_half(x)·sin with the same tables
//   zero_nan_rows  Where(IsNaN(p), 0, p)
//   positions      GatherElements(x, index) of queries [B, H, Sq, P], and Transpose(…) of keys
//                  [B, H, Sk, P], if index is a function of i − j (relative_index.h); then also
//   keep_queries      a mask [B, 1, Sq, 1], and its product with one of keys
//   zero_hidden_rows  Where(keep, p, 0), with the fill −inf in place of one <= −1e30
//   requires: softmax over the last axis; probabilities and scores not used elsewhere; no bias
//     added after a mask unless its fill is −inf, or <= −1e30 (then the mask becomes a bias too)
#include "passes/attention.h"

#include <algorithm>
#include <cmath>

#include "passes/attention_parts.h"
#include "passes/canonicalise.h"
#include "passes/passes.h"
#include "passes/relative_index.h"

namespace vernier::passes {
namespace {

using enum OpKind;

void collect_parts(const Graph& graph, const AttentionMatch& m, OriginSet& origins) {
  const ValueId below_probs[] = {m.probs};
  const ValueId below_scores[] = {m.scores};
  const ValueId operands[] = {m.q, m.k_transposed, m.v};
  const auto positions = {m.query_positions, m.key_positions};
  origins.add_value(graph, m.scores, "scores");
  origins.add_value(graph, m.probs, "probs");
  origins.add_value(graph, m.out, "context");
  OriginSet guards, masks, scales;
  std::vector<ValueId> stop(std::begin(below_probs), std::end(below_probs));
  stop.push_back(m.v);
  if (m.zeroed) stop.push_back(m.zeroed->value);
  collect_origins(graph, m.out, stop, guards);
  stop.assign(std::begin(below_scores), std::end(below_scores));
  for (const ScoreTerm& term : m.terms) stop.push_back(term.value);
  for (const auto& term : positions) {
    if (term) stop.insert(stop.end(), {term->positions, term->index});
  }
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

// MatMul(x, Expand(w)) as MatMul(x, w), if w is one for all of a batch.
ValueId without_batch(Graph& graph, ValueId product) {
  const Node* n = producer_of(graph, product, kMatMul);
  const Node* expand = n ? producer_of(graph, n->inputs[1], kExpand) : nullptr;
  if (!expand) return product;
  const SymShape &x = shape_of(graph, n->inputs[0]), &wide = shape_of(graph, n->inputs[1]),
                 &own = shape_of(graph, expand->inputs[0]);
  const bool batch_only = x.size() == wide.size() && wide.size() == own.size() && x[0] == wide[0] &&
                          own[0] == Dim(1) &&
                          std::equal(own.begin() + 1, own.end(), wide.begin() + 1);
  if (!batch_only) return product;
  return ops::emit(graph, kMatMul, {n->inputs[0], expand->inputs[0]}, NoAttrs{},
                   std::vector<Origin>(n->origins));
}

// [B, S, H, P] of positions in the axes of the scores, or of their products; times factor / scale.
ValueId position_rows(Graph& graph, const AttentionMatch& m, const PositionTerm& term,
                      const HeadSplit& heads, const OriginSet& origins) {
  ValueId product = term.positions;
  const Node* view = producer_of(graph, product, kReshape);
  if (view && rank_of(graph, view->inputs[0]) == 4 && graph.single_use(product) &&
      producer_of(graph, view->inputs[0], kMatMul))
    product = view->inputs[0];
  product = without_batch(graph, product);
  const SymShape s = shape_of(graph, product);
  const ValueId split = emit_reshape(
      graph, product, {heads.batch, heads.heads, s[s.size() - 2], s.back()}, origins.list());
  ValueId rows = transposed(graph, split, {0, 2, 1, 3}, origins);
  if (term.factor == m.scale) return rows;
  const ValueId c = add_scalar(graph, dtype_of(graph, rows), term.factor / m.scale);
  return ops::emit(graph, kMul, {rows, c}, NoAttrs{}, origins.list());
}

// The lists of buckets, if both indices are functions of i − j.
struct FoundPositions {
  std::optional<RelativeIndex> query, key;
};
std::optional<FoundPositions> find_positions(const Graph& graph, const AttentionMatch& m) {
  FoundPositions found;
  const auto find = [&](const std::optional<PositionTerm>& term,
                        std::optional<RelativeIndex>& index) {
    if (!term) return true;
    const auto size = shape_of(graph, term->positions).back().as_constant();
    if (size) index = RelativeIndex::find(graph, term->index, *size);
    return index.has_value();
  };
  const bool scaled = m.scale != 0 && std::isfinite(m.scale);
  if ((m.query_positions || m.key_positions) && !scaled) return std::nullopt;
  if (!find(m.query_positions, found.query) || !find(m.key_positions, found.key))
    return std::nullopt;
  return found;
}

bool replace_attention(Graph& graph, const AttentionMatch& m, BucketLists& lists) {
  const int64_t rank = rank_of(graph, m.scores);
  const auto found = find_positions(graph, m);
  if (!found) return false;
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
  const Dim keys = shape_of(graph, m.scores).back();
  const Dim distances = keys + shape_of(graph, m.scores)[static_cast<size_t>(rank) - 2];

  ValueId q = m.q, k = untransposed_key(graph, m.k_transposed, origins.list());
  const auto rotary = match_rotary(graph, q, k);
  std::vector<ValueId> inputs{kNoValue, kNoValue, kNoValue, bias, keep};
  AttentionAttrs attrs;
  attrs.scale = m.scale;
  attrs.causal = masks->causal;
  attrs.fill = masks->fill;
  attrs.zero_nan_rows = m.zero_nan_rows;
  attrs.zero_hidden_rows = masks->zero_hidden_rows;
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
  inputs.resize(AttentionAttrs::kKeepQueries + 1, kNoValue);
  using enum AttentionAttrs::Input;
  const bool both = m.query_positions && m.key_positions && distances == keys + keys;
  const auto buckets = [&](const RelativeIndex& index, bool backwards) {
    return both ? lists.get(graph, index, keys, backwards)
                : lists.get(graph, index, keys, distances, backwards);
  };
  if (m.query_positions) {
    inputs[kQueryPositions] = position_rows(graph, m, *m.query_positions, heads, origins);
    inputs[kQueryBuckets] = buckets(*found->query, false);
  }
  if (m.key_positions) {
    inputs[kKeyPositions] = position_rows(graph, m, *m.key_positions, heads, origins);
    inputs[kKeyBuckets] = buckets(*found->key, true);
  }
  inputs[kKeepQueries] = split_mask(graph, masks->keep_queries, rank, heads, origins);
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
  BucketLists lists;
  for (NodeId id : std::vector<NodeId>(graph.order())) {
    if (!is_live(graph, id) || graph.node(id).apart) continue;
    const auto match = match_attention(graph, id);
    if (match && replace_attention(graph, *match, lists)) ++found;
  }
  return found;
}

}  // namespace vernier::passes
