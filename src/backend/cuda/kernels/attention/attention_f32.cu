// Attention in f32 on the CUDA cores for aligned rows: a warp has 4·kRows queries against steps of
// 64 keys from key 0 on, 8 keys and kRows queries a lane, running softmax in registers. Contract:
// attention.h. Sums run in the order of attention_plain.cu, so a row has the bits it has there:
// over the head size upwards, over keys upwards, exponentials in fours of keys and then a tree.
// C++17.
#include "backend/cuda/device/mma.cuh"
#include "backend/cuda/kernels/attention/attention_tables.cuh"

namespace vernier::backend::cuda {
namespace {

constexpr int kKeys = kStepKeys;

// Lane 8y + x of a warp has queries 4i + y of the warp's, keys 32·(j / 4) + 4x + j % 4 of a step
// and columns 32·(c / 4) + 4x + c % 4 of the values.
template <int kDim_, int kRows_, int kWarps_>
struct Shape {
  static constexpr int kDim = kDim_, kRows = kRows_, kWarps = kWarps_;
  static constexpr int kThreads = 32 * kWarps, kWarpQueries = 4 * kRows;
  static constexpr int kQueries = kWarpQueries * kWarps;
  // Floats in shared memory: q, k, v, then probabilities [query][key].
  static constexpr int kQ = kQueries * kDim, kK = kKeys * kDim, kP = kQueries * kKeys;
  static constexpr size_t kBytes = size_t{4} * (kQ + 2 * kK + kP);
};

// Rows to shared memory in 16-byte chunks; those that do not exist become 0. Chunk c of a row lies
// at c ^ (row / kPer % 8): what the lanes of a warp read together is in different banks. The caller
// commits and waits.
template <class S, int kTileRows, int kPer>
__device__ __forceinline__ void load_rows(const F32Rows& from, int head_dim, uint32_t dst) {
  each_chunk<S::kThreads, kTileRows, S::kDim>([&](int row, int chunk) {
    const bool exists = row < from.left && chunk * 4 < head_dim;
    const int place = row * S::kDim / 4 + (chunk ^ row / kPer % 8);
    copy_16_async(dst + static_cast<uint32_t>(place * 16),
                  from.data + row * from.stride + chunk * 4, exists ? 16 : 0);
  });
}
constexpr int kSwizzleQ = 1, kSwizzleK = 4, kSwizzleNone = 1 << 20;

__device__ inline void spread(const float4& v, float (&x)[4]) {
  x[0] = v.x, x[1] = v.y, x[2] = v.z, x[3] = v.w;
}
__device__ inline void load_4(const float* from, float (&x)[4]) {
  spread(*reinterpret_cast<const float4*>(from), x);
}

// scores[i][j] = Σ_d q[row i][d] · k[key j][d]
template <class S>
__device__ __forceinline__ void multiply_keys(const float* q, const float* k, int y, int x,
                                              int chunks, float (&scores)[S::kRows][8]) {
#pragma unroll
  for (auto& row : scores) {
#pragma unroll
    for (float& score : row) score = 0;
  }
#pragma unroll 2
  for (int chunk = 0; chunk < chunks; ++chunk) {
    float left[S::kRows][4];
#pragma unroll
    for (int i = 0; i < S::kRows; ++i)
      load_4(q + (4 * i + y) * S::kDim + (chunk ^ (4 * (i % 2) + y)) * 4, left[i]);
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      float right[4];
      load_4(k + (32 * (j / 4) + 4 * x + j % 4) * S::kDim + (chunk ^ x) * 4, right);
#pragma unroll
      for (int d = 0; d < 4; ++d) {
#pragma unroll
        for (int i = 0; i < S::kRows; ++i) scores[i][j] += left[i][d] * right[d];
      }
    }
  }
}

// context[i][c] += Σ_key p[row i][key] · v[key][column c]
template <class S>
__device__ __forceinline__ void multiply_values(const float* p, const float* v, int y, int x,
                                                int chunks,
                                                float (&context)[S::kRows][S::kDim / 8]) {
#pragma unroll 2
  for (int chunk = 0; chunk < chunks; ++chunk) {
    float left[S::kRows][4];
#pragma unroll
    for (int i = 0; i < S::kRows; ++i)
      load_4(p + (4 * i + y) * kKeys + (chunk ^ (4 * (i % 2) + y)) * 4, left[i]);
#pragma unroll
    for (int key = 0; key < 4; ++key) {
#pragma unroll
      for (int part = 0; part < S::kDim / 32; ++part) {
        float right[4];
        load_4(v + (4 * chunk + key) * S::kDim + 32 * part + 4 * x, right);
#pragma unroll
        for (int i = 0; i < S::kRows; ++i) {
#pragma unroll
          for (int c = 0; c < 4; ++c) context[i][4 * part + c] += left[i][key] * right[c];
        }
      }
    }
  }
}

// Scores of a step with bias and masks, through a table in the warp's own part of shared memory.
// Bit i of `seen`: they leave the lane's row i a key (known with masks_add only).
template <class S>
__device__ __forceinline__ void mask_scores(const AttentionLaunch& args, const Tile& tile,
                                            int64_t key, int first_row, int y, int x, float* table,
                                            float (&scores)[S::kRows][8], unsigned& seen) {
  const bool by_key = is_by_key(args);
  __syncwarp();
  const int found =
      fill_table<kKeys>(args, tile, key, first_row, by_key ? 1 : S::kWarpQueries, table);
  __syncwarp();
  const int stride = by_key ? 0 : kKeys;
  const int last = by_key ? last_visible(args, tile, key) + first_row + y : 2 * kKeys;
#pragma unroll
  for (int i = 0; i < S::kRows; ++i) {
    const int own_last = last + 4 * i - 4 * x;
    const bool kept = by_key ? found <= last + 4 * i : (found >> (4 * i + y) & 1) != 0;
    seen |= static_cast<unsigned>(kept) << i;
#pragma unroll
    for (int part = 0; part < 2; ++part) {
      float entry[4];
      load_4(table + (4 * i + y) * stride + 32 * part + 4 * x, entry);
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        float& score = scores[i][4 * part + j];
        score = table_score(args, score, entry[j], 32 * part + j > own_last);
      }
    }
  }
  __syncwarp();
}

