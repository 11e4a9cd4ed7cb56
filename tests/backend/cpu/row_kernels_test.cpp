// Norms, softmax and attention on every CPU kernel row. What is checked: harness.h.
#include <gmock/gmock.h>
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
      // x - mean is exact to 2^-24·|mean|, which is a share |mean|/σ of the result. A mean near 0,
      // about σ/√cols, is as far off as the sum it comes from.
      const double ulps = 16 + 2 * std::sqrt(static_cast<double>(cols)) + 4 * mean;
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
  c.inputs = {{.value = make.normal({s.batch, s.queries, s.heads, s.dim}), .batch_axis = 0},
              {.value = make.normal({s.batch, s.keys, s.kv_heads, s.dim}), .batch_axis = 0},
              {.value = make.normal({s.batch, s.keys, s.kv_heads, s.value_dim}), .batch_axis = 0}};
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
           {.name = "added key bias", .attrs = {.masks_add = true}, .bias = Table::kKeyRow},
           {.name = "added key mask", .attrs = {.masks_add = true}, .keep = Table::kKeyRow},
           {.name = "added full mask",
           .attrs = {.masks_add = true},
           .bias = Table::kQueryRow,
           .keep = Table::kQueryRow},
           {.name = "added causal", .attrs = {.causal = true, .masks_add = true}},
           {.name = "added causal and mask",
           .attrs = {.causal = true, .masks_add = true},
           .keep = Table::kQueryRow},
           {.name = "causal", .attrs = {.causal = true}},
           {.name = "causal finite", .attrs = {.causal = true, .fill = -10000}}}) {
    EXPECT_EQ(1, check_case(attention_case(make, s, variant)));
    EXPECT_EQ(1, check_case(attention_case(make, square, variant)));
    // Long enough that blocks of hidden keys are left out, if they are finite.
    const AttentionShape hidden_blocks{2, 210, 210, 1, 1, 8, 8};
    if (!variant.attrs.causal) continue;
    EXPECT_EQ(1, check_case(attention_case(make, hidden_blocks, variant)));
  }
  for (bool interleaved : {false, true}) {
    EXPECT_EQ(
        1, check_case(attention_case(
               make, square,
               {.name = "rotary", .attrs = {.rotary_interleaved = interleaved}, .rotary = true})));
  }
}

// Rows 0 and 3 of the queries see no key: by keep, or by a bias of -inf.
OpCase case_with_hidden_rows(Maker& make, const AttentionVariant& variant) {
  OpCase c = attention_case(make, {2, 33, 101, 2, 2, 16, 16}, variant);
  for (size_t i : {3u, 4u}) {
    if (c.inputs.size() <= i || !c.inputs[i].value.defined()) continue;
    const Tensor& table = c.inputs[i].value;
    std::vector<double> values;
    for (int64_t at = 0; at < table.elems(); ++at) {
      const int64_t query = at / 101 % 33;
      const double own = i == 3 ? table.float_at(at) : static_cast<double>(table.integer_at(at));
      values.push_back(query != 0 && query != 3 ? own : i == 3 ? -INFINITY : 0.0);
    }
    c.inputs[i].value = Tensor::from(table.dtype(), table.shape(), std::span<const double>(values));
  }
  return c;
}

TEST_F(CpuRowKernels, QueriesWithoutAVisibleKeyMatchTheEvaluator) {
  Maker make(8);
  using Table = AttentionVariant::Table;
  for (const AttentionAttrs& attrs :
       std::vector<AttentionAttrs>{{}, {.zero_nan_rows = true}, {.masks_add = true}}) {
    for (const AttentionVariant& variant : std::vector<AttentionVariant>{
             {.name = "hidden by keep", .attrs = attrs, .keep = Table::kQueryRow},
             {.name = "hidden by bias", .attrs = attrs, .bias = Table::kQueryRow},
             {.name = "hidden by both",
             .attrs = attrs,
             .bias = Table::kQueryRow,
             .keep = Table::kQueryRow}}) {
      const OpCase c = case_with_hidden_rows(make, variant);
      EXPECT_EQ(check_case(c), 1);
      // NaN in the query of a hidden row (element 0 is in row 0), and that row's answer.
      const Tensor y = run_kernel(*rows_of(c)[0], c, {})[0];
      EXPECT_EQ(std::isnan(y.float_at(0)), !attrs.zero_nan_rows && !attrs.masks_add);
      if (attrs.masks_add) {
        EXPECT_EQ(y.float_at(0), 0);
      }
      EXPECT_FALSE(std::isnan(y.float_at(2 * 16)));
    }
  }
}

TEST_F(CpuRowKernels, AHiddenKeyWhoseScoreOverflowsStaysHidden) {
  Maker make(9);
  for (bool masks_add : {false, true}) {
    OpCase c = attention_case(
        make, {1, 17, 40, 1, 1, 16, 16},
        {.name = "overflow", .attrs = {.masks_add = masks_add}, .keep = AttentionVariant::kKeyRow});
    std::vector<double> k, keep(40, 1.0);
    for (int64_t i = 0; i < c.inputs[1].value.elems(); ++i)
      k.push_back(i / 16 == 7 ? 3e38 : c.inputs[1].value.float_at(i));
    keep[7] = 0;
    c.inputs[1] = {.value = Tensor::from(DType::kF32, {1, 40, 1, 16}, std::span<const double>(k)),
                   .special = false};
    c.inputs[4].value = Tensor::from(DType::kBool, {1, 1, 1, 40}, std::span<const double>(keep));
    EXPECT_EQ(check_case(c), 1);
  }
}

