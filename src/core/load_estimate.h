// The load that other programs put on this thread's CPUs, from what they took of its runs.
#pragma once
#include <cstdint>

namespace vernier {

/// Of a thread whose runs are measured one after the other. While it is crowded, a run may be
/// faster on one thread than shared. A single time slice of another program is no load; two of them
/// within a quarter of a second are, and so is a run that lost more than one. Reasons:
/// docs/experiments/0030-sharing-in-a-crowd.md.
class LoadEstimate {
 public:
  LoadEstimate();

  /// After runs of `time_ns` in all that ended at `now_ns`; other programs took the share `lost`
  /// (0 to 1) of the last of them.
  void add(int64_t now_ns, double time_ns, double lost);

  bool crowded() const { return crowded_; }
  /// Periods of load so far; those less than a second apart are one.
  uint32_t periods() const { return periods_; }

 private:
  double lost_ = 0;  // recent share of the time that other programs took
  double fall_ns_;   // time constant of its fall
  bool crowded_ = false;
  uint32_t periods_ = 0;
  int64_t end_ns_ = 0;  // of the last period
};

}  // namespace vernier
