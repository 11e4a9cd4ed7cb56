// Watch: the limits of one task, checked between its steps. Passed down explicitly; costs a branch
// if nothing is limited.
#pragma once
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>

#include "vernier/limits.h"

namespace vernier {

class Watch {
 public:
  /// Limits nothing.
  Watch() = default;
  /// `limits` must outlive this. Starts its clock, unless it is running.
  explicit Watch(const Limits& limits);

  /// Throws Error(kMachine) when the time is over or stop() returns true. `where`: what is being
  /// done, as text or a function that returns it ("running step 3 (…)").
  template <class Where>
  void check_time(const Where& where) const {
    if (!timed_) return;
    if constexpr (std::is_invocable_v<const Where&>) {
      if (is_over()) end(where());
    } else {
      if (is_over()) end(where);
    }
  }
  /// Throws Error(kMachine) if `bytes` in addition to the memory in use exceed the limit. `what`
  /// begins the message: "the activations of batch=4", or a function that returns it.
  template <class What>
  void check_memory(uint64_t bytes, const What& what) const {
    if (bytes <= max_bytes_ && held_ <= max_bytes_ - bytes) return;
    if constexpr (std::is_invocable_v<const What&>) {
      refuse(bytes, what());
    } else {
      refuse(bytes, what);
    }
  }
  /// Is there a memory limit, so that an estimate is needed?
  bool limits_memory() const { return max_bytes_ != kNoLimit; }
  /// The same limits for work that starts with `bytes` in use.
  Watch holding(uint64_t bytes) const;

 private:
  bool is_over() const;
  [[noreturn]] void end(std::string_view where) const;
  [[noreturn]] void refuse(uint64_t bytes, std::string_view what) const;

  static constexpr uint64_t kNoLimit = std::numeric_limits<uint64_t>::max();
  const Limits* limits_ = nullptr;
  Limits::Clock::time_point since_{};
  bool timed_ = false;  // is there a limit that check_time() must check?
  uint64_t max_bytes_ = kNoLimit, held_ = 0;
};

/// a + b, saturated at the largest 64-bit number: for estimates.
uint64_t saturating_sum(uint64_t a, uint64_t b);
uint64_t saturating_product(uint64_t a, uint64_t b);

}  // namespace vernier
