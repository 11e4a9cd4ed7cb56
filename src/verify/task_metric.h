// Metrics of a task over scores of rows: Task (vernier/verify.h) has their definitions.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace vernier::verify {

/// Scores of all rows, [rows, n, width]: `width` numbers that are compared with each other, n
/// times in each row.
struct Scores {
  int64_t rows = 0, n = 1, width = 1;
  std::vector<double> values;
  /// The `width` numbers of one place.
  std::span<const double> at(int64_t place) const {
    return std::span(values).subspan(static_cast<size_t>(place * width),
                                     static_cast<size_t>(width));
  }
};

/// A metric of two sets of scores: of the engine and of FP64.
struct Measured {
  std::string unit;
  int64_t count = 0;
  double engine = 0, reference = 0;
  int64_t changed = 0;
  double largest_shift = 0;
};

std::span<const std::string_view> metric_names();
bool needs_labels(std::string_view metric);
bool needs_groups(std::string_view metric);

/// How many labels `metric` takes of such scores. Throws Error(kInput) where they cannot be scored.
int64_t labels_for(std::string_view metric, const Scores& scores);

/// `engine` and `reference` of one shape; labels_for() labels, `groups` by row. Throws
/// Error(kInput) for labels that the metric cannot take, such as a class beyond the scores.
Measured measure_task(std::string_view metric, const Scores& engine, const Scores& reference,
                      std::span<const double> labels, std::span<const double> groups);

}  // namespace vernier::verify
