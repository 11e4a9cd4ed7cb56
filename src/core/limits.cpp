// Limits of time and memory: see limits.h.
#include "core/limits.h"

#include <sys/sysinfo.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <mutex>

#include "core/error.h"

namespace vernier {
namespace {

struct Unit {
  std::string_view name;
  double bytes;
};
constexpr std::array kUnits{Unit{"b", 1},        Unit{"kb", 1e3},     Unit{"mb", 1e6},
                            Unit{"gb", 1e9},     Unit{"tb", 1e12},    Unit{"kib", 0x1p10},
                            Unit{"mib", 0x1p20}, Unit{"gib", 0x1p30}, Unit{"tib", 0x1p40}};

std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return lower;
}

std::string number_text(const char* format, double value) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), format, value);
  return text.data();
}

double seconds_since(Limits::Clock::time_point since) {
  return std::chrono::duration<double>(Limits::Clock::now() - since).count();
}

}  // namespace

Limits Limits::begun() const {
  Limits limits = *this;
  if (limits.since == Clock::time_point{}) limits.since = Clock::now();
  return limits;
}

uint64_t parse_bytes(const std::string& text, const std::string& option) {
  const size_t end = text.find_first_not_of("0123456789.");
  const std::string digits = text.substr(0, end);
  std::string unit = end == std::string::npos ? "b" : lower_case(text.substr(end));
  unit.erase(0, unit.find_first_not_of(' '));
  const auto found = std::ranges::find(kUnits, unit, &Unit::name);
  char* rest = nullptr;
  const double number = std::strtod(digits.c_str(), &rest);
  const bool is_number = !digits.empty() && rest == digits.c_str() + digits.size();
  const double bytes = found == kUnits.end() ? 0 : std::floor(number * found->bytes);
  if (!is_number || bytes < 1 || bytes >= 0x1p63) {
    throw Error(ErrorCode::kInput,
                option + ": got '" + text +
                    "', expected a number of bytes such as 4GB, 512MiB or 1000000000");
  }
  return static_cast<uint64_t>(bytes);
}

std::string bytes_text(uint64_t bytes) {
  const auto size = static_cast<double>(bytes);
  for (const Unit& unit : {Unit{" TB", 1e12}, Unit{" GB", 1e9}, Unit{" MB", 1e6}}) {
    if (size >= unit.bytes) return number_text("%.1f", size / unit.bytes) + std::string(unit.name);
  }
  return std::to_string(bytes) + " bytes";
}

Watch::Watch(const Limits& limits)
    : limits_(&limits),
      since_(limits.since),
      timed_(limits.max_seconds > 0 || limits.stop),
      max_bytes_(limits.max_bytes > 0 ? limits.max_bytes : kNoLimit) {
  if (timed_ && since_ == Limits::Clock::time_point{}) since_ = Limits::Clock::now();
}

Watch Watch::holding(uint64_t bytes) const {
  Watch watch = *this;
  watch.held_ = saturating_sum(held_, bytes);
  return watch;
}

bool Watch::is_over() const {
  if (limits_->stop) {
    // Tasks on several threads ask the caller's function one at a time, and do not wait for it.
    static std::mutex asking;
    const std::unique_lock one(asking, std::try_to_lock);
    if (one && limits_->stop()) return true;
  }
  return limits_->max_seconds > 0 && seconds_since(since_) >= limits_->max_seconds;
}

void Watch::end(std::string_view where) const {
  const double seconds = seconds_since(since_);
  if (limits_->max_seconds > 0 && seconds >= limits_->max_seconds) {
    throw Error(ErrorCode::kMachine,
                "the time limit of " + number_text("%g", limits_->max_seconds) +
                    " s (max-seconds) was exceeded after " + number_text("%.3g", seconds) +
                    " s, while " + std::string(where) + "; allow more time, or reduce the work");
  }
  throw Error(ErrorCode::kMachine, "stopped while " + std::string(where));
}

void Watch::refuse(uint64_t bytes, std::string_view what) const {
  const std::string held = held_ > 0 ? " in addition to " + bytes_text(held_) + " in use" : "";
  throw Error(ErrorCode::kMachine, std::string(what) + " would take " + bytes_text(bytes) + held +
                                       ", but the memory limit (max-memory) is " +
                                       bytes_text(max_bytes_) +
                                       "; use smaller sizes, or raise the limit");
}

uint64_t saturating_sum(uint64_t a, uint64_t b) {
  uint64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? std::numeric_limits<uint64_t>::max() : sum;
}

uint64_t saturating_product(uint64_t a, uint64_t b) {
  uint64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? std::numeric_limits<uint64_t>::max() : product;
}

uint64_t machine_memory_bytes() {
  struct sysinfo info {};
  if (::sysinfo(&info) != 0) return std::numeric_limits<uint64_t>::max();
  return saturating_product(saturating_sum(info.totalram, info.totalswap), info.mem_unit);
}

}  // namespace vernier
