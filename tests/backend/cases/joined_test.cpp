// One launch for two steps gives the bits of two launches: products, norms and attention with the
// QuantizeRows behind them, products of heads with the attention whose scores they are. Values of
// either step alone: the case tables beside this file.
#include "backend/cases/joined.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "backend/cases/attention.h"
#include "backend/cases/quantized_linear.h"
#include "backend/device_under_test.h"

namespace vernier::backend::test {

OpCase quantize_result_of(const OpCase& first, const Quantizing& how) {
  Out from = first.outputs[0];
  if (first.op == OpKind::kAttention) {  // all heads of a query are a row
    const int64_t width = from.shape[2] * from.shape[3];
    from.shape.resize(2);
    from.shape.push_back(width);
  }
  const DType to = how.to_f8 ? DType::kF8E4M3 : DType::kQ8;
  OpCase c{.name = std::string(how.to_f8 ? "to f8e4m3 " : "") +
                   (how.given ? "by a given scale" : "by rows"),
           .op = OpKind::kQuantizeRows,
           .attrs = encode(QuantizeRowsAttrs{to})};
  const std::vector<double> zeros(static_cast<size_t>(num_elems(from.shape)), 0.0);
  c.inputs = {{.value = Tensor::from(from.dtype, from.shape, std::span<const double>(zeros))}};
  const auto constant = [](Tensor value) {
    return Arg{.value = std::move(value), .constant = true, .special = false, .stays_f32 = true};
  };
  if (how.factors) {
    c.name += " times factors";
    std::vector<double> factors;
    for (int64_t k = 0; k < from.shape.back(); ++k) factors.push_back(std::exp2(k % 5 - 2));
    c.inputs.push_back(
        constant(Tensor::from(DType::kF32, {from.shape.back()}, std::span<const double>(factors))));
  } else {
    c.inputs.push_back({.value = Tensor()});
  }
  c.outputs = {{.dtype = to, .shape = from.shape}};
  if (how.given) {
    c.inputs.push_back(constant(Tensor::scalar(DType::kF32, 0.04)));
    if (!how.to_f8) c.inputs.push_back(constant(Tensor::scalar(DType::kF32, -40)));
  } else {
    Shape by_row = from.shape;
    by_row.back() = 1;
    c.outputs.insert(c.outputs.end(), how.to_f8 ? 1 : 2, {.dtype = DType::kF32, .shape = by_row});
  }
  return c;
}

namespace {

void expect_equal(const Results& a, const Results& b, const std::string& what) {
  for (size_t i = 0; i < a.size(); ++i) {
    if (!a[i].defined()) continue;
    EXPECT_EQ(compare_bits(a[i], b[i]), "") << what << ", output " << i;
  }
}

}  // namespace

int check_pair(const KernelDef& kernel, const OpCase& first, const OpCase& second,
               std::string_view tuning, const std::vector<HeadsOfFirst>& heads) {
  if (kernel.joins == nullptr || !kernel.joins(make_problem(first), make_problem(second))) return 0;
  int joined = 0;
  for (const KernelDef* next : rows_of(second)) {
    if (!next->may_be_joined) continue;
    ++joined;
    const std::string what = std::string(kernel.name) + " " + first.name + " and " +
                             std::string(next->name) + " " + second.name + " " +
                             std::string(tuning);
    const PairOfSteps pair{kernel, *next, first, second, heads};
    const RunOptions own{.tuning = tuning};
    const PairResults two = run_pair(pair, Together::kNo, own);
    const PairResults one = run_pair(pair, Together::kYes, own);
    expect_equal(two.first, one.first, what + ": first result of one launch");
    expect_equal(two.second, one.second, what + ": second result of one launch");
    std::vector<RunOptions> ways{own};
    if (tuning.empty()) {
      for (const RunOptions& way : device_under_test().other_ways()) ways.push_back(way);
    }
    for (const RunOptions& way : ways) {
      const PairResults unused = run_pair(pair, Together::kUnused, way);
      expect_equal(two.second, unused.second, what + ": second result alone");
      // A CPU stores the columns that are read.
      const bool stores = device_under_test().device(1).host_memory();
      if (!heads.empty() && &way == ways.data() && !stores && !device_under_test().bare()) {
        EXPECT_NE(compare_bits(two.first[0], unused.first[0]), "")
            << what << ": nobody reads the first result, which was stored";
      }
    }
  }
  return joined;
}

namespace {

class OnDevice : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const Support here = device_under_test().available(); !here)
      GTEST_SKIP() << "SKIP: " << here.reason;
  }
  void expect_joined(const char* on_cpu, const char* on_cuda) {
    const bool is_cpu = device_under_test().device(1).host_memory();
    const std::string name = is_cpu ? on_cpu : on_cuda;
    if (name.empty()) return;  // not on this device
    EXPECT_GT(joined_[name], 0) << name << " joined nothing";
  }
  std::map<std::string, int, std::less<>> joined_;
};

