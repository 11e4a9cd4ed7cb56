// Samples of sites: see sample.h.
#include "calibrate/sample.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/random.h"

namespace vernier::calibration {

SiteSample::SiteSample(int64_t channel_count, int64_t most_rows, uint64_t site_seed)
    : channels(channel_count),
      capacity(most_rows),
      seed(site_seed),
      low(static_cast<size_t>(channel_count), std::numeric_limits<float>::infinity()),
      high(static_cast<size_t>(channel_count), -std::numeric_limits<float>::infinity()) {}

bool SiteSample::take(std::span<const float> row) {
  if (!std::ranges::all_of(row, [](float v) { return std::isfinite(v); })) return false;
  for (size_t k = 0; k < row.size(); ++k) {
    low[k] = std::min(low[k], row[k]);
    high[k] = std::max(high[k], row[k]);
  }
  // Algorithm R (Vitter 1985), its numbers drawn by the row's place: what was seen is all its
  // state.
  const int64_t place = rows++;
  if (place < capacity) {
    kept.insert(kept.end(), row.begin(), row.end());
    return true;
  }
  SplitMix random(seed, static_cast<uint64_t>(place));
  const auto at = static_cast<int64_t>(random.next() % static_cast<uint64_t>(rows));
  if (at < capacity) std::ranges::copy(row, kept.begin() + at * channels);
  return true;
}

}  // namespace vernier::calibration
