// LayerNorm, RMSNorm and AddLayerNorm of dense rows of up to 1024 columns, one warp a row, blocks
// that stay for many rows. Contract in norm_dense.h; arithmetic as in norm.cu. C++17.
#include "backend/cuda/kernels/norm_dense.h"

#include "backend/cuda/device/rows.cuh"

namespace vernier::backend::cuda {
namespace {

constexpr int kWarps = 4;             // rows a block works on at a time
constexpr int kBlocksPerProcessor = 8;

struct DenseNorm {
  const void *x, *addend;  // [rows, cols]; addend or null
  void *y, *sum;           // [rows, cols]; sum or null
  const float *scale, *bias;
  int64_t rows;
  int cols;
  float epsilon;
};

// The vectors of one row that a lane holds: number k begins at column (k·32 + lane)·kN.
template <class T, int kVectors>
struct Held {
  static constexpr int kN = kLanes<T>;
  uint4 raw[kVectors];

  __device__ void load(const void* rows, int64_t row, int cols, int lane) {
    const T* at = static_cast<const T*>(rows) + row * cols;
#pragma unroll
    for (int k = 0; k < kVectors; ++k) {
      const int c = (k * kWarpThreads + lane) * kN;
      raw[k] = c < cols ? *reinterpret_cast<const uint4*>(at + c) : uint4{0, 0, 0, 0};
    }
  }
  __device__ void widen(int k, float (&v)[kN]) const {
    const T* values = reinterpret_cast<const T*>(&raw[k]);
#pragma unroll
    for (int i = 0; i < kN; ++i) v[i] = static_cast<float>(values[i]);
  }
};

template <class T, int kN>
__device__ void store(void* rows, int64_t at, const float (&v)[kN]) {
  uint4 raw;
  T* values = reinterpret_cast<T*>(&raw);
#pragma unroll
  for (int i = 0; i < kN; ++i) values[i] = static_cast<T>(v[i]);
  *reinterpret_cast<uint4*>(static_cast<T*>(rows) + at) = raw;
}

template <int kN>
__device__ void read_parameter(const float* parameter, int c, float (&v)[kN]) {
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
    dense_norm_kernel(const __grid_constant__ DenseNorm args) {
  constexpr int kN = kLanes<T>;
  const int lane = threadIdx.x % kWarpThreads;
  const int64_t step = static_cast<int64_t>(gridDim.x) * kWarps;
  int64_t row = static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.x / kWarpThreads;
  if (row >= args.rows) return;
  const auto cols = static_cast<float>(args.cols);
  Held<T, kVectors> next, next_addend;
  next.load(args.x, row, args.cols, lane);
  if constexpr (kAdds) next_addend.load(args.addend, row, args.cols, lane);

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
      next.load(args.x, row + step, args.cols, lane);
      if constexpr (kAdds) next_addend.load(args.addend, row + step, args.cols, lane);
    }

    float mean = 0, correction = 0, total = 0, squares = 0;
    const auto is_inside = [&](int k) { return (k * kWarpThreads + lane) * kN < args.cols; };
    if constexpr (!kIsRms) {
#pragma unroll
      for (int k = 0; k < kVectors; ++k) {
#pragma unroll
        for (int i = 0; i < kN; ++i) total += x[k][i];  // past the end: 0
      }
      mean = sum_row<1>(total, nullptr) / cols;
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
    if constexpr (!kIsRms) correction = sum_row<1>(total, nullptr) / cols;
    squares = sum_row<1>(squares, nullptr);
    const float variance =
        kIsRms ? squares / cols
               : fmaxf(__fmaf_rn(-correction, correction, squares / cols), 0.0f) +
                     (squares - squares);
    const float inverse = 1.0f / sqrtf(variance + args.epsilon);
#pragma unroll
    for (int k = 0; k < kVectors; ++k) {
      if (!is_inside(k)) continue;
      const int c = (k * kWarpThreads + lane) * kN;
      const int64_t at = row * args.cols + c;
      if (args.sum != nullptr) store<T, kN>(args.sum, at, x[k]);
      float scale[kN], bias[kN];
      if (args.scale != nullptr) read_parameter<kN>(args.scale, c, scale);
      if (args.bias != nullptr) read_parameter<kN>(args.bias, c, bias);
#pragma unroll
      for (int i = 0; i < kN; ++i) {
        float v = __fmul_rn(x[k][i] - mean - correction, inverse);
        if (args.scale != nullptr) v = __fmul_rn(v, scale[i]);
        if (args.bias != nullptr) v = __fadd_rn(v, bias[i]);
        x[k][i] = v;
      }
      store<T, kN>(args.y, at, x[k]);
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
void launch_vectors(const DenseNorm& args, bool is_rms, cudaStream_t stream) {
  const int64_t wanted = (args.rows + kWarps - 1) / kWarps;
  const auto most = static_cast<int64_t>(processors()) * kBlocksPerProcessor;
  const auto blocks = static_cast<unsigned>(wanted < most ? wanted : most);
  constexpr int kThreads = kWarps * kWarpThreads;
  if (args.addend != nullptr)
    dense_norm_kernel<T, kVectors, true, false><<<blocks, kThreads, 0, stream>>>(args);
  else if (is_rms)
    dense_norm_kernel<T, kVectors, false, true><<<blocks, kThreads, 0, stream>>>(args);
  else
    dense_norm_kernel<T, kVectors, false, false><<<blocks, kThreads, 0, stream>>>(args);
}

template <class T>
void launch_type(const DenseNorm& args, bool is_rms, cudaStream_t stream) {
  constexpr int kVectors = kHeld / kLanes<T>;  // 1024 columns
  const int vectors = (args.cols + kWarpThreads * kLanes<T> - 1) / (kWarpThreads * kLanes<T>);
  if (2 * vectors <= kVectors)
    launch_vectors<T, kVectors / 2>(args, is_rms, stream);
  else
    launch_vectors<T, kVectors>(args, is_rms, stream);
}

}  // namespace

bool is_dense_norm(const NormLaunch& launch) {
  const auto is_f32 = [](const FloatArray& a) { return a.data == nullptr || a.type == DType::kF32; };
  const auto aligned = [](const FloatArray& a) {
    return reinterpret_cast<uintptr_t>(a.data) % sizeof(float4) == 0;
  };
  if (launch.type == DType::kUndefined || !launch.is_aligned || launch.channels != 0) return false;
  if (launch.source_count > 2 || (launch.source_count == 2 && launch.is_rms)) return false;
  if (launch.cols > kHeld * kWarpThreads || launch.mean.data || launch.inverse.data) return false;
  for (int s = 0; s < launch.source_count; ++s) {
    const NormSource& source = launch.sources[s];
    if (source.ids.data != nullptr) return false;
    const StridedIndex& index = source.index;
    const bool dense = index.axes == 0 ? launch.rows <= 1
                                       : index.axes == 1 && index.strides[0] == launch.cols;
    if (!dense) return false;
  }
  return is_f32(launch.scale) && is_f32(launch.bias) && aligned(launch.scale) &&
         aligned(launch.bias);
}

cudaError_t launch_norm_dense(const NormLaunch& launch, cudaStream_t stream) {
  const DenseNorm args{launch.sources[0].array.data,
                       launch.source_count == 2 ? launch.sources[1].array.data : nullptr,
                       launch.y.data,
                       launch.sum.data,
                       static_cast<const float*>(launch.scale.data),
                       static_cast<const float*>(launch.bias.data),
                       launch.rows,
                       static_cast<int>(launch.cols),
                       launch.epsilon};
  if (launch.type == DType::kF16)
    launch_type<__half>(args, launch.is_rms, stream);
  else if (launch.type == DType::kBF16)
    launch_type<__nv_bfloat16>(args, launch.is_rms, stream);
  else
    launch_type<float>(args, launch.is_rms, stream);
  return cudaGetLastError();
}

}  // namespace vernier::backend::cuda
