// The blocked FP64 product at sizes around its blocks, row bits, and the cost functions of matrix
// products, convolutions and attention.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/attrs.h"
#include "ops/eval_node.h"
#include "reference/matmul.h"
#include "rules/rules.h"

namespace vernier::test {
namespace {

TEST(MatMul, BlockedProductEqualsTheDotProduct) {
  // A tile has 4 rows and 6 to 24 columns, a block 256 products; 8 rows do not copy the block.
  for (const auto& [m, n, k] : {std::array<int64_t, 3>{3, 511, 63},
                                {2, 513, 65},
                                {1, 1030, 131},
                                {9, 23, 255},
                                {13, 25, 257},
                                {8, 48, 513},
                                {131, 7, 600},
                                {70, 1, 1025},
                                {5, 1025, 1},
                                {257, 129, 2}}) {
    const EvalTensor a = random_tensor({m, k}, 1), b = random_tensor({k, n}, 2);
    const EvalTensor y = eval_node(OpKind::kMatMul, "", {a, b});
    std::vector<double> plain(y.f.size(), 0.0);
    reference::multiply_plainly({m, n, k}, a.f.data(), b.f.data(), plain.data());
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        const auto at = static_cast<size_t>(i * n + j);
        double sum = 0;
        for (int64_t l = 0; l < k; ++l)
          sum += a.f[static_cast<size_t>(i * k + l)] * b.f[static_cast<size_t>(l * n + j)];
        // Two orders of a sum of k products below 1 differ by at most k²·2⁻⁵³.
        ASSERT_NEAR(y.f[at], sum, static_cast<double>(k * k) * 0x1p-53)
            << m << "x" << n << "x" << k;
        ASSERT_NEAR(y.f[at], plain[at], 1e-12) << m << "x" << n << "x" << k;
      }
    }
  }
}

TEST(MatMul, NanAndInfinityStayInTheirRowsAndColumns) {
  const int64_t m = 9, n = 50, k = 300;
  EvalTensor a = random_tensor({m, k}, 1), b = random_tensor({k, n}, 2);
  a.f[static_cast<size_t>(2 * k + 299)] = std::numeric_limits<double>::quiet_NaN();
  b.f[static_cast<size_t>(7 * n + 49)] = std::numeric_limits<double>::infinity();
  const EvalTensor y = eval_node(OpKind::kMatMul, "", {a, b});
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j)
      EXPECT_EQ(std::isfinite(y.f[static_cast<size_t>(i * n + j)]), i != 2 && j != 49) << i << j;
  }
}

