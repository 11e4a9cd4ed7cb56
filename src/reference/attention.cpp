// FP64 evaluator of Attention: blocks of queries against all keys of their sequence.
// Contract: AttentionAttrs in core/attrs.h, core/evaluator.h; rounding points q k v (after rotary),
// scores (scaled, with bias, before masking), probs (in the form of PointRounding::scale), context
// (the weighted mean of v), out. Both products use the accumulator; scaling, bias, exponentials and
// their sum are inner results.
#include <algorithm>
#include <cmath>

#include "core/attrs.h"
#include "reference/elementwise.h"
#include "reference/matmul.h"
#include "reference/parts.h"
#include "reference/round_each.h"
#include "reference/vector_math.h"

namespace vernier::reference {
namespace {

enum Point : size_t { kQ, kK, kV, kScores, kProbs, kContext, kOut };
using Input = AttentionAttrs::Input;
constexpr int64_t kQueryBlock = 64;  // rows of scores in memory at once

// A tensor broadcast to [batch, heads, queries, keys], read by position.
struct Broadcast4 {
  const EvalTensor* tensor = nullptr;
  Shape strides;
  size_t at(int64_t b, int64_t h, int64_t i, int64_t j) const {
    return static_cast<size_t>(b * strides[0] + h * strides[1] + i * strides[2] + j * strides[3]);
  }
};

// Consecutive rows of one batch item: queries [q_begin, q_end) see keys [k_begin, k_end).
struct Sequence {
  int64_t batch, q_begin, q_end, k_begin, k_end;
};

struct Problem {
  const EvalCall& call;
  AttentionAttrs attrs;
  const EvalTensor &q, &k, &v;
  int64_t heads, kv_heads, head_dim, value_dim;
  Broadcast4 bias, keep, keep_queries;

