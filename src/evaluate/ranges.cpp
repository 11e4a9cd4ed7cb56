// Peaks by rounding point: see ranges.h.
#include "evaluate/ranges.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <mutex>

#include "core/numerics.h"
#include "core/threads.h"

namespace vernier::evaluate {
namespace {

// Where values are seen: the rounding points, or the result of what only moves values.
std::span<const std::string_view> points_of(OpKind op) {
  const auto points = rounding_points(op);
  return points.empty() ? std::span<const std::string_view>(kOutPoints) : points;
}

}  // namespace

double largest_finite_element(const Tensor& t) {
  constexpr int64_t kLeastElems = int64_t{1} << 20;  // of a thread
  const bool single = t.dtype() == DType::kF32;      // what most weights are
  double peak = 0;
  std::mutex mutex;
  in_parallel(t.elems(), kLeastElems, [&](int64_t begin, int64_t end) {
    const auto* floats = reinterpret_cast<const float*>(t.data());
    float largest = 0;
    for (int64_t i = begin; single && i < end; ++i) {
      const float size = std::abs(floats[i]);
      largest = size > largest && size <= std::numeric_limits<float>::max() ? size : largest;
    }
    double here = largest;
    for (int64_t i = begin; !single && i < end; ++i) {
      const double size = std::abs(t.float_at(i));
      if (std::isfinite(size)) here = std::max(here, size);
    }
    const std::lock_guard lock(mutex);
    peak = std::max(peak, here);
  });
  return peak;
}

void Ranges::note(size_t step, const PointPeaks& peaks) {
  PointPeaks& known = peaks_[step];
  for (size_t i = 0; i < peaks.size(); ++i) {
    if (std::isfinite(peaks[i])) known[i] = std::max(known[i], peaks[i]);
  }
}

void Ranges::note_constants() {
  for (size_t s = 0; s < plan_.steps.size(); ++s) {
    const plan::Step& step = plan_.steps[s];
    if ((flags(step.op) & kProduct) == 0 || !below_f32(step.numerics.compute)) continue;
    // What a product adds to its result (a bias, a mask) is no operand of it.
    const size_t operands =
        std::min<size_t>(step.op == OpKind::kAttention ? 3 : 2, step.inputs.size());
    for (int32_t in : std::span(step.inputs).first(operands)) {
      if (in == plan::kNone) continue;
      const plan::PlanValue& v = plan_.value(in);
      if (v.kind != plan::PlanValue::Kind::kConstant || !is_float(v.dtype)) continue;
      const Tensor& t = plan_.blob(v.constant).bytes;
      constants_.push_back(row_of(s, "weight", largest_finite_element(t), step.numerics.compute));
    }
  }
}

bool range_fits(double peak, DType type) {
  if (type == DType::kQ8 || type == DType::kQ4)
    return true;  // its scale is chosen so that the largest number fits
  const double margin = represents(type, DType::kF32) ? 1 : kRangeMargin;
  return peak * margin <= largest_finite(type);
}

RangeRow Ranges::row_of(size_t step, std::string point, double peak, DType type) const {
  // Their scales are chosen so that the largest number fits, or the model's own saturate there.
  const OpKind op = plan_.steps[step].op;
  const bool quantizes = op == OpKind::kQuantizeRows || op == OpKind::kQuantizedLinear ||
                         op == OpKind::kQuantizeLinear;
  const bool is_scaled = quantizes && is_small_float(type);
  return {.step = static_cast<int32_t>(step),
          .name = plan_.steps[step].name,
          .op = std::string(vernier::name(plan_.steps[step].op)),
          .point = std::move(point),
          .peak = peak,
          .type = type,
          .limit = largest_finite(type),
          .fits = is_scaled || range_fits(peak, type)};
}

// What the kernel rounds to there; at the last point, the result, at most what it is stored in. A
// point without a rounding of its own has the type that sums are carried in.
DType Ranges::type_at(const plan::Step& step, size_t point) const {
  DType type = step.numerics.points[point].type;
  if (point + 1 == points_of(step.op).size() && step.outputs[0] != plan::kNone) {
    const DType stored = plan_.value(step.outputs[0]).dtype;
    if (type == DType::kUndefined || !is_float(stored) || represents(type, stored)) type = stored;
  }
  return type == DType::kUndefined ? step.numerics.accumulate : type;
}

std::vector<RangeRow> Ranges::rows() const {
  std::vector<RangeRow> result = constants_;
  for (const auto& [s, peaks] : peaks_) {
    const plan::Step& step = plan_.steps[s];
    const auto points = points_of(step.op);
    for (size_t i = 0; i < points.size(); ++i) {
      const DType type = type_at(step, i);
      if (peaks[i] > 0 && is_float(type))
        result.push_back(row_of(s, std::string(points[i]), peaks[i], type));
    }
  }
  std::ranges::stable_sort(result, {}, &RangeRow::step);
  return result;
}

}  // namespace vernier::evaluate
