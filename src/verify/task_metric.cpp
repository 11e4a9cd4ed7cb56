// Metrics of a task: see task_metric.h.
#include "verify/task_metric.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

#include "core/error.h"

namespace vernier::verify {
namespace {

constexpr std::array<std::string_view, 5> kNames{"accuracy", "spearman", "mrr", "ndcg", "cosine"};
constexpr int64_t kGainPlaces = 10;  // of ndcg

// NaN ranks last.
double ranked(double score) {
  return std::isnan(score) ? -std::numeric_limits<double>::infinity() : score;
}

double cosine(std::span<const double> a, std::span<const double> b) {
  double dot = 0, aa = 0, bb = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    dot += a[i] * b[i];
    aa += a[i] * a[i];
    bb += b[i] * b[i];
  }
  const double size = std::sqrt(aa) * std::sqrt(bb);
  return size > 0 ? dot / size : 0;
}

void note_shift(double engine, double reference, Measured& measured) {
  const double shift = std::abs(engine - reference);
  if (!(shift <= measured.largest_shift)) measured.largest_shift = shift;  // NaN stays
}

// ---- accuracy

// Of one score: is it positive? Of several: the place of the first largest one.
int64_t class_of(std::span<const double> scores) {
  if (scores.size() == 1) return scores[0] > 0 ? 1 : 0;
  const auto largest =
      std::ranges::max_element(scores, [](double a, double b) { return ranked(a) < ranked(b); });
  return largest - scores.begin();
}

Measured accuracy(const Scores& engine, const Scores& reference, std::span<const double> labels) {
  Measured measured{.unit = engine.n > 1 ? "labels" : "rows"};
  const int64_t classes = std::max<int64_t>(2, engine.width);
  int64_t right = 0, right_in_fp64 = 0;
  for (int64_t i = 0; i < engine.rows * engine.n; ++i) {
    const double label = labels[static_cast<size_t>(i)];
    if (label < 0) continue;
    if (label >= static_cast<double>(classes) || label != std::trunc(label)) {
      throw Error(ErrorCode::kInput,
                  fmt::format("--labels: label {} is {:g}, and the output has {} classes (0 to {}; "
                              "a negative label is left out)",
                              i, label, classes, classes - 1));
    }
    const int64_t got = class_of(engine.at(i)), want = class_of(reference.at(i));
    right += got == static_cast<int64_t>(label);
    right_in_fp64 += want == static_cast<int64_t>(label);
    measured.changed += got != want;
    for (size_t c = 0; c < engine.at(i).size(); ++c)
      note_shift(engine.at(i)[c], reference.at(i)[c], measured);
    ++measured.count;
  }
  const auto count = static_cast<double>(std::max<int64_t>(1, measured.count));
  measured.engine = static_cast<double>(right) / count;
  measured.reference = static_cast<double>(right_in_fp64) / count;
  return measured;
}

// ---- rank correlation

// 1 for the smallest; equal numbers have the mean of their ranks.
std::vector<double> ranks(std::span<const double> numbers) {
  std::vector<size_t> order(numbers.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, {}, [&](size_t i) { return ranked(numbers[i]); });
  std::vector<double> found(numbers.size());
  for (size_t begin = 0; begin < order.size();) {
    size_t end = begin;
    while (end < order.size() && ranked(numbers[order[end]]) == ranked(numbers[order[begin]]))
      ++end;
    const double mean = (static_cast<double>(begin) + static_cast<double>(end) + 1) / 2;
    for (; begin < end; ++begin) found[order[begin]] = mean;
  }
  return found;
}

double correlation(const std::vector<double>& a, const std::vector<double>& b) {
  const auto mean = [](const std::vector<double>& v) {
    return std::reduce(v.begin(), v.end()) / static_cast<double>(v.size());
  };
  const double mean_a = mean(a), mean_b = mean(b);
  double ab = 0, aa = 0, bb = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    ab += (a[i] - mean_a) * (b[i] - mean_b);
    aa += (a[i] - mean_a) * (a[i] - mean_a);
    bb += (b[i] - mean_b) * (b[i] - mean_b);
  }
  return aa > 0 && bb > 0 ? ab / std::sqrt(aa * bb) : 0;
}

// One score for each label: a row's, or the cosine of a pair.
std::vector<double> scores_or_cosines(const Scores& scores) {
  if (scores.width == 1) return scores.values;
  std::vector<double> cosines;
  for (int64_t i = 0; i + 1 < scores.rows; i += 2)
    cosines.push_back(cosine(scores.at(i), scores.at(i + 1)));
  return cosines;
}

Measured spearman(const Scores& engine, const Scores& reference, std::span<const double> labels) {
  const std::vector<double> ours = scores_or_cosines(engine), right = scores_or_cosines(reference);
  Measured measured{.unit = engine.width == 1 ? "rows" : "pairs of rows",
                    .count = std::ssize(ours)};
  for (size_t i = 0; i < ours.size(); ++i) note_shift(ours[i], right[i], measured);
  const std::vector<double> wanted = ranks(labels);
  measured.engine = correlation(ranks(ours), wanted);
  measured.reference = correlation(ranks(right), wanted);
  return measured;
}

