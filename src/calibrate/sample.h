// What is kept of the values at a site while data pass by: the range of every channel and some
// rows, of bounded size whatever the data. Contract: docs/quantization.md "Calibration".
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace vernier::calibration {

/// The rows of one site that were seen. The same rows in the same order give the same sample.
struct SiteSample {
  int64_t channels = 0, capacity = 0;  ///< capacity: rows that are kept at most
  uint64_t seed = 0;                   ///< of the choice of rows; of the site
  int64_t rows = 0;                    ///< seen
  std::vector<float> low, high;        ///< by channel
  std::vector<float> kept;             ///< [min(rows, capacity), channels]: all rows as likely

  SiteSample() = default;
  SiteSample(int64_t channels, int64_t capacity, uint64_t seed);
  int64_t kept_rows() const { return rows < capacity ? rows : capacity; }
  /// Takes one row of `channels` numbers. False, and takes nothing, if one of them is not finite.
  bool take(std::span<const float> row);
};

}  // namespace vernier::calibration
