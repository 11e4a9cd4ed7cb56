// Ranges: the largest magnitude at every rounding point of a plan in FP64, against what its type
// can hold. The range audit of a build and the report of verify both read them here. Contract:
// docs/verification_checks.md "Range audit".
#pragma once
#include <map>
#include <string>
#include <vector>

#include "core/numerics.h"
#include "core/rounding.h"
#include "core/tensor.h"
#include "plan/plan.h"
#include "vernier/localise.h"

namespace vernier::evaluate {

using verify::RangeRow;

/// Does a value of this magnitude fit in `type`? Other inputs may be larger: kRangeMargin times it
/// must; the peak alone in f32, which nothing is wider than.
bool range_fits(double peak, DType type);
/// The largest finite |element| of a float array. Uses all cores where it is large.
double largest_finite_element(const Tensor& t);

/// Gathers peaks over any number of runs of one plan.
class Ranges {
 public:
  /// `plan` must outlive this.
  explicit Ranges(const plan::Plan& plan) : plan_(plan) {}
  /// What PlanEvaluator found at the points of a step. Points that were not passed have 0.
  void note(size_t step, const PointPeaks& peaks);
  /// The plain constants that products take in less than f32.
  void note_constants();
  /// In the order of the steps.
  std::vector<RangeRow> rows() const;

 private:
  RangeRow row_of(size_t step, std::string point, double peak, DType type) const;
  DType type_at(const plan::Step& step, size_t point) const;

  const plan::Plan& plan_;
  std::map<size_t, PointPeaks> peaks_;
  std::vector<RangeRow> constants_;
};

}  // namespace vernier::evaluate
