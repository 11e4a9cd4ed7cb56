// Host-side entries of reduce.cu and along_axis.cu: plain types, so that nvcc sees no C++20 header.
#pragma once
#include <cuda_runtime_api.h>

#include "backend/cuda/arrays.h"

namespace vernier::backend::cuda {

enum class ReduceKind : uint8_t {
  kSum,
  kMean,
  kL1,
  kSumSquare,
  kL2,
  kLogSum,
  kProd,
  kMax,
  kMin,
  kLogSumExp
};

/// Output i is made of the `count` elements of x at kept(i) + reduced(k).
struct ReduceLaunch {
  AnyArray x, y;
  StridedIndex kept, reduced;
  int64_t outputs = 0, count = 0;
  ReduceKind kind = ReduceKind::kSum;
  bool in_rows = false;     ///< the last axis is reduced; it has stride 1
  bool is_one_row = false;  ///< it is the only one
  bool is_aligned = false;  ///< 16-byte vectors of such rows are
  bool in_vectors = false;  ///< 4 neighboring outputs are 4 neighbors of x, aligned
  bool as_double = false;   ///< integers go through double: L2, LogSum, LogSumExp
};

/// y[i] = the reduction of group i: any type but f8, x and y of one kind (floats, or integers).
/// Floats are carried in f64 and rounded once, integers in 64 bits that wrap. NaN wins in kMax and
/// kMin; an empty group has the identity (of a maximum: the type's lowest value, or −inf).
/// Order: by count and type only. x is read once (kLogSumExp: twice).
cudaError_t launch_reduce(const ReduceLaunch& launch, cudaStream_t stream);

/// ArgMax, ArgMin: y[i] = position of the best element of line i, i64. NaN is best; of equal ones
/// the first, or the last.
struct ArgReduceLaunch {
  AnyArray x;
  int64_t* y = nullptr;
  StridedIndex lines;
  int64_t count = 0, size = 0, step = 1;
  bool is_max = true, last = false;
};
cudaError_t launch_arg_reduce(const ArgReduceLaunch& launch, cudaStream_t stream);

/// y[k] = x[0] + … + x[k] along the axis that `axis` (one i32 or i64 on the device) names; dense
/// arrays of one type. exclusive: without x[k]; reverse: from the end. Floats are carried in f64.
/// Order: one after the other. An axis outside [-rank, rank) is taken as axis 0.
struct CumSumLaunch {
  AnyArray x, y, axis;
  int64_t sizes[kMaxAxes] = {};
  int rank = 0;
  int64_t elems = 0;
  bool exclusive = false, reverse = false;
};
cudaError_t launch_cum_sum(const CumSumLaunch& launch, cudaStream_t stream);

/// y[b, h] = Σ_s x[b, s, h]·m[b, s] / max(Σ_s m[b, s], minimum). x: f32, f16, bf16, its last axis
/// contiguous; m: any type but f8. Sums in f32, of eight interleaved parts of s, so that zeros of
/// the mask at the end of a row change no bits.
struct MaskedMeanLaunch {
  FloatArray x, y;
  AnyArray mask;
  int64_t batch = 0, seq = 0, width = 0;
  int64_t x_strides[2] = {}, mask_strides[2] = {};  ///< of b and s
  float minimum = 0;
  bool is_aligned = false;  ///< vectors of 4 elements are
};
cudaError_t launch_masked_mean(const MaskedMeanLaunch& launch, cudaStream_t stream);

/// y = (x − mean_c) / √(var_c + ε)·scale_c + bias_c on dense [planes, elems]; c = plane mod
/// channels. Arithmetic in f32.
struct ChannelNormLaunch {
  FloatArray x, scale, bias, mean, variance, y;
  int64_t planes = 0, elems = 0, channels = 0;
  float epsilon = 0;
  bool is_aligned = false;  ///< vectors of 4 elements are
};
cudaError_t launch_channel_norm(const ChannelNormLaunch& launch, cudaStream_t stream);

}  // namespace vernier::backend::cuda
