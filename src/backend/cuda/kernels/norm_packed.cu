// LayerNorm, RMSNorm and AddLayerNorm of rows without gaps, of up to 1024 columns: one warp a row,
// blocks that stay for many rows. Contract in norm_packed.h; arithmetic as in norm.cu. C++17.
#include "backend/cuda/device/rows.cuh"
#include "backend/cuda/kernels/norm_packed.h"

namespace vernier::backend::cuda {
namespace {

constexpr int kWarps = 4;  // rows a block works on at a time
constexpr int kBlocksPerProcessor = 8;

// The vectors of one row that a lane holds: number k begins at column (k·32 + lane)·kN.
template <class T, int kVectors>
struct Held {
  static constexpr int kN = kLanes<T>;
  uint4 raw[kVectors];

  __device__ void load(const void* rows, int64_t row, int cols, int lane, bool aligned) {
    const T* at = static_cast<const T*>(rows) + row * cols;
#pragma unroll
    for (int k = 0; k < kVectors; ++k) {
      const int c = (k * kWarpThreads + lane) * kN;
      raw[k] = uint4{0, 0, 0, 0};
      if (c >= cols) continue;
      if (aligned) {
        raw[k] = *reinterpret_cast<const uint4*>(at + c);
      } else {
        T* values = reinterpret_cast<T*>(&raw[k]);
#pragma unroll
        for (int i = 0; i < kN; ++i) values[i] = at[c + i];
      }
    }
  }
  __device__ void widen(int k, float (&v)[kN]) const {
    const T* values = reinterpret_cast<const T*>(&raw[k]);
#pragma unroll
    for (int i = 0; i < kN; ++i) v[i] = to_f32(values[i]);
  }
};

template <class T, int kN>
__device__ void store(void* rows, int64_t at, bool aligned, const float (&v)[kN]) {
  uint4 raw;
  T* values = reinterpret_cast<T*>(&raw);
#pragma unroll
  for (int i = 0; i < kN; ++i) values[i] = from_f32<T>(v[i]);
  T* to = static_cast<T*>(rows) + at;
  if (aligned) {
    *reinterpret_cast<uint4*>(to) = raw;
    return;
  }
#pragma unroll
  for (int i = 0; i < kN; ++i) to[i] = values[i];
}

template <int kN>
__device__ void read_parameter(const float* parameter, int c, bool aligned, float (&v)[kN]) {
  if (!aligned) {
#pragma unroll
    for (int i = 0; i < kN; ++i) v[i] = __ldg(parameter + c + i);
    return;
  }
#pragma unroll
  for (int i = 0; i < kN; i += 4) {
    const float4 four = __ldg(reinterpret_cast<const float4*>(parameter + c + i));
    v[i] = four.x;
    v[i + 1] = four.y;
    v[i + 2] = four.z;
    v[i + 3] = four.w;
  }
}

template <class T, int kVectors, bool kAdds, bool kIsRms>
__global__ void __launch_bounds__(kWarps* kWarpThreads)
    packed_norm_kernel(const __grid_constant__ PackedNorm args) {
  constexpr int kN = kLanes<T>;
  const int lane = threadIdx.x % kWarpThreads;
  const int64_t step = static_cast<int64_t>(gridDim.x) * kWarps;
  int64_t row = static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.x / kWarpThreads;
  if (row >= args.rows) return;
  const auto cols = static_cast<float>(args.cols);
  Held<T, kVectors> next, next_addend;
  next.load(args.x, row, args.cols, lane, args.is_aligned);
  if constexpr (kAdds) next_addend.load(args.addend, row, args.cols, lane, args.is_aligned);

  for (; row < args.rows; row += step) {
    float x[kVectors][kN];
#pragma unroll
    for (int k = 0; k < kVectors; ++k) {
      next.widen(k, x[k]);
      if constexpr (kAdds) {
        float v[kN];
        next_addend.widen(k, v);
#pragma unroll
        for (int i = 0; i < kN; ++i) x[k][i] = x[k][i] + v[i];
      }
    }
    if (row + step < args.rows) {
      next.load(args.x, row + step, args.cols, lane, args.is_aligned);
      if constexpr (kAdds)
        next_addend.load(args.addend, row + step, args.cols, lane, args.is_aligned);
    }

    float mean = 0, correction = 0, total = 0, squares = 0;
    const auto is_inside = [&](int k) { return (k * kWarpThreads + lane) * kN < args.cols; };
    if constexpr (!kIsRms) {
#pragma unroll
      for (int k = 0; k < kVectors; ++k) {
#pragma unroll
        for (int i = 0; i < kN; ++i) total += x[k][i];  // past the end: 0
      }
      mean = sum_row<kWarpThreads>(total, nullptr) / cols;
      total = 0;
    }
#pragma unroll
    for (int k = 0; k < kVectors; ++k) {
      if (!is_inside(k)) continue;
#pragma unroll
      for (int i = 0; i < kN; ++i) {
        const float d = x[k][i] - mean;
        total += d;
        squares = __fmaf_rn(d, d, squares);
      }
    }
    if constexpr (!kIsRms) correction = sum_row<kWarpThreads>(total, nullptr) / cols;
    squares = sum_row<kWarpThreads>(squares, nullptr);
    const float variance =
        kIsRms
            ? squares / cols
            : fmaxf(__fmaf_rn(-correction, correction, squares / cols), 0.0f) + (squares - squares);
    const float inverse = 1.0f / sqrtf(variance + args.epsilon);
#pragma unroll
    for (int k = 0; k < kVectors; ++k) {
      if (!is_inside(k)) continue;
      const int c = (k * kWarpThreads + lane) * kN;
      const int64_t at = row * args.cols + c;
      if (args.sum != nullptr) store<T, kN>(args.sum, at, args.is_aligned, x[k]);
      float scale[kN], bias[kN];
      if (args.scale != nullptr) read_parameter<kN>(args.scale, c, args.is_aligned, scale);
      if (args.bias != nullptr) read_parameter<kN>(args.bias, c, args.is_aligned, bias);
#pragma unroll
      for (int i = 0; i < kN; ++i) {
        float v = __fmul_rn(x[k][i] - mean - correction, inverse);
        if (args.scale != nullptr) v = __fmul_rn(v, scale[i]);
        if (args.bias != nullptr) v = __fadd_rn(v, bias[i]);
        x[k][i] = v;
      }
      store<T, kN>(args.y, at, args.is_aligned, x[k]);
    }
  }
}

int processors() {
  static const int count = [] {
    int device = 0, found = 1;
    cudaGetDevice(&device);
    cudaDeviceGetAttribute(&found, cudaDevAttrMultiProcessorCount, device);
    return found;
  }();
  return count;
}

template <class T, int kVectors>
void launch_vectors(const PackedNorm& args, cudaStream_t stream) {
  const int64_t wanted = (args.rows + kWarps - 1) / kWarps;
  const auto most = static_cast<int64_t>(processors()) * kBlocksPerProcessor;
  const auto blocks = static_cast<unsigned>(wanted < most ? wanted : most);
  constexpr int kThreads = kWarps * kWarpThreads;
  if (args.addend != nullptr)
    packed_norm_kernel<T, kVectors, true, false><<<blocks, kThreads, 0, stream>>>(args);
  else if (args.is_rms)
    packed_norm_kernel<T, kVectors, false, true><<<blocks, kThreads, 0, stream>>>(args);
  else
    packed_norm_kernel<T, kVectors, false, false><<<blocks, kThreads, 0, stream>>>(args);
}

template <class T>
void launch_type(const PackedNorm& args, cudaStream_t stream) {
  constexpr int kVectors = kHeld / kLanes<T>;  // 1024 columns
  const int vectors = (args.cols + kWarpThreads * kLanes<T> - 1) / (kWarpThreads * kLanes<T>);
  if (2 * vectors <= kVectors)
    launch_vectors<T, kVectors / 2>(args, stream);
  else
    launch_vectors<T, kVectors>(args, stream);
}

}  // namespace

cudaError_t launch_packed_norm(const PackedNorm& args, cudaStream_t stream) {
  if (args.rows == 0 || args.cols == 0) return cudaSuccess;
  if (args.type == DType::kF16)
    launch_type<__half>(args, stream);
  else if (args.type == DType::kBF16)
    launch_type<__nv_bfloat16>(args, stream);
  else
    launch_type<float>(args, stream);
  return cudaGetLastError();
}

}  // namespace vernier::backend::cuda
