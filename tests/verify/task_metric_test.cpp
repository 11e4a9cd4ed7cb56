// Metrics of a task: counted by hand on a few rows.
#include "verify/task_metric.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/error.h"

namespace vernier::verify {
namespace {

Scores rows_of(int64_t rows, int64_t width, std::vector<double> values) {
  return {.rows = rows, .n = 1, .width = width, .values = std::move(values)};
}
std::string refusal(std::string_view metric, const Scores& scores, std::vector<double> labels,
                    std::vector<double> groups = {}) {
  try {
    labels_for(metric, scores);
    measure_task(metric, scores, scores, labels, groups);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(Accuracy, CountsRowsAndWhatChanges) {
  const Scores right = rows_of(3, 2, {2, 1, 0, 1, 3, 4});
  const Scores got = rows_of(3, 2, {2, 1, 1, 0.5, 3, 4});
  const std::vector<double> labels{0, 1, -100};  // the last one is left out
  const Measured m = measure_task("accuracy", got, right, labels, {});
  EXPECT_EQ(m.count, 2);
  EXPECT_EQ(m.engine, 0.5);
  EXPECT_EQ(m.reference, 1);
  EXPECT_EQ(m.changed, 1);
  EXPECT_EQ(m.largest_shift, 1);
}

TEST(Accuracy, OfOneScoreIsItsSignAndOfTokensOneEach) {
  const Measured sign = measure_task("accuracy", rows_of(2, 1, {0.1, -3}), rows_of(2, 1, {0.1, -3}),
                                     std::vector<double>{1, 1}, {});
  EXPECT_EQ(sign.engine, 0.5);
  const Scores tokens{.rows = 1, .n = 2, .width = 2, .values = {1, 0, 0, 1}};
  EXPECT_EQ(labels_for("accuracy", tokens), 2);
  EXPECT_EQ(measure_task("accuracy", tokens, tokens, std::vector<double>{0, 1}, {}).engine, 1);
}

TEST(Accuracy, NaNIsNoClass) {
  const Scores got = rows_of(1, 2, {std::nan(""), -5});
  EXPECT_EQ(measure_task("accuracy", got, got, std::vector<double>{1}, {}).engine, 1);
}

TEST(Spearman, IsOfRanksAndTiesShareTheirs) {
  const std::vector<double> labels{1, 2, 3, 4};
  const Scores right = rows_of(4, 1, {10, 20, 30, 1000});
  const Scores swapped = rows_of(4, 1, {10, 30, 20, 1000});
  const Measured m = measure_task("spearman", swapped, right, labels, {});
  EXPECT_DOUBLE_EQ(m.reference, 1);
  EXPECT_DOUBLE_EQ(m.engine, 0.8);  // 1 − 6·Σd²/(n(n² − 1)) with Σd² = 2
  const Scores tied = rows_of(4, 1, {1, 1, 2, 3});
  EXPECT_NEAR(measure_task("spearman", tied, tied, labels, {}).engine, 4.5 / std::sqrt(22.5),
              1e-12);
}

TEST(Spearman, OfEmbeddingsIsOfTheCosinesOfPairs) {
  // Cosines 1, 0, −1.
  const Scores pairs = rows_of(6, 2, {1, 0, 2, 0, 1, 0, 0, 1, 1, 1, -2, -2});
  EXPECT_EQ(labels_for("spearman", pairs), 3);
  const Measured m = measure_task("spearman", pairs, pairs, std::vector<double>{3, 2, 1}, {});
  EXPECT_DOUBLE_EQ(m.engine, 1);
  EXPECT_EQ(m.count, 3);
  EXPECT_EQ(m.unit, "pairs of rows");
  EXPECT_NE(refusal("spearman", rows_of(3, 2, {1, 2, 3, 4, 5, 6}), {1}).find("there are 3 rows"),
            std::string::npos);
}

TEST(Rankings, AreOfGroupsWithARelevantRow) {
  const Scores right = rows_of(5, 1, {3, 2, 1, 9, 8});
  const Scores got = rows_of(5, 1, {2, 3, 1, 9, 8});
  const std::vector<double> labels{1, 0, 0, 0, 0}, groups{7, 7, 7, 4, 4};
  const Measured mrr = measure_task("mrr", got, right, labels, groups);
  EXPECT_EQ(mrr.count, 1) << "group 4 has no relevant row";
  EXPECT_EQ(mrr.engine, 0.5);
  EXPECT_EQ(mrr.reference, 1);
  EXPECT_EQ(mrr.changed, 1);
  EXPECT_DOUBLE_EQ(measure_task("ndcg", got, right, labels, groups).engine, 1 / std::log2(3));
}

TEST(Rankings, EqualScoresKeepTheOrderOfRowsAndNaNRanksLast) {
  const std::vector<double> labels{0, 1}, groups{0, 0};
  const Scores equal = rows_of(2, 1, {1, 1}), bad = rows_of(2, 1, {std::nan(""), -9});
  EXPECT_EQ(measure_task("mrr", equal, equal, labels, groups).engine, 0.5);
  EXPECT_EQ(measure_task("mrr", bad, bad, labels, groups).engine, 1);
}

TEST(Gain, OfGradedRowsIsTheBookExample) {
  // Relevances 3, 2, 3, 0, 1, 2 in the order of the scores.
  const Scores scores = rows_of(6, 1, {6, 5, 4, 3, 2, 1});
  const std::vector<double> labels{3, 2, 3, 0, 1, 2}, groups(6, 0.0);
  EXPECT_NEAR(measure_task("ndcg", scores, scores, labels, groups).engine, 0.94881, 1e-5);
}

TEST(Cosine, NeedsNoLabels) {
  const Scores right = rows_of(2, 2, {1, 0, 0, 2}), got = rows_of(2, 2, {1, 1, 0, 3});
  EXPECT_EQ(labels_for("cosine", right), 0);
  EXPECT_NEAR(measure_task("cosine", got, right, {}, {}).engine, (std::sqrt(0.5) + 1) / 2, 1e-12);
}

TEST(Labels, ThatAMetricCannotTakeAreNamed) {
  EXPECT_NE(refusal("accuracy", rows_of(1, 2, {0, 1}), {2}).find("label 0 is 2"),
            std::string::npos);
  EXPECT_NE(refusal("accuracy", rows_of(1, 2, {0, 1}), {0.5}).find("label 0 is 0.5"),
            std::string::npos);
  EXPECT_NE(refusal("mrr", rows_of(1, 1, {0}), {-1}, {0}).find("not below 0"), std::string::npos);
  EXPECT_NE(refusal("ndcg", rows_of(1, 2, {0, 1}), {}).find("expected one score"),
            std::string::npos);
}

}  // namespace
}  // namespace vernier::verify