class Joined : public OnDevice {
 protected:
  void SetUp() override {
    OnDevice::SetUp();
    if (!IsSkipped() && device_under_test().bare()) GTEST_SKIP() << "SKIP: not for memory checkers";
  }
  // With the step behind it in every form.
  void check(const OpCase& first) {
    for (const bool given : {false, true}) {
      for (const bool factors : {false, true}) {
        for (const bool to_f8 : {false, true}) {
          const OpCase second = quantize_result_of(first, {given, factors, to_f8});
          for (const KernelDef* kernel : rows_of(first))
            joined_[std::string(kernel->name)] += check_pair(*kernel, first, second);
        }
      }
    }
  }
};

OpCase in_f16(const OpCase& c) { return stored_as(c, std::array{DType::kF16}); }
OpCase in_bf16(const OpCase& c) { return stored_as(c, std::array{DType::kBF16}); }

// Few rows, whose bytes leave straight from registers, and many, whose bytes leave through boxes of
// shared memory; columns that end inside a box and inside a tile; odd rows.
TEST_F(Joined, ProductsQuantizeTheirResult) {
  Maker make(150);
  const bool is_cpu = device_under_test().device(1).host_memory();
  std::vector<QuantizedCase> rows{
      {.name = "one row", .x = {1, 64}, .n = 128},
      {.name = "few rows, gelu",
       .x = {7, 384},
       .n = 1536,
       .attrs = {.activation = Activation::kGeluErf},
       .x_zero = true},
      {.name = "ragged", .x = {131, 144}, .n = 264, .x_zero = true},
      {.name = "relu", .x = {129, 80}, .n = 136, .attrs = {.activation = Activation::kRelu}},
      {.name = "eight columns", .x = {70, 32}, .n = 8},
      {.name = "one scale", .x = {300, 128}, .n = 256, .by_row = false, .x_zero = true},
      {.name = "tanh, no bias",
       .x = {65, 48},
       .n = 144,
       .attrs = {.activation = Activation::kTanh},
       .bias = false}};
  if (!is_cpu) {
    for (const int64_t n : {int64_t{1024}, int64_t{1032}, int64_t{1040}, int64_t{4096}}) {
      rows.push_back({.name = "many rows", .x = {5001, 256}, .n = n, .x_zero = true});
      rows.push_back({.name = "many rows, gelu",
                      .x = {4096, 256},
                      .n = n,
                      .attrs = {.activation = Activation::kGeluErf}});
    }
  }
  for (const QuantizedCase& row : rows) {
    QuantizedCase in_f8 = row;
    in_f8.x_type = in_f8.w_type = DType::kF8E4M3;
    in_f8.x_zero = false;
    for (const QuantizedCase& one : {row, in_f8}) {
      const OpCase c = quantized_case(make, one);
      check(c);
      check(in_f16(c));
      check(in_bf16(c));
    }
  }
  expect_joined("cpu.quantized_linear.panels", "cuda.quantized_linear.sm90");
}

