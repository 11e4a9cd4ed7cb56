// Attention with f32 products on the CUDA cores, any types and sizes: one block of 256 threads per
// 64 queries of a head and up to 128 columns of the values, blocks of 64 keys from key 0 on,
// running softmax in registers. Also the scan for finite keys and values. Contract: attention.h.
// Every sum runs in one order: over the head size upwards, over keys upwards. C++17.
#include "backend/cuda/device/overlap.cuh"
#include "backend/cuda/kernels/attention/attention_device.cuh"

namespace vernier::backend::cuda {
namespace {

constexpr int kThreads = 256;  // 16 x 16: thread (y, x) has queries 4y … 4y + 3
constexpr int kQueries = 64, kKeys = 64;
constexpr int kDepth = 32;            // of the head size, and of the keys of P·V, at a time
constexpr int kPitch = kQueries + 4;  // floats between rows of a transposed tile
constexpr int kTileFloats = kDepth * kPitch;

struct Where {
  int64_t batch, row, head;  // of the first row
  int64_t rows;              // that exist
};

// dst[d][row] = element `first + d` of 64 rows of q or k; 0 where there is none. kSimple: f32 that
// is not rotated.
template <bool kSimple>
__device__ void load_transposed(const AttentionLaunch& args, const AttentionRows& x,
                                const Where& where, int first, float* dst) {
  const int64_t base = where.batch * x.batch + where.row * x.row + where.head * x.head;
  for (int i = static_cast<int>(threadIdx.x); i < kQueries * kDepth; i += kThreads) {
    // 8 rows x 4 columns per warp: 16-byte pieces of memory, 2-way conflicts in shared memory.
    const int d = i % 4 + i / 32 % (kDepth / 4) * 4, row = i / 4 % 8 + i / (8 * kDepth) * 8;
    float value = 0;
    if (row < where.rows && first + d < args.head_dim) {
      const int64_t at = base + row * x.row;
      if constexpr (kSimple) {
        value = static_cast<const float*>(x.data)[at + first + d];
      } else {
        value = load_rotated(args, x, at, where.batch, where.row + row, first + d);
      }
    }
    dst[d * kPitch + row] = value;
  }
}

// dst[key][col] = columns [col, col + kCols) of 32 rows of v.
template <bool kSimple, int kCols>
__device__ void load_values(const AttentionLaunch& args, const Where& where, int col, float* dst) {
  const AttentionRows& v = args.v;
  const int64_t base = where.batch * v.batch + where.row * v.row + where.head * v.head + col;
  for (int i = static_cast<int>(threadIdx.x); i < kDepth * kCols; i += kThreads) {
    const int row = i / kCols, c = i % kCols;
    float value = 0;
    if (row < where.rows && col + c < args.value_dim) {
      const int64_t at = base + row * v.row + c;
      if constexpr (kSimple) {
        value = static_cast<const float*>(v.data)[at];
      } else {
        value = load_float(v.data, at, v.type);
      }
    }
    dst[row * kCols + c] = value;
  }
}

// scores[i][j] += Σ_d q[d][4y + i] · k[d][4x + j]
__device__ inline void multiply_keys(const float* q, const float* k, int y, int x,
                                     float (&scores)[4][4]) {
#pragma unroll 8
  for (int d = 0; d < kDepth; ++d) {
    const float4 a = *reinterpret_cast<const float4*>(q + d * kPitch + 4 * y);
    const float4 b = *reinterpret_cast<const float4*>(k + d * kPitch + 4 * x);
    const float left[4] = {a.x, a.y, a.z, a.w}, right[4] = {b.x, b.y, b.z, b.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
      for (int j = 0; j < 4; ++j) scores[i][j] += left[i] * right[j];
    }
  }
}

// context[i][c] += Σ_key p[key][4y + i] · v[key][64·(c / 4) + 4x + c % 4]
template <int kCols>
__device__ inline void multiply_values(const float* p, const float* v, int y, int x,
                                       float (&context)[4][kCols / 16]) {
#pragma unroll 4
  for (int key = 0; key < kDepth; ++key) {
    const float4 a = *reinterpret_cast<const float4*>(p + key * kPitch + 4 * y);
    const float left[4] = {a.x, a.y, a.z, a.w};
#pragma unroll
    for (int part = 0; part < kCols / 64; ++part) {
      const float4 b = *reinterpret_cast<const float4*>(v + key * kCols + 64 * part + 4 * x);
      const float right[4] = {b.x, b.y, b.z, b.w};
#pragma unroll
      for (int i = 0; i < 4; ++i) {
#pragma unroll
        for (int c = 0; c < 4; ++c) context[i][4 * part + c] += left[i] * right[c];
      }
    }
  }
}

// What a thread carries of each of its four query rows.
struct RowState {
  QueryMasks masks;
  int64_t query = 0;  // of the sequence
  float max = -kInfinity, sum = 0;
  bool seen = false;
};

// The row's scores become exp(score − max) relative to the new maximum; sum and context are
// rescaled. The 16 threads of a row are half a warp.
template <int kColumns>
__device__ inline void softmax_row(float (&scores)[4], float (&context)[kColumns], RowState& row) {
  float top = fmaxf(fmaxf(scores[0], scores[1]), fmaxf(scores[2], scores[3]));
  for (int offset = 1; offset < 16; offset *= 2)
    top = fmaxf(top, __shfl_xor_sync(~0u, top, offset));
  top = fmaxf(top, row.max);
  // While every key so far is hidden with −inf, exp(−inf − 0) = 0 keeps the sum at 0.
  const float base = top == -kInfinity ? 0.0f : top;
  const float factor = expf(row.max - base);
  float sum = 0;
#pragma unroll
  for (float& score : scores) {
    score = expf(score - base);
    sum += score;
  }
  for (int offset = 1; offset < 16; offset *= 2) sum += __shfl_xor_sync(~0u, sum, offset);
  row.sum = row.sum * factor + sum;
  row.max = top;
#pragma unroll
  for (float& value : context) value *= factor;
}

template <int kCols, bool kPositions>
__device__ void store_context(const AttentionLaunch& args, const Tile& tile, int first_col, int y,
                              int x, const RowState (&rows)[4],
                              const float (&context)[4][kCols / 16]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    // `seen` is known per thread: one of the 16 of the row saw a key if any did.
    const unsigned half = __ballot_sync(~0u, rows[i].seen) >> (threadIdx.x % 32 / 16 * 16) & 0xffff;
    const int row = 4 * y + i;
    if (row >= tile.queries) continue;
    const bool empty = tile.keys == 0 || is_empty_row(args, rows[i].sum, half != 0) ||
                       (kPositions && is_hidden_row(args, tile, row));
    const int64_t at =
        tile.batch * args.out.batch + (tile.query + row) * args.out.row + tile.head * args.out.head;
    const float inverse = 1.0f / rows[i].sum;
#pragma unroll
    for (int c = 0; c < kCols / 16; ++c) {
      const int col = first_col + 64 * (c / 4) + 4 * x + c % 4;
      if (col >= args.value_dim) continue;
      const float value = empty ? empty_context(args, tile, col) : context[i][c] * inverse;
      store_float(args.out.data, at + col, args.out.type, value);
    }
  }
}

struct PlainLaunch {
  AttentionLaunch args;
  int64_t tiles;  // or chunks of the scan below
};

template <bool kSimple, int kCols, bool kPositions>
__global__ void __launch_bounds__(kThreads)
    plain_kernel(const __grid_constant__ PlainLaunch launch) {
  const AttentionLaunch& args = launch.args;
  __shared__ __align__(16) float tiles_shared[2 * kTileFloats];  // q and k, then v
  __shared__ __align__(16) float p_shared[kKeys * kPitch];       // [key][query]
  static_assert(kDepth * kCols <= 2 * kTileFloats, "v shares the room of q and k");
  allow_next_kernel();
  wait_for_previous_kernel();
  const Tile tile = find_tile<kQueries>(args, launch.tiles, blockIdx.x);
  if (tile.queries == 0) return;
  const int x = static_cast<int>(threadIdx.x) % 16, y = static_cast<int>(threadIdx.x) / 16;
  const int first_col = static_cast<int>(blockIdx.y) * kCols;
  RowState rows[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    rows[i].masks = query_masks(args, tile, 4 * y + i);
    if constexpr (!kPositions) continue;
    rows[i].query = tile.query - tile.first + min(4 * y + i, tile.queries - 1);
    if (!keeps_query(args, tile, 4 * y + i)) rows[i].masks.visible = -1;
  }
  float context[4][kCols / 16] = {};
  const int64_t visit = keys_to_visit(args, tile, kThreads);
  for (int64_t key = 0; key < visit; key += kKeys) {
    float scores[4][4] = {};
    for (int d = 0; d < args.head_dim; d += kDepth) {
      __syncthreads();
      load_transposed<kSimple>(args, args.q, {tile.batch, tile.query, tile.head, tile.queries}, d,
                               tiles_shared);
      load_transposed<kSimple>(args, args.k,
                               {tile.batch, tile.key + key, tile.kv_head, tile.keys - key}, d,
                               tiles_shared + kTileFloats);
      __syncthreads();
      multiply_keys(tiles_shared, tiles_shared + kTileFloats, y, x, scores);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int64_t at = key + 4 * x + j;
        if (kPositions && at < tile.keys)
          scores[i][j] += position_score(args, tile, rows[i].query, at);
        scores[i][j] = at < tile.keys
                           ? finish_score(args, rows[i].masks, at, scores[i][j], rows[i].seen)
                           : -kInfinity;
      }
      softmax_row(scores[i], context[i], rows[i]);
    }
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      *reinterpret_cast<float4*>(p_shared + (4 * x + j) * kPitch + 4 * y) =
          float4{scores[0][j], scores[1][j], scores[2][j], scores[3][j]};
    }
    for (int part = 0; part < kKeys; part += kDepth) {
      __syncthreads();  // the tiles have been read, p is written
      load_values<kSimple, kCols>(
          args, {tile.batch, tile.key + key + part, tile.kv_head, tile.keys - key - part},
          first_col, tiles_shared);
      __syncthreads();
      multiply_values<kCols>(p_shared + part * kPitch, tiles_shared, y, x, context);
    }
  }
  store_context<kCols, kPositions>(args, tile, first_col, y, x, rows, context);
}

