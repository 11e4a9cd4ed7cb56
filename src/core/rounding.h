// Rounding points: the named places inside an operator where a value takes a type (design "Words").
// A kernel fills one PointRounding per point of the node it covers; the evaluators apply them.
#pragma once
#include <array>
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
  int64_t block = 0;  ///< accumulators promoted every `block` products; 0: never
};

/// The roundings of one node, by point index. Default: none — the FP64 meaning of the operator.
class Rounding {
 public:
  Rounding() = default;
  void set(size_t point, PointRounding r) { points_[point] = r; }
  const PointRounding& at(size_t point) const { return points_[point]; }
  /// The value as it is at `point`.
  double operator()(size_t point, double value) const {
    const PointRounding& r = points_[point];
    return r.type == DType::kUndefined ? value : round_to(r.type, value);
  }

 private:
  std::array<PointRounding, kMaxPoints> points_{};
};

}  // namespace vernier