  const EvalTensor* optional(size_t n) const { return call.in.size() > n ? call.in[n] : nullptr; }
};

Broadcast4 broadcast4(const EvalTensor* tensor, const Shape& scores) {
  if (!tensor) return {};
  return {tensor, broadcast_strides(tensor->shape, scores)};
}

Problem make_problem(const EvalCall& call) {
  const EvalTensor &q = *call.in[0], &k = *call.in[1], &v = *call.in[2];
  require_float("Attention", q);
  Problem p{call,       decode<AttentionAttrs>(call.attrs),
            q,          k,
            v,          q.shape[2],
            k.shape[2], q.shape[3],
            v.shape[3], {},
            {},         {}};
  const Shape scores{q.shape[0], p.heads, q.shape[1], k.shape[1]};
  if (p.attrs.bias_in_sequence) {
    const int64_t longest = p.optional(9)->shape[1];
    p.bias = broadcast4(p.optional(3), {1, p.heads, longest, longest});
  } else {
    p.bias = broadcast4(p.optional(3), scores);
  }
  p.keep = broadcast4(p.optional(4), scores);
  p.keep_queries =
      broadcast4(p.optional(Input::kKeepQueries), {q.shape[0], p.heads, q.shape[1], 1});
  return p;
}

// Do places within a sequence say where a bias or scores by relative position are read?
bool reads_places(const Problem& p) {
  return p.attrs.bias_in_sequence || p.optional(Input::kQueryBuckets) ||
         p.optional(Input::kKeyBuckets);
}

// Each bucket is an element of its positions.
void check_buckets(const EvalTensor* buckets, const EvalTensor* positions, const char* name) {
  if (!buckets) return;
  const int64_t size = positions->shape[3];
  for (int64_t bucket : buckets->i) {
    if (bucket >= 0 && bucket < size) continue;
    throw Error(ErrorCode::kInput, std::string("Attention: ") + name + " has " +
                                       std::to_string(bucket) + ", allowed is 0 to " +
                                       std::to_string(size - 1));
  }
}

// Checks one table of sequence starts: n+1 ascending numbers from 0 to at most `rows`.
void check_starts(const EvalTensor& starts, int64_t rows, const char* name) {
  const std::vector<int64_t>& s = starts.i;
  const bool good =
      !s.empty() && s.front() == 0 && std::is_sorted(s.begin(), s.end()) && s.back() <= rows;
  if (good) return;
  throw Error(ErrorCode::kInput, std::string("Attention: ") + name +
                                     " must ascend from 0 to at most " + std::to_string(rows));
}

// What is read by places within a sequence has no more places than the longest may have.
void check_longest(const Problem& p, const Sequence& s) {
  const int64_t longest = p.optional(9)->shape[1],
                most = std::max(s.q_end - s.q_begin, s.k_end - s.k_begin);
  if (most <= longest) return;
  throw Error(ErrorCode::kInput, "Attention: a sequence has " + std::to_string(most) +
                                     " rows, and its places at most " + std::to_string(longest));
}

// One sequence per batch item, or those of cu_seqlens.
std::vector<Sequence> sequences_of(const Problem& p) {
  const EvalTensor *starts_q = p.optional(5), *starts_k = p.optional(6);
  const int64_t queries = p.q.shape[1], keys = p.k.shape[1];
  std::vector<Sequence> sequences;
  if (!starts_q || !starts_k) {
    for (int64_t b = 0; b < p.q.shape[0]; ++b) sequences.push_back({b, 0, queries, 0, keys});
    return sequences;
  }
  check_starts(*starts_q, queries, "cu_seqlens_q");
  check_starts(*starts_k, keys, "cu_seqlens_k");
  if (starts_q->i.size() != starts_k->i.size()) {
    throw Error(ErrorCode::kInput, "Attention: cu_seqlens_q and cu_seqlens_k differ in length: " +
                                       std::to_string(starts_q->i.size()) + " and " +
                                       std::to_string(starts_k->i.size()));
  }
  for (size_t n = 0; n + 1 < starts_q->i.size(); ++n) {
    sequences.push_back(
        {0, starts_q->i[n], starts_q->i[n + 1], starts_k->i[n], starts_k->i[n + 1]});
    if (reads_places(p)) check_longest(p, sequences.back());
  }
  return sequences;
}

// Rotates one row of q or k in place. Pairs are (2i, 2i+1) interleaved, else (i, i + D/2); a table
// of width D/2 serves both elements of a pair.
//   y[lo] = x[lo]·cos[lo] − x[hi]·sin[lo]     y[hi] = x[hi]·cos[hi] + x[lo]·sin[hi]
void rotate_row(std::span<double> x, const double* cos, const double* sin, size_t table_width,
                bool interleaved) {
  const size_t half = x.size() / 2;
  const bool full = table_width == x.size();
  for (size_t i = 0; i < half; ++i) {
    const size_t lo = interleaved ? 2 * i : i, hi = interleaved ? 2 * i + 1 : i + half;
    const size_t at_lo = full ? lo : i, at_hi = full ? hi : i;
    const double a = x[lo], b = x[hi];
    x[lo] = a * cos[at_lo] - b * sin[at_lo];
    x[hi] = b * cos[at_hi] + a * sin[at_hi];
  }
}

// Rows [begin, end) of one head of q, k or v as a dense matrix [rows, width], rotated if asked and
// rounded at `point`.
struct HeadRows {
  int64_t batch, head, begin, end;
  size_t point;
};
std::vector<double> gather_head(const Problem& p, const EvalTensor& x, const HeadRows& rows) {
  const int64_t heads = x.shape[2], width = x.shape[3];
  const EvalTensor *cos = p.optional(7), *sin = p.optional(8);
  const bool rotary = cos && sin && rows.point != kV;
  Shape strides;
  if (rotary) {
    const Shape positions{x.shape[0], x.shape[1], 1};
    strides = broadcast_strides(std::span(cos->shape).first(cos->rank() - 1), positions);
    for (int64_t& s : strides) s *= cos->shape.back();
  }
  std::vector<double> result(static_cast<size_t>((rows.end - rows.begin) * width));
  for (int64_t s = rows.begin; s < rows.end; ++s) {
    const double* src = x.f.data() + ((rows.batch * x.shape[1] + s) * heads + rows.head) * width;
    const auto row = std::span(result).subspan((s - rows.begin) * width, width);
    std::copy_n(src, width, row.begin());
    if (rotary) {
      const int64_t at = rows.batch * strides[0] + s * strides[1];
      rotate_row(row, cos->f.data() + at, sin->f.data() + at,
                 static_cast<size_t>(cos->shape.back()), p.attrs.rotary_interleaved);
    }
  }
  round_each(p.call.rounding, rows.point, result);
  return result;
}

// True if the bias and the masks add −inf for every key.
template <class IsMasked>
bool hides_all(const double* bias, int64_t bias_step, int64_t keys, const IsMasked& is_masked) {
  for (int64_t j = 0; j < keys; ++j) {
    double added = bias ? bias[j * bias_step] : 0;
    if (is_masked(j)) added -= HUGE_VAL;
    if (added != -HUGE_VAL) return false;
  }
  return true;
}

// Adds what relative positions say of one row of raw dot products.
void add_positions(const Problem& p, const Sequence& s, int64_t head, int64_t query,
                   std::span<double> row) {
  const EvalTensor *by_query = p.optional(Input::kQueryPositions),
                   *by_key = p.optional(Input::kKeyPositions), *places = p.optional(Input::kPlaces);
  if (!by_query && !by_key) return;
  const int64_t zero = places ? places->shape[1] : p.k.shape[1];  // the bucket of i − j = 0
  const auto element = [&](const EvalTensor& positions, int64_t token, int64_t bucket) {
    const int64_t at = ((s.batch * positions.shape[1] + token) * p.heads + head);
    return positions.f[static_cast<size_t>(at * positions.shape[3] + bucket)];
  };
  const auto keys = static_cast<int64_t>(row.size());
  for (int64_t j = 0; j < keys; ++j) {
    const auto at = static_cast<size_t>(query - s.q_begin - j + zero);
    double added = 0;
    if (by_query) added += element(*by_query, query, p.optional(Input::kQueryBuckets)->i[at]);
    if (by_key) added += element(*by_key, s.k_begin + j, p.optional(Input::kKeyBuckets)->i[at]);
    row[j] += added;
  }
  round_inner_each(p.call.rounding, row);
}

// Scales, biases, rounds and masks one row of raw dot products. True if the masks add and hide
// every key, or if keep does and its rows are 0.
bool finish_scores(const Problem& p, const Sequence& s, int64_t head, int64_t query,
                   std::span<double> row) {
  const auto keys = static_cast<int64_t>(row.size());
  const int64_t last_seen = (query - s.q_begin) + (s.k_end - s.k_begin) - (s.q_end - s.q_begin);
  const double scale = p.attrs.scale;
  add_positions(p, s, head, query, row);
  for (double& score : row) score *= scale;
  round_inner_each(p.call.rounding, row);
  const double* bias = p.bias.tensor ? p.bias.tensor->f.data() : nullptr;
  const int64_t bias_step = bias ? p.bias.strides[3] : 0;
  if (bias) {
    bias += p.attrs.bias_in_sequence ? p.bias.at(0, head, query - s.q_begin, 0)
                                     : p.bias.at(s.batch, head, query, s.k_begin);
    for (int64_t j = 0; j < keys; ++j) row[j] += bias[j * bias_step];
    round_inner_each(p.call.rounding, row);
  }
  round_each(p.call.rounding, kScores, row);
  const int64_t* keep = p.keep.tensor ? p.keep.tensor->i.data() : nullptr;
  const int64_t keep_step = keep ? p.keep.strides[3] : 0;
  if (keep) keep += p.keep.at(s.batch, head, query, s.k_begin);
  const Broadcast4& queries = p.keep_queries;
  const bool keeps_query =
      !queries.tensor || queries.tensor->i[queries.at(s.batch, head, query, 0)] != 0;
  // Keys from here on are hidden, whatever keep says of them.
  const int64_t seen = p.attrs.causal ? std::clamp<int64_t>(last_seen + 1, 0, keys) : keys;
  const auto hide = [&](double& score) {
    score = p.attrs.masks_add ? score - HUGE_VAL : p.attrs.fill;
  };
  const int64_t kept = keeps_query ? seen : 0;
  if (keep && keep_step == 1) {
    const auto some = row.first(static_cast<size_t>(kept));
    if (p.attrs.masks_add)
      add_to_hidden(some, keep, -HUGE_VAL);
    else
      replace_hidden(some, keep, p.attrs.fill);
  } else if (keep) {
    for (int64_t j = 0; j < kept; ++j) {
      if (keep[j * keep_step] == 0) hide(row[j]);
    }
  }
  std::for_each(row.begin() + kept, row.end(), hide);
  const auto keep_hides = [&](int64_t j) {
    return !keeps_query || (keep && keep[j * keep_step] == 0);
  };
  if (p.attrs.zero_hidden_rows && hides_all(nullptr, 0, keys, keep_hides)) return true;
  return p.attrs.masks_add &&
         hides_all(bias, bias_step, keys, [&](int64_t j) { return j >= seen || keep_hides(j); });
}

// row = exp(row − max) in the type of inner results.
void exponentials(const Rounding& rounding, std::span<double> row, double max) {
  for (double& v : row) v -= max;
  round_inner_each(rounding, row);
  exp_each(row.data(), row.data(), std::ssize(row));
  round_inner_each(rounding, row);
}

// row = exp(row − max), rounded if the point "probs" is unnormalized; returns the sum by which P·V
// must be divided.
double exponentiate(const Problem& p, std::span<double> row, double max) {
  using Scale = PointRounding::Scale;
  const Rounding& rounding = p.call.rounding;
  const Scale scale = rounding.at(kProbs).scale;
  const auto sum = [&] {
    if (Sum::is_exact(rounding.inner())) return sum_of(row);
    return carried_sum(rounding.inner(), row, [](double v) { return v; });
  };
  exponentials(rounding, row, max);
  const double unrounded = scale == Scale::kUnnormalisedRoundedSum ? 0 : sum();
  if (scale != Scale::kNormalised) round_each(rounding, kProbs, row);
  return scale == Scale::kUnnormalisedRoundedSum ? sum() : unrounded;
}
// row = exp(row − max) for a point "probs" that uses the largest score up to the end of each block
// of keys, rescaled to the final max. Returns the sum before rounding.
double exponentiate_blocks(const Problem& p, std::span<double> row, double max) {
  const Rounding& rounding = p.call.rounding;
  const int64_t block = rounding.at(kProbs).block;
  const auto keys = static_cast<int64_t>(row.size());
  Sum sum(rounding.inner());
  std::vector<double> against_all;
  double top = -HUGE_VAL;
  for (int64_t begin = 0; begin < keys; begin += block) {
    const auto part = row.subspan(begin, std::min(block, keys - begin));
    top = std::max(top, largest_of(part));
    // While all keys so far are hidden with −inf, their probability is 0.
    const double base = top == -HUGE_VAL ? 0 : top;
    const double to_final = top == -HUGE_VAL ? 1 : std::exp(base - max);
    against_all.assign(part.begin(), part.end());
    exponentials(rounding, against_all, max);
    for (double v : against_all) sum.add(v);
    exponentials(rounding, part, base);
    round_each(rounding, kProbs, part);
    for (double& v : part) v *= to_final;
  }
  return sum.value();
}

// row = softmax(row), returns 1; or if the point "probs" is unnormalized, row = exp(row − max),
// returns the sum by which P·V must be divided. A row that is all −inf gives NaN, or 0 with
// zero_nan_rows.
double softmax_row(const Problem& p, std::span<double> row) {
  using Scale = PointRounding::Scale;
  const Rounding& rounding = p.call.rounding;
  const Scale scale = rounding.at(kProbs).scale;
  const double top = largest_of(row);
  const int64_t block = rounding.at(kProbs).block;
  const bool in_blocks = scale == Scale::kUnnormalised && block > 0 && top > -HUGE_VAL;
  const double total = in_blocks ? exponentiate_blocks(p, row, top) : exponentiate(p, row, top);
  if (p.attrs.zero_nan_rows && std::isnan(total)) {
    std::fill(row.begin(), row.end(), 0.0);
    return 1;
  }
  if (scale != Scale::kNormalised) return total;
  divide_each(row, total);
  round_each(rounding, kProbs, row);
  return 1;
}

void attend(const Problem& p, const Sequence& s, int64_t head) {
  const int64_t kv_head = head / (p.heads / p.kv_heads);
  const int64_t keys = s.k_end - s.k_begin;
  const std::vector<double> k = gather_head(p, p.k, {s.batch, kv_head, s.k_begin, s.k_end, kK});
  const std::vector<double> v = gather_head(p, p.v, {s.batch, kv_head, s.k_begin, s.k_end, kV});
  std::vector<double> keys_by_dim(k.size());
  transpose(keys, p.head_dim, k.data(), keys_by_dim.data());
  for (int64_t begin = s.q_begin; begin < s.q_end; begin += kQueryBlock) {
    const int64_t rows = std::min(kQueryBlock, s.q_end - begin);
    const std::vector<double> q = gather_head(p, p.q, {s.batch, head, begin, begin + rows, kQ});
    std::vector<double> scores(static_cast<size_t>(rows * keys), 0.0);
    multiply_add({rows, keys, p.head_dim}, q.data(), keys_by_dim.data(), scores.data(),
                 p.call.rounding.accumulator());
    std::vector<double> divisors(static_cast<size_t>(rows));
    for (int64_t i = 0; i < rows; ++i) {
      const auto row = std::span(scores).subspan(i * keys, keys);
      const bool all_hidden = finish_scores(p, s, head, begin + i, row);
      double& divisor = divisors[i] = softmax_row(p, row);
      if (!all_hidden) continue;
      std::fill(row.begin(), row.end(), 0.0);
      divisor = 1;
    }
    std::vector<double> context(static_cast<size_t>(rows * p.value_dim), 0.0);
    multiply_add({rows, p.value_dim, keys}, scores.data(), v.data(), context.data(),
                 p.call.rounding.accumulator());
    for (int64_t i = 0; i < rows; ++i) {
      const auto row = std::span(context).subspan(i * p.value_dim, p.value_dim);
      const double divisor = divisors[i];
      divide_each(row, divisor);
      round_each(p.call.rounding, kContext, row);
      round_each(p.call.rounding, kOut, row);
      const int64_t to = ((s.batch * p.q.shape[1] + begin + i) * p.heads + head) * p.value_dim;
      std::ranges::copy(row, p.call.out[0].f.begin() + to);
    }
  }
}

}  // namespace

void eval_attention(const EvalCall& call) {
  const Problem whole = make_problem(call);
  check_buckets(whole.optional(Input::kQueryBuckets), whole.optional(Input::kQueryPositions),
                "query_buckets");
  check_buckets(whole.optional(Input::kKeyBuckets), whole.optional(Input::kKeyPositions),
                "key_buckets");
  const std::vector<Sequence> sequences = sequences_of(whole);
  const auto heads = static_cast<int64_t>(sequences.size()) * whole.heads;
  in_rounded_parts(call, heads, 1, [&](const EvalCall& part, int64_t begin, int64_t end) {
    const Problem p = make_problem(part);
    for (int64_t i = begin; i < end; ++i) attend(p, sequences[i / p.heads], i % p.heads);
  });
}

}  // namespace vernier::reference