// A row's scores become exp(score − max) relative to the new maximum; sum and context are rescaled.
template <int kColumns>
__device__ __forceinline__ void softmax_row(float (&scores)[8], float (&context)[kColumns],
                                            float& max, float& sum) {
  float top = scores[0];
#pragma unroll
  for (int j = 1; j < 8; ++j) top = fmaxf(top, scores[j]);
#pragma unroll
  for (int offset = 1; offset < 8; offset *= 2) top = fmaxf(top, __shfl_xor_sync(~0u, top, offset));
  top = fmaxf(top, max);
  // While every key so far is hidden with −inf, exp(−inf − 0) = 0 keeps the sum at 0.
  const float base = top == -kInfinity ? 0.0f : top;
  const float factor = expf(max - base);
  float low = 0, high = 0;  // of keys below 32, and of the others
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    scores[j] = expf(scores[j] - base);
    low += scores[j];
    scores[j + 4] = expf(scores[j + 4] - base);
    high += scores[j + 4];
  }
#pragma unroll
  for (int offset = 1; offset < 8; offset *= 2) {
    low += __shfl_xor_sync(~0u, low, offset);
    high += __shfl_xor_sync(~0u, high, offset);
  }
  sum = sum * factor + (low + high);
  max = top;
#pragma unroll
  for (float& value : context) value *= factor;
}

// Probabilities to the warp's own part of shared memory.
template <class S>
__device__ __forceinline__ void store_probabilities(const float (&scores)[S::kRows][8], int y,
                                                    int x, float* p) {
#pragma unroll
  for (int i = 0; i < S::kRows; ++i) {
#pragma unroll
    for (int part = 0; part < 2; ++part) {
      const float* s = scores[i] + 4 * part;
      *reinterpret_cast<float4*>(p + (4 * i + y) * kKeys +
                                 ((8 * part + x) ^ (4 * (i % 2) + y)) * 4) =
          float4{s[0], s[1], s[2], s[3]};
    }
  }
}

// sum, seen: of the lane's rows.
template <class S>
__device__ __forceinline__ void store_context(const AttentionLaunch& args, const Tile& tile,
                                              int first_row, int y, int x,
                                              const float (&sum)[S::kRows], unsigned seen,
                                              const float (&context)[S::kRows][S::kDim / 8]) {
#pragma unroll
  for (int i = 0; i < S::kRows; ++i) {
    const int row = first_row + 4 * i + y;
    if (row >= tile.queries) continue;
    if (tile.keys == 0 || is_empty_row(args, sum[i], (seen >> i & 1) != 0)) {
      store_empty_row(args, tile, row, x, 8);
      continue;
    }
    const float inverse = 1.0f / sum[i];
    auto* out = static_cast<float*>(args.out.data) + tile.batch * args.out.batch +
                (tile.query + row) * args.out.row + tile.head * args.out.head;
#pragma unroll
    for (int part = 0; part < S::kDim / 32; ++part) {
      const int col = 32 * part + 4 * x;
      if (col >= args.head_dim) break;
      const float* c = context[i] + 4 * part;
      *reinterpret_cast<float4*>(out + col) =
          float4{c[0] * inverse, c[1] * inverse, c[2] * inverse, c[3] * inverse};
    }
  }
}

struct F32Launch {
  AttentionLaunch args;
  int64_t tiles;
};