template <bool kSimple, int kCols>
cudaError_t launch_cols(const AttentionLaunch& args, cudaStream_t stream) {
  const int64_t tiles = attention_tiles(args, kQueries);
  const dim3 grid(static_cast<unsigned>(tiles * args.heads * args.batch),
                  static_cast<unsigned>((args.value_dim + kCols - 1) / kCols));
  const auto kernel =
      args.by_position ? &plain_kernel<kSimple, kCols, true> : &plain_kernel<kSimple, kCols, false>;
  return launch_overlapped(kernel, grid, kThreads, 0, stream, PlainLaunch{args, tiles});
}

// Not all exponent bits set.
__device__ inline bool is_finite_f32(uint32_t x) { return (~x & 0x7f800000) != 0; }

// True if no element of `rows` rows from `at` on is NaN or infinite.
__device__ bool is_finite_part(const AttentionRows& x, int64_t at, int rows, int width) {
  const bool wide = x.type == AttentionType::kF32;
  const int per = wide ? 4 : 8;  // elements of 16 bytes
  bool all = true;
  if (width % per != 0 || x.row % per != 0 || at % per != 0 ||
      reinterpret_cast<uintptr_t>(x.data) % 16 != 0) {
    for (int i = static_cast<int>(threadIdx.x); i < rows * width; i += 128) {
      const float value = load_float(x.data, at + i / width * x.row + i % width, x.type);
      all = all && is_finite_f32(__float_as_uint(value));
    }
    return all;
  }
  const uint32_t exponent = x.type == AttentionType::kF16 ? 0x7c00 : 0x7f80;
  const int chunks = width / per;
  for (int i = static_cast<int>(threadIdx.x); i < rows * chunks; i += 128) {
    const int64_t from = at + i / chunks * x.row + i % chunks * per;
    const uint4 v =
        *reinterpret_cast<const uint4*>(static_cast<const char*>(x.data) + from * (wide ? 4 : 2));
    for (uint32_t word : {v.x, v.y, v.z, v.w}) {
      all = all && (wide ? is_finite_f32(word)
                         : (word & exponent) != exponent && (word >> 16 & exponent) != exponent);
    }
  }
  return all;
}

