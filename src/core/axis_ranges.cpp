// Slices, splits and pads of one axis: see axis_ranges.h.
#include "core/axis_ranges.h"

#include <algorithm>
#include <string>

#include "core/error.h"

namespace vernier {
namespace {

[[noreturn]] void refuse(const char* op, AxisSizes sizes, const std::string& what) {
  throw Error(ErrorCode::kInput, std::string(op) + ": axis " + std::to_string(sizes.axis) + " of " +
                                     std::to_string(sizes.in) + " elements: " + what +
                                     "; pass the values that the output's shape was inferred from");
}

}  // namespace

AxisSlice slice_from(AxisSlice given, int64_t size) {
  const int64_t last = given.step > 0 ? size : size - 1;
  const int64_t start = given.start < 0 ? std::max(given.start, -size - 1) + size : given.start;
  return {std::clamp<int64_t>(start, 0, std::max<int64_t>(last, 0)), given.step};
}

void check_slice(AxisSlice slice, AxisSizes sizes) {
  if (sizes.out == 0) return;
  int64_t last = 0;
  const bool is_number = !__builtin_mul_overflow(sizes.out - 1, slice.step, &last) &&
                         !__builtin_add_overflow(last, slice.start, &last);
  const auto inside = [&](int64_t at) { return at >= 0 && at < sizes.in; };
  if (is_number && inside(slice.start) && inside(last)) return;
  refuse("Slice", sizes,
         "expected a slice of the output's " + std::to_string(sizes.out) + " elements, got start " +
             std::to_string(slice.start) + " and step " + std::to_string(slice.step));
}

void check_part(AxisPart part, AxisSizes sizes) {
  const bool inside = part.size >= 0 && part.size <= sizes.in - part.first;
  if (inside && part.size == sizes.out) return;
  refuse("Split", sizes,
         "expected a part of the output's " + std::to_string(sizes.out) + " elements, got " +
             std::to_string(part.size) + " from " + std::to_string(part.first));
}

void check_padding(AxisPadding padding, AxisSizes sizes) {
  constexpr int64_t kFar = int64_t{1} << 60;  // beyond every size; sums of such numbers fit 64 bits
  const auto is_near = [](int64_t pad) { return pad > -kFar && pad < kFar; };
  const bool are_near = is_near(padding.begin) && is_near(padding.end);
  if (are_near && sizes.in + padding.begin + padding.end == sizes.out) return;
  refuse("Pad", sizes,
         "expected pads that give the output's " + std::to_string(sizes.out) + ", got " +
             std::to_string(padding.begin) + " and " + std::to_string(padding.end));
}

}  // namespace vernier
