// Steps and the time that is left: see schedule.h.
#include "verify/sweep/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace vernier::verify {
namespace {

// In round numbers: it is an estimate.
std::string time_text(double seconds) {
  constexpr double kMinute = 60, kRound = 10;
  if (seconds >= 2 * kMinute) return fmt::format("about {:.0f} min left", seconds / kMinute);
  if (seconds >= 2 * kRound)
    return fmt::format("about {:.0f} s left", kRound * std::ceil(seconds / kRound));
  return fmt::format("about {:.0f} s left", std::max(1.0, seconds));
}

}  // namespace

std::string Schedule::begin(Clock::time_point now) {
  while (begun_ < steps_.size() && steps_[begun_].before) ++begun_;
  if (begun_ == steps_.size()) return "";
  if (!since_) since_ = now;
  const auto at = steps_.begin() + static_cast<std::ptrdiff_t>(begun_++);
  const auto sum = [](auto from, auto to) {
    double work = 0;
    for (; from != to; ++from) work += from->before ? 0 : from->work;
    return work;
  };
  const double done = sum(steps_.begin(), at), left = sum(at, steps_.end());
  std::string text = fmt::format("step {} of {}", begun_, steps_.size());
  const double seconds = std::chrono::duration<double>(now - *since_).count();
  if (done > 0 && seconds > 0) text += ", " + time_text(seconds / done * left);
  return text;
}

}  // namespace vernier::verify