// ---- rankings of groups

using Rows = std::vector<size_t>;

// The rows of a group, best first.
Rows best_first(const Rows& rows, const std::vector<double>& scores) {
  Rows order = rows;
  std::ranges::stable_sort(order, std::ranges::greater{},
                           [&](size_t row) { return ranked(scores[row]); });
  return order;
}

double reciprocal_rank(const Rows& order, std::span<const double> labels) {
  const auto first = std::ranges::find_if(order, [&](size_t row) { return labels[row] > 0; });
  return 1 / static_cast<double>(first - order.begin() + 1);
}

double gain(const Rows& order, std::span<const double> labels) {
  double sum = 0;
  const auto places = std::min<size_t>(order.size(), kGainPlaces);
  for (size_t i = 0; i < places; ++i)
    sum += (std::exp2(labels[order[i]]) - 1) / std::log2(static_cast<double>(i) + 2);
  return sum;
}

double share_of_gain(const Rows& order, std::span<const double> labels) {
  Rows best = order;
  std::ranges::stable_sort(best, std::ranges::greater{}, [&](size_t row) { return labels[row]; });
  return gain(order, labels) / gain(best, labels);
}

using OfRanking = double (*)(const Rows& order, std::span<const double> labels);

Measured of_rankings(OfRanking metric, const Scores& engine, const Scores& reference,
                     std::span<const double> labels, std::span<const double> groups) {
  Measured measured{.unit = "groups"};
  std::map<double, Rows> rows_of;
  for (size_t row = 0; row < groups.size(); ++row) {
    if (!(labels[row] >= 0)) {
      throw Error(ErrorCode::kInput,
                  fmt::format("--labels: label {} is {:g}, and a relevance is not below 0", row,
                              labels[row]));
    }
    rows_of[groups[row]].push_back(row);
    note_shift(engine.values[row], reference.values[row], measured);
  }
  for (const auto& [group, rows] : rows_of) {
    if (std::ranges::none_of(rows, [&](size_t row) { return labels[row] > 0; })) continue;
    const Rows ours = best_first(rows, engine.values), right = best_first(rows, reference.values);
    measured.engine += metric(ours, labels);
    measured.reference += metric(right, labels);
    measured.changed += ours.front() != right.front();
    ++measured.count;
  }
  const auto count = static_cast<double>(std::max<int64_t>(1, measured.count));
  measured.engine /= count;
  measured.reference /= count;
  return measured;
}

// ---- cosine

Measured mean_cosine(const Scores& engine, const Scores& reference) {
  Measured measured{.unit = "rows", .count = engine.rows, .reference = 1};
  const auto row_of = [](const Scores& scores, int64_t row) {
    const auto length = static_cast<size_t>(scores.n * scores.width);
    return std::span(scores.values).subspan(static_cast<size_t>(row) * length, length);
  };
  for (int64_t row = 0; row < engine.rows; ++row) {
    measured.engine += cosine(row_of(engine, row), row_of(reference, row));
    for (size_t i = 0; i < row_of(engine, row).size(); ++i)
      note_shift(row_of(engine, row)[i], row_of(reference, row)[i], measured);
  }
  measured.engine /= static_cast<double>(std::max<int64_t>(1, engine.rows));
  return measured;
}

}  // namespace

std::span<const std::string_view> metric_names() { return kNames; }
bool needs_labels(std::string_view metric) { return metric != "cosine"; }
bool needs_groups(std::string_view metric) { return metric == "mrr" || metric == "ndcg"; }

int64_t labels_for(std::string_view metric, const Scores& scores) {
  if (!needs_labels(metric)) return 0;
  if (metric == "accuracy") return scores.rows * scores.n;
  const auto refuse = [&](const std::string& expected) {
    throw Error(ErrorCode::kInput,
                fmt::format("--metric {}: a row of the output has {} numbers, expected {}", metric,
                            scores.n * scores.width, expected));
  };
  if (scores.n > 1) refuse("one score, or an embedding with --metric spearman");
  if (scores.width == 1) return scores.rows;
  if (needs_groups(metric)) refuse("one score");
  if (scores.rows % 2 != 0) {
    throw Error(ErrorCode::kInput,
                fmt::format("--metric spearman: embeddings are compared in pairs of rows 2i and "
                            "2i + 1, and there are {} rows",
                            scores.rows));
  }
  return scores.rows / 2;
}

Measured measure_task(std::string_view metric, const Scores& engine, const Scores& reference,
                      std::span<const double> labels, std::span<const double> groups) {
  if (metric == "accuracy") return accuracy(engine, reference, labels);
  if (metric == "spearman") return spearman(engine, reference, labels);
  if (metric == "cosine") return mean_cosine(engine, reference);
  return of_rankings(metric == "mrr" ? &reciprocal_rank : &share_of_gain, engine, reference, labels,
                     groups);
}

}  // namespace vernier::verify
