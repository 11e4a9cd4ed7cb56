// Cases of Attention: every kind of mask and bias, hidden rows and keys, packed sequences; head
// sizes of models and lengths around the tiles of a GPU's kernels.
#include "backend/cases/attention.h"

#include <algorithm>
#include <cmath>

namespace vernier::backend::test {
namespace {
using Table = AttentionVariant::Table;

std::string sizes(const AttentionShape& s) {
  std::string text;
  for (int64_t v : {s.batch, s.queries, s.keys, s.heads, s.kv_heads, s.dim, s.value_dim})
    text += (text.empty() ? "" : "x") + std::to_string(v);
  return text;
}

Tensor from(DType type, const Shape& shape, const std::vector<double>& values) {
  return Tensor::from(type, shape, std::span<const double>(values));
}
}  // namespace

const std::vector<AttentionVariant>& attention_variants() {
  const double lowest = -3.4e38;
  // clang-format off
  static const std::vector<AttentionVariant> all{
      {.name = "key bias",                                        .bias = Table::kKeyRow},
      {.name = "full bias",                                       .bias = Table::kQueryRow},
      {.name = "key mask",                                        .keep = Table::kKeyRow},
      {.name = "full mask", .attrs = {.fill = lowest},            .keep = Table::kQueryRow},
      {.name = "both", .attrs = {.zero_nan_rows = true},
       .bias = Table::kQueryRow, .keep = Table::kKeyRow},
      {.name = "added key bias", .attrs = {.masks_add = true},    .bias = Table::kKeyRow},
      {.name = "added key mask", .attrs = {.masks_add = true},    .keep = Table::kKeyRow},
      {.name = "added full mask", .attrs = {.masks_add = true},
       .bias = Table::kQueryRow, .keep = Table::kQueryRow},
      {.name = "added causal", .attrs = {.causal = true, .masks_add = true}},
      {.name = "added causal and mask", .attrs = {.causal = true, .masks_add = true},
       .keep = Table::kQueryRow},
      {.name = "causal", .attrs = {.causal = true}},
      {.name = "causal finite", .attrs = {.causal = true, .fill = -10000}}};
  // clang-format on
  return all;
}

namespace {
// Buckets below `size` of so many distances.
Tensor buckets_of(Maker& make, DType type, int64_t distances, int64_t size, bool near) {
  if (!near) return make.integers(type, {distances}, 0, size - 1);
  std::vector<int64_t> buckets;
  for (int64_t at = 0; at < distances; ++at)  // every third is that of its neighbor
    buckets.push_back(std::min(size / 8 + at - at / 3, size - 1));
  return Tensor::from(type, {distances}, std::span<const int64_t>(buckets));
}

void add_positions(Maker& make, const AttentionShape& s, const AttentionVariant& variant,
                   OpCase& c) {
  using enum AttentionAttrs::Input;
  if (variant.query_buckets + variant.key_buckets == 0 && !variant.keep_queries) return;
  c.inputs.resize(kKeepQueries + 1);
  const auto term = [&](size_t positions, size_t buckets, int64_t rows, int64_t size) {
    if (size == 0) return;
    c.inputs[positions] = {.value = make.normal({s.batch, rows, s.heads, size}), .batch_axis = 0};
    c.inputs[buckets] = {
        .value = buckets_of(make, DType::kI64, s.queries + s.keys, size, variant.near_buckets)};
  };
  term(kQueryPositions, kQueryBuckets, s.queries, variant.query_buckets);
  term(kKeyPositions, kKeyBuckets, s.keys, variant.key_buckets);
  if (variant.keep_queries) {
    c.inputs[kKeepQueries] = {
        .value = make.integers(DType::kBool, {s.batch, 1, s.queries, 1}, 0, 1),
        .batch_axis = 0,
        .special = false};
  }
}
}  // namespace

OpCase attention_case(Maker& make, const AttentionShape& s, const AttentionVariant& variant) {
  OpCase c{.op = OpKind::kAttention};
  c.name = variant.name;
  c.name += " " + sizes(s);
  AttentionAttrs attrs = variant.attrs;
  attrs.scale = 1.0 / std::sqrt(static_cast<double>(s.dim));
  c.attrs = encode(attrs);
  c.inputs = {{.value = make.normal({s.batch, s.queries, s.heads, s.dim}), .batch_axis = 0},
              {.value = make.normal({s.batch, s.keys, s.kv_heads, s.dim}), .batch_axis = 0},
              {.value = make.normal({s.batch, s.keys, s.kv_heads, s.value_dim}), .batch_axis = 0}};
  const auto table = [&](Table kind, bool keep) -> Arg {
    if (kind == Table::kNone) return {};
    const Shape shape = kind == Table::kKeyRow ? Shape{s.batch, 1, 1, s.keys}
                                               : Shape{s.batch, s.heads, s.queries, s.keys};
    return {.value = keep ? make.integers(DType::kBool, shape, 0, 1) : make.normal(shape),
            .batch_axis = 0,
            .special = false};
  };
  c.inputs.push_back(table(variant.bias, false));
  c.inputs.push_back(table(variant.keep, true));
  if (variant.rotary) {
    c.inputs.resize(7);
    const int64_t rows = std::max(s.queries, s.keys);
    c.inputs.push_back({.value = make.normal({1, rows, 1, s.dim}), .special = false});
    c.inputs.push_back({.value = make.normal({1, rows, 1, s.dim}), .special = false});
  }
  add_positions(make, s, variant, c);
  c.outputs = {{.shape = {s.batch, s.queries, s.heads, s.value_dim}}};
  // A score is a sum of D products; its rounding error, about sqrt(D)·eps·|q||k|·scale, is a
  // relative error of the probability, and the context is smaller than the values it averages.
  c.ulps = 64;
  return c;
}

std::vector<OpCase> values_only(std::vector<OpCase> cases) {
  for (OpCase& c : cases) {
    c.device_only = true;
    c.checks = Checks::kValues;
  }
  return cases;
}

OpCase attention_case_with_hidden_rows(Maker& make, const AttentionVariant& variant) {
  OpCase c = attention_case(make, {2, 33, 101, 2, 2, 16, 16}, variant);
  for (size_t i : {3u, 4u}) {
    if (c.inputs.size() <= i || !c.inputs[i].value.defined()) continue;
    const Tensor& table = c.inputs[i].value;
    std::vector<double> values;
    for (int64_t at = 0; at < table.elems(); ++at) {
      const int64_t query = at / 101 % 33;
      const double own = i == 3 ? table.float_at(at) : static_cast<double>(table.integer_at(at));
      values.push_back(query != 0 && query != 3 ? own : i == 3 ? -HUGE_VAL : 0.0);
    }
    c.inputs[i].value = from(table.dtype(), table.shape(), values);
  }
  return c;
}

OpCase packed_attention_case(Maker& make, std::vector<int64_t> starts, int64_t dim, int64_t rows,
                             int64_t heads) {
  OpCase c = attention_case(make, {1, rows, rows, heads, 1, dim, dim}, {.name = "packed"});
  const auto count = static_cast<int64_t>(starts.size());
  const Tensor table = Tensor::from(DType::kI32, {count}, std::span<const int64_t>(starts));
  c.inputs.resize(5);
  c.inputs.push_back({.value = table});
  c.inputs.push_back({.value = table});
  for (Arg& arg : c.inputs) arg.batch_axis = -1;
  c.outputs[0].batch_axis = -1;
  return c;
}

namespace {

const Cases kAttention("Attention", [] {
  Maker make(3);
  std::vector<OpCase> cases;
  for (const AttentionShape& s : std::vector<AttentionShape>{{2, 1, 1, 1, 1, 1, 1},
                                                             {2, 3, 5, 2, 1, 17, 3},
                                                             {3, 33, 33, 2, 2, 32, 32},
                                                             {2, 17, 127, 4, 2, 33, 65},
                                                             {1, 100, 200, 3, 1, 64, 64},
                                                             {2, 40, 97, 1, 1, 80, 128}})
    cases.push_back(attention_case(make, s, {}));
  for (bool interleaved : {false, true})
    cases.push_back(attention_case(
        make, {2, 70, 70, 2, 2, 16, 16},
        {.name = "rotary", .attrs = {.rotary_interleaved = interleaved}, .rotary = true}));
  return cases;
});

const Cases kMasks("AttentionMasks", [] {
  Maker make(103);
  std::vector<OpCase> cases;
  for (const AttentionVariant& variant : attention_variants()) {
    cases.push_back(attention_case(make, {2, 37, 101, 4, 2, 24, 20}, variant));
    cases.push_back(attention_case(make, {2, 70, 70, 2, 2, 16, 16}, variant));
    // Long enough that blocks of hidden keys are left out, if they are finite.
    if (variant.attrs.causal)
      cases.push_back(attention_case(make, {2, 210, 210, 1, 1, 8, 8}, variant));
  }
  return cases;
});

const Cases kHiddenRows("AttentionHiddenRows", [] {
  Maker make(8);
  std::vector<OpCase> cases;
  for (const AttentionAttrs& attrs :
       std::vector<AttentionAttrs>{{}, {.zero_nan_rows = true}, {.masks_add = true}}) {
    for (const AttentionVariant& variant : std::vector<AttentionVariant>{
             {.name = "hidden by keep", .attrs = attrs, .keep = Table::kQueryRow},
             {.name = "hidden by bias", .attrs = attrs, .bias = Table::kQueryRow},
             {.name = "hidden by both",
             .attrs = attrs,
             .bias = Table::kQueryRow,
             .keep = Table::kQueryRow}})
      cases.push_back(attention_case_with_hidden_rows(make, variant));
  }
  return cases;
});

// A hidden key whose score overflows stays hidden.
const Cases kOverflow("AttentionOverflowingKey", [] {
  Maker make(9);
  std::vector<OpCase> cases;
  for (bool masks_add : {false, true}) {
    OpCase c = attention_case(
        make, {1, 17, 40, 1, 1, 16, 16},
        {.name = "overflow", .attrs = {.masks_add = masks_add}, .keep = Table::kKeyRow});
    std::vector<double> k, keep(40, 1.0);
    for (int64_t i = 0; i < c.inputs[1].value.elems(); ++i)
      k.push_back(i / 16 == 7 ? 3e38 : c.inputs[1].value.float_at(i));
    keep[7] = 0;
    c.inputs[1] = {.value = from(DType::kF32, {1, 40, 1, 16}, k), .special = false};
    c.inputs[4].value = from(DType::kBool, {1, 1, 1, 40}, keep);
    c.cpu_only = masks_add;  // an infinite score plus -inf is NaN
    cases.push_back(c);
  }
  return cases;
});

const Cases kPacked("AttentionPacked", [] {
  Maker make(4);
  return std::vector<OpCase>{packed_attention_case(make, {0, 5, 5, 45})};
});

const std::vector<int64_t> kHeadSizes{32, 40, 64, 80, 96, 128};

// Scores by relative position, with every mask that replaces scores.
const std::vector<AttentionVariant>& position_variants() {
  const double lowest = -3.4e38;
  static const std::vector<AttentionVariant> all{
      {.name = "query positions", .query_buckets = 9},
      {.name = "key positions", .key_buckets = 33},
      {.name = "positions", .query_buckets = 17, .key_buckets = 17},
      {.name = "positions and key mask",
       .attrs = {.fill = lowest},
       .keep = Table::kKeyRow,
       .query_buckets = 5,
       .key_buckets = 1},
      {.name = "positions and both masks",
       .attrs = {.fill = lowest},
       .keep = Table::kKeyRow,
       .query_buckets = 3,
       .key_buckets = 17,
       .keep_queries = true},
      {.name = "positions and both masks, hidden rows 0",
       .attrs = {.zero_hidden_rows = true},
       .keep = Table::kKeyRow,
       .query_buckets = 17,
       .key_buckets = 3,
       .keep_queries = true},
      {.name = "causal positions and bias",
       .attrs = {.causal = true},
       .bias = Table::kQueryRow,
       .query_buckets = 7,
       .key_buckets = 8},
      {.name = "mask of queries", .attrs = {.fill = lowest}, .keep_queries = true},
      {.name = "added mask of queries", .attrs = {.masks_add = true}, .keep_queries = true},
      {.name = "full mask, hidden rows 0",
       .attrs = {.fill = lowest, .zero_hidden_rows = true},
       .keep = Table::kQueryRow,
       .keep_queries = true}};
  return all;
}

const Cases kPositions("AttentionPositions", [] {
  Maker make(118);
  std::vector<OpCase> cases;
  for (const AttentionVariant& variant : position_variants()) {
    for (const AttentionShape& s : std::vector<AttentionShape>{
             {2, 1, 1, 2, 2, 4, 4}, {2, 33, 101, 3, 3, 17, 16}, {3, 70, 70, 2, 2, 16, 24}})
      cases.push_back(attention_case(make, s, variant));
  }
  return cases;
});

// Head sizes and lengths of a GPU's tiles, of one and more of them.
const Cases kPositionTiles("AttentionPositionTiles", [] {
  Maker make(120);
  std::vector<OpCase> cases;
  for (const AttentionVariant& variant : position_variants()) {
    for (int64_t dim : kHeadSizes) {
      cases.push_back(attention_case(make, {2, 67, 131, 2, 1, dim, dim}, variant));
      if (dim == 64) {
        cases.push_back(attention_case(make, {2, 130, 140, 34, 34, dim, dim}, variant));
        cases.push_back(attention_case(make, {3, 40, 40, 2, 2, dim, dim}, variant));
      }
    }
  }
  return values_only(std::move(cases));
});

// Distances whose buckets are neighbors, of which a GPU stages positions: of several steps, of
// steps whose keys are all hidden, of arrays as small as they may be.
const Cases kNearPositions("AttentionNearPositions", [] {
  Maker make(121);
  std::vector<OpCase> cases;
  const double lowest = -3.4e38;
  const std::vector<AttentionVariant> variants{
      {.name = "near positions", .query_buckets = 512, .key_buckets = 512, .near_buckets = true},
      {.name = "near positions of queries", .query_buckets = 136, .near_buckets = true},
      {.name = "near positions of keys", .key_buckets = 72, .near_buckets = true},
      {.name = "near positions and both masks",
       .attrs = {.fill = lowest},
       .keep = Table::kKeyRow,
       .query_buckets = 256,
       .key_buckets = 136,
       .keep_queries = true,
       .near_buckets = true},
      {.name = "near positions and positions, causal",
       .attrs = {.causal = true},
       .query_buckets = 144,
       .key_buckets = 64,
       .near_buckets = true}};
  for (const AttentionVariant& variant : variants) {
    for (const AttentionShape& s : std::vector<AttentionShape>{{2, 67, 131, 2, 1, 64, 64},
                                                               {1, 300, 420, 3, 3, 32, 32},
                                                               {2, 130, 257, 34, 34, 64, 64},
                                                               {3, 40, 40, 2, 2, 64, 64}})
      cases.push_back(attention_case(make, s, variant));
  }
  for (double fill : {-HUGE_VAL, lowest}) {
    OpCase c = attention_case(make, {2, 33, 400, 2, 1, 64, 64},
                              {.name = "near positions, hidden steps",
                               .attrs = {.fill = fill},
                               .keep = Table::kKeyRow,
                               .query_buckets = 256,
                               .key_buckets = 256,
                               .near_buckets = true});
    std::vector<double> keep(size_t{2} * 400, 1.0);
    std::fill(keep.begin() + 20, keep.begin() + 390, 0.0);
    c.inputs[4].value = from(DType::kBool, {2, 1, 1, 400}, keep);
    cases.push_back(std::move(c));
  }
  return values_only(std::move(cases));
});

// The same within sequences.
const Cases kPackedPositions("AttentionPackedPositions", [] {
  using enum AttentionAttrs::Input;
  Maker make(119);
  std::vector<OpCase> cases;
  for (const auto& [starts, longest] : {std::pair<std::vector<int64_t>, int64_t>{{0, 5, 5, 45}, 40},
                                        {{0, 48}, 64},
                                        {{0, 16, 32, 48}, 16}}) {
    for (int64_t dim : {16, 64, 128}) {
      OpCase c = packed_attention_case(make, starts, dim);
      c.name += " with positions, longest " + std::to_string(longest) + ", heads of " +
                std::to_string(dim);
      c.inputs[1].value = make.normal({1, 48, 2, dim});
      c.inputs[2].value = make.normal({1, 48, 2, dim});
      c.inputs.resize(kKeepQueries + 1);
      c.inputs[kPlaces] = {
          .value =
              make.integers(DType::kI32, {static_cast<int64_t>(starts.size()) - 1, longest}, 0, 1)};
      const int64_t size = dim == 64 ? 136 : 12;
      for (size_t i : {kQueryPositions, kKeyPositions})
        c.inputs[i] = {.value = make.normal({1, 48, 2, size})};
      for (size_t i : {kQueryBuckets, kKeyBuckets})
        c.inputs[i] = {.value = buckets_of(make, DType::kI32, 2 * longest, size, dim == 64)};
      c.inputs[kKeepQueries] = {.value = make.integers(DType::kBool, {1, 1, 48, 1}, 0, 1)};
      auto attrs = decode<AttentionAttrs>(c.attrs);
      attrs.zero_hidden_rows = true;
      c.attrs = encode(attrs);
      for (Arg& arg : c.inputs) arg.batch_axis = -1;
      cases.push_back(std::move(c));
    }
  }
  return cases;
});

// A bias that is read at the places within a sequence; in the last starts the sequences fill all
// places.
const Cases kPackedBias("AttentionPackedBias", [] {
  Maker make(117);
  std::vector<OpCase> cases;
  for (const auto& [starts, longest] : {std::pair<std::vector<int64_t>, int64_t>{{0, 5, 5, 45}, 40},
                                        {{0, 48}, 64},
                                        {{0, 16, 32, 48}, 16}}) {
    for (const Shape& shape :
         {Shape{1, 2, longest, longest}, Shape{longest, longest}, Shape{1, 2, 1, longest}}) {
      for (int64_t dim : {16, 64, 96, 128}) {
        OpCase c = packed_attention_case(make, starts, dim);
        c.name += " with a bias " + str(shape) + ", heads of " + std::to_string(dim);
        auto attrs = decode<AttentionAttrs>(c.attrs);
        attrs.bias_in_sequence = true;
        c.attrs = encode(attrs);
        c.inputs.resize(10);
        c.inputs[3] = {.value = make.normal(shape), .special = false};
        c.inputs[9] = {.value = make.integers(
                           DType::kI32, {static_cast<int64_t>(starts.size()) - 1, longest}, 0, 1)};
        for (Arg& arg : c.inputs) arg.batch_axis = -1;
        cases.push_back(std::move(c));
      }
    }
  }
  return cases;
});

const Cases kHeadsAndMasks("AttentionHeadSizes", [] {
  Maker make(110);
  std::vector<OpCase> cases;
  for (int64_t dim : kHeadSizes) {
    for (const AttentionVariant& variant : attention_variants()) {
      cases.push_back(attention_case(make, {2, 67, 131, 2, 1, dim, dim}, variant));
      cases.back().device_only = true;
      cases.back().checks = Checks::kValues;
    }
    cases.push_back(attention_case(make, {2, 65, 65, 3, 3, dim, dim}, {}));
    cases.back().device_only = true;
  }
  return cases;
});

// So many rows that a GPU's kernels take their larger tiles, and blocks more than one of them.
const Cases kManyTiles("AttentionManyTiles", [] {
  Maker make(114);
  const AttentionVariant keyed{.name = "key mask", .keep = Table::kKeyRow};
  std::vector<OpCase> cases;
  for (int64_t dim : {32, 64}) {
    for (const AttentionVariant& variant : {AttentionVariant{}, keyed}) {
      cases.push_back(attention_case(make, {4, 70, 70, 68, 68, dim, dim}, variant));
      cases.push_back(attention_case(make, {4, 70, 70, 68, 34, dim, dim}, variant));
      cases.push_back(attention_case(make, {2, 130, 140, 34, 34, dim, dim}, variant));
    }
  }
  for (const AttentionVariant& variant : attention_variants()) {
    const std::string name = variant.name;
    if (name != "both" && name != "added causal and mask") continue;
    for (int64_t dim : {64, 96, 128})
      cases.push_back(attention_case(make, {2, 20, 70, 64, 16, dim, dim}, variant));
  }
  return values_only(std::move(cases));
});

// Keys hidden from the 20th on, 128 of them and more in a row, in the first batch item.
const Cases kHiddenSteps("AttentionHiddenSteps", [] {
  Maker make(115);
  std::vector<OpCase> cases;
  for (double fill : {-HUGE_VAL, -3.4e38}) {
    for (int64_t dim : {32, 64}) {
      OpCase c =
          attention_case(make, {2, 33, 400, 2, 1, dim, dim},
                         {.name = "hidden steps", .attrs = {.fill = fill}, .keep = Table::kKeyRow});
      std::vector<double> keep(size_t{2} * 400, 1.0);
      std::fill(keep.begin() + 20, keep.begin() + 390, 0.0);
      c.inputs[4].value = from(DType::kBool, {2, 1, 1, 400}, keep);
      c.device_only = true;
      cases.push_back(std::move(c));
    }
  }
  return cases;
});

// More steps of keys than a GPU's kernels read the masks of at a time, with and without a mask.
const Cases kManySteps("AttentionManySteps", [] {
  Maker make(116);
  std::vector<OpCase> cases;
  for (int64_t dim : {64, 128}) {
    for (const AttentionVariant& variant :
         {AttentionVariant{}, AttentionVariant{.name = "key mask", .keep = Table::kKeyRow}}) {
      cases.push_back(attention_case(make, {1, 20, 8500, 2, 1, dim, dim}, variant));
      cases.back().device_only = true;
      cases.back().checks = Checks::kValues;
    }
  }
  return cases;
});

// A table of this and that mask at each length.
std::vector<OpCase> length_cases(const std::vector<AttentionShape>& shapes, uint64_t seed) {
  Maker make(seed);
  std::vector<OpCase> cases;
  size_t turn = 0;
  for (const AttentionShape& s : shapes) {
    const size_t dims = kHeadSizes.size();
    AttentionShape sized = s;
    sized.dim = sized.value_dim = kHeadSizes[turn % dims];
    const auto& variants = attention_variants();
    cases.push_back(attention_case(make, sized, {}));
    cases.push_back(attention_case(make, sized, variants[turn % variants.size()]));
    for (size_t i : {cases.size() - 2, cases.size() - 1}) {
      cases[i].device_only = true;
      cases[i].checks = Checks::kValues;
    }
    ++turn;
  }
  return cases;
}

const Cases kLengths("AttentionLengths", [] {
  std::vector<AttentionShape> shapes;
  for (int64_t length :
       {1, 2, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 96, 127, 128, 129, 191, 192, 193, 255}) {
    shapes.push_back({2, length, length, 2, 2, 0, 0});
    shapes.push_back({1, 3, length, 2, 1, 0, 0});
  }
  return length_cases(shapes, 111);
});
const Cases kLongKeys("AttentionLongKeys", [] {
  std::vector<AttentionShape> shapes;
  for (int64_t length : {256, 257, 384, 511, 512, 1000, 1023, 1024, 1025, 2047, 2048})
    shapes.push_back({1, 33, length, 2, 1, 0, 0});
  return length_cases(shapes, 112);
});
const Cases kLong("AttentionLong", [] {
  return length_cases({{1, 384, 384, 2, 2, 0, 0},
                       {1, 512, 512, 1, 1, 0, 0},
                       {1, 1025, 513, 1, 1, 0, 0},
                       {1, 2048, 2048, 1, 1, 0, 0}},
                      113);
});

}  // namespace
}  // namespace vernier::backend::test
