// How far a sweep is, in words: "step 5 of 17, about 20 s left".
#pragma once
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace vernier::verify {

/// Steps of known work, one after another. What is left is estimated from the time that the work so
/// far took.
class Schedule {
 public:
  using Clock = std::chrono::steady_clock;
  /// A step to come. `work`: beside that of others.
  void add(double work) { steps_.push_back({.work = work}); }
  /// The step `index` was done before: begin() passes over it.
  void done_before(size_t index) { steps_.at(index).before = true; }
  /// The next step begins, and the one before is done. Empty where no steps were added.
  std::string begin(Clock::time_point now = Clock::now());

 private:
  struct Step {
    double work = 0;
    bool before = false;
  };
  std::vector<Step> steps_;
  size_t begun_ = 0;
  std::optional<Clock::time_point> since_;
};

}  // namespace vernier::verify
