// Host-side entries of norm_packed.cu: what encoders have most of, with few arguments.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>

#include "backend/cuda/arrays.h"

namespace vernier::backend::cuda {

/// Whether y of a PackedNorm is quantized too: by rows, or all rows by a given scale.
enum class Quantized : uint8_t { kNot, kByRows, kGiven };

struct PackedNorm {
  const void *x = nullptr, *addend = nullptr;     ///< [rows, cols]; addend or null
  void *y = nullptr, *sum = nullptr;              ///< [rows, cols]; sum: x + addend, or null
  const float *scale = nullptr, *bias = nullptr;  ///< [cols], or null: 1 and 0
  int64_t rows = 0;
  int cols = 0;  ///< at most 1024, a multiple of a 16-byte vector
  float epsilon = 0;
  DType type = DType::kUndefined;  ///< of x, addend, y and sum: f32, f16 or bf16
  bool is_rms = false;
  bool is_aligned = false;     ///< every array lies at a multiple of 16 bytes
  bool has_constants = false;  ///< no kernel writes scale and bias
  /// Where not null, y is quantized by rows too, as by QuantizeRows (quantize_rows.h); only where
  /// packed_norm_quantizes(). `scales`, `zeros`: [rows], or null.
  int8_t* q = nullptr;
  float *scales = nullptr, *zeros = nullptr;
  /// Of QuantizeRows; no kernel writes them.
  const float* factors = nullptr;                             ///< [cols], or null: 1
  const float *given_scale = nullptr, *given_zero = nullptr;  ///< of all rows; null: each its own
  bool to_f8 = false;      ///< q is f8e4m3, else q8; zeros and given_zero are null
  bool backwards = false;  ///< rows from the last to the first; EmbedNorm takes no notice
};

/// A table whose rows ids name, as NormSource of norm.h.
struct PackedTable {
  const void* data = nullptr;  ///< [rows, cols]
  AnyArray ids;                ///< i32 or i64, in [-rows, rows); others read row 0
  StridedIndex index;          ///< where the id of row r stands
  int64_t rows = 0;
};
inline constexpr int kMaxPackedTables = 3;

/// norm: without x, addend, sum and is_rms; the tables have its type.
struct PackedEmbedNorm {
  PackedNorm norm;
  PackedTable tables[kMaxPackedTables] = {};
  int count = 0;
};

/// y = (s − mean) / √(var + ε)·scale + bias per row of s = x + addend; is_rms (without addend):
/// s / √(mean(s²) + ε)·scale. Arithmetic in f32, as launch_norm()'s. A row is the work of a warp,
/// of half a warp or, of few rows, of several; the order of sums depends on cols, type and
/// whether there is an addend only: with one, 256, 384, 512, 768 and 1024 columns of 16 bits have
/// the order of linear_norm_sm90.h, so that a product's own norm gives the same bits. Cost: each
/// input read once, each output written once. The launch overlaps the kernel before it
/// (device/overlap.cuh).
cudaError_t launch_packed_norm(const PackedNorm& args, cudaStream_t stream);
/// norm_few_rows.cu, which launch_packed_norm turns to: of up to kNormFewRows rows, aligned, with
/// an addend, of 16 bits and 256, 384, 512, 768 or 1024 columns.
inline constexpr int64_t kNormFewRows = 1024;
cudaError_t launch_norm_few_rows(const PackedNorm& args, cudaStream_t stream);
/// Can it quantize y as well? With an addend, aligned rows of 16 bits and 256, 384, 512, 768 or
/// 1024 columns.
bool packed_norm_quantizes(const PackedNorm& args);

/// The same of s = Σ table_t[id_t].
cudaError_t launch_packed_embed_norm(const PackedEmbedNorm& args, cudaStream_t stream);

}  // namespace vernier::backend::cuda
