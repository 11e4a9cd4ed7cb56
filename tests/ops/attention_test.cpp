// Attention's evaluator against a composition of MatMul, Softmax and friends on random data, for
// every variant of its contract (AttentionAttrs in core/attrs.h), and against itself for variable
// lengths.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <complex>

#include "core/attrs.h"
#include "ops/eval_node.h"

namespace vernier::test {
namespace {

using ::testing::HasSubstr;
constexpr double kInf = HUGE_VAL;

enum class Rotary { kNone, kHalfSplit, kInterleaved };

struct Variant {
  std::string name;
  int64_t batch = 2, queries = 5, keys = 7, heads = 4, kv_heads = 4, head_dim = 6, value_dim = 3;
  Shape bias = {}, keep = {};  // empty: absent
  bool causal = false, zero_nan_rows = false, masks_add = false, mask_a_whole_row = false;
  // The first element of these inputs, and the last key, are NaN.
  bool nan_in_q = false, nan_in_k = false, nan_in_v = false;
  double fill = -kInf;
  Rotary rotary = Rotary::kNone;
  int64_t table_width = 6;
};
void PrintTo(const Variant& v, std::ostream* out) { *out << v.name; }

struct Inputs {
  EvalTensor q, k, v, bias, keep, cos, sin;
};

Inputs make_inputs(const Variant& v) {
  Inputs in;
  in.q = random_tensor({v.batch, v.queries, v.heads, v.head_dim}, 1);
  in.k = random_tensor({v.batch, v.keys, v.kv_heads, v.head_dim}, 2);
  in.v = random_tensor({v.batch, v.keys, v.kv_heads, v.value_dim}, 3);
  if (!v.bias.empty()) in.bias = random_tensor(v.bias, 4);
  if (!v.keep.empty()) {
    in.keep = EvalTensor(DType::kBool, v.keep);
    const EvalTensor draw = random_tensor(v.keep, 5);
    for (size_t i = 0; i < draw.f.size(); ++i) in.keep.i[i] = draw.f[i] > -0.5;
    const auto row = static_cast<size_t>(v.keep.back());
    if (v.mask_a_whole_row) std::fill_n(in.keep.i.begin(), row, 0);
  }
  if (v.mask_a_whole_row && v.keep.empty())
    std::fill_n(in.bias.f.begin(), static_cast<size_t>(v.bias.back()), -kInf);
  if (v.nan_in_q) in.q.f.front() = NAN;
  if (v.nan_in_k) in.k.f.front() = in.k.f.back() = NAN;
  if (v.nan_in_v) in.v.f.front() = NAN;
  if (v.rotary == Rotary::kNone) return in;
  in.cos = EvalTensor(DType::kF64, {v.queries, 1, v.table_width});
  in.sin = in.cos;
  for (int64_t s = 0; s < v.queries; ++s) {
    for (int64_t j = 0; j < v.table_width; ++j) {
      const int64_t half = v.head_dim / 2;
      const int64_t pair = v.table_width == half              ? j
                           : v.rotary == Rotary::kInterleaved ? j / 2
                                                              : j % half;
      const double angle = static_cast<double>(s) * std::pow(10.0, -static_cast<double>(pair));
      in.cos.f[static_cast<size_t>(s * v.table_width + j)] = std::cos(angle);
      in.sin.f[static_cast<size_t>(s * v.table_width + j)] = std::sin(angle);
    }
  }
  return in;
}

// Rotary as a product of complex numbers: (x_lo + i·x_hi)·exp(i·angle).
EvalTensor rotated(const Variant& v, EvalTensor x) {
  if (v.rotary == Rotary::kNone) return x;
  const int64_t heads = x.shape[2], width = x.shape[3], half = width / 2;
  for (int64_t row = 0; row < x.shape[0] * x.shape[1] * heads; ++row) {
    const auto position = static_cast<double>(row / heads % x.shape[1]);
    for (int64_t pair = 0; pair < half; ++pair) {
      const bool interleaved = v.rotary == Rotary::kInterleaved;
      double& lo = x.f[static_cast<size_t>(row * width + (interleaved ? 2 * pair : pair))];
      double& hi =
          x.f[static_cast<size_t>(row * width + (interleaved ? 2 * pair + 1 : pair + half))];
      const double angle = position * std::pow(10.0, -static_cast<double>(pair));
      const std::complex<double> turned = std::complex<double>(lo, hi) * std::polar(1.0, angle);
      lo = turned.real();
      hi = turned.imag();
    }
  }
  return x;
}

// [B, S, Hk, D] to [B, H, S, D], every key head serving H / Hk query heads.
EvalTensor by_head(const Variant& v, const EvalTensor& x) {
  std::vector<int64_t> heads;
  for (int64_t h = 0; h < v.heads; ++h) heads.push_back(h * x.shape[2] / v.heads);
  const EvalTensor repeated =
      eval_node(OpKind::kGather, "{axis=2}", {x, integers(DType::kI64, {v.heads}, heads)});
  return eval_node(OpKind::kTranspose, "{perm=[0, 2, 1, 3]}", {repeated});
}

EvalTensor causal_mask(const Variant& v) {
  EvalTensor seen(DType::kBool, {v.queries, v.keys});
  for (int64_t i = 0; i < v.queries; ++i) {
    for (int64_t j = 0; j < v.keys; ++j)
      seen.i[static_cast<size_t>(i * v.keys + j)] = j <= i + v.keys - v.queries;
  }
  return seen;
}

// Probabilities with masks as ONNX Attention has them: everything is added to the scores, and a row
// to which nothing but −inf is added has no probability.
EvalTensor probs_of_added_masks(const Variant& v, const Inputs& in, const EvalTensor& scores) {
  const EvalTensor zero = tensor({}, {0}), lowest = tensor({}, {-kInf});
  EvalTensor added(DType::kF64, {v.queries, v.keys});
  const auto add = [&](const EvalTensor& x) { added = eval_node(OpKind::kAdd, "", {added, x}); };
  if (!v.bias.empty()) add(in.bias);
  if (!v.keep.empty()) add(eval_node(OpKind::kWhere, "", {in.keep, zero, lowest}));
  if (v.causal) add(eval_node(OpKind::kWhere, "", {causal_mask(v), zero, lowest}));
  const EvalTensor most = eval_node(OpKind::kReduceMax, "{axes=[-1]}", {added});
  const EvalTensor hidden = eval_node(OpKind::kEqual, "", {most, lowest});
  const EvalTensor probs =
      eval_node(OpKind::kSoftmax, "{axis=-1}", {eval_node(OpKind::kAdd, "", {scores, added})});
  return eval_node(OpKind::kWhere, "", {hidden, zero, probs});
}

EvalTensor probs_of_filled_masks(const Variant& v, const Inputs& in, EvalTensor scores) {
  if (!v.bias.empty()) scores = eval_node(OpKind::kAdd, "", {scores, in.bias});
  const EvalTensor fill = tensor({}, {v.fill});
  if (!v.keep.empty()) scores = eval_node(OpKind::kWhere, "", {in.keep, scores, fill});
  if (v.causal) scores = eval_node(OpKind::kWhere, "", {causal_mask(v), scores, fill});
  return eval_node(OpKind::kSoftmax, "{axis=-1}", {scores});
}

// out = softmax(mask(scale·q·kᵀ + bias))·v with the plain operators.
EvalTensor compose(const Variant& v, const Inputs& in, double scale) {
  const EvalTensor q = by_head(v, rotated(v, in.q)), k = by_head(v, rotated(v, in.k));
  const EvalTensor k_t = eval_node(OpKind::kTranspose, "{perm=[0, 1, 3, 2]}", {k});
  EvalTensor scores = eval_node(OpKind::kMatMul, "", {q, k_t});
  scores = eval_node(OpKind::kMul, "", {scores, tensor({}, {scale})});
  EvalTensor probs =
      v.masks_add ? probs_of_added_masks(v, in, scores) : probs_of_filled_masks(v, in, scores);
  if (v.zero_nan_rows) {
    const EvalTensor nan = eval_node(OpKind::kIsNaN, "", {probs});
    probs = eval_node(OpKind::kWhere, "", {nan, tensor({}, {0}), probs});
  }
  const EvalTensor context = eval_node(OpKind::kMatMul, "", {probs, by_head(v, in.v)});
  return eval_node(OpKind::kTranspose, "{perm=[0, 2, 1, 3]}", {context});
}

std::string attrs_text(const Variant& v, double scale) {
  AttentionAttrs attrs;
  attrs.scale = scale;
  attrs.causal = v.causal;
  attrs.fill = v.fill;
  attrs.zero_nan_rows = v.zero_nan_rows;
  attrs.masks_add = v.masks_add;
  attrs.rotary_interleaved = v.rotary == Rotary::kInterleaved;
  return print_attrs<AttentionAttrs>(encode(attrs));
}

// Both sides are sums of at most 7 products below 1 in double, in different orders.
void expect_close(const EvalTensor& got, const EvalTensor& expected) {
  ASSERT_EQ(got.shape, expected.shape);
  for (size_t i = 0; i < got.f.size(); ++i) {
    if (std::isnan(expected.f[i]))
      EXPECT_TRUE(std::isnan(got.f[i])) << i;
    else
      EXPECT_NEAR(got.f[i], expected.f[i], 1e-14) << i;
  }
}

class AttentionVariant : public ::testing::TestWithParam<Variant> {};

TEST_P(AttentionVariant, EqualsTheComposition) {
  const Variant& v = GetParam();
  const Inputs in = make_inputs(v);
  const EvalTensor got = eval_node(OpKind::kAttention, attrs_text(v, 0.4),
                                   {in.q, in.k, in.v, in.bias, in.keep, {}, {}, in.cos, in.sin});
  const EvalTensor expected = compose(v, in, 0.4);
  expect_close(got, expected);
  const bool some_nan =
      std::any_of(got.f.begin(), got.f.end(), [](double x) { return std::isnan(x); });
  const bool masked_row_is_nan =
      v.mask_a_whole_row && std::isinf(v.fill) && !v.zero_nan_rows && !v.masks_add;
  const bool scores_have_nan = (v.nan_in_q || v.nan_in_k) && !v.zero_nan_rows;
  EXPECT_EQ(some_nan, masked_row_is_nan || scores_have_nan || v.nan_in_v);
  const bool all_nan =
      std::all_of(got.f.begin(), got.f.end(), [](double x) { return std::isnan(x); });
  EXPECT_FALSE(all_nan);
}

INSTANTIATE_TEST_SUITE_P(
    Attention, AttentionVariant,
    ::testing::Values(
        Variant{.name = "plain"}, Variant{.name = "one_query", .queries = 1},
        Variant{.name = "more_queries_than_a_block", .batch = 1, .queries = 131, .keys = 3},
        Variant{.name = "grouped_heads", .kv_heads = 2},
        Variant{.name = "one_key_head", .kv_heads = 1},
        Variant{.name = "bias_of_all_scores", .bias = {2, 4, 5, 7}},
        Variant{.name = "bias_per_head", .bias = {1, 4, 5, 7}},
        Variant{.name = "bias_of_keys", .bias = {2, 1, 1, 7}},
        Variant{.name = "bias_of_rank_two", .bias = {5, 7}},
        Variant{.name = "keep_keys", .keep = {2, 1, 1, 7}},
        Variant{.name = "keep_scores_with_finite_fill", .keep = {2, 1, 5, 7}, .fill = -1e4},
        Variant{.name = "keep_and_bias", .bias = {1, 4, 5, 7}, .keep = {2, 1, 5, 7}},
        Variant{.name = "whole_row_masked_is_nan", .keep = {2, 1, 5, 7}, .mask_a_whole_row = true},
        Variant{.name = "whole_row_masked_is_zero",
                .keep = {2, 1, 5, 7},
                .zero_nan_rows = true,
                .mask_a_whole_row = true},
        Variant{.name = "whole_row_filled_is_uniform",
                .keep = {2, 1, 5, 7},
                .mask_a_whole_row = true,
                .fill = -3e38},
        Variant{.name = "whole_row_guarded_with_nan_is_zero",
                .keep = {2, 1, 5, 7},
                .zero_nan_rows = true,
                .mask_a_whole_row = true,
                .nan_in_q = true,
                .nan_in_k = true},
        Variant{.name = "added_keep_of_a_whole_row",
                .keep = {2, 1, 5, 7},
                .masks_add = true,
                .mask_a_whole_row = true},
        Variant{.name = "added_keep_of_a_whole_row_with_nan_query",
                .keep = {2, 1, 5, 7},
                .masks_add = true,
                .mask_a_whole_row = true,
                .nan_in_q = true,
                .nan_in_k = true},
        Variant{.name = "added_bias_of_a_whole_row_with_nan",
                .bias = {2, 4, 5, 7},
                .masks_add = true,
                .mask_a_whole_row = true,
                .nan_in_q = true,
                .nan_in_k = true},
        Variant{.name = "added_keep_and_bias_with_nan",
                .bias = {1, 4, 5, 7},
                .keep = {2, 1, 5, 7},
                .masks_add = true,
                .mask_a_whole_row = true,
                .nan_in_k = true,
                .nan_in_v = true},
        Variant{.name = "added_causal_with_nan",
                .queries = 7,
                .causal = true,
                .masks_add = true,
                .nan_in_k = true},
        Variant{.name = "added_causal_and_keep_without_a_first_key",
                .queries = 7,
                .keep = {2, 1, 7, 7},
                .causal = true,
                .masks_add = true,
                .mask_a_whole_row = true},
        Variant{.name = "causal", .queries = 7, .causal = true},
        Variant{.name = "causal_with_past", .queries = 3, .causal = true},
        Variant{.name = "causal_with_keep",
                .queries = 7,
                .keep = {2, 1, 1, 7},
                .causal = true,
                .fill = -1e4},
        Variant{.name = "rotary_half_split", .queries = 7, .rotary = Rotary::kHalfSplit},
        Variant{.name = "rotary_half_split_half_table",
                .queries = 7,
                .rotary = Rotary::kHalfSplit,
                .table_width = 3},
        Variant{.name = "rotary_interleaved", .queries = 7, .rotary = Rotary::kInterleaved},
        Variant{.name = "rotary_interleaved_half_table_grouped",
                .queries = 7,
                .kv_heads = 2,
                .rotary = Rotary::kInterleaved,
                .table_width = 3}),
    [](const auto& row) { return row.param.name; });

EvalTensor rows_of(const EvalTensor& x, int64_t begin, int64_t end) {
  const int64_t row = x.shape[2] * x.shape[3];
  return tensor({1, end - begin, x.shape[2], x.shape[3]},
                {x.f.begin() + begin * row, x.f.begin() + end * row});
}

TEST(Attention, VariableLengthEqualsEachSequenceAlone) {
  const std::vector<int64_t> starts_q{0, 3, 3, 8}, starts_k{0, 4, 6, 11};
  const EvalTensor q = random_tensor({1, 8, 2, 4}, 1), k = random_tensor({1, 11, 2, 4}, 2),
                   v = random_tensor({1, 11, 2, 4}, 3);
  const EvalTensor cu_q = integers(DType::kI32, {4}, starts_q),
                   cu_k = integers(DType::kI32, {4}, starts_k);
  const std::string attrs = "{scale=0.5, causal=true}";
  const EvalTensor packed = eval_node(OpKind::kAttention, attrs, {q, k, v, {}, {}, cu_q, cu_k});
  for (size_t n = 0; n < 3; ++n) {
    const EvalTensor alone = eval_node(
        OpKind::kAttention, attrs,
        {rows_of(q, starts_q[n], starts_q[n + 1]), rows_of(k, starts_k[n], starts_k[n + 1]),
         rows_of(v, starts_k[n], starts_k[n + 1])});
    EXPECT_EQ(rows_of(packed, starts_q[n], starts_q[n + 1]).f, alone.f) << "sequence " << n;
  }
}

TEST(Attention, ABiasInSequenceIsReadAtThePlacesWithinIt) {
  const std::vector<int64_t> starts{0, 3, 3, 8};
  const EvalTensor q = random_tensor({1, 8, 2, 4}, 1), k = random_tensor({1, 8, 2, 4}, 2),
                   bias = random_tensor({1, 2, 6, 6}, 3);
  const EvalTensor cu = integers(DType::kI32, {4}, starts),
                   places = integers(DType::kI32, {3, 6}, std::vector<int64_t>(18, 0));
  const auto packed_with = [&](const EvalTensor& of_places) {
    return eval_node(OpKind::kAttention, "{bias_in_sequence=true}",
                     {q, k, k, bias, {}, cu, cu, {}, {}, of_places});
  };
  const EvalTensor packed = packed_with(places);
  for (size_t n : {size_t{0}, size_t{2}}) {
    const int64_t rows = starts[n + 1] - starts[n];
    EvalTensor part(DType::kF64, {1, 2, rows, rows});
    for (int64_t i = 0; i < part.elems(); ++i) {
      const int64_t head = i / rows / rows, at = head * 36 + i / rows % rows * 6 + i % rows;
      part.f[static_cast<size_t>(i)] = bias.f[static_cast<size_t>(at)];
    }
    const EvalTensor own_q = rows_of(q, starts[n], starts[n + 1]),
                     own_k = rows_of(k, starts[n], starts[n + 1]);
    const EvalTensor alone = eval_node(OpKind::kAttention, "", {own_q, own_k, own_k, part});
    EXPECT_EQ(rows_of(packed, starts[n], starts[n + 1]).f, alone.f) << "sequence " << n;
  }
  EXPECT_ANY_THROW(packed_with(integers(DType::kI32, {3, 4}, std::vector<int64_t>(12, 0))))
      << "a sequence has more rows than places, or the bias more than those";
}

// ---- scores by relative position

EvalTensor buckets(const std::vector<int64_t>& values) {
  return integers(DType::kI64, {static_cast<int64_t>(values.size())}, values);
}

TEST(Attention, ScoresByRelativePositionAreAScaledBias) {
  constexpr int64_t kQueries = 3, kKeys = 5, kScale = 2;
  const EvalTensor q = random_tensor({2, kQueries, 2, 4}, 1),
                   k = random_tensor({2, kKeys, 2, 4}, 2),
                   of_query = random_tensor({2, kQueries, 2, 3}, 3),
                   of_key = random_tensor({2, kKeys, 2, 4}, 4);
  const std::vector<int64_t> by_query{0, 1, 2, 2, 1, 0, 0, 2}, by_key{3, 0, 2, 1, 1, 0, 3, 2};
  EvalTensor bias(DType::kF64, {2, 2, kQueries, kKeys});
  for (int64_t at = 0; at < bias.elems(); ++at) {
    const int64_t j = at % kKeys, i = at / kKeys % kQueries, head = at / kKeys / kQueries % 2,
                  batch = at / kKeys / kQueries / 2;
    const auto distance = static_cast<size_t>(i - j + kKeys);
    const int64_t query_row = (batch * kQueries + i) * 2 + head,
                  key_row = (batch * kKeys + j) * 2 + head;
    bias.f[static_cast<size_t>(at)] =
        kScale * (of_query.f[static_cast<size_t>(query_row * 3 + by_query[distance])] +
                  of_key.f[static_cast<size_t>(key_row * 4 + by_key[distance])]);
  }
  const EvalTensor none;
  const EvalTensor got = eval_node(OpKind::kAttention, "{scale=2}",
                                   {q, k, k, none, none, none, none, none, none, none, of_query,
                                    of_key, buckets(by_query), buckets(by_key)});
  expect_close(got, eval_node(OpKind::kAttention, "{scale=2}", {q, k, k, bias}));
}

TEST(Attention, RelativePositionsAreThoseWithinASequence) {
  constexpr int64_t kLongest = 6;
  const std::vector<int64_t> starts{0, 3, 3, 8};
  const EvalTensor q = random_tensor({1, 8, 2, 4}, 1), k = random_tensor({1, 8, 2, 4}, 2),
                   positions = random_tensor({1, 8, 2, 5}, 3), none;
  const EvalTensor cu = integers(DType::kI32, {4}, starts);
  const std::vector<int64_t> list{0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0, 1};
  const auto packed_with = [&](int64_t longest) {
    const EvalTensor places =
        integers(DType::kI32, {3, longest}, std::vector<int64_t>(static_cast<size_t>(3 * longest)));
    const EvalTensor own = buckets({list.begin(), list.begin() + 2 * longest});
    return eval_node(
        OpKind::kAttention, "",
        {q, k, k, none, none, cu, cu, none, none, places, positions, positions, own, own});
  };
  const EvalTensor packed = packed_with(kLongest);
  for (size_t n : {size_t{0}, size_t{2}}) {
    const int64_t begin = starts[n], end = starts[n + 1], rows = end - begin;
    const EvalTensor own =
                         buckets({list.begin() + kLongest - rows, list.begin() + kLongest + rows}),
                     at = rows_of(positions, begin, end), own_k = rows_of(k, begin, end);
    const EvalTensor alone = eval_node(OpKind::kAttention, "",
                                       {rows_of(q, begin, end), own_k, own_k, none, none, none,
                                        none, none, none, none, at, at, own, own});
    EXPECT_EQ(rows_of(packed, begin, end).f, alone.f) << "sequence " << n;
  }
  EXPECT_ANY_THROW(packed_with(4)) << "a sequence has more rows than places";
}

TEST(Attention, AMaskOfQueriesHidesAllTheirKeys) {
  const EvalTensor x = random_tensor({2, 3, 1, 4}, 1), none;
  const EvalTensor keys = integers(DType::kBool, {2, 1, 1, 3}, {1, 0, 1, 1, 1, 0}),
                   queries = integers(DType::kBool, {2, 1, 3, 1}, {1, 1, 0, 0, 1, 1});
  const EvalTensor pairs = eval_node(OpKind::kAnd, "", {keys, queries});
  const auto with = [&](const char* attrs, const EvalTensor& keep, const EvalTensor& of_queries) {
    return eval_node(
        OpKind::kAttention, attrs,
        {x, x, x, none, keep, none, none, none, none, none, none, none, none, none, of_queries});
  };
  for (const char* attrs : {"{fill=-10000}", "{masks_add=true}", "{zero_hidden_rows=true}",
                            "{zero_hidden_rows=true, fill=-10000}"})
    expect_close(with(attrs, keys, queries), with(attrs, pairs, none));
  const EvalTensor zeroed = with("{zero_hidden_rows=true}", keys, queries);
  for (size_t hidden : {size_t{2}, size_t{3}})
    EXPECT_EQ(rows_of(zeroed, hidden, hidden + 1).f, std::vector<double>(4, 0.0));
  EXPECT_TRUE(std::ranges::none_of(zeroed.f, [](double v) { return std::isnan(v); }));
}

TEST(Attention, ANaNScoreIsNoHiddenRow) {
  EvalTensor q = random_tensor({1, 2, 1, 4}, 1);
  q.f.front() = NAN;
  const EvalTensor k = random_tensor({1, 3, 1, 4}, 2);
  const EvalTensor keep = integers(DType::kBool, {1, 1, 1, 3}, {0, 1, 1});
  const EvalTensor got =
      eval_node(OpKind::kAttention, "{zero_hidden_rows=true}", {q, k, k, {}, keep});
  EXPECT_TRUE(std::isnan(got.f.front()));
  EXPECT_FALSE(std::isnan(got.f.back()));
}

TEST(Attention, NoKeysGiveZeros) {
  const EvalTensor got =
      eval_node(OpKind::kAttention, "",
                {random_tensor({1, 2, 1, 4}, 1), EvalTensor(DType::kF64, {1, 0, 1, 4}),
                 EvalTensor(DType::kF64, {1, 0, 1, 3})});
  EXPECT_EQ(got.f, std::vector<double>(6, 0.0));
}

TEST(Attention, ARowKeepsItsBitsInAnyBatch) {
  const EvalTensor q = random_tensor({2, 70, 2, 16}, 1), k = random_tensor({2, 33, 2, 16}, 2);
  const EvalTensor both = eval_node(OpKind::kAttention, "", {q, k, k});
  const auto second = [](const EvalTensor& x) {
    Shape shape = x.shape;
    shape[0] = 1;
    return tensor(shape, {x.f.begin() + static_cast<int64_t>(x.f.size() / 2), x.f.end()});
  };
  const EvalTensor alone = eval_node(OpKind::kAttention, "", {second(q), second(k), second(k)});
  EXPECT_EQ(second(both).f, alone.f);
  const EvalTensor one_row =
      eval_node(OpKind::kAttention, "", {rows_of(second(q), 69, 70), second(k), second(k)});
  EXPECT_EQ(rows_of(alone, 69, 70).f, one_row.f);
}

// Each point rounds the value it names: a type coarse enough to show, and nothing else changes.
TEST(Attention, EachRoundingPointIsApplied) {
  const std::vector<EvalTensor> in{random_tensor({1, 3, 1, 8}, 1), random_tensor({1, 5, 1, 8}, 2),
                                   random_tensor({1, 5, 1, 8}, 3)};
  const EvalTensor exact = eval_node(OpKind::kAttention, "", in);
  std::vector<std::vector<double>> seen{exact.f};
  for (size_t point = 0; point < kAttentionPoints.size(); ++point) {
    Rounding rounding;
    rounding.set(point, {DType::kBF16});
    const EvalTensor rounded = eval_node(OpKind::kAttention, "", in, rounding);
    for (size_t i = 0; i < exact.f.size(); ++i)
      EXPECT_NEAR(rounded.f[i], exact.f[i], 0.05) << kAttentionPoints[point];
    // context and out round the same value here; all others differ from one another.
    if (kAttentionPoints[point] == "out") continue;
    for (const std::vector<double>& other : seen) EXPECT_NE(rounded.f, other);
    seen.push_back(rounded.f);
  }
}

struct BadCall {
  std::string message;
  std::vector<EvalTensor> in;
  std::string attrs = {};
};

TEST(Attention, WrongInputsAreNamed) {
  const EvalTensor x = random_tensor({1, 4, 2, 6}, 1);
  const auto starts = [](std::vector<int64_t> values) {
    const auto count = static_cast<int64_t>(values.size());
    return integers(DType::kI32, {count}, std::move(values));
  };
  std::vector<BadCall> rows{
      {"input 0 has shape [4, 6], expected rank 4", {random_tensor({4, 6}, 1), x, x}},
      {"4 query heads are not a multiple of 3",
       {random_tensor({1, 4, 4, 6}, 1), random_tensor({1, 4, 3, 6}, 1),
        random_tensor({1, 4, 3, 6}, 1)}},
      {"sizes 6 and 5 differ", {x, random_tensor({1, 4, 2, 5}, 1), x}},
      {"input 3 of shape [3] does not broadcast to [1, 2, 4, 4]", {x, x, x, random_tensor({3}, 1)}},
      {"the keep mask in input 4 must be bool", {x, x, x, {}, random_tensor({4}, 1)}},
      {"cu_seqlens_q and cu_seqlens_k must both be given", {x, x, x, {}, {}, starts({0, 4})}},
      {"input 6 must ascend from 0 to at most 4; element 1 is 5",
       {x, x, x, {}, {}, starts({0, 4}), starts({0, 5})}},
      {"input 5 must ascend from 0 to at most 4; element 0 is 1",
       {x, x, x, {}, {}, starts({1, 4}), starts({0, 4})}},
      {"cos and sin must both be given", {x, x, x, {}, {}, {}, {}, random_tensor({4, 1, 6}, 1)}},
      {"must have width 6 or half of it",
       {x, x, x, {}, {}, {}, {}, random_tensor({4, 1, 2}, 1), random_tensor({4, 1, 2}, 1)}},
  };
  const EvalTensor none, of_positions = random_tensor({1, 4, 2, 3}, 1);
  const auto with_positions = [&](const EvalTensor& positions, const EvalTensor& list) {
    return std::vector<EvalTensor>{x,    x,    x,    none,      none, none, none,
                                   none, none, none, positions, none, list};
  };
  const std::vector<int64_t> one_short(7, 0), beyond{0, 1, 2, 0, 1, 2, 3, 0};
  for (BadCall& row : std::vector<BadCall>{
           {"positions and their buckets must both be given", with_positions(of_positions, none)},
           {"needs 7 == 8", with_positions(of_positions, buckets(one_short))},
           {"3 at element 6 of input 12 is outside [0, 2]",
            with_positions(of_positions, buckets(beyond))},
           {"sizes 5 and 4 differ",
            with_positions(random_tensor({1, 5, 2, 3}, 1), buckets(std::vector<int64_t>(8)))},
           {"need masks that replace scores",
            with_positions(of_positions, buckets(std::vector<int64_t>(8))), "{masks_add=true}"}})
    rows.push_back(row);
  for (const BadCall& row : rows) {
    try {
      eval_node(OpKind::kAttention, row.attrs, row.in);
      ADD_FAILURE() << "no error, expected: " << row.message;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr(row.message));
    }
  }
}

}  // namespace
}  // namespace vernier::test
