// Steps and the time that is left: see schedule.h.
#include "verify/sweep/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

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
  if (begun_ == works_.size()) return "";
  if (begun_ == 0) since_ = now;
  const auto at = works_.begin() + static_cast<std::ptrdiff_t>(begun_++);
  const double done = std::accumulate(works_.begin(), at, 0.0);
  const double left = std::accumulate(at, works_.end(), 0.0);
  std::string text = fmt::format("step {} of {}", begun_, works_.size());
  const double seconds = std::chrono::duration<double>(now - since_).count();
  if (done > 0 && seconds > 0) text += ", " + time_text(seconds / done * left);
  return text;
}

}  // namespace vernier::verify
