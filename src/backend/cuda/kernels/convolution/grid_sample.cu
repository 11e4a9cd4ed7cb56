// GridSample; contract in grid_sample.h. C++17.
#include "backend/cuda/device/elements.cuh"
#include "backend/cuda/device/interpolation.cuh"
#include "backend/cuda/kernels/convolution/grid_sample.h"

namespace vernier::backend::cuda {
namespace {

constexpr int kMaxTaps = 4;
constexpr int kChannels = 16;  // of one thread, so that it finds its taps once for them

// Positions along one axis and their weights; index −1 is a zero outside the image.
struct AxisTaps {
  int count;  // 0: the coordinate is NaN
  int index[kMaxTaps];
  double weight[kMaxTaps];
};

__device__ double reflect(double x, double low, double high) {
  const double range = high - low;
  if (range <= 0) return low;
  const double phase = fmod(fabs(x - low), 2 * range);
  return low + (phase <= range ? phase : 2 * range - phase);
}
__device__ double clamp(double x, double low, double high) {
  return x < low ? low : x > high ? high : x;
}

struct Axis {
  double low, high, last;  // where the image ends; its last position
};

__device__ int tap_index(const Axis& axis, SamplePadding padding, double at) {
  if (at >= 0 && at <= axis.last) return static_cast<int>(at);
  if (padding == SamplePadding::kZeros) return -1;
  if (padding == SamplePadding::kReflection) at = trunc(reflect(at, axis.low, axis.high));
  return static_cast<int>(clamp(at, 0, axis.last));
}

__device__ AxisTaps taps_of(const GridSampleLaunch& args, int size, double normalised) {
  const double length = size;
  const Axis axis{args.align_corners ? 0.0 : -0.5, args.align_corners ? length - 1 : length - 0.5,
                  length - 1};
  double x = args.align_corners ? (normalised + 1) / 2 * (length - 1)
                                : ((normalised + 1) * length - 1) / 2;
  if (args.mode == SampleMode::kNearest) x = nearbyint(x);
  if (x < axis.low || x > axis.high) {
    if (args.padding == SamplePadding::kBorder) x = clamp(x, 0, axis.last);
    if (args.padding == SamplePadding::kReflection) x = reflect(x, axis.low, axis.high);
  }
  AxisTaps taps;
  taps.count = 0;
  if (isnan(x)) return taps;
  if (args.mode == SampleMode::kNearest) {
    taps.count = 1;
    taps.index[0] = tap_index(axis, args.padding, x);
    taps.weight[0] = 1;
    return taps;
  }
  constexpr double kCubicA = -0.75;
  const bool cubic = args.mode == SampleMode::kCubic;
  const double base = floor(x) - (cubic ? 1 : 0);
  taps.count = cubic ? 4 : 2;
  for (int k = 0; k < taps.count; ++k) {
    const double at = base + k;
    taps.index[k] = tap_index(axis, args.padding, at);
    taps.weight[k] = cubic ? cubic_kernel(x - at, kCubicA) : linear_kernel(x - at);
  }
  return taps;
}

// Σ over the taps of three axes of one channel.
__device__ double weigh(const GridSampleLaunch& args, const AxisTaps* taps, int64_t image) {
  double sum = 0;
  for (int i = 0; i < taps[0].count; ++i) {
    if (taps[0].index[i] < 0) continue;
    double plane = 0;
    for (int j = 0; j < taps[1].count; ++j) {
      if (taps[1].index[j] < 0) continue;
      double row = 0;
      const int64_t line =
          image + (int64_t{taps[0].index[i]} * args.size[1] + taps[1].index[j]) * args.size[2];
      for (int k = 0; k < taps[2].count; ++k) {
        if (taps[2].index[k] < 0) continue;
        const float x = load_f32(args.x_type, args.x, line + taps[2].index[k]);
        row += taps[2].weight[k] * static_cast<double>(x);
      }
      plane += taps[1].weight[j] * row;
    }
    sum += taps[0].weight[i] * plane;
  }
  return sum;
}

__global__ void __launch_bounds__(kBlock)
    sample_kernel(const __grid_constant__ GridSampleLaunch args, int64_t total, int64_t chunks,
                  int64_t image) {
  for (int64_t item = first_item(); item < total; item += item_step()) {
    int64_t n = item;
    const int64_t point = take_axis(n, args.points), chunk = take_axis(n, chunks);
    AxisTaps taps[3];
    bool valid = true;
    for (int axis = 0; axis < 3; ++axis) {
      const int own = axis - (3 - args.spatial);
      taps[axis] = {1, {0}, {1}};
      if (own < 0) continue;
      const int64_t at = (n * args.points + point) * args.spatial + (args.spatial - 1 - own);
      taps[axis] = taps_of(args, args.size[axis],
                           static_cast<double>(load_f32(args.grid_type, args.grid, at)));
      valid = valid && taps[axis].count > 0;
    }
    const int64_t end = min(args.channels, (chunk + 1) * kChannels);
    for (int64_t c = chunk * kChannels; c < end; ++c) {
      const int64_t channel = n * args.channels + c;
      store_f64(args.y_type, args.y, channel * args.points + point,
                valid ? weigh(args, taps, channel * image) : static_cast<double>(NAN));
    }
  }
}

}  // namespace

cudaError_t sample_grid(const GridSampleLaunch& args, cudaStream_t stream) {
  const int64_t chunks = (args.channels + kChannels - 1) / kChannels;
  const int64_t total = args.batch * args.points * chunks;
  if (total == 0) return cudaSuccess;
  const int64_t image = int64_t{args.size[0]} * args.size[1] * args.size[2];
  sample_kernel<<<blocks_for(total), kBlock, 0, stream>>>(args, total, chunks, image);
  return cudaGetLastError();
}

}  // namespace vernier::backend::cuda