// Of one step of keys and of several, rows stored straight and through shared memory, rows whose
// keys are all hidden, and sequences, behind which rows are of none.
TEST_F(Joined, AttentionQuantizesItsResult) {
  Maker make(152);
  const AttentionVariant plain;
  for (const AttentionShape& shape : std::vector<AttentionShape>{{2, 7, 7, 4, 4, 64, 64},
                                                                 {3, 130, 128, 2, 2, 32, 32},
                                                                 {2, 200, 300, 3, 3, 64, 64},
                                                                 {1, 65, 200, 2, 1, 32, 32},
                                                                 {1, 130, 200, 2, 2, 128, 128}}) {
    check(in_f16(attention_case(make, shape, plain)));
    check(in_bf16(attention_case(make, shape, plain)));
    for (const AttentionVariant& variant : attention_variants())
      check(in_f16(attention_case(make, shape, variant)));
  }
  for (const AttentionVariant& variant : attention_variants())
    check(in_f16(attention_case_with_hidden_rows(make, variant)));
  for (const int64_t dim : {32, 64, 128})
    check(in_f16(packed_attention_case(make, {0, 7, 40}, dim)));
  // Tiles of a list.
  check(in_f16(packed_attention_case(make, {0, 300, 301, 491, 491, 1003, 1067}, 64, 1072, 170)));
  expect_joined("cpu.attention.blocked", "cuda.attention.flash_sm90");
  expect_joined("cpu.attention.bf16", "");
}

TEST_F(Joined, NormsQuantizeTheirResult) {
  Maker make(151);
  for (const auto& [rows, width] : std::vector<std::pair<int64_t, int64_t>>{
           {1, 8}, {3, 17}, {130, 384}, {33, 768}, {300, 1024}, {1100, 512}, {5, 4096}}) {
    const int64_t cols = width;  // lambdas cannot name it else
    const Arg x{.value = make.normal({rows, cols}, 0.5), .batch_axis = 0};
    const auto parameter = [&](double mean) {
      return Arg{.value = make.normal({cols}, mean, 0.1), .constant = true, .stays_f32 = true};
    };
    OpCase c{.name = std::to_string(rows) + "x" + std::to_string(cols),
             .op = OpKind::kAddLayerNorm,
             .attrs = encode(NormAttrs{.axis = -1, .epsilon = 1e-5})};
    c.inputs = {
        x, {.value = make.normal({rows, cols}), .batch_axis = 0}, parameter(1), parameter(0)};
    c.outputs = {{.shape = {rows, cols}}};
    OpCase with_sum = c;
    with_sum.outputs.push_back({.shape = {rows, cols}});
    OpCase alone = c;
    alone.op = OpKind::kLayerNorm;
    alone.inputs.erase(alone.inputs.begin() + 1);
    for (const OpCase& first : {c, with_sum, alone}) {
      check(first);
      check(in_f16(first));
      check(stored_as(first, std::array{DType::kBF16}));
    }
  }
  expect_joined("cpu.add_layer_norm.rows", "cuda.add_layer_norm.packed");
}

// ---- scores by relative position

struct Relative {
  int64_t batch, length, heads, rows;
  AttentionVariant variant;
  std::vector<int64_t> starts;  // of sequences, as many tokens as `length`; empty: none
  int64_t longest = 0;
};

