// FP64 evaluator of RoiAlign: the mean of samples between the pixels of a region, bin by bin, or
// the largest term of these samples. Contract: core/evaluator.h; formula: ONNX RoiAlign-16, its
// mode max as ONNX's reference evaluator has it; layout at RoiAlignAttrs in core/attrs.h.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "core/attrs.h"
#include "reference/layout.h"

namespace vernier::reference {
namespace {

/// One pixel of an axis and its weight.
struct Tap {
  int64_t index = 0;
  double weight = 0;
};
using Taps = std::vector<Tap>;

/// A region along one axis of an image of `size` pixels, cut into `bins`.
struct Extent {
  double start = 0, length = 0;
  int64_t bins = 1, size = 1;
};

// Among terms of weight 0 no pixel is read: the term is 0, which is the largest where pixels are
// negative. A sample has them where it lies outside, or on a pixel.
constexpr Tap kZeroTerm{};

// Adds a sample at x. Up to one pixel outside it is moved to the edge; beyond that it counts as 0.
void add_sample(Taps& taps, double x, double weight, int64_t size, bool max) {
  const int64_t last = size - 1;
  if (x < -1 || x > static_cast<double>(size)) {
    if (max) taps.push_back(kZeroTerm);
    return;
  }
  x = std::max(x, 0.0);
  const auto low = static_cast<int64_t>(x);
  if (low >= last) {
    taps.push_back({last, weight});
    if (max) taps.push_back(kZeroTerm);
    return;
  }
  const double share = x - static_cast<double>(low);
  taps.push_back({low, weight * (1 - share)});
  taps.push_back({low + 1, weight * share});
}

// The samples of each bin as weights of pixels, for a mean or the largest term; nothing where a
// number is not finite.
std::optional<std::vector<Taps>> bin_taps(const Extent& extent, const RoiAlignAttrs& attrs) {
  const int64_t sampling_ratio = attrs.sampling_ratio;
  const double bin = extent.length / static_cast<double>(extent.bins);
  const double count =
      sampling_ratio > 0 ? static_cast<double>(sampling_ratio) : std::max(std::ceil(bin), 0.0);
  const double step = bin / std::max(count, 1.0);
  if (!std::isfinite(extent.start) || !std::isfinite(count) || !std::isfinite(step)) return {};
  std::vector<Taps> all(static_cast<size_t>(extent.bins));
  for (size_t k = 0; k < all.size(); ++k) {
    const double start = extent.start + static_cast<double>(k) * bin;
    double first = 0, end = count;
    if (sampling_ratio == 0 && step > 0) {
      // A region may be larger than any image. Steps between samples are 1/2 or more (or there is
      // one sample), so that few of them lie inside.
      first = std::max(0.0, std::ceil((-1 - start) / step - 0.5) - 1);
      end = std::min(count, first + 2 * static_cast<double>(extent.size + 2) + 2);
    }
    for (double i = first; i < end && i + 1 > i; ++i)
      add_sample(all[k], start + (i + 0.5) * step, attrs.max ? 1 : 1 / count, extent.size,
                 attrs.max);
    if (attrs.max && (first > 0 || end < count)) all[k].push_back(kZeroTerm);
  }
  return all;
}

double weigh(const Taps& rows, const Taps& cols, const double* image, int64_t width) {
  double sum = 0;
  for (const Tap& row : rows) {
    for (const Tap& col : cols)
      sum += row.weight * col.weight * image[row.index * width + col.index];
  }
  return sum;
}

// NaN where one of the pixels is; 0 of no samples.
double largest_term(const Taps& rows, const Taps& cols, const double* image, int64_t width) {
  if (rows.empty() || cols.empty()) return 0;
  double largest = -HUGE_VAL;
  for (const Tap& row : rows) {
    for (const Tap& col : cols) {
      const double weight = row.weight * col.weight;
      const double term = weight == 0 ? 0 : weight * image[row.index * width + col.index];
      if (term > largest || std::isnan(term)) largest = term;
      if (std::isnan(largest)) return largest;
    }
  }
  return largest;
}

}  // namespace

void eval_roi_align(const EvalCall& call) {
  const auto attrs = decode<RoiAlignAttrs>(call.attrs);
  const EvalTensor &x = *call.in[0], &regions = *call.in[1], &images = *call.in[2];
  EvalTensor& y = call.out[0];
  const int64_t channels = x.shape[1], height = x.shape[2], width = x.shape[3];
  const double shift = attrs.half_pixel ? 0.5 : 0.0, least = attrs.half_pixel ? -HUGE_VAL : 1.0;
  int64_t out = 0;
  for (int64_t r = 0; r < regions.shape[0]; ++r) {
    const int64_t image = images.i[r];
    if (image < 0 || image >= x.shape[0]) {
      throw Error(ErrorCode::kInput, "image " + std::to_string(image) + " of region " +
                                         std::to_string(r) + " is outside [0, " +
                                         std::to_string(x.shape[0]) + ")");
    }
    const auto taps_along = [&](size_t axis, int64_t bins, int64_t size) {
      const double* corner = regions.f.data() + r * 4 + axis;
      const double start = corner[0] * attrs.spatial_scale - shift;
      const double end = corner[2] * attrs.spatial_scale - shift;
      const double length = end - start;
      // Not std::max: NaN stays NaN.
      return bin_taps({start, length < least ? least : length, bins, size}, attrs);
    };
    const auto cols = taps_along(0, attrs.width, width), rows = taps_along(1, attrs.height, height);
    for (int64_t c = 0; c < channels; ++c) {
      const double* pixels = x.f.data() + (image * channels + c) * height * width;
      for (int64_t at = 0; at < attrs.height * attrs.width; ++at) {
        double value = std::numeric_limits<double>::quiet_NaN();
        if (rows && cols) {
          const Taps &row = (*rows)[at / attrs.width], &col = (*cols)[at % attrs.width];
          value =
              attrs.max ? largest_term(row, col, pixels, width) : weigh(row, col, pixels, width);
        }
        y.f[out++] = call.rounding(0, value);
      }
    }
  }
}

}  // namespace vernier::reference