template <class S>
__global__ void __launch_bounds__(S::kThreads, 2)
    f32_kernel(const __grid_constant__ F32Launch launch) {
  const AttentionLaunch& args = launch.args;
  extern __shared__ __align__(128) float shared_f32[];
  allow_next_kernel();
  wait_for_previous_kernel();
  const Tile tile = find_tile<S::kQueries>(args, launch.tiles, blockIdx.x);
  if (tile.queries == 0) return;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int y = static_cast<int>(threadIdx.x) % 32 / 8, x = static_cast<int>(threadIdx.x) % 8;
  float *q_tile = shared_f32, *k_tile = q_tile + S::kQ, *v_tile = k_tile + S::kK;
  const int first_row = warp * S::kWarpQueries;
  const float* q_rows = q_tile + first_row * S::kDim;
  float* p_rows = v_tile + S::kK + first_row * kKeys;
  const int dim = args.head_dim;
  const auto load_keys = [&](int64_t key) {
    load_rows<S, kKeys, kSwizzleK>(
        f32_rows(args.k, tile.batch, tile.key + key, tile.kv_head, tile.keys - key), dim,
        shared_address(k_tile));
  };
  const int64_t visit = keys_to_visit(args, tile, S::kThreads);
  load_rows<S, S::kQueries, kSwizzleQ>(
      f32_rows(args.q, tile.batch, tile.query, tile.head, tile.queries), dim,
      shared_address(q_tile));
  if (visit > 0) load_keys(0);
  commit_copies();
  wait_for_copies();
  __syncthreads();

  float context[S::kRows][S::kDim / 8] = {}, max[S::kRows], sum[S::kRows];
#pragma unroll
  for (int i = 0; i < S::kRows; ++i) max[i] = -kInfinity, sum[i] = 0;
  unsigned seen = 0;
  for (int64_t key = 0; key < visit; key += kKeys) {
    load_rows<S, kKeys, kSwizzleNone>(
        f32_rows(args.v, tile.batch, tile.key + key, tile.kv_head, tile.keys - key), dim,
        shared_address(v_tile));
    commit_copies();
    float scores[S::kRows][8];
    const StepLook look = look_at_step(args, tile, key);
    multiply_keys<S>(q_rows, k_tile, y, x, dim / 4, scores);
    if (is_open(look)) {
      seen = ~0u;
#pragma unroll
      for (int i = 0; i < S::kRows * 8; ++i) scores[i / 8][i % 8] *= args.scale;
    } else {
      mask_scores<S>(args, tile, key, first_row, y, x, p_rows, scores, seen);
    }
#pragma unroll
    for (int i = 0; i < S::kRows; ++i) softmax_row(scores[i], context[i], max[i], sum[i]);
    store_probabilities<S>(scores, y, x, p_rows);
    wait_for_copies();
    __syncthreads();  // v is there, p is written, and every warp has read k
    if (key + kKeys < visit) load_keys(key + kKeys);
    commit_copies();
    const int64_t left = tile.keys - key;  // behind them p and v are 0
    multiply_values<S>(p_rows, v_tile, y, x,
                       left < kKeys ? (static_cast<int>(left) + 3) / 4 : kKeys / 4, context);
    wait_for_copies();
    __syncthreads();
  }
  store_context<S>(args, tile, first_row, y, x, sum, seen, context);
}

template <class S>
cudaError_t launch_shape(const AttentionLaunch& args, cudaStream_t stream) {
  const auto kernel = &f32_kernel<S>;
  const cudaError_t status = cudaFuncSetAttribute(
      kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(S::kBytes));
  if (status != cudaSuccess) return status;
  const int64_t tiles = attention_tiles(args, S::kQueries);
  return launch_overlapped(kernel, static_cast<unsigned>(tiles * args.heads * args.batch),
                           S::kThreads, S::kBytes, stream, F32Launch{args, tiles});
}

// Larger tiles where they make enough blocks.
template <class Large, class Small>
cudaError_t launch_either(const AttentionLaunch& args, cudaStream_t stream) {
  constexpr int64_t kEnough = 128;
  const int64_t blocks = attention_tiles(args, Large::kQueries) * args.heads * args.batch;
  return blocks >= kEnough ? launch_shape<Large>(args, stream) : launch_shape<Small>(args, stream);
}

bool is_aligned(const AttentionRows& x) {
  return x.type == AttentionType::kF32 && reinterpret_cast<uintptr_t>(x.data) % 16 == 0 &&
         x.batch % 4 == 0 && x.row % 4 == 0 && x.head % 4 == 0;
}

}  // namespace

bool attention_f32_takes(const AttentionLaunch& args) {
  return !args.by_position && args.rotary.cos == nullptr && args.head_dim == args.value_dim &&
         args.head_dim % 4 == 0 && args.head_dim <= 128 && is_aligned(args.q) &&
         is_aligned(args.k) && is_aligned(args.v) && is_aligned(args.out);
}

cudaError_t launch_attention_f32(const AttentionLaunch& args, cudaStream_t stream) {
  if (args.head_dim <= 32) return launch_either<Shape<32, 8, 4>, Shape<32, 4, 2>>(args, stream);
  if (args.head_dim <= 64) return launch_either<Shape<64, 8, 4>, Shape<64, 4, 2>>(args, stream);
  if (args.head_dim <= 96) return launch_either<Shape<96, 4, 4>, Shape<96, 4, 2>>(args, stream);
  return launch_either<Shape<128, 4, 4>, Shape<128, 4, 2>>(args, stream);
}

}  // namespace vernier::backend::cuda