// Queries and keys by their tables, and the attention that reads both.
void check_relative(Maker& make, const Relative& r, DType type,
                    std::map<std::string, int, std::less<>>& joined) {
  using enum AttentionAttrs::Input;
  OpCase first{.name = "queries and keys", .op = OpKind::kMatMul};
  first.inputs = {{.value = make.normal({r.batch, 2 * r.heads, r.length, 64})},
                  {.value = make.normal({1, 2 * r.heads, 64, r.rows}, 0, 0.25), .constant = true}};
  first.outputs = {{.shape = {r.batch, 2 * r.heads, r.length, r.rows}}};
  AttentionVariant variant = r.variant;
  variant.query_buckets = variant.key_buckets = r.rows;
  OpCase second =
      attention_case(make, {r.batch, r.length, r.length, r.heads, r.heads, 64, 64}, variant);
  if (!r.starts.empty()) {
    const auto sequences = static_cast<int64_t>(r.starts.size()) - 1;
    const Tensor starts =
        Tensor::from(DType::kI32, {sequences + 1}, std::span<const int64_t>(r.starts));
    second.inputs[kStartsQ] = second.inputs[kStartsK] = {.value = starts};
    second.inputs[kPlaces] = {.value = make.integers(DType::kI32, {sequences, r.longest}, 0, 1)};
    const OpCase of_sequence =
        attention_case(make, {1, r.longest, r.longest, r.heads, r.heads, 64, 64}, variant);
    for (const size_t i : {kQueryBuckets, kKeyBuckets}) second.inputs[i] = of_sequence.inputs[i];
  }
  const std::vector<HeadsOfFirst> heads{{kQ, false, 0},
                                        {kK, false, r.heads},
                                        {kQueryPositions, true, 0},
                                        {kKeyPositions, true, r.heads}};
  const auto stored = [type](const OpCase& c) {
    return type == DType::kF32 ? c : stored_as(c, std::array{type});
  };
  const OpCase own = stored(first), next = stored(second);
  for (const KernelDef* kernel : rows_of(own))
    joined[std::string(kernel->name)] += check_pair(*kernel, own, next, {}, heads);
}

class RelativeScores : public OnDevice {};

// Blocks of one warpgroup and of two, several tiles and steps, tables of fewer rows than a product
// takes, buckets that are those of their neighbors, neighbors' neighbors or any, masks of keys and
// of queries, steps whose keys are all hidden, sequences that fill their places and that do not.
TEST_F(RelativeScores, AreComputedInTheAttention) {
  Maker make(153);
  constexpr double lowest = -3.4028234663852886e38;
  const AttentionVariant near{.name = "near", .near_buckets = true}, any{.name = "any"};
  const AttentionVariant masked{.name = "near, masks",
                                .attrs = {.fill = lowest},
                                .keep = AttentionVariant::kKeyRow,
                                .keep_queries = true,
                                .near_buckets = true};
  AttentionVariant zero_rows = masked;
  zero_rows.attrs.zero_hidden_rows = true;
  zero_rows.attrs.fill = -HUGE_VAL;
  const std::vector<Relative> small{{2, 40, 2, 16, near},
                                    {1, 300, 2, 512, masked},
                                    {2, 70, 34, 136, near},
                                    {2, 70, 2, 200, any},
                                    {1, 190, 40, 512, masked, {0, 5, 5, 70, 70, 187}, 120}};
  std::vector<Relative> all{{1, 1, 2, 512, near},
                            {2, 130, 3, 256, near},
                            {1, 515, 2, 512, near},
                            {4, 257, 17, 136, near},
                            {5, 140, 31, 512, masked},
                            {3, 200, 34, 264, any},
                            {3, 200, 34, 384, zero_rows},
                            {1, 520, 3, 512, near, {0, 300, 301, 520}, 300},
                            {1, 192, 20, 256, near, {0, 64, 128, 192}, 64}};
  all.insert(all.end(), small.begin(), small.end());
  for (const DType type : {DType::kF32, DType::kF16, DType::kBF16}) {
    // Under memory checkers few and small.
    for (const Relative& r : device_under_test().bare() ? small : all)
      check_relative(make, r, type, joined_);
  }
  expect_joined("cpu.mat_mul.packed", "cuda.mat_mul.heads");
}

}  // namespace
}  // namespace vernier::backend::test
