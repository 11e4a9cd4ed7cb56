// cpu.hardmax.lines: 1 at the first largest element of every line along one axis, 0 elsewhere.
// Contract: AxisAttrs in core/attrs.h.
#include <algorithm>
#include <limits>

#include "backend/cpu/body.h"

namespace vernier::backend::cpu {
namespace {

Support supports_hardmax(const Problem& problem) {
  if (problem.inputs[0].shape.empty()) return no("input is a scalar");
  return all_f32(problem);
}

/// y[i] = 1 where x[i] is the first largest of its line, else 0; a line with NaN is NaN throughout.
/// x        f32, any shape of rank >= 1, any strides. y: f32.
/// Error    exact.
/// Cost     reads x once, writes y once and one element per line again. No workspace.
void launch_hardmax(const LaunchCall& call) {
  const TensorArg &x = call.in[0], &y = call.out[0];
  if (y.elems() == 0) return;
  const auto axis = static_cast<int>(positive_axis(decode<AxisAttrs>(call.attrs).axis, x.rank));
  const Rows x_lines = lines_along(x, axis), y_lines = lines_along(y, axis);
  const int64_t size = x.dim(axis), x_step = x.stride(axis), y_step = y.stride(axis);
  const int64_t grain = std::max<int64_t>(1, 4096 / size);
  call.execution.threads->parallel_for(
      x_lines.count(), grain, [&](int64_t begin, int64_t end, int) {
        for (int64_t l = begin; l < end; ++l) {
          const float* src = x.as<const float>() + x_lines.offset(l);
          float* dst = y.as<float>() + y_lines.offset(l);
          int64_t best = 0;
          bool has_nan = false;
          for (int64_t i = 0; i < size; ++i) {
            const float v = src[i * x_step];
            has_nan = has_nan || v != v;
            if (v > src[best * x_step]) best = i;
          }
          const float fill = has_nan ? std::numeric_limits<float>::quiet_NaN() : 0.0f;
          for (int64_t i = 0; i < size; ++i) dst[i * y_step] = fill;
          if (!has_nan) dst[best * y_step] = 1.0f;
        }
      });
}

}  // namespace

extern const KernelBody hardmax_lines;
constexpr KernelBody hardmax_lines{
    .supports = &supports_hardmax,
    .numerics = &exact_numerics,
    .strided_inputs = 1,
    .launch = &launch_hardmax,
};

}  // namespace vernier::backend::cpu