// One block per (chunk, kv head, batch item).
__global__ void __launch_bounds__(128) finite_kernel(const __grid_constant__ PlainLaunch launch) {
  const AttentionLaunch& args = launch.args;
  const int64_t chunks = launch.tiles;
  allow_next_kernel();
  wait_for_previous_kernel();
  const int64_t chunk = blockIdx.x % chunks, head = blockIdx.x / chunks % args.kv_heads,
                batch = blockIdx.x / chunks / args.kv_heads;
  const int64_t first = chunk * kFiniteChunk;
  const int rows =
      static_cast<int>(args.keys - first < kFiniteChunk ? args.keys - first : kFiniteChunk);
  const auto finite = [&](const AttentionRows& x, int width) {
    return is_finite_part(x, batch * x.batch + first * x.row + head * x.head, rows, width);
  };
  bool all = finite(args.v, args.value_dim);
  if (args.masks_add) all = all && finite(args.k, args.head_dim);
  all = __syncthreads_and(all);
  if (threadIdx.x == 0) args.finite[blockIdx.x] = all ? 1 : 0;
}

}  // namespace

cudaError_t launch_attention_finite(const AttentionLaunch& args, cudaStream_t stream) {
  const int64_t chunks = (args.keys + kFiniteChunk - 1) / kFiniteChunk;
  const int64_t blocks = chunks * args.kv_heads * args.batch;
  if (blocks == 0) return cudaSuccess;
  return launch_overlapped(&finite_kernel, static_cast<unsigned>(blocks), 128, 0, stream,
                           PlainLaunch{args, chunks});
}

cudaError_t launch_attention_plain(const AttentionLaunch& args, cudaStream_t stream) {
  const auto is_f32 = [](const AttentionRows& x) { return x.type == AttentionType::kF32; };
  const bool simple =
      is_f32(args.q) && is_f32(args.k) && is_f32(args.v) && args.rotary.cos == nullptr;
  if (args.value_dim <= 64)
    return simple ? launch_cols<true, 64>(args, stream) : launch_cols<false, 64>(args, stream);
  return simple ? launch_cols<true, 128>(args, stream) : launch_cols<false, 128>(args, stream);
}

}  // namespace vernier::backend::cuda
