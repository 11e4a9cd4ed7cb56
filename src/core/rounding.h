// Rounding points: the named places inside an operator where a value is rounded to a type. A kernel
// declares one PointRounding per point of the node it covers; the evaluators apply them.
#pragma once
#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <span>
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
inline constexpr std::array<std::string_view, 8> kLinearNormPoints{
    "a", "b", "product", "sum", "mean", "var", "normalised", "out"};
inline constexpr std::array<std::string_view, 7> kAttentionPoints{
    "q", "k", "v", "scores", "probs", "context", "out"};
inline constexpr size_t kMaxPoints = 8;

/// What happens to a value at one point. kUndefined: nothing (full precision).
struct PointRounding {
  enum class Mode : uint8_t { kNearest = 0, kTruncate = 1 };
  /// The form of Attention's probabilities when they are rounded (point "probs" only).
  enum class Scale : uint8_t {
    kNormalised = 0,             ///< exp(s − max) / sum
    kUnnormalised = 1,           ///< exp(s − max) as in flash attention, then rescaled to the
                                 ///< final max; the context is divided by the sum of the unrounded
                                 ///< ones
    kUnnormalisedRoundedSum = 2  ///< the same, divided by the sum of the rounded ones
  };
  DType type = DType::kUndefined;
  Mode mode = Mode::kNearest;
  /// Accumulators: promoted to f32 every `block` products; 0: never. Unnormalized probabilities:
  /// the maximum is the largest score so far, updated every `block` keys; 0: over all keys.
  int64_t block = 0;
  Scale scale = Scale::kNormalised;

  friend bool operator==(const PointRounding&, const PointRounding&) = default;
};

/// `value` after `rounding` (its type and mode).
inline double rounded(const PointRounding& rounding, double value) {
  if (rounding.type == DType::kUndefined) return value;
  return rounding.mode == PointRounding::Mode::kNearest ? round_to(rounding.type, value)
                                                        : truncate_to(rounding.type, value);
}

/// One sum with the given accumulator: terms are added in double, and after each addition the
/// partial sum is rounded to the accumulator's type. With a block it is added to an f32 sum and
/// restarted at 0 every `block` terms, and at the end. kUndefined, f64 and i32 (the sums of integer
/// products are exact): accumulates in double.
class Sum {
 public:
  explicit Sum(const PointRounding& accumulator)
      : exact_(is_exact(accumulator)),
        rounder_(accumulator.type),
        mode_(accumulator.mode),
        block_(exact_ ? 0 : accumulator.block) {}
  /// True if it accumulates in double.
  static bool is_exact(const PointRounding& accumulator) {
    return accumulator.type == DType::kUndefined || accumulator.type == DType::kF64 ||
           accumulator.type == DType::kI32;
  }
  void add(double term) {
    partial_ += term;
    if (exact_) return;
    partial_ = mode_ == PointRounding::Mode::kNearest ? rounder_.nearest(partial_)
                                                      : rounder_.truncated(partial_);
    if (block_ > 0 && ++terms_ == block_) promote();
  }
  double value() const { return block_ > 0 ? promoted() : partial_; }

 private:
  double promoted() const { return round_to(DType::kF32, total_ + partial_); }
  void promote() {
    total_ = promoted();
    partial_ = 0;
    terms_ = 0;
  }
  bool exact_;
  FloatRounder rounder_;
  PointRounding::Mode mode_;
  int64_t block_, terms_ = 0;
  double partial_ = 0, total_ = 0;
};

/// Σ term(v) over `values` with the given accumulator.
template <class Values, class Term>
double carried_sum(const PointRounding& accumulator, const Values& values, const Term& term) {
  Sum sum(accumulator);
  for (double v : values) sum.add(term(v));
  return sum.value();
}

/// The largest finite |value| at each point before rounding (range audit). NaN and infinities do
/// not count.
using PointPeaks = std::array<double, kMaxPoints>;

/// The roundings of one node, by point index. Default: none — the FP64 meaning of the operator.
/// What each evaluator does with them: docs/numerics.md.
class Rounding {
 public:
  Rounding() = default;
  void set(size_t point, PointRounding r) { points_[point] = r; }
  const PointRounding& at(size_t point) const { return points_[point]; }
  /// Type (and mode and block) of accumulators; kUndefined: double.
  void set_accumulator(PointRounding r) { accumulator_ = r; }
  const PointRounding& accumulator() const { return accumulator_; }
  /// The rounding of inner results without a point: the instructions of FusedElementwise, the
  /// exponentials of a softmax, bias and activation of a product.
  void set_inner(PointRounding r) { inner_ = r; }
  const PointRounding& inner() const { return inner_; }
  /// An inner result, rounded.
  double inner(double value) const { return rounded(inner_, value); }
  /// Peaks are added to `peaks`, which must outlive this; null: none.
  void record(PointPeaks* peaks) { peaks_ = peaks; }
  bool records() const { return peaks_ != nullptr; }
  /// False if values are not changed at `point` (their peak may still be recorded).
  bool changes(size_t point) const { return points_[point].type != DType::kUndefined; }
  /// Records the peak of values at a point that changes none.
  void see(size_t point, std::span<const double> values) const {
    if (peaks_ == nullptr) return;
    // Without the sign, the bits of doubles are ordered by magnitude, infinity and NaN last.
    constexpr uint64_t kSize = ~(uint64_t{1} << 63), kInfinity = uint64_t{0x7ff} << 52;
    uint64_t most = 0;
    for (double value : values) {
      const uint64_t size = std::bit_cast<uint64_t>(value) & kSize;
      most = std::max(most, size < kInfinity ? size : 0);
    }
    note(point, std::bit_cast<double>(most));
  }
  /// The value after the rounding at `point`.
  double operator()(size_t point, double value) const {
    if (peaks_ != nullptr) note(point, value);
    return rounded(points_[point], value);
  }

 private:
  void note(size_t point, double value) const {
    const double size = value < 0 ? -value : value;
    const double counted = size <= std::numeric_limits<double>::max() ? size : 0;
    double& peak = (*peaks_)[point];
    if (counted > peak) peak = counted;
  }
  std::array<PointRounding, kMaxPoints> points_{};
  PointRounding accumulator_{}, inner_{};
  PointPeaks* peaks_ = nullptr;
};

}  // namespace vernier
