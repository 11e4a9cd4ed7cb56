// Rounding points: the named places inside an operator where a value takes a type (design "Words").
// A kernel fills one PointRounding per point of the node it covers; the evaluators apply them.
#pragma once
#include <array>
#include <limits>
#include <string_view>

#include "core/dtype.h"

namespace vernier {

// Point lists, one per shape of operator; the `points` column of ops.def names one of these.
inline constexpr std::array<std::string_view, 1> kOutPoints{"out"};
inline constexpr std::array<std::string_view, 0> kExactPoints{};  // moves or compares values only
inline constexpr std::array<std::string_view, 3> kMatMulPoints{"a", "b", "out"};
inline constexpr std::array<std::string_view, 5> kNormPoints{"x", "mean", "var", "normalised",
                                                             "out"};
inline constexpr std::array<std::string_view, 6> kAddNormPoints{"x",   "sum",        "mean",
                                                                "var", "normalised", "out"};
inline constexpr std::array<std::string_view, 7> kAttentionPoints{
    "q", "k", "v", "scores", "probs", "context", "out"};
inline constexpr size_t kMaxPoints = 8;

/// What happens to a value at one point. kUndefined: nothing (full precision).
struct PointRounding {
  enum class Mode : uint8_t { kNearest = 0, kTruncate = 1 };
  DType type = DType::kUndefined;
  Mode mode = Mode::kNearest;
  int64_t block = 0;  ///< accumulators promoted to f32 every `block` products; 0: never
};

/// The largest |value| seen at each point, before it was rounded (range audit). NaN counts as
/// infinite.
using PointPeaks = std::array<double, kMaxPoints>;

/// The roundings of one node, by point index. Default: none — the FP64 meaning of the operator.
class Rounding {
 public:
  Rounding() = default;
  void set(size_t point, PointRounding r) { points_[point] = r; }
  const PointRounding& at(size_t point) const { return points_[point]; }
  /// Type (and block) that sums of products are carried in; kUndefined: double.
  void set_accumulator(PointRounding r) { accumulator_ = r; }
  const PointRounding& accumulator() const { return accumulator_; }
  /// Peaks are added to `peaks`, which must outlive this; null: none.
  void record(PointPeaks* peaks) { peaks_ = peaks; }
  /// The value as it is at `point`.
  double operator()(size_t point, double value) const {
    const PointRounding& r = points_[point];
    if (peaks_ != nullptr) note(point, value);
    return r.type == DType::kUndefined ? value : round_to(r.type, value);
  }

 private:
  void note(size_t point, double value) const {
    const double size = value < 0 ? -value : value;
    double& peak = (*peaks_)[point];
    if (!(size <= peak)) peak = size == size ? size : std::numeric_limits<double>::infinity();
  }
  std::array<PointRounding, kMaxPoints> points_{};
  PointRounding accumulator_{};
  PointPeaks* peaks_ = nullptr;
};

}  // namespace vernier
