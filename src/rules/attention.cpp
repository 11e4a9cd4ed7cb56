// Inference and cost of Attention. Contract: AttentionAttrs in core/attrs.h, context.h, rules.h.
#include <algorithm>

#include "rules/checks.h"

namespace vernier::rules {
namespace {

void check_heads(InferContext& context, const SymShape& q, const SymShape& k, const SymShape& v) {
  context.unify(q[0], k[0]);
  context.unify(q[0], v[0]);
  context.unify(k[1], v[1]);
  context.unify(k[2], v[2]);
  context.unify(q[3], k[3]);
  if (!q[2].is_constant() || !k[2].is_constant()) {
    context.unify(q[2], k[2]);
    return;
  }
  if (k[2] == Dim(0) || mod(q[2], k[2]) != Dim(0)) {
    context.fail(q[2].str() + " query heads are not a multiple of " + k[2].str() +
                 " key and value heads");
  }
}

void check_cu_seqlens(InferContext& context, const Dim& batch) {
  if (context.has_input(5) != context.has_input(6))
    context.fail("cu_seqlens_q and cu_seqlens_k must both be given or both be absent");
  if (!context.has_input(5)) return;
  for (size_t i = 5; i <= 6; ++i) {
    require_rank(context, i, 1);
    if (!is_integer(context.dtype(i)))
      context.fail("input " + std::to_string(i) + " must hold integers");
  }
  require_same_type(context, 6, 5);
  context.unify(context.shape(5)[0], context.shape(6)[0]);
  context.require_at_most(1, context.shape(5)[0]);
  context.unify(batch, 1);
}

void check_places(InferContext& context) {
  if (!context.has_input(9)) return;
  if (!context.has_input(5)) context.fail("input 9, the places of sequences, needs cu_seqlens");
  require_integer(context, 9);
  require_rank(context, 9, 2);
  context.require_equal(context.shape(9)[0] + Dim(1), context.shape(5)[0]);
}

// Scores by relative position, and the buckets that they are read at.
void check_positions(InferContext& context) {
  using enum AttentionAttrs::Input;
  const SymShape q = context.shape(kQ), k = context.shape(kK);
  struct Term {
    size_t positions, buckets;
    const SymShape& rows;  // of q or k
  };
  for (const Term& term :
       {Term{kQueryPositions, kQueryBuckets, q}, {kKeyPositions, kKeyBuckets, k}}) {
    if (context.has_input(term.positions) != context.has_input(term.buckets))
      context.fail("positions and their buckets must both be given or both be absent");
    if (!context.has_input(term.positions)) continue;
    if (context.attrs<AttentionAttrs>().masks_add)
      context.fail("scores by relative position need masks that replace scores");
    if (context.has_input(kStartsQ) && !context.has_input(kPlaces))
      context.fail("the positions of sequences need input 9, the places of sequences");
    require_float(context, term.positions);
    require_rank(context, term.positions, 4);
    const SymShape positions = context.shape(term.positions);
    context.unify(positions[0], term.rows[0]);
    context.unify(positions[1], term.rows[1]);
    context.unify(positions[2], q[2]);
    require_signed_index(context, term.buckets);
    require_rank(context, term.buckets, 1);
    const Dim count = context.has_input(kPlaces) ? context.shape(kPlaces)[1] * Dim(2) : q[1] + k[1];
    context.require_equal(context.shape(term.buckets)[0], count);
  }
}

void check_keep_queries(InferContext& context) {
  using enum AttentionAttrs::Input;
  if (!context.has_input(kKeepQueries)) return;
  if (context.dtype(kKeepQueries) != DType::kBool)
    context.fail("the mask of queries in input 14 must be bool");
  const SymShape q = context.shape(kQ);
  require_fits(context, kKeepQueries, SymShape{q[0], q[2], q[1], Dim(1)});
}

// Tables [.., S, 1, D or D/2] that fit both q and k.
void check_rotary(InferContext& context) {
  if (context.has_input(7) != context.has_input(8))
    context.fail("the rotary tables cos and sin must both be given or both be absent");
  if (!context.has_input(7)) return;
  for (size_t i : {size_t{7}, size_t{8}}) require_float(context, i);
  const SymShape cos = context.shape(7), sin = context.shape(8);
  const Dim width = context.shape(0)[3];
  if (cos.empty() || cos.size() != sin.size())
    context.fail("the rotary tables have shapes " + str(cos) + " and " + str(sin) +
                 ", expected the same rank of at least 1");
  for (size_t i = 0; i < cos.size(); ++i) context.unify(cos[i], sin[i]);
  if (cos.back() != width && cos.back() * Dim(2) != width) {
    context.fail("the rotary tables of shape " + str(cos) + " must have width " + width.str() +
                 " or half of it");
  }
  for (size_t i : {size_t{0}, size_t{1}}) {
    SymShape positions{context.shape(i)[0], context.shape(i)[1], Dim(1), cos.back()};
    require_fits(context, 7, positions);
  }
}

}  // namespace

void infer_attention(InferContext& context) {
  for (size_t i = 0; i < 3; ++i) {
    require_rank(context, i, 4);
    require_float(context, i);
    require_same_type(context, i);
  }
  const SymShape q = context.shape(0), k = context.shape(1), v = context.shape(2);
  check_heads(context, q, k, v);
  const SymShape scores{q[0], q[2], q[1], k[1]};
  const bool in_sequence = context.attrs<AttentionAttrs>().bias_in_sequence;
  if (in_sequence && !context.has_input(9))
    context.fail("a bias by places within sequences needs input 9, the places of sequences");
  if (in_sequence) require_rank(context, 9, 2);
  if (context.has_input(3)) {
    require_float(context, 3);
    const Dim longest = in_sequence ? context.shape(9)[1] : Dim(1);
    require_fits(context, 3, in_sequence ? SymShape{Dim(1), q[2], longest, longest} : scores);
  }
  if (context.has_input(4)) {
    if (context.dtype(4) != DType::kBool) context.fail("the keep mask in input 4 must be bool");
    require_fits(context, 4, scores);
  }
  check_cu_seqlens(context, q[0]);
  check_places(context);
  check_rotary(context);
  check_positions(context);
  check_keep_queries(context);
  context.set_output(0, context.dtype(0), {q[0], q[1], q[2], v[3]});
}

// Both products over all queries and keys, and per score: scale, exp, subtract, sum, divide. With
// cu_seqlens the sequences count as equally long.
Cost cost_attention(const CostCall& call) {
  const Shape &q = call.in[0], &k = call.in[1], &v = call.in[2];
  double pairs = 1;  // each factor may be large where another size is 0
  for (int64_t size : {q[0], q[2], q[1], k[1]}) pairs *= static_cast<double>(size);
  constexpr size_t kStarts = 5;
  if (call.in.size() > kStarts && call.in[kStarts].size() == 1)
    pairs /= static_cast<double>(std::max<int64_t>(1, call.in[kStarts][0] - 1));
  return {pairs * (2 * static_cast<double>(q[3] + v[3]) + 5), tensor_bytes(call)};
}

}  // namespace vernier::rules
