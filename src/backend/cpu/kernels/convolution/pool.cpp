// cpu.max_pool.windows, cpu.average_pool.windows, cpu.global_*_pool.planes: windows over one or two
// spatial axes. Contract: PoolAttrs in core/attrs.h. f32, sums in window order; NaN wins in Max.
#include <algorithm>
#include <limits>

#include "backend/cpu/body.h"

namespace vernier::backend::cpu {
namespace {

// Sizes per spatial axis; a single axis is the second.
struct PoolAxes {
  std::array<int64_t, 2> in{1, 1}, out{1, 1}, kernel{1, 1}, stride{1, 1}, dilation{1, 1}, pad{0, 0},
      pad_end{0, 0};
};

int64_t at_or(const std::vector<int64_t>& values, size_t i, int64_t fallback) {
  return i < values.size() ? values[i] : fallback;
}

PoolAxes pool_axes(const PoolAttrs& attrs, const TensorArg& x, const TensorArg& y) {
  PoolAxes p;
  const auto axes = static_cast<size_t>(x.rank - 2);
  for (size_t i = 0; i < axes; ++i) {
    const size_t to = i + 2 - axes;
    const auto axis = static_cast<int>(i) + 2;
    p.in[to] = x.dim(axis);
    p.out[to] = y.dim(axis);
    p.kernel[to] = attrs.kernel_shape[i];
    p.stride[to] = at_or(attrs.strides, i, 1);
    p.dilation[to] = at_or(attrs.dilations, i, 1);
    p.pad[to] = at_or(attrs.pads, i, 0);
    p.pad_end[to] = at_or(attrs.pads, axes + i, 0);
  }
  return p;
}

// Taps of one axis that lie inside: positions first + t·dilation for t in [begin, end).
struct Taps {
  int64_t first, begin, end;
  // Taps inside the input or its declared padding (a window may reach past that with ceil_mode).
  int64_t with_padding;
};
Taps taps(const PoolAxes& p, size_t axis, int64_t at) {
  const int64_t first = at * p.stride[axis] - p.pad[axis], step = p.dilation[axis];
  Taps t{first, 0, 0, 0};
  for (int64_t k = 0; k < p.kernel[axis]; ++k) {
    const int64_t position = first + k * step;
    if (position < p.in[axis] + p.pad_end[axis]) ++t.with_padding;
    if (position < 0) ++t.begin;
    if (position < p.in[axis]) t.end = k + 1;
  }
  return t;
}

template <class Window>
void for_each_window(const LaunchCall& call, const PoolAxes& p, const Window& window) {
  const TensorArg& y = call.out[0];
  const int64_t in_plane = p.in[0] * p.in[1], out_plane = p.out[0] * p.out[1];
  if (y.elems() == 0) return;
  const int64_t grain = std::max<int64_t>(1, 1024 / out_plane);
  call.execution.threads->parallel_for(
      y.dim(0) * y.dim(1), grain, [&](int64_t begin, int64_t end, int) {
        for (int64_t plane = begin; plane < end; ++plane) {
          const float* src = call.in[0].as<const float>() + plane * in_plane;
          float* dst = y.as<float>() + plane * out_plane;
          for (int64_t o = 0; o < out_plane; ++o)
            dst[o] = window(src, taps(p, 0, o / p.out[1]), taps(p, 1, o % p.out[1]));
        }
      });
}

template <class Visit>
void for_each_tap(const PoolAxes& p, const float* src, const Taps& h, const Taps& w,
                  const Visit& visit) {
  for (int64_t i = h.begin; i < h.end; ++i) {
    for (int64_t j = w.begin; j < w.end; ++j) {
      const int64_t row = h.first + i * p.dilation[0], col = w.first + j * p.dilation[1];
      visit(src[row * p.in[1] + col]);
    }
  }
}

void launch_max_pool(const LaunchCall& call) {
  const PoolAxes p = pool_axes(attrs_of<PoolAttrs>(call.state), call.in[0], call.out[0]);
  for_each_window(call, p, [&](const float* src, const Taps& h, const Taps& w) {
    float best = -std::numeric_limits<float>::infinity();
    for_each_tap(p, src, h, w, [&](float x) { best = x > best || x != x ? x : best; });
    return best;
  });
}

void launch_average_pool(const LaunchCall& call) {
  const auto& attrs = attrs_of<PoolAttrs>(call.state);
  const PoolAxes p = pool_axes(attrs, call.in[0], call.out[0]);
  for_each_window(call, p, [&](const float* src, const Taps& h, const Taps& w) {
    double sum = 0;
    for_each_tap(p, src, h, w, [&](float x) { sum += static_cast<double>(x); });
    const int64_t count = attrs.count_include_pad ? h.with_padding * w.with_padding
                                                  : (h.end - h.begin) * (w.end - w.begin);
    return static_cast<float>(sum / static_cast<double>(count));
  });
}

// Global pools: one window, the whole plane of each channel.
template <class Plane>
void for_each_plane(const LaunchCall& call, const Plane& plane) {
  const TensorArg& x = call.in[0];
  const int64_t elems = elems_between(x, 2, x.rank);
  const int64_t grain = std::max<int64_t>(1, 4096 / std::max<int64_t>(elems, 1));
  call.execution.threads->parallel_for(
      x.dim(0) * x.dim(1), grain, [&](int64_t begin, int64_t end, int) {
        for (int64_t p = begin; p < end; ++p)
          call.out[0].as<float>()[p] = plane(x.as<const float>() + p * elems, elems);
      });
}
void launch_global_average(const LaunchCall& call) {
  for_each_plane(call, [](const float* x, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += static_cast<double>(x[i]);
    return static_cast<float>(sum / static_cast<double>(n));
  });
}
void launch_global_max(const LaunchCall& call) {
  for_each_plane(call, [](const float* x, int64_t n) {
    float best = -std::numeric_limits<float>::infinity();
    for (int64_t i = 0; i < n; ++i) best = x[i] > best || x[i] != x[i] ? x[i] : best;
    return best;
  });
}

Support supports_windows(const Problem& problem) {
  const size_t rank = rank_of(problem.inputs[0]);
  if (rank != 3 && rank != 4) return no("only one or two spatial axes are supported");
  if (problem.attrs_as<PoolAttrs>().auto_pad != 0) return no("auto_pad is not supported");
  return all_f32(problem);
}

}  // namespace

extern const KernelBody max_pool_windows, average_pool_windows, global_average_planes,
    global_max_planes;
constexpr KernelBody global_average_planes{
    .supports = &all_f32,
    .numerics = &f32_numerics,
    .launch = &launch_global_average,
};
constexpr KernelBody global_max_planes{
    .supports = &all_f32,
    .numerics = &f32_numerics,
    .launch = &launch_global_max,
};
constexpr KernelBody max_pool_windows{
    .supports = &supports_windows,
    .numerics = &f32_numerics,
    .create = &decode_once<PoolAttrs>,
    .launch = &launch_max_pool,
};
constexpr KernelBody average_pool_windows{
    .supports = &supports_windows,
    .numerics = &f32_numerics,
    .create = &decode_once<PoolAttrs>,
    .launch = &launch_average_pool,
};

}  // namespace vernier::backend::cpu
