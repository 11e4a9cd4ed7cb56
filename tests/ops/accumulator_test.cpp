// Rounding's accumulator and inner results: every operator with a sum carries it as asked, the
// matrix product equals one Sum per element, and what is not finite survives.
#include <gtest/gtest.h>

#include <cmath>

#include "ops/eval_node.h"

namespace vernier::test {
namespace {

using Mode = PointRounding::Mode;
constexpr double kSmall = 0x1p-9;  // 1 + kSmall is 1 in bf16, so is 1 + kSmall²

TEST(Sum, TakesItsTypeAfterEachAddition) {
  const auto sum = [](const PointRounding& accumulator, const std::vector<double>& terms) {
    return carried_sum(accumulator, terms, [](double v) { return v; });
  };
  const std::vector<double> terms{1, kSmall, kSmall, kSmall};
  EXPECT_EQ(sum({}, terms), 1 + 3 * kSmall);
  EXPECT_EQ(sum({DType::kF64, Mode::kNearest, 2}, terms), 1 + 3 * kSmall);
  EXPECT_EQ(sum({DType::kBF16}, terms), 1);
  EXPECT_EQ(sum({DType::kF16}, terms), 1 + 3 * kSmall);
  // Promoted every two: (1 + small → 1) + (2·small), in f32.
  EXPECT_EQ(sum({DType::kBF16, Mode::kNearest, 2}, terms), 1 + 2 * kSmall);
  EXPECT_EQ(sum({DType::kBF16, Mode::kNearest, 3}, terms), 1 + kSmall);
  EXPECT_EQ(sum({DType::kBF16, Mode::kNearest, 1}, {1, 0x1p-25}), 1) << "the total is f32";
  EXPECT_EQ(sum({DType::kBF16}, {1, 3 * kSmall}), 1 + 4 * kSmall);
  EXPECT_EQ(sum({DType::kBF16, Mode::kTruncate}, {1, 3 * kSmall}), 1);
  EXPECT_EQ(sum({DType::kBF16, Mode::kTruncate}, {-1, -3 * kSmall}), -1);
  EXPECT_EQ(sum({DType::kF16}, {65504, 65504}), HUGE_VAL) << "overflow shows";
  EXPECT_TRUE(std::isnan(sum({DType::kF16}, {HUGE_VAL, -HUGE_VAL})));
}

struct Case {
  std::string name;
  OpKind op;
  std::string attrs;
  std::vector<EvalTensor> in;
  double expected;  // element 0 of output 0 with sums carried in bf16
};
void PrintTo(const Case& row, std::ostream* out) { *out << row.name; }

class Carried : public ::testing::TestWithParam<Case> {};

TEST_P(Carried, AsTheAccumulatorSays) {
  const Case& row = GetParam();
  Rounding rounding;
  rounding.set_accumulator({DType::kBF16});
  EXPECT_DOUBLE_EQ(eval_node(row.op, row.attrs, row.in, rounding).f[0], row.expected);
  EXPECT_NE(eval_node(row.op, row.attrs, row.in).f[0], row.expected);
}

std::vector<Case> cases() {
  const std::vector<double> one_and_dust{1, kSmall, kSmall, kSmall}, ones{1, 1, 1, 1};
  const double log_small = std::log(kSmall);
  const std::vector<double> logs{0, log_small, log_small, log_small};
  const EvalTensor row = tensor({1, 4}, one_and_dust), column = tensor({4, 1}, ones);
  const EvalTensor plane = tensor({1, 1, 4}, one_and_dust), log_row = tensor({1, 4}, logs);
  const EvalTensor channels = tensor({1, 4, 1}, one_and_dust);
  const EvalTensor weights = tensor({1, 1, 4}, ones);
  const EvalTensor identity = tensor({4, 4}, {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1});
  const EvalTensor scale = tensor({4}, ones), zeros = tensor({4}, {0, 0, 0, 0});
  const EvalTensor nothing = tensor({1, 1, 1, 1}, {0}), keys = tensor({1, 4, 1, 1}, {0, 0, 0, 0});
  const std::vector<double> values{4, 4 * kSmall, 4 * kSmall, 4 * kSmall};
  const auto bf16 = [](double v) { return round_to(DType::kBF16, v); };
  std::vector<double> dusty(128, 0);
  std::fill_n(dusty.begin(), 64, kSmall);
  dusty[0] = 1;
  // LayerNorm: the sum is carried as 1; then the squares of 3/4 and three times of small − 1/4.
  const double distance = kSmall - 0.25;
  double squares = bf16(0.5625);
  for (int i = 0; i < 3; ++i) squares = bf16(squares + distance * distance);
  const double normal = 0.75 / std::sqrt(squares / 4);
  const std::string affine = "{functions=[3], alpha=[1], beta=[0]}";
  return {
      {"reduce_sum", OpKind::kReduceSum, "{axes=[1]}", {row}, 1},
      {"reduce_mean", OpKind::kReduceMean, "{axes=[1]}", {row}, 0.25},
      {"reduce_l1", OpKind::kReduceL1, "{axes=[1]}", {row}, 1},
      {"reduce_l2", OpKind::kReduceL2, "{axes=[1]}", {row}, 1},
      {"reduce_log_sum", OpKind::kReduceLogSum, "{axes=[1]}", {row}, 0},
      {"reduce_log_sum_exp", OpKind::kReduceLogSumExp, "{axes=[1]}", {log_row}, 0},
      {"reduce_sum_square", OpKind::kReduceSumSquare, "{axes=[1]}", {row}, 1},
      {"reduce_prod", OpKind::kReduceProd, "{axes=[1]}", {tensor({1, 2}, {1 + kSmall, 1})}, 1},
      {"cum_sum",
       OpKind::kCumSum,
       "{reverse=true}",
       {tensor({1, 3}, {kSmall, 0, 1}), integers(DType::kI64, {1}, {1})},
       1},
      {"cum_prod",
       OpKind::kCumProd,
       "{reverse=true}",
       {tensor({1, 2}, {1, 1 + kSmall}), integers(DType::kI64, {1}, {1})},
       1},
      {"softmax", OpKind::kSoftmax, "{axis=1}", {log_row}, 1},
      {"log_softmax", OpKind::kLogSoftmax, "{axis=1}", {log_row}, 0},
      {"lp_normalization", OpKind::kLpNormalization, "{axis=1, p=1}", {row}, 1},
      {"matmul", OpKind::kMatMul, "", {row, column}, 1},
      {"gemm", OpKind::kGemm, "", {row, column}, 1},
      {"linear", OpKind::kLinear, "", {row, column}, 1},
      {"einsum", OpKind::kEinsum, "{equation=\"ij->i\"}", {row}, 1},
      {"conv", OpKind::kConv, "", {plane, weights}, 1},
      {"conv_transpose", OpKind::kConvTranspose, "", {channels, tensor({4, 1, 1}, ones)}, 1},
      {"average_pool", OpKind::kAveragePool, "{kernel_shape=[4]}", {plane}, 0.25},
      {"global_average", OpKind::kGlobalAveragePool, "", {plane}, 0.25},
      {"rnn", OpKind::kRNN, affine, {plane, weights, tensor({1, 1, 1}, {0})}, 1},
      {"rnn_state",
       OpKind::kRNN,
       affine,
       {tensor({1, 1, 1}, {0}), tensor({1, 4, 1}, {0, 0, 0, 0}),
        tensor({1, 4, 4}, {1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}), EvalTensor(),
        EvalTensor(), plane},
       1},
      {"linear_attention",  // a read of a state of ones
       OpKind::kLinearAttention,
       "",
       {tensor({1, 1, 1, 4}, one_and_dust), tensor({1, 1, 1, 4}, {0, 0, 0, 0}), nothing,
        tensor({1, 1, 4, 1}, ones)},
       1},
      {"l2_norm", OpKind::kL2Norm, "", {row}, 1},
      {"masked_mean", OpKind::kMaskedMean, "", {channels, tensor({1, 4}, ones)}, 0.25},
      {"attention_context",
       OpKind::kAttention,
       "",
       {nothing, keys, tensor({1, 4, 1, 1}, values)},
       1},
      {"attention_scores",  // 1 instead of 1.12, beside a key with score 0
       OpKind::kAttention,
       "{scale=1}",
       {tensor({1, 1, 1, 64}, std::vector<double>(64, 1)), tensor({1, 2, 1, 64}, dusty),
        tensor({1, 2, 1, 1}, {1, 0})},
       bf16(1 / (1 + std::exp(-1)))},
      {"layer_norm", OpKind::kLayerNorm, "{epsilon=0}", {row, scale}, normal},
      {"rms_norm", OpKind::kRMSNorm, "{epsilon=0}", {row, scale}, 2},
      {"add_layer_norm",
       OpKind::kAddLayerNorm,
       "{epsilon=0}",
       {row, tensor({1, 4}, {0, 0, 0, 0}), scale},
       normal},
      {"linear_add_layer_norm",
       OpKind::kLinearAddLayerNorm,
       "{epsilon=0}",
       {row, identity, EvalTensor(), tensor({1, 4}, {0, 0, 0, 0}), scale},
       normal},
      {"group_norm",
       OpKind::kGroupNormalization,
       "{num_groups=1, epsilon=0}",
       {channels, scale, zeros},
       normal},
      {"embed_norm",
       OpKind::kEmbedNorm,
       "{tables=1, epsilon=0}",
       {integers(DType::kI64, {1}, {0}), row, scale},
       normal},
  };
}
INSTANTIATE_TEST_SUITE_P(Accumulator, Carried, ::testing::ValuesIn(cases()),
                         [](const auto& row) { return row.param.name; });

TEST(MatMul, CarriesEveryElementAsOneSum) {
  const EvalTensor a = random_tensor({3, 300}, 1), b = random_tensor({300, 5}, 2);
  for (const PointRounding& accumulator :
       {PointRounding{DType::kBF16}, PointRounding{DType::kF16, Mode::kTruncate},
        PointRounding{DType::kTF32, Mode::kTruncate, 128}, PointRounding{DType::kF32},
        PointRounding{DType::kF16, Mode::kNearest, 100}}) {
    Rounding rounding;
    rounding.set_accumulator(accumulator);
    const EvalTensor y = eval_node(OpKind::kMatMul, "", {a, b}, rounding);
    for (size_t i = 0; i < 3; ++i) {
      for (size_t j = 0; j < 5; ++j) {
        Sum sum(accumulator);
        for (size_t k = 0; k < 300; ++k) sum.add(a.f[i * 300 + k] * b.f[k * 5 + j]);
        ASSERT_EQ(y.f[i * 5 + j], sum.value()) << name(accumulator.type);
      }
    }
  }
}

TEST(MatMul, NaNAndInfinitySurviveANarrowAccumulator) {
  const EvalTensor a = tensor({1, 3}, {1, NAN, 1}), b = tensor({1, 3}, {1, HUGE_VAL, -1});
  const EvalTensor ones = tensor({3, 1}, {1, 1, 1});
  for (const Mode mode : {Mode::kNearest, Mode::kTruncate}) {
    Rounding rounding;
    rounding.set_accumulator({DType::kF16, mode, 2});
    rounding.set(0, {DType::kF16, mode});
    EXPECT_TRUE(std::isnan(eval_node(OpKind::kMatMul, "", {a, ones}, rounding).f[0]));
    EXPECT_EQ(eval_node(OpKind::kMatMul, "", {b, ones}, rounding).f[0], HUGE_VAL);
  }
}

// ---- inner results ---------------------------------------------------------------------------

TEST(Inner, EveryInstructionOfAChainTakesTheComputeType) {
  // ((1 + small) − 1): in bf16 the sum is 1.
  const std::vector<EvalTensor> in{tensor({1}, {1}), tensor({1}, {kSmall})};
  Rounding rounding;
  const std::string chain = "{program=\"Add(%0,%1);Sub(%2,%0)\"}";
  EXPECT_EQ(eval_node(OpKind::kFusedElementwise, chain, in, rounding).f[0], kSmall);
  rounding.set_inner({DType::kBF16});
  EXPECT_EQ(eval_node(OpKind::kFusedElementwise, chain, in, rounding).f[0], 0);
}

TEST(Inner, BiasAndActivationOfAProductTakeTheirType) {
  const std::vector<EvalTensor> in{tensor({1, 1}, {1}), tensor({1, 1}, {1}), tensor({1}, {kSmall}),
                                   tensor({1, 1}, {-1})};
  EXPECT_EQ(eval_node(OpKind::kLinear, "", in).f[0], kSmall);
  Rounding rounding;
  rounding.set_inner({DType::kBF16});
  EXPECT_EQ(eval_node(OpKind::kLinear, "", in, rounding).f[0], 0);
}

TEST(Inner, SquaresOfANormTakeTheirType) {
  const EvalTensor x = tensor({1, 2}, {300, 100}), scale = tensor({2}, {1, 1});
  Rounding rounding;
  rounding.set_inner({DType::kF16});
  EXPECT_EQ(eval_node(OpKind::kRMSNorm, "", {x, scale}, rounding).f[0], 0) << "300² overflows f16";
}

// ---- peaks -----------------------------------------------------------------------------------

TEST(Peaks, AreSeenWithoutRounding) {
  PointPeaks peaks{};
  Rounding rounding;
  rounding.record(&peaks);
  const EvalTensor a = tensor({1, 2}, {3, -4}), b = tensor({2, 1}, {-2, 0.5});
  EXPECT_EQ(eval_node(OpKind::kMatMul, "", {a, b}, rounding).f[0], -8);
  EXPECT_EQ(peaks[0], 4);
  EXPECT_EQ(peaks[1], 2);
  EXPECT_EQ(peaks[2], 8);
  eval_node(OpKind::kMatMul, "", {tensor({1, 1}, {NAN}), tensor({1, 1}, {1})}, rounding);
  EXPECT_EQ(peaks[0], 4) << "NaN does not count";
}

}  // namespace
}  // namespace vernier::test
