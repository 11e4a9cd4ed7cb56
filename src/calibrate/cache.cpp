// TensorRT's calibration caches: see cache.h.
#include "calibrate/cache.h"

#include <fmt/format.h>

#include <bit>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>

#include "core/error.h"

namespace vernier::calibration {
namespace {

constexpr size_t kMostDigits = 8;
constexpr size_t kMostShown = 40;

std::string shown(std::string_view text) {
  return fmt::format("'{}{}'", text.substr(0, kMostShown), text.size() > kMostShown ? "…" : "");
}

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\r");
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r") + 1 - begin);
}

class Reader {
 public:
  Reader(std::string_view text, const std::string& file) : rest_(text), file_(file) {}

  Cache read() {
    Cache cache;
    read_head(cache);
    while (!rest_.empty()) {
      const std::string_view line = next_line();
      if (!line.empty()) read_entry(line, cache);
    }
    return cache;
  }

 private:
  [[noreturn]] void fail(const std::string& message) const {
    throw Error(ErrorCode::kInput,
                fmt::format("calibration cache '{}', line {}: {}", file_, number_, message));
  }

  std::string_view next_line() {
    ++number_;
    const size_t end = std::min(rest_.find('\n'), rest_.size());
    const std::string_view line = trimmed(rest_.substr(0, end));
    rest_.remove_prefix(std::min(end + 1, rest_.size()));
    return line;
  }

  void read_head(Cache& cache) {
    constexpr std::string_view kMark = "TRT-";
    const std::string_view line = next_line();
    const size_t dash = line.find('-', kMark.size());
    const std::string_view version = line.starts_with(kMark) && dash != line.npos
                                         ? line.substr(kMark.size(), dash - kMark.size())
                                         : std::string_view();
    const bool has_version =
        !version.empty() && version.find_first_not_of("0123456789") == version.npos;
    if (!has_version || dash + 1 == line.size())
      fail("got " + shown(line) +
           ", expected TRT-<version>-<algorithm>, such as TRT-8601-EntropyCalibration2: a "
           "calibration cache that TensorRT has written");
    cache.version = version;
    cache.algorithm = line.substr(dash + 1);
  }

  void read_entry(std::string_view line, Cache& cache) {
    const size_t colon = line.rfind(':');  // names have colons too
    const std::string_view name = trimmed(line.substr(0, std::min(colon, line.size())));
    if (colon == line.npos || name.empty())
      fail("got " + shown(line) + ", expected a tensor, a colon and its scale");
    const float scale = scale_of(trimmed(line.substr(colon + 1)), name);
    if (!cache.scales.emplace(name, scale).second)
      fail("tensor " + shown(name) + " occurs twice; expected one scale for each");
  }

  float scale_of(std::string_view digits, std::string_view name) const {
    constexpr float kLargest = std::numeric_limits<float>::max() / 127;
    uint32_t bits = 0;
    const char* end = digits.data() + digits.size();
    const auto [stop, error] = std::from_chars(digits.data(), end, bits, 16);
    if (digits.empty() || digits.size() > kMostDigits || stop != end || error != std::errc())
      fail(fmt::format("the scale of tensor {} is {}, expected the 8 hex digits of a number of f32",
                       shown(name), shown(digits)));
    const auto scale = std::bit_cast<float>(bits);
    const bool is_usable = scale == 0 || (std::isnormal(scale) && scale > 0 && scale <= kLargest);
    if (std::signbit(scale) || !is_usable)
      fail(
          fmt::format("the scale of tensor {} is {:g} ({}), expected a positive number of at most "
                      "{:g}",
                      shown(name), scale, shown(digits), kLargest));
    return scale;
  }

  std::string_view rest_;
  const std::string& file_;
  int number_ = 0;
};

}  // namespace

Cache read_cache(std::string_view text, const std::string& file) {
  return Reader(text, file).read();
}

}  // namespace vernier::calibration