// Three sequences of 5, 0 and 40 tokens packed into one row of 48.
OpCase packed_case(Maker& make, std::vector<int64_t> starts) {
  OpCase c = attention_case(make, {1, 48, 48, 2, 1, 16, 16}, {.name = "packed", .attrs = {}});
  const auto count = static_cast<int64_t>(starts.size());
  const Tensor table = Tensor::from(DType::kI32, {count}, std::span<const int64_t>(starts));
  c.inputs.resize(5);
  c.inputs.push_back({.value = table});
  c.inputs.push_back({.value = table});
  for (Arg& arg : c.inputs) arg.batch_axis = -1;
  c.outputs[0].batch_axis = -1;
  return c;
}

TEST_F(CpuRowKernels, PackedSequencesAttendToTheirOwnTokensOnly) {
  Maker make(4);
  const OpCase c = packed_case(make, {0, 5, 5, 45});
  EXPECT_EQ(check_case(c), 1);
  // The bits of a sequence are those it has alone.
  const KernelDef* kernel = find_kernel(cpu_backend(), "cpu.attention.blocked");
  const Tensor together = run_kernel(*kernel, c, {})[0];
  OpCase alone = c;
  alone.inputs.resize(3);
  const auto tokens = [](const Tensor& t, int64_t begin, int64_t end) {
    const int64_t token = t.elems() / t.shape()[1] * 4;
    Shape shape = t.shape();
    shape[1] = end - begin;
    return Tensor::from_bytes(t.dtype(), shape,
                              t.byte_span().subspan(static_cast<size_t>(begin * token),
                                                    static_cast<size_t>((end - begin) * token)));
  };
  for (Arg& arg : alone.inputs) arg.value = tokens(arg.value, 5, 45);
  alone.outputs[0].shape[1] = 40;
  EXPECT_EQ(compare_bits(run_kernel(*kernel, alone, {})[0], tokens(together, 5, 45)), "");
}

TEST_F(CpuRowKernels, BadSequenceTablesAreErrors) {
  Maker make(5);
  for (const std::vector<int64_t>& starts :
       std::vector<std::vector<int64_t>>{{1, 5}, {0, 5, 3}, {0, 49}}) {
    const OpCase c = packed_case(make, starts);
    try {
      run_kernel(*find_kernel(cpu_backend(), "cpu.attention.blocked"), c, {});
      FAIL() << "no error";
    } catch (const Error& e) {
      EXPECT_THAT(e.what(), ::testing::HasSubstr("cu_seqlens_q must ascend from 0 to at most 48"));
    }
  }
}

TEST_F(CpuRowKernels, MaskedKeysAtTheEndChangeNoBits) {
  Maker make(6);
  // 37 real keys, padded to 200 with a mask of -inf, against 37 keys alone.
  const AttentionShape padded{1, 37, 200, 2, 2, 16, 16};
  OpCase c = attention_case(make, padded,
                            {.name = "padded", .attrs = {}, .bias = AttentionVariant::kKeyRow});
  std::vector<double> mask(200, 0.0);
  std::fill(mask.begin() + 37, mask.end(), -INFINITY);
  c.inputs[3].value = Tensor::from(DType::kF32, {1, 1, 1, 200}, std::span<const double>(mask));
  OpCase alone = c;
  alone.inputs.resize(3);
  for (size_t i : {1u, 2u}) {
    alone.inputs[i].value = Tensor::from_bytes(
        DType::kF32, {1, 37, 2, 16}, c.inputs[i].value.byte_span().first(size_t{37} * 2 * 16 * 4));
  }
  const KernelDef* kernel = find_kernel(cpu_backend(), "cpu.attention.blocked");
  for_each_target([&](const std::string& target) {
    EXPECT_EQ(compare_bits(run_kernel(*kernel, c, {})[0], run_kernel(*kernel, alone, {})[0]), "")
        << target;
  });
}

TEST_F(CpuRowKernels, AttentionOf8192TokensNeedsLittleWorkspace) {
  Maker make(7);
  const KernelDef* kernel = find_kernel(cpu_backend(), "cpu.attention.blocked");
  const auto device = cpu_backend().make_device({.threads = 2, .ordinal = 0});
  const Execution execution = device->execution();
  TensorArg x{.dtype = DType::kF32,
              .rank = 4,
              .shape = {1, 8192, 12, 64},
              .strides = {8192 * 768, 768, 64, 1}};
  const std::vector<TensorArg> in{x, x, x}, out{x};
  const AttrBytes attrs = encode(AttentionAttrs{});
  const auto shape = kernel->prepare({attrs, nullptr, in, out, execution});
  EXPECT_LT(shape->workspace_bytes, size_t{2} << 20);
}

}  // namespace
}  // namespace vernier::backend::test
