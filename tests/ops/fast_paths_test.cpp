// Evaluators that work on rows, in vectors and on all threads beside plain loops, which are their
// definition: within 1e-12 of the scale of the result, at sizes around those of vectors and parts.
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "core/attrs.h"
#include "core/broadcast.h"
#include "ops/eval_node.h"
#include "reference/cut_tables.h"

namespace vernier::test {
namespace {

constexpr double kClose = 1e-12;

void expect_close(const EvalTensor& got, const std::vector<double>& want, const std::string& what) {
  ASSERT_EQ(got.f.size(), want.size()) << what;
  double scale = 0;
  for (double v : want) scale = std::max(scale, std::abs(v));
  ASSERT_GT(scale, 0) << what;
  for (size_t i = 0; i < want.size(); ++i)
    ASSERT_NEAR(got.f[i], want[i], kClose * scale) << what << ", element " << i;
}

TEST(FastPaths, BroadcastsAreThoseOfEachElement) {
  const std::vector<std::pair<Shape, Shape>> shapes{{{3, 5}, {3, 5}},
                                                    {{2, 3, 5}, {5}},
                                                    {{2, 3, 5}, {3, 1}},
                                                    {{2, 3, 5}, {2, 1, 5}},
                                                    {{2, 1, 5}, {1, 3, 1}},
                                                    {{1}, {4, 7}},
                                                    {{}, {4, 7}},
                                                    {{4, 7}, {}},
                                                    {{}, {}},
                                                    {{2, 1, 1, 9}, {2, 4, 9, 9}},
                                                    {{300, 257}, {300, 257}},
                                                    {{70001}, {1}},
                                                    {{0, 3}, {3}}};
  for (const auto& [a_shape, b_shape] : shapes) {
    const EvalTensor a = random_tensor(a_shape, 1), b = random_tensor(b_shape, 2);
    const EvalTensor y = eval_node(OpKind::kSub, "", {a, b});
    const Shape out = broadcast_shape(a_shape, b_shape);
    ASSERT_EQ(y.shape, out);
    const std::array strides{broadcast_strides(a_shape, out), broadcast_strides(b_shape, out)};
    for_each_broadcast(out, strides, [&](int64_t at, const auto& from) {
      ASSERT_EQ(y.f[static_cast<size_t>(at)],
                a.f[static_cast<size_t>(from[0])] - b.f[static_cast<size_t>(from[1])])
          << str(a_shape) << " and " << str(b_shape) << " at " << at;
    });
  }
}

TEST(FastPaths, MatricesOfABatchAreMultipliedEachByItsOwn) {
  struct Case {
    Shape a, b;
  };
  for (const auto& [a_shape, b_shape] :
       {Case{{3, 4, 40}, {40, 50}}, Case{{3, 4, 40}, {3, 40, 50}}, Case{{2, 3, 7, 33}, {3, 33, 41}},
        Case{{4, 40}, {3, 40, 50}}, Case{{1, 1, 40}, {40, 50}}, Case{{5, 1, 3}, {1, 3, 2}}}) {
    const EvalTensor a = random_tensor(a_shape, 1), b = random_tensor(b_shape, 2);
    const EvalTensor y = eval_node(OpKind::kMatMul, "", {a, b});
    const int64_t m = a_shape[a_shape.size() - 2], k = a_shape.back(), n = b_shape.back();
    Shape a_batch(a_shape.begin(), a_shape.end() - 2), b_batch(b_shape.begin(), b_shape.end() - 2);
    const Shape batch = broadcast_shape(a_batch, b_batch);
    std::vector<double> want(static_cast<size_t>(num_elems(batch) * m * n), 0.0);
    const std::array strides{broadcast_strides(a_batch, batch), broadcast_strides(b_batch, batch)};
    for_each_broadcast(batch, strides, [&](int64_t at, const auto& from) {
      for (int64_t i = 0; i < m; ++i)
        for (int64_t j = 0; j < n; ++j)
          for (int64_t l = 0; l < k; ++l)
            want[static_cast<size_t>((at * m + i) * n + j)] +=
                a.f[static_cast<size_t>((from[0] * m + i) * k + l)] *
                b.f[static_cast<size_t>((from[1] * k + l) * n + j)];
    });
    expect_close(y, want, str(a_shape) + " by " + str(b_shape));
  }
}

std::vector<double> softmax(std::vector<double> row) {
  double top = -HUGE_VAL, sum = 0;
  for (double v : row) top = std::max(top, v);
  for (double& v : row) sum += v = std::exp(v - top);
  for (double& v : row) v /= sum;
  return row;
}

TEST(FastPaths, AttentionIsThatOfPlainLoops) {
  struct Case {
    int64_t batch, queries, keys, heads, width, value_width;
    bool bias;
  };
  for (const Case& c : {Case{2, 5, 5, 3, 8, 8, false}, Case{1, 130, 67, 2, 32, 32, true},
                        Case{1, 1, 300, 1, 5, 9, true}, Case{3, 65, 31, 4, 33, 7, false}}) {
    const EvalTensor q = random_tensor({c.batch, c.queries, c.heads, c.width}, 1),
                     k = random_tensor({c.batch, c.keys, c.heads, c.width}, 2),
                     v = random_tensor({c.batch, c.keys, c.heads, c.value_width}, 3),
                     bias = random_tensor({c.batch, 1, 1, c.keys}, 4);
    std::vector<EvalTensor> inputs{q, k, v};
    if (c.bias) inputs.push_back(bias);
    const EvalTensor y = eval_node(OpKind::kAttention, "{scale=0.25}", inputs);
    std::vector<double> want;
    for (int64_t b = 0; b < c.batch; ++b) {
      for (int64_t i = 0; i < c.queries; ++i) {
        for (int64_t h = 0; h < c.heads; ++h) {
          std::vector<double> row;
          for (int64_t j = 0; j < c.keys; ++j) {
            double score = 0;
            for (int64_t d = 0; d < c.width; ++d)
              score += q.f[static_cast<size_t>(((b * c.queries + i) * c.heads + h) * c.width + d)] *
                       k.f[static_cast<size_t>(((b * c.keys + j) * c.heads + h) * c.width + d)];
            row.push_back(0.25 * score +
                          (c.bias ? bias.f[static_cast<size_t>(b * c.keys + j)] : 0.0));
          }
          row = softmax(row);
          for (int64_t d = 0; d < c.value_width; ++d) {
            double sum = 0;
            for (int64_t j = 0; j < c.keys; ++j)
              sum += row[static_cast<size_t>(j)] *
                     v.f[static_cast<size_t>(((b * c.keys + j) * c.heads + h) * c.value_width + d)];
            want.push_back(sum);
          }
        }
      }
    }
    expect_close(y, want, "attention of " + std::to_string(c.queries) + " queries");
  }
}

TEST(FastPaths, NormsAreThoseOfPlainLoops) {
  for (const int64_t cols : {1, 7, 31, 32, 33, 384, 1025}) {
    const EvalTensor x = random_tensor({9, cols}, 1), residual = random_tensor({9, cols}, 2),
                     scale = random_tensor({cols}, 3), bias = random_tensor({cols}, 4);
    std::vector<double> want, of_sum;
    for (int64_t r = 0; r < 9; ++r) {
      for (const bool adds : {false, true}) {
        std::vector<double> row;
        for (int64_t c = 0; c < cols; ++c) {
          const auto at = static_cast<size_t>(r * cols + c);
          row.push_back(x.f[at] + (adds ? residual.f[at] : 0.0));
        }
        double mean = 0, var = 0;
        for (double v : row) mean += v / static_cast<double>(cols);
        for (double v : row) var += (v - mean) * (v - mean) / static_cast<double>(cols);
        for (int64_t c = 0; c < cols; ++c) {
          const auto at = static_cast<size_t>(c);
          (adds ? of_sum : want)
              .push_back((row[at] - mean) / std::sqrt(var + 1e-5) * scale.f[at] + bias.f[at]);
        }
      }
    }
    expect_close(eval_node(OpKind::kLayerNorm, "{axis=-1, epsilon=1e-05}", {x, scale, bias}), want,
                 "LayerNorm of " + std::to_string(cols));
    expect_close(
        eval_node(OpKind::kAddLayerNorm, "{axis=-1, epsilon=1e-05}", {x, residual, scale, bias}),
        of_sum, "AddLayerNorm of " + std::to_string(cols));
  }
}

TEST(FastPaths, SoftmaxIsThatOfPlainLoopsAlongEachAxis) {
  const Shape shape{3, 37, 5};
  const EvalTensor x = random_tensor(shape, 1);
  for (int64_t axis = 0; axis < 3; ++axis) {
    const EvalTensor y = eval_node(OpKind::kSoftmax, "{axis=" + std::to_string(axis) + "}", {x});
    const Shape strides = row_major_strides(shape);
    const auto a = static_cast<size_t>(axis);
    std::vector<double> want(x.f.size());
    std::set<int64_t> starts;
    for (int64_t i = 0; i < x.elems(); ++i)
      starts.insert(i - i / strides[a] % shape[a] * strides[a]);
    for (const int64_t start : starts) {
      std::vector<double> row;
      for (int64_t k = 0; k < shape[a]; ++k)
        row.push_back(x.f[static_cast<size_t>(start + k * strides[a])]);
      row = softmax(row);
      for (int64_t k = 0; k < shape[a]; ++k)
        want[static_cast<size_t>(start + k * strides[a])] = row[static_cast<size_t>(k)];
    }
    expect_close(y, want, "axis " + std::to_string(axis));
  }
}

TEST(CutTables, GiveTheRowsThatAreRead) {
  constexpr int64_t kRows = 40000, kWidth = 27;  // more than 2^20 elements
  std::vector<double> contents(kRows * kWidth);
  for (size_t i = 0; i < contents.size(); ++i) contents[i] = static_cast<double>(i % 2048);
  const Tensor table =
      Tensor::from(DType::kF16, {kRows, kWidth}, std::span<const double>(contents));
  EvalTensor ids = integers(DType::kI64, {4}, {7, -1, 7, 39998});
  const auto of_table = [&](size_t) { return &table; };
  const auto of_ids = [&](size_t) { return &ids; };
  const auto cut = [&] {
    return reference::cut_tables(OpKind::kGather, encode(AxisAttrs{.axis = 0}), 2, of_table,
                                 of_ids);
  };
  const auto tables = cut();
  ASSERT_EQ(tables.size(), 1u);
  EXPECT_EQ(tables[0].table_input, 0u);
  EXPECT_EQ(tables[0].ids_input, 1u);
  EXPECT_EQ(tables[0].table.shape, (Shape{3, kWidth}));
  const EvalTensor whole = EvalTensor::from(table);
  for (size_t i = 0; i < 4; ++i) {
    const int64_t row = ids.i[i] < 0 ? ids.i[i] + kRows : ids.i[i];
    for (int64_t c = 0; c < kWidth; ++c)
      EXPECT_EQ(tables[0].table.f[static_cast<size_t>(tables[0].ids.i[i] * kWidth + c)],
                whole.f[static_cast<size_t>(row * kWidth + c)]);
  }
  ids.i[0] = kRows;  // reported by the evaluator
  EXPECT_TRUE(cut().empty());
}

}  // namespace
}  // namespace vernier::test
