// Norms, softmax and attention on every CPU kernel row. What is checked: harness.h.
#include <gtest/gtest.h>

#include <cmath>

#include "backend/cpu/harness.h"

namespace vernier::backend::test {
namespace {

std::string sizes(std::initializer_list<int64_t> values) {
  std::string text;
  for (int64_t v : values) text += (text.empty() ? "" : "x") + std::to_string(v);
  return text;
}

class CpuRowKernels : public ::testing::Test {};

TEST_F(CpuRowKernels, LayerNormsMatchTheEvaluator) {
  Maker make(1);
  for (int64_t cols : {1, 3, 17, 33, 64, 127, 256, 768}) {
    for (double mean : {0.0, 1000.0}) {
      const Arg x{.value = make.normal({5, cols}, mean), .batch_axis = 0};
      const Arg scale{.value = make.normal({cols}, 1, 0.1)}, bias{.value = make.normal({cols})};
      const AttrBytes attrs = encode(NormAttrs{.axis = -1, .epsilon = 1e-5});
      // x - mean is exact to 2^-24·|mean|, which is a share |mean|/σ of the result.
      const double ulps = 16 + 4 * mean;
      const std::string name = sizes({5, cols}) + " mean " + std::to_string(mean);
      EXPECT_EQ(1,
                check_case({.name = "layer norm " + name,
                            .op = OpKind::kLayerNorm,
                            .attrs = attrs,
                            .inputs = {x, scale, bias},
                            .outputs = {{.shape = {5, cols}}, {.shape = {5, 1}}, {.shape = {5, 1}}},
                            .ulps = ulps}));
      EXPECT_EQ(1, check_case({.name = "rms norm " + name,
                               .op = OpKind::kRMSNorm,
                               .attrs = attrs,
                               .inputs = {x, scale},
                               .outputs = {{.shape = {5, cols}}}}));
      const Arg y{.value = make.normal({5, cols}), .batch_axis = 0};
      EXPECT_EQ(1, check_case({.name = "add norm " + name,
                               .op = OpKind::kAddLayerNorm,
                               .attrs = attrs,
                               .inputs = {x, y, scale, bias},
                               .outputs = {{.shape = {5, cols}}, {.shape = {5, cols}}},
                               .ulps = ulps}));
    }
  }
}

TEST_F(CpuRowKernels, SoftmaxMatchesTheEvaluatorOnEveryAxis) {
  Maker make(2);
  for (int64_t cols : {1, 3, 17, 33, 127, 512}) {
    for (OpKind op : {OpKind::kSoftmax, OpKind::kLogSoftmax}) {
      for (int64_t axis : {-1, 1}) {
        const Arg x{.value = make.normal({4, 3, cols}, 0, 5), .batch_axis = 0};
        EXPECT_EQ(1, check_case({.name = sizes({4, 3, cols}) + " axis " + std::to_string(axis),
                                 .op = op,
                                 .attrs = encode(AxisAttrs{.axis = axis}),
                                 .inputs = {x},
                                 .outputs = {{.shape = {4, 3, cols}}}}));
      }
    }
  }
}

struct AttentionShape {
  int64_t batch, queries, keys, heads, kv_heads, dim, value_dim;
};

struct AttentionVariant {
  const char* name;
  AttentionAttrs attrs = {};
  enum Table { kNone, kKeyRow, kQueryRow } bias = kNone, keep = kNone;
  bool rotary = false;
};

OpCase attention_case(Maker& make, const AttentionShape& s, const AttentionVariant& variant) {
  OpCase c{.op = OpKind::kAttention};
  c.name = variant.name;
  c.name += " " + sizes({s.batch, s.queries, s.keys, s.heads, s.kv_heads, s.dim, s.value_dim});
  AttentionAttrs attrs = variant.attrs;
  attrs.scale = 1.0 / std::sqrt(static_cast<double>(s.dim));
  c.attrs = encode(attrs);
  // Causal masking with -inf does not read hidden keys, so NaN there does not spread.
  const bool skips = attrs.causal && std::isinf(attrs.fill);
  c.inputs = {{.value = make.normal({s.batch, s.queries, s.heads, s.dim}), .batch_axis = 0},
              {.value = make.normal({s.batch, s.keys, s.kv_heads, s.dim}),
               .batch_axis = 0,
               .special = !skips},
              {.value = make.normal({s.batch, s.keys, s.kv_heads, s.value_dim}),
               .batch_axis = 0,
               .special = !skips}};
  const auto table = [&](AttentionVariant::Table kind, bool keep) -> Arg {
    if (kind == AttentionVariant::kNone) return {};
    const Shape shape = kind == AttentionVariant::kKeyRow
                            ? Shape{s.batch, 1, 1, s.keys}
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
  c.outputs = {{.shape = {s.batch, s.queries, s.heads, s.value_dim}}};
  // A score is a sum of D products; its rounding error, about sqrt(D)·eps·|q||k|·scale, is a
  // relative error of the probability, and the context is smaller than the values it averages.
  c.ulps = 64;
  return c;
}

TEST_F(CpuRowKernels, AttentionMatchesTheEvaluator) {
  Maker make(3);
  const AttentionVariant plain{.name = "plain", .attrs = {}};
  for (const AttentionShape& s : std::vector<AttentionShape>{{2, 1, 1, 1, 1, 1, 1},
                                                             {2, 3, 5, 2, 1, 17, 3},
                                                             {3, 33, 33, 2, 2, 32, 32},
                                                             {2, 17, 127, 4, 2, 33, 65},
                                                             {1, 100, 200, 3, 1, 64, 64},
                                                             {2, 40, 97, 1, 1, 80, 128}}) {
    EXPECT_EQ(1, check_case(attention_case(make, s, plain)));
  }
  using Table = AttentionVariant::Table;
  const AttentionShape s{2, 37, 101, 4, 2, 24, 20}, square{2, 70, 70, 2, 2, 16, 16};
  const double lowest = -3.4e38;
  for (const AttentionVariant& variant : std::vector<AttentionVariant>{
           {.name = "key bias", .attrs = {}, .bias = Table::kKeyRow},
           {.name = "full bias", .attrs = {}, .bias = Table::kQueryRow},
           {.name = "key mask", .attrs = {}, .keep = Table::kKeyRow},
           {.name = "full mask", .attrs = {.fill = lowest}, .keep = Table::kQueryRow},
           {.name = "both",
           .attrs = {.zero_nan_rows = true},
           .bias = Table::kQueryRow,
           .keep = Table::kKeyRow},
           {.name = "causal", .attrs = {.causal = true}},
           {.name = "causal finite", .attrs = {.causal = true, .fill = -10000}}}) {
    EXPECT_EQ(1, check_case(attention_case(make, s, variant)));
    EXPECT_EQ(1, check_case(attention_case(make, square, variant)));
  }
  for (bool interleaved : {false, true}) {
    EXPECT_EQ(
        1, check_case(attention_case(
               make, square,
               {.name = "rotary", .attrs = {.rotary_interleaved = interleaved}, .rotary = true})));
  }
}

}  // namespace
}  // namespace vernier::backend::test
