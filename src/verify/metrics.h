// Metrics: how far an answer is from its reference, per array and per row. Contract:
// docs/verification.md "Metrics". Nothing here decides; limits are in tolerance.h.
#pragma once
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/tensor.h"
#include "vernier/verify.h"

namespace vernier::verify {

/// `row_axis`: the axis that counts rows, or -1 (worst_row stays 0). Shapes must be equal.
Distance distance(const EvalTensor& got, const EvalTensor& want, int row_axis = 0);

/// Indices of scores from the highest to the lowest; equal scores keep their order. `guess`: an
/// order that may be nearly this one, as that of other answers to the same row, and is sorted
/// sooner than none; each index once, or empty.
std::vector<size_t> best_first(const std::vector<double>& scores,
                               std::span<const size_t> guess = {});

/// What a ranking makes of one row: its values are the scores of classes or candidates.
struct Ranking {
  bool top1_changed = false;
  int64_t top5_changed = 0;  ///< members of want's first five that got's first five lack
  double correlation = 1;    ///< Spearman's, of the scores' ranks
  double top1_margin = 0;    ///< want's first score minus its second
};
/// Of one dimension's worth of scores; both non-empty and of equal length.
Ranking ranking(const std::vector<double>& got, const std::vector<double>& want);

/// Per row along `axis` (-1: the whole array is one row). Rankings are taken along the last axis
/// where it is longer than 1 and not the row axis.
std::vector<RowMetrics> row_metrics(const EvalTensor& got, const EvalTensor& want, int axis);

/// Distance between adjacent numbers of a type. Of one type for many values: a loop of it becomes
/// vectors.
class UnitInLastPlace {
 public:
  explicit UnitInLastPlace(DType dtype);
  /// 0 of NaN and infinities.
  double at(double value) const { return std::isfinite(value) ? at_finite(value) : 0; }
  double at_finite(double value) const {
    // The exponent as double has it: that of a subnormal number and of 0 is below all others.
    const int64_t exponent = std::bit_cast<int64_t>(value) & mask_;
    return std::bit_cast<double>(std::max(exponent, least_)) * unit_;
  }

 private:
  int64_t mask_ = 0x7ff0'0000'0000'0000;  // of the exponent; 0: the unit is one for all values
  int64_t least_ = 0;                     // the smallest normal number, as bits of a double
  double unit_ = 1;                       // of 1
};
/// Distance between adjacent numbers of `dtype` at `value`.
double ulp(DType dtype, double value);
/// Both NaN, or the same infinity.
bool same_non_finite(double a, double b);

}  // namespace vernier::verify
