// Host-side entry of norm.cu: plain types, so that nvcc sees no C++20 header.
#pragma once
#include <cuda_runtime_api.h>

#include "backend/cuda/arrays.h"

namespace vernier::backend::cuda {

/// One addend of the rows that are normalized: row r of an array, or the row of a table that an id
/// names. `index`: where row r begins, in elements — or where its id stands.
struct NormSource {
  FloatArray array;
  StridedIndex index;
  AnyArray ids;            ///< i32 or i64; absent: no table
  int64_t table_rows = 0;  ///< ids are in [-table_rows, table_rows); others read row 0
};

inline constexpr int kMaxNormSources = 8;

struct NormLaunch {
  NormSource sources[kMaxNormSources];
  int source_count = 1;
  FloatArray scale, bias;    ///< absent: 1, 0
  FloatArray y, sum;         ///< [rows, cols] dense; sum: of the sources, or absent
  FloatArray mean, inverse;  ///< [rows], or absent
  int64_t rows = 0, cols = 0;
  float epsilon = 0;
  bool is_rms = false;
  bool is_aligned = false;         ///< vectors of `lanes` are aligned in every array with rows
  DType type = DType::kUndefined;  ///< of sources, y and sum; kUndefined: they differ
  /// Group normalization: scale and bias are [channels], a row is `row_channels` channels of
  /// `channel.size` elements, cols < 2^31. 0 channels: scale and bias are [cols].
  int64_t channels = 0, row_channels = 0;
  Divisor channel;
};

/// y = (x − mean) / √(var + ε)·scale + bias per row of x = Σ sources; is_rms: x / √(mean(x²) + ε).
/// f32, f16, bf16 in any mix; one type where speed matters. Arithmetic in f32: variance of x − mean
/// in a second pass over registers, in which the mean's own rounding error is measured and taken
/// out. NaN or ±inf in a row makes it NaN.
/// Order of sums: by cols and type only. Cost: each source read once where cols <= 8192, else three
/// times; every output written once.
cudaError_t launch_norm(const NormLaunch& launch, cudaStream_t stream);

}  // namespace vernier::backend::cuda
