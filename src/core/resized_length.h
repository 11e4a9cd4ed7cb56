// Where Resize's align_corners puts the last corner of an axis.
#pragma once
#include <cmath>
#include <cstdint>

namespace vernier {

/// in·scale, which may be a fraction, as ONNX reads it. Where that is the whole length `out` but
/// for the rounding of a scale of f32, it is `out`, so that corners meet corners.
inline double resized_length(int64_t in, int64_t out, double scale) {
  constexpr double kScaleRounding = 0x1p-23;
  const double length = scale * static_cast<double>(in), whole = static_cast<double>(out);
  return std::abs(length - whole) <= kScaleRounding * whole ? whole : length;
}

}  // namespace vernier
