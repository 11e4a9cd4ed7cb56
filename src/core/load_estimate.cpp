#include "core/load_estimate.h"

#include <algorithm>

namespace vernier {
namespace {

// The estimate rises within one time slice of the scheduler and falls more slowly, because working
// alone may be the reason for the fall; twice as slowly each time that the load returned at once.
constexpr double kRiseNs = 20e6, kFallNs = 50e6, kSlowestFallNs = 5e9;
constexpr int64_t kAtOnceNs = 1'000'000'000;
constexpr double kBegins = 0.15, kEnds = 0.05;
// A time slice, and by how much it raises the estimate at most.
constexpr double kSliceNs = 5e6, kMostOfSlice = 0.12;

}  // namespace

LoadEstimate::LoadEstimate() : fall_ns_(kFallNs) {}

void LoadEstimate::add(int64_t now_ns, double time_ns, double lost) {
  const double weight = std::min(1.0, time_ns / (lost > lost_ ? kRiseNs : fall_ns_));
  const double change = weight * (lost - lost_);
  lost_ += lost * time_ns < kSliceNs ? std::min(change, kMostOfSlice) : change;
  const bool before = crowded_;
  crowded_ = lost_ > (crowded_ ? kEnds : kBegins);
  if (before && !crowded_) end_ns_ = now_ns;
  if (before || !crowded_) return;
  const bool at_once = end_ns_ > 0 && now_ns - end_ns_ < kAtOnceNs;
  if (!at_once) ++periods_;  // else the same again: what was measured in it holds
  fall_ns_ = at_once ? std::min(2 * fall_ns_, kSlowestFallNs) : kFallNs;
}

}  // namespace vernier
