// Host-side entries of the attention kernels: plain types, so that nvcc sees no C++20 header.
// What is computed: AttentionAttrs in core/attrs.h. The rows: attention.cpp.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>

namespace vernier::backend::cuda {

/// Types that the kernels read and write.
enum class AttentionType : int { kF32, kF16, kBF16 };

/// q, k, v or out [batch, seq, heads, width]: strides in elements, the last axis contiguous.
struct AttentionRows {
  void* data;
  int64_t batch, row, head;
  AttentionType type;
};

/// A bias or keep array broadcast to [batch, heads, queries, keys]: strides in elements, 0 where it
/// repeats. data null: absent. keep holds bytes, its type is not read.
struct AttentionTable {
  const void* data;
  int64_t batch, head, query, key;
  AttentionType type;
};

/// What relative positions add to the raw scores of the rows of q or of k: positions [batch, seq,
/// heads, size], strides in elements, and the element of each distance i - j: buckets [count], i32
/// or i64, of which element `zero` is that of i = j. Buckets are forced into [0, size). data null:
/// absent.
struct AttentionPositions {
  const void* data;
  int64_t batch, row, head;
  int size;
  AttentionType type;
  const void* buckets;
  int64_t count, zero;
  bool buckets_are_i64;
};

/// Rotary tables broadcast to [batch, seq, width], width = D or D/2. cos null: absent.
struct AttentionRotary {
  const void *cos, *sin;
  int64_t cos_batch, cos_row, sin_batch, sin_row;
  AttentionType cos_type, sin_type;
  int cos_width, sin_width;
  bool interleaved;
};

/// Where q is not null, out, dense and of type kF16, is not stored, but quantized as by
/// QuantizeRows with one scale: q = out·factor / scale + zero (device/quantize_row.cuh).
struct AttentionQuantized {
  int8_t* q = nullptr;                            // as out
  const float* factors = nullptr;                 // [heads · value_dim], or null: 1
  const float *scale = nullptr, *zero = nullptr;  // one number each
  bool to_f8 = false;                             // q is f8e4m3, else q8; zero is null
};

/// One launch. Row [batch, query, head] of out from the keys of its batch item or, with starts_q
/// and starts_k (i32 or i64, [sequences + 1], on the device), of its sequence.
struct AttentionLaunch {
  AttentionRows q, k, v, out;
  int64_t batch, queries, keys;
  int heads, kv_heads, head_dim, value_dim;
  AttentionTable bias, keep;
  const void *starts_q, *starts_k;
  int sequences;
  bool starts_are_i64;
  AttentionRotary rotary;
  float scale, fill;
  bool causal, zero_nan_rows, masks_add;
  /// With causal: one byte per [batch, kv_heads, chunk of kFiniteChunk keys], 1 where they may be
  /// left out if hidden (finite_rows below). Null: nothing is left out.
  uint8_t* finite;
  bool backwards;                     ///< tiles from the last to the first
  AttentionQuantized quantized = {};  ///< of launch_attention_sm90 only
  /// With starts_q: the bias is read at the places of query and key within their sequence, of which
  /// there are at most so many; 0: at the packed rows.
  int64_t longest = 0;
  AttentionPositions query_positions = {}, key_positions = {};
  AttentionTable keep_queries = {};  ///< key is 0
  bool zero_hidden_rows = false;     ///< rows whose keys keep and keep_queries all hide are 0
  bool by_position = false;          ///< any of these four is there
};

constexpr int kFiniteChunk = 64;

/// Keys of a step of the running softmax: part of a row's bits, and of what the rows declare.
constexpr int kFlashStepKeys = 64, kSm90StepKeys = 128;

/// Of an H100 and H200.
constexpr int64_t kMultiprocessors = 132;

/// Query tiles of `tile` rows per batch item and head that a grid must hold; with sequences an
/// upper bound, the lengths being on the device.
inline int64_t attention_tiles(const AttentionLaunch& args, int tile) {
  const int64_t full = (args.queries + tile - 1) / tile;
  return args.starts_q == nullptr ? full : full + args.sequences + 1;
}

/// Fills args.finite: 1 where every value (and, with masks_add, every key) of a chunk is finite.
/// Reads v (and k) once.
cudaError_t launch_attention_finite(const AttentionLaunch& args, cudaStream_t stream);

/// attention_plain.cu: f32 products on the CUDA cores, any types, head and value sizes.
cudaError_t launch_attention_plain(const AttentionLaunch& args, cudaStream_t stream);
/// attention_f32.cu: the same bits, faster, for what attention_f32_takes(): f32 rows at multiples
/// of 16 bytes, head_dim = value_dim a multiple of 4 up to 128, no rotary tables.
cudaError_t launch_attention_f32(const AttentionLaunch& args, cudaStream_t stream);
bool attention_f32_takes(const AttentionLaunch& args);

/// attention_flash.cu: mma.sync; q, k, v and out of one 16-bit type, head_dim = value_dim a
/// multiple of 8 up to kFlashMaxDim.
constexpr int kFlashMaxDim = 128;
cudaError_t launch_attention_flash(const AttentionLaunch& args, cudaStream_t stream);
/// attention_tf32.cu: the same for f32 arrays, products of operands rounded to TF32.
cudaError_t launch_attention_tf32(const AttentionLaunch& args, cudaStream_t stream);

/// attention_sm90.cu: wgmma and the tensor copy engine; the types of flash, head_dim = value_dim
/// 32, 64 or 128, no rotary tables, scale in [2^-20, 2^20], at most kMostBuckets relative
/// positions; not masks_add.
constexpr int64_t kMostBuckets = 1 << 16;
cudaError_t launch_attention_sm90(const AttentionLaunch& args, cudaStream_t stream);
/// True if the copy engine can read q, k and v: addresses and strides are multiples of 16 bytes.
bool attention_sm90_takes(const AttentionLaunch& args);
/// attention_short.cu, which launch_attention_sm90 turns to: at most 128 keys, head_dim 32 or 64,
/// no sequences, tables the same for all queries. It looks at every key and needs no args.finite.
cudaError_t launch_attention_short(const AttentionLaunch& args, cudaStream_t stream);
bool attention_short_takes(const AttentionLaunch& args);
/// attention_sequences.cu, which launch_attention_sm90 turns to: many sequences, those of queries
/// and keys alike, head_dim 32 or 64, no masks, bias or positions.
cudaError_t launch_attention_sequences(const AttentionLaunch& args, cudaStream_t stream);
bool attention_sequences_takes(const AttentionLaunch& args);

/// Tables [heads, rows, head_dim] of q's type, dense: the scores by relative position of a query or
/// key, args.query_positions or args.key_positions, are its products with the rows of its head,
/// summed in f32, 16 terms at a time, and rounded to that type. Both are there.
struct AttentionTables {
  const void *of_queries = nullptr, *of_keys = nullptr;
  int rows = 0;  ///< the size of both positions
};
/// attention_products.cu: the bits of launch_attention_sm90, with the positions computed beside the
/// scores: their data is not read. For what attention_products_takes(): what
/// attention_sm90_takes(), head_dim = 64, as many kv_heads as heads, no bias, not causal, a keep
/// table that is the same for all queries, at most kMostTableRows rows,
/// buckets of the distances of kMostProductKeys keys.
constexpr int kMostTableRows = 512, kMostProductKeys = 1024;
cudaError_t launch_attention_products(const AttentionLaunch& args, const AttentionTables& tables,
                                      cudaStream_t stream);
bool attention_products_takes(const AttentionLaunch& args, const AttentionTables& tables);

}  // namespace vernier::backend::cuda
