// Ranges: the largest magnitude at every rounding point of a plan in FP64, against what its type
// can hold. The range audit of a build and the report of verify both read them here. Contract:
// docs/verification.md "Range audit".
#pragma once
#include <map>
#include <string>
#include <vector>

#include "core/rounding.h"
#include "plan/plan.h"

namespace vernier::verify {

/// What must still fit, over what was seen: other inputs may be larger.
inline constexpr double kRangeMargin = 2;

/// One rounding point of one step, or one constant that it multiplies.
struct RangeRow {
  int32_t step = -1;
  std::string name, op;            ///< the ONNX node that names the step, and the operator
  std::string point;               ///< "out", "q", "scores" …; "weight" for a constant operand
  double peak = 0;                 ///< largest |value| before it is rounded there, FP64
  DType type = DType::kUndefined;  ///< that it takes there
  double limit = 0;                ///< the largest finite number of `type`
  /// kRangeMargin times the peak is within the limit.
  bool fits() const { return fits_in(limit); }
  bool fits_in(double largest) const { return peak * kRangeMargin <= largest; }
};

/// Values of a mask: -inf, -3.4e38, -1e30 … are as good in any type, saturated or infinite, and do
/// not count.
bool is_mask_value(double value);

/// The largest finite number of a float type.
double largest_finite(DType type);

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

}  // namespace vernier::verify
