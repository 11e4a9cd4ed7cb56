// Static ranges: see ranges.h.
#include "calibrate/ranges.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "core/error.h"

namespace vernier::calibration {
namespace {

struct MethodName {
  Method method;
  std::string_view name;
};
constexpr std::array kMethods{
    MethodName{Method::kOutputError, "output-error"}, MethodName{Method::kMax, "max"},
    MethodName{Method::kPercentile, "percentile"}, MethodName{Method::kMse, "mse"},
    MethodName{Method::kEntropy, "entropy"}};

Range whole_range(std::span<const float> values) {
  Range range;
  for (const float v : values) {
    range.low = std::min(range.low, v);
    range.high = std::max(range.high, v);
  }
  return range;
}

double rounding_error(std::span<const float> values, const Range& range) {
  const double middle = (double{range.low} + range.high) / 2,
               scale = (double{range.high} - range.low) / 254;
  double sum = 0;
  for (const float v : values) {
    const double q = scale > 0 ? std::nearbyint((v - middle) / scale) : 0;
    const double error = std::clamp(q, -127.0, 127.0) * scale + middle - v;
    sum += error * error;
  }
  return sum;
}

// Of bins [0, end) with everything beyond in the last one, against the same bins in 128 levels.
double divergence(std::span<const double> bins, size_t end) {
  constexpr size_t kLevels = 128;
  double beyond = 0, all = 0, kept = 0;
  for (size_t i = 0; i < bins.size(); ++i) {
    all += bins[i];
    (i < end ? kept : beyond) += bins[i];
  }
  double sum = 0;
  for (size_t level = 0; level < kLevels; ++level) {
    const size_t first = end * level / kLevels, last = end * (level + 1) / kLevels;
    double count = 0, used = 0;
    for (size_t i = first; i < last; ++i) {
      count += bins[i];
      used += bins[i] > 0;
    }
    for (size_t i = first; i < last; ++i) {
      const double p = (bins[i] + (i + 1 == end ? beyond : 0)) / all;
      if (p == 0) continue;
      // An empty bin of Q is a level that holds nothing: as little as one number.
      const double q = bins[i] > 0 ? count / used / kept : 1 / (all + 1);
      sum += p * std::log(p / q);
    }
  }
  return sum;
}

}  // namespace

Method parse_method(std::string_view text) {
  for (const MethodName& each : kMethods) {
    if (each.name == text) return each.method;
  }
  throw Error(ErrorCode::kInput, "--method: got '" + std::string(text) +
                                     "', expected output-error, max, percentile, mse or entropy");
}

std::string_view name(Method method) {
  return std::ranges::find(kMethods, method, &MethodName::method)->name;
}

Range percentile_range(std::span<const float> values, double share) {
  if (values.empty()) return {};
  std::vector<float> sorted(values.begin(), values.end());
  const auto last = static_cast<double>(sorted.size() - 1);
  const auto number_at = [&](double part) {
    const auto at = sorted.begin() + static_cast<std::ptrdiff_t>(std::nearbyint(part * last));
    std::ranges::nth_element(sorted, at);
    return *at;
  };
  const double outside = (1 - share) / 2;
  return {std::min(number_at(outside), 0.0F), std::max(number_at(1 - outside), 0.0F)};
}

Range mse_range(std::span<const float> values) {
  constexpr int kShares = 40;
  const Range whole = whole_range(values);
  Range best = whole;
  double least = HUGE_VAL;
  for (int i = kShares; i > 0; --i) {
    const float share = static_cast<float>(i) / kShares;
    const Range range{whole.low * share, whole.high * share};
    const double error = rounding_error(values, range);
    if (!(error < least)) continue;
    least = error;
    best = range;
  }
  return best;
}

Range entropy_range(std::span<const float> values) {
  constexpr size_t kBins = 2048, kFewest = 128, kStep = 16;
  const Range whole = whole_range(values);
  const float largest = std::max(-whole.low, whole.high);
  if (!(largest > 0)) return whole;
  std::vector<double> bins(kBins);
  for (const float v : values)
    bins[std::min(kBins - 1, static_cast<size_t>(std::abs(v) / largest * kBins))] += 1;
  size_t best = kBins;
  double least = HUGE_VAL;
  for (size_t end = kBins; end >= kFewest; end -= kStep) {
    const double found = divergence(bins, end);
    if (!(found < least)) continue;
    least = found;
    best = end;
  }
  const float limit = largest * (static_cast<float>(best) / kBins);
  return {std::max(whole.low, -limit), std::min(whole.high, limit)};
}

}  // namespace vernier::calibration
