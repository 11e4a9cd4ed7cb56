// Peaks by rounding point: see ranges.h.
#include "verify/ranges.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <mutex>

#include "core/numerics.h"
#include "core/threads.h"
#include "verify/build_options.h"

namespace vernier::verify {
namespace {

constexpr double kMaskLike = 1e30;

double peak_of(const Tensor& t) {
  constexpr int64_t kLeastElems = int64_t{1} << 20;  // of a thread
  const bool single = t.dtype() == DType::kF32;      // what most weights are
  double peak = 0;
  std::mutex mutex;
  in_parallel(t.elems(), kLeastElems, [&](int64_t begin, int64_t end) {
    const auto* floats = reinterpret_cast<const float*>(t.data());
    float largest = 0;
    for (int64_t i = begin; single && i < end; ++i)
      largest = std::max(largest, std::abs(floats[i]));
    double here = largest;
    for (int64_t i = begin; !single && i < end; ++i) here = std::max(here, std::abs(t.float_at(i)));
    const std::lock_guard lock(mutex);
    peak = std::max(peak, here);
  });
  return peak;
}

}  // namespace

bool is_mask_value(double value) { return std::abs(value) >= kMaskLike; }

double largest_finite(DType type) {
  // Positive doubles are in the order of their bits.
  uint64_t low = std::bit_cast<uint64_t>(1.0),
           high = std::bit_cast<uint64_t>(std::numeric_limits<double>::infinity());
  while (high - low > 1) {
    const uint64_t middle = low + (high - low) / 2;
    (std::isfinite(round_to(type, std::bit_cast<double>(middle))) ? low : high) = middle;
  }
  return round_to(type, std::bit_cast<double>(low));
}

void Ranges::note(size_t step, const PointPeaks& peaks) {
  PointPeaks& known = peaks_[step];
  for (size_t i = 0; i < peaks.size(); ++i) {
    if (!is_mask_value(peaks[i])) known[i] = std::max(known[i], peaks[i]);
  }
}

void Ranges::note_constants() {
  for (size_t s = 0; s < plan_.steps.size(); ++s) {
    const plan::Step& step = plan_.steps[s];
    if ((flags(step.op) & kProduct) == 0 || !below_f32(step.numerics.compute)) continue;
    for (int32_t in : step.inputs) {
      if (in == plan::kNone) continue;
      const plan::PlanValue& v = plan_.values[static_cast<size_t>(in)];
      if (v.kind != plan::PlanValue::Kind::kConstant || !is_float(v.dtype)) continue;
      const Tensor& t = plan_.blobs[static_cast<size_t>(v.constant)].bytes;
      constants_.push_back(row_of(s, "weight", peak_of(t), step.numerics.compute));
    }
  }
}

RangeRow Ranges::row_of(size_t step, std::string point, double peak, DType type) const {
  return {.step = static_cast<int32_t>(step),
          .name = plan_.steps[step].name,
          .op = std::string(vernier::name(plan_.steps[step].op)),
          .point = std::move(point),
          .peak = peak,
          .type = type,
          .limit = largest_finite(type)};
}

// What the kernel rounds to there; at the last point, the result, at most what it is stored in. A
// point without a rounding of its own has the type that sums are carried in.
DType Ranges::type_at(const plan::Step& step, size_t point) const {
  DType type = step.numerics.points[point].type;
  if (point + 1 == rounding_points(step.op).size() && step.outputs[0] != plan::kNone) {
    const DType stored = plan_.values[static_cast<size_t>(step.outputs[0])].dtype;
    if (type == DType::kUndefined || !is_float(stored) || represents(type, stored)) type = stored;
  }
  return type == DType::kUndefined ? step.numerics.accumulate : type;
}

std::vector<RangeRow> Ranges::rows() const {
  std::vector<RangeRow> result = constants_;
  for (const auto& [s, peaks] : peaks_) {
    const plan::Step& step = plan_.steps[s];
    const auto points = rounding_points(step.op);
    for (size_t i = 0; i < points.size(); ++i) {
      const DType type = type_at(step, i);
      if (peaks[i] > 0 && is_float(type))
        result.push_back(row_of(s, std::string(points[i]), peaks[i], type));
    }
  }
  std::ranges::stable_sort(result, {}, &RangeRow::step);
  return result;
}

}  // namespace vernier::verify
