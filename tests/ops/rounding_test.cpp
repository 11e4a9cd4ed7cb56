// Rounding points: each point of each operator with points rounds the value it names, and with a
// default Rounding nothing is rounded. Values are chosen so that bf16 (8 bits) shows.
#include <gtest/gtest.h>

#include <cmath>

#include "ops/eval_node.h"

namespace vernier::test {
namespace {

constexpr double kThird = 1.0 / 3;
double bf16(double x) { return round_to(DType::kBF16, x); }

struct RoundingCase {
  std::string name;
  OpKind op;
  std::string attrs;
  std::vector<EvalTensor> in;
  size_t point;
  double expected;  // element 0 of output 0
};
void PrintTo(const RoundingCase& row, std::ostream* out) { *out << row.name; }

class RoundingPoint : public ::testing::TestWithParam<RoundingCase> {};

TEST_P(RoundingPoint, RoundsTheValueItNames) {
  const RoundingCase& row = GetParam();
  Rounding rounding;
  rounding.set(row.point, {DType::kBF16});
  const double got = eval_node(row.op, row.attrs, row.in, rounding).f[0];
  EXPECT_DOUBLE_EQ(got, row.expected);
  const double exact = eval_node(row.op, row.attrs, row.in).f[0];
  EXPECT_NE(got, exact);
}

EvalTensor one(double v) { return tensor({1, 1}, {v}); }

std::vector<RoundingCase> rows() {
  // A norm's row {0, 1, third}: mean 4/9.
  const EvalTensor x = tensor({1, 3}, {kThird, 1, 0}), scale = tensor({3}, {0.7, 1, 1});
  const EvalTensor identity = tensor({3, 3}, {1, 0, 0, 0, 1, 0, 0, 0, 1});
  const EvalTensor nothing = tensor({1, 3}, {0, 0, 0});
  const double mean = (kThird + 1) / 3;
  const auto var_about = [&](double a, double m) {
    return ((a - m) * (a - m) + (1 - m) * (1 - m) + m * m) / 3;
  };
  const double var = var_about(kThird, mean), normal = (kThird - mean) / std::sqrt(var);
  const double x0 = bf16(kThird), mean_x = (x0 + 1) / 3, mean_m = bf16(mean);
  const std::string norm = "{epsilon=0}";
  return {
      {"add_out", OpKind::kAdd, "", {one(kThird), one(1)}, 0, bf16(kThird + 1)},
      {"max_out", OpKind::kMax, "", {one(kThird), one(0)}, 0, bf16(kThird)},
      {"mean_out", OpKind::kMean, "", {one(kThird), one(1)}, 0, bf16((kThird + 1) / 2)},
      {"gelu_out", OpKind::kGelu, "", {one(1)}, 0, bf16(0.5 * std::erfc(-std::sqrt(0.5)))},
      {"cast_out", OpKind::kCast, "{to=bf16}", {one(kThird)}, 0, bf16(kThird)},
      {"clip_out", OpKind::kClip, "", {one(kThird)}, 0, bf16(kThird)},
      {"fused_out",
       OpKind::kFusedElementwise,
       "{program=\"Add(%0,%0)\"}",
       {one(kThird)},
       0,
       bf16(2 * kThird)},
      {"matmul_a", OpKind::kMatMul, "", {one(kThird), one(0.7)}, 0, bf16(kThird) * 0.7},
      {"matmul_b", OpKind::kMatMul, "", {one(kThird), one(0.7)}, 1, kThird * bf16(0.7)},
      {"matmul_out", OpKind::kMatMul, "", {one(kThird), one(0.7)}, 2, bf16(kThird * 0.7)},
      {"gemm_a_transposed",
       OpKind::kGemm,
       "{trans_a=true}",
       {one(kThird), one(0.7)},
       0,
       bf16(kThird) * 0.7},
      {"gemm_b_transposed",
       OpKind::kGemm,
       "{trans_b=true}",
       {one(kThird), one(0.7)},
       1,
       kThird * bf16(0.7)},
      {"gemm_out", OpKind::kGemm, "", {one(kThird), one(0.7), one(1)}, 2, bf16(kThird * 0.7 + 1)},
      {"linear_a", OpKind::kLinear, "", {one(kThird), one(0.7)}, 0, bf16(kThird) * 0.7},
      {"linear_b",
       OpKind::kLinear,
       "{trans_w=true}",
       {one(kThird), one(0.7)},
       1,
       kThird * bf16(0.7)},
      {"linear_out",
       OpKind::kLinear,
       "",
       {one(kThird), one(0.7), tensor({1}, {1})},
       2,
       bf16(kThird * 0.7 + 1)},
      {"einsum_out", OpKind::kEinsum, "{equation=\"ij->i\"}", {one(kThird)}, 0, bf16(kThird)},
      {"conv_a",
       OpKind::kConv,
       "",
       {tensor({1, 1, 1}, {kThird}), tensor({1, 1, 1}, {0.7})},
       0,
       bf16(kThird) * 0.7},
      {"conv_b",
       OpKind::kConv,
       "",
       {tensor({1, 1, 1}, {kThird}), tensor({1, 1, 1}, {0.7})},
       1,
       kThird * bf16(0.7)},
      {"conv_out",
       OpKind::kConv,
       "",
       {tensor({1, 1, 1}, {kThird}), tensor({1, 1, 1}, {0.7})},
       2,
       bf16(kThird * 0.7)},
      {"conv_transpose_a",
       OpKind::kConvTranspose,
       "",
       {tensor({1, 1, 1}, {kThird}), tensor({1, 1, 1}, {0.7})},
       0,
       bf16(kThird) * 0.7},
      {"average_pool_out",
       OpKind::kAveragePool,
       "{kernel_shape=[1]}",
       {tensor({1, 1, 1}, {kThird})},
       0,
       bf16(kThird)},
      {"global_average_out",
       OpKind::kGlobalAveragePool,
       "",
       {tensor({1, 1, 1}, {kThird})},
       0,
       bf16(kThird)},
      {"layer_norm_x",
       OpKind::kLayerNorm,
       norm,
       {x, scale},
       0,
       (x0 - mean_x) / std::sqrt(var_about(x0, mean_x)) * 0.7},
      {"layer_norm_mean",
       OpKind::kLayerNorm,
       norm,
       {x, scale},
       1,
       (kThird - mean_m) / std::sqrt(var_about(kThird, mean_m)) * 0.7},
      {"layer_norm_var",
       OpKind::kLayerNorm,
       norm,
       {x, scale},
       2,
       (kThird - mean) / std::sqrt(bf16(var)) * 0.7},
      {"layer_norm_normalised", OpKind::kLayerNorm, norm, {x, scale}, 3, bf16(normal) * 0.7},
      {"layer_norm_out", OpKind::kLayerNorm, norm, {x, scale}, 4, bf16(normal * 0.7)},
      {"rms_var",
       OpKind::kRMSNorm,
       norm,
       {x, scale},
       2,
       kThird / std::sqrt(bf16((kThird * kThird + 1) / 3)) * 0.7},
      {"rms_out",
       OpKind::kRMSNorm,
       norm,
       {x, scale},
       4,
       bf16(kThird / std::sqrt((kThird * kThird + 1) / 3) * 0.7)},
      {"add_norm_x",
       OpKind::kAddLayerNorm,
       norm,
       {x, tensor({1, 3}, {0, 0, 0}), scale},
       0,
       (x0 - mean_x) / std::sqrt(var_about(x0, mean_x)) * 0.7},
      {"add_norm_sum",
       OpKind::kAddLayerNorm,
       norm,
       {tensor({1, 3}, {kThird - 1, 0, -1}), tensor({1, 3}, {1, 1, 1}), scale},
       1,
       (x0 - mean_x) / std::sqrt(var_about(x0, mean_x)) * 0.7},
      {"add_norm_out",
       OpKind::kAddLayerNorm,
       norm,
       {x, tensor({1, 3}, {0, 0, 0}), scale},
       5,
       bf16(normal * 0.7)},
      {"linear_norm_a",
       OpKind::kLinearAddLayerNorm,
       norm,
       {x, identity, EvalTensor(), nothing, scale},
       0,
       (x0 - mean_x) / std::sqrt(var_about(x0, mean_x)) * 0.7},
      {"linear_norm_b",
       OpKind::kLinearAddLayerNorm,
       norm,
       {tensor({1, 3}, {1, 1, 1}), tensor({3, 3}, {kThird, 0, 0, 0, 1, 0, 0, 0, 0}), EvalTensor(),
        nothing, scale},
       1,
       (x0 - mean_x) / std::sqrt(var_about(x0, mean_x)) * 0.7},
      {"linear_norm_product",
       OpKind::kLinearAddLayerNorm,
       norm,
       {x, identity, EvalTensor(), nothing, scale},
       2,
       (x0 - mean_x) / std::sqrt(var_about(x0, mean_x)) * 0.7},
      {"linear_norm_sum",
       OpKind::kLinearAddLayerNorm,
       norm,
       {tensor({1, 3}, {kThird - 1, 0, -1}), identity, EvalTensor(), tensor({1, 3}, {1, 1, 1}),
        scale},
       3,
       (x0 - mean_x) / std::sqrt(var_about(x0, mean_x)) * 0.7},
      {"linear_norm_mean",
       OpKind::kLinearAddLayerNorm,
       norm,
       {x, identity, EvalTensor(), nothing, scale},
       4,
       (kThird - mean_m) / std::sqrt(var_about(kThird, mean_m)) * 0.7},
      {"linear_norm_var",
       OpKind::kLinearAddLayerNorm,
       norm,
       {x, identity, EvalTensor(), nothing, scale},
       5,
       (kThird - mean) / std::sqrt(bf16(var)) * 0.7},
      {"linear_norm_normalised",
       OpKind::kLinearAddLayerNorm,
       norm,
       {x, identity, EvalTensor(), nothing, scale},
       6,
       bf16(normal) * 0.7},
      {"linear_norm_out",
       OpKind::kLinearAddLayerNorm,
       norm,
       {x, identity, EvalTensor(), nothing, scale},
       7,
       bf16(normal * 0.7)},
      {"group_normalised",
       OpKind::kGroupNormalization,
       "{num_groups=1, epsilon=0}",
       {tensor({1, 3, 1}, {kThird, 1, 0}), scale, tensor({3}, {0, 0, 0})},
       3,
       bf16(normal) * 0.7},
      {"embed_norm_out",
       OpKind::kEmbedNorm,
       "{tables=1, epsilon=0}",
       {integers(DType::kI64, {1}, {0}), x, scale},
       4,
       bf16(normal * 0.7)},
      // The second step reads the rounded state of the first.
      {"rnn_out",
       OpKind::kRNN,
       "{direction=1, functions=[3], alpha=[1], beta=[0]}",
       {tensor({2, 1, 1}, {0, kThird}), tensor({1, 1, 1}, {1}), tensor({1, 1, 1}, {0.5})},
       0,
       bf16(kThird) / 2},
      {"linear_attention_out",
       OpKind::kLinearAttention,
       "",
       {tensor({1, 1, 1, 1}, {kThird}), tensor({1, 1, 1, 1}, {1}), tensor({1, 1, 1, 1}, {1})},
       0,
       bf16(kThird)},
      {"l2_norm_out", OpKind::kL2Norm, "", {tensor({1, 2}, {3, 4})}, 0, bf16(0.6)},
      {"masked_mean_out",
       OpKind::kMaskedMean,
       "",
       {tensor({1, 1, 1}, {kThird}), one(1)},
       0,
       bf16(kThird)},
      {"batch_norm_out",
       OpKind::kBatchNormalization,
       norm,
       {one(kThird), tensor({1}, {1}), tensor({1}, {0}), tensor({1}, {0}), tensor({1}, {1})},
       0,
       bf16(kThird)},
  };
}

INSTANTIATE_TEST_SUITE_P(Rounding, RoundingPoint, ::testing::ValuesIn(rows()),
                         [](const auto& row) { return row.param.name; });

}  // namespace
}  // namespace vernier::test