// What is recorded at rounding points does not depend on the threads that see it.
TEST(Peaks, OfAllPartsAreRecorded) {
  EvalTensor x = random_tensor({200, 700}, 1);
  x.f.front() = -9;
  x.f[70'000] = 11;
  x.f.back() = std::numeric_limits<double>::infinity();
  PointPeaks peaks{};
  Rounding rounding;
  rounding.record(&peaks);
  std::vector<const EvalTensor*> in{&x};
  std::vector<EvalTensor> out{EvalTensor(DType::kF32, {200, 700})};
  evaluator(OpKind::kRelu)({{}, in, out, rounding});
  evaluator(OpKind::kSqrt)({{}, in, out, rounding});
  EXPECT_EQ(peaks[0], 11);
}

TEST(MatMul, ARowKeepsItsBitsForAnyNumberOfRows) {
  const EvalTensor a = random_tensor({33, 100}, 1), b = random_tensor({100, 600}, 2);
  const EvalTensor all = eval_node(OpKind::kMatMul, "", {a, b});
  const EvalTensor last = tensor({1, 100}, {a.f.end() - 100, a.f.end()});
  const EvalTensor alone = eval_node(OpKind::kMatMul, "", {last, b});
  EXPECT_EQ(std::vector<double>(all.f.end() - 600, all.f.end()), alone.f);
}

// Large products are divided among threads by columns.
TEST(MatMul, ARowKeepsItsBitsOnAnyNumberOfThreads) {
  const int64_t m = 64, k = 512, n = 1031;
  const EvalTensor a = random_tensor({m, k}, 1), b = random_tensor({k, n}, 2);
  const EvalTensor all = eval_node(OpKind::kMatMul, "", {a, b});
  for (int64_t i : {int64_t{0}, m - 1}) {  // alone it is too little for a second thread
    const EvalTensor row = tensor({1, k}, {a.f.begin() + i * k, a.f.begin() + (i + 1) * k});
    const EvalTensor alone = eval_node(OpKind::kMatMul, "", {row, b});
    EXPECT_EQ(std::vector<double>(all.f.begin() + i * n, all.f.begin() + (i + 1) * n), alone.f);
  }
}

TEST(LinearAddLayerNorm, IsTheNormOfTheSumInOne) {
  const EvalTensor x = random_tensor({2, 3, 7}, 1), w = random_tensor({7, 5}, 2);
  const EvalTensor bias = random_tensor({5}, 3), residual = random_tensor({2, 3, 5}, 4);
  const EvalTensor scale = random_tensor({5}, 5), shift = random_tensor({5}, 6);
  const EvalTensor product = eval_node(OpKind::kLinear, "", {x, w, bias});
  EXPECT_EQ(
      eval_node(OpKind::kLinearAddLayerNorm, "{epsilon=0.01}", {x, w, bias, residual, scale, shift})
          .f,
      eval_node(OpKind::kAddLayerNorm, "{epsilon=0.01}", {product, residual, scale, shift}).f);
}

struct CostCase {
  OpKind op;
  AttrBytes attrs;
  std::vector<Shape> in, out;
  double flops, bytes;
};

TEST(Cost, CountsMultiplyAddsTwiceAndEachTensorOnce) {
  GemmAttrs gemm;
  gemm.trans_a = true;
  const std::vector<CostCase> rows{
      {OpKind::kMatMul, {}, {{5, 2, 3}, {3, 4}}, {{5, 2, 4}}, 2 * 40 * 3, 4 * (30 + 12 + 40)},
      {OpKind::kGemm, encode(gemm), {{3, 2}, {3, 4}}, {{2, 4}}, 2 * 8 * 3, 4 * (6 + 12 + 8)},
      {OpKind::kLinear,
       encode(LinearAttrs{}),
       {{7, 3}, {3, 4}, {4}},
       {{7, 4}},
       2 * 28 * 3,
       4 * (21 + 12 + 4 + 28)},
      {OpKind::kLinearAddLayerNorm,
       encode(LinearNormAttrs{}),
       {{7, 3}, {3, 4}, {4}, {7, 4}, {4}},
       {{7, 4}},
       2 * 28 * 3,
       4 * (21 + 12 + 4 + 28 + 4 + 28)},
      {OpKind::kConv,
       encode(ConvAttrs{}),
       {{1, 2, 9}, {6, 2, 3}},
       {{1, 6, 7}},
       2 * 42 * 6,
       4 * (18 + 36 + 42)},
      {OpKind::kConvTranspose,
       encode(ConvAttrs{}),
       {{1, 2, 7}, {2, 6, 3}},
       {{1, 6, 9}},
       2 * 14 * 18,
       4 * (14 + 36 + 54)},
      // Per score 2·D + 2·Dv for the products and 5 for the softmax.
      {OpKind::kAttention,
       encode(AttentionAttrs{}),
       {{2, 3, 4, 8}, {2, 5, 4, 8}, {2, 5, 4, 6}},
       {{2, 3, 4, 6}},
       120 * (16 + 12 + 5),
       4 * (192 + 320 + 240 + 144)},
  };
  for (const CostCase& row : rows) {
    const std::vector<DType> in_types(row.in.size(), DType::kF32), out_types{DType::kF32};
    const rules::Cost cost = rules::cost(row.op, {row.attrs, row.in, row.out, in_types, out_types});
    EXPECT_EQ(cost.flops, row.flops) << name(row.op);
    EXPECT_EQ(cost.bytes, row.bytes) << name(row.op);
  }
}

}  // namespace
}  // namespace vernier::test
