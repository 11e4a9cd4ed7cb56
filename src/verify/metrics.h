// Metrics: how far an answer is from its reference, per array and per row. Contract:
// docs/verification.md "Metrics". Nothing here decides; limits are in tolerance.h.
#pragma once
#include <string>
#include <vector>

#include "core/tensor.h"

namespace vernier::verify {

/// How far `got` is from `want` (got in its own type, want in FP64). Relative errors are to |want|.
struct Distance {
  double max_abs = 0, mean_abs = 0, p99_abs = 0;
  double max_rel = 0;
  double rms = 0, rms_reference = 0;
  double max_ulp = 0;  ///< units in the last place of got's type at want
  double cosine = 1;
  double snr_db = 0;                        ///< 20·log10(rms_reference / rms); 400 where equal
  double worst = 0;                         ///< largest |got − want| / (1 + |want|)
  int64_t worst_index = 0, worst_row = 0;   ///< of `worst`
  int64_t elems = 0, wrong_non_finite = 0;  ///< NaN or Inf on one side only, or of another sign
  int64_t different_integers = 0;           ///< integer and bool arrays
  /// The errors above are those of all elements. False: of what is left of them beside NaN and
  /// infinities of one side only, which says nothing; reports do not show it.
  bool says_it_all() const { return wrong_non_finite == 0; }
};
/// `row_axis`: the axis that counts rows, or -1 (worst_row stays 0). Shapes must be equal.
Distance distance(const EvalTensor& got, const EvalTensor& want, int row_axis = 0);

/// Indices of scores from the highest to the lowest; equal scores keep their order.
std::vector<size_t> best_first(const std::vector<double>& scores);

/// What a ranking makes of one row: its values are the scores of classes or candidates.
struct Ranking {
  bool top1_changed = false;
  int64_t top5_changed = 0;  ///< members of want's first five that got's first five lack
  double correlation = 1;    ///< Spearman's, of the scores' ranks
  double top1_margin = 0;    ///< want's first score minus its second
};
/// Of one dimension's worth of scores; both non-empty and of equal length.
Ranking ranking(const std::vector<double>& got, const std::vector<double>& want);

/// One row of one output.
struct RowMetrics {
  int64_t row = 0;
  Distance distance;
  int64_t rankings = 0, top1_changes = 0, top5_changes = 0;  ///< over its last axes
  double least_correlation = 1;
};
/// Per row along `axis` (-1: the whole array is one row). Rankings are taken along the last axis
/// where it is longer than 1 and not the row axis.
std::vector<RowMetrics> row_metrics(const EvalTensor& got, const EvalTensor& want, int axis);

/// Distance between neighbouring numbers of `dtype` at `value`.
double ulp(DType dtype, double value);
/// Both NaN, or the same infinity.
bool same_non_finite(double a, double b);

}  // namespace vernier::verify
