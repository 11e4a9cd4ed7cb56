// Static ranges of values, by the methods that calibration knows. Contract: docs/quantization.md
// "Calibration".
#pragma once
#include <cstdint>
#include <span>
#include <string_view>

namespace vernier::calibration {

/// How a static range is found.
enum class Method : uint8_t { kOutputError, kMax, kPercentile, kMse, kEntropy };
/// Throws Error(kInput) for another text than output-error, max, percentile, mse or entropy.
Method parse_method(std::string_view text);
std::string_view name(Method method);

struct Range {
  float low = 0, high = 0;  ///< low <= 0 <= high
};

/// The range of the middle `share` of all numbers and 0: 0.9999 leaves out one in 20,000 on each
/// side.
Range percentile_range(std::span<const float> values, double share);
/// The range that rounds the numbers with the least square error, of 40 shares of the whole range.
Range mse_range(std::span<const float> values);
/// The range that keeps most of what a histogram of the magnitudes says: the limit with the least
/// Kullback-Leibler divergence between the cut histogram and its form of 128 levels (TensorRT's
/// entropy calibration, Migacz 2017).
Range entropy_range(std::span<const float> values);

}  // namespace vernier::calibration
