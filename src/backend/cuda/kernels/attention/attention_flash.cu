// Attention in 16 bit on mma.sync (sm_80 and later): one block of 4 warps per 64 queries of a head,
// blocks of 64 keys from key 0 on, running softmax in registers. Contract: attention.h. C++17.
// Source: Dao, FlashAttention-2, arXiv:2307.08691; online normaliser, arXiv:1805.02867.
#include "backend/cuda/device/mma.cuh"
#include "backend/cuda/kernels/attention/attention_fragments.cuh"

namespace vernier::backend::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kQueries = 64;      // of a block, 16 per warp
constexpr int kKeys = kStepKeys;  // of a step: part of a row's bits

// A (64, kDim) tile in shared memory as 16-byte chunks, so permuted that 8 rows of one chunk column
// lie in 8 different banks.
template <int kDim>
struct SharedTile {
  static constexpr int kChunks = kDim / 8;
  uint32_t base;
  __device__ uint32_t at(int row, int chunk) const {
    const int shift = kDim % 64 == 0 ? row & 7 : (row >> 1) & 3;
    return base + static_cast<uint32_t>((row * kChunks + (chunk ^ shift)) * 16);
  }
};

// Rows of q, k or v of one head to load: row r at data[at + r·step], `rows` of them exist.
struct Source {
  const AttentionRows* array;
  int64_t batch, row, head;
  int64_t rows;
  bool rotate;
};

// 8 elements one by one: where 16-byte loads are not aligned, and under rotary tables.
template <class T>
__device__ uint4 load_chunk(const AttentionLaunch& args, const Source& src, int64_t at, int64_t row,
                            int d) {
  float x[8];
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    x[i] = src.rotate ? load_rotated(args, *src.array, at, src.batch, src.row + row, d + i)
                      : load_float(src.array->data, at + d + i, src.array->type);
  }
  return {pack<T>(x[0], x[1]), pack<T>(x[2], x[3]), pack<T>(x[4], x[5]), pack<T>(x[6], x[7])};
}

// Rows [first, first + 64) to shared memory; rows and columns that do not exist become 0. The
// caller commits and waits.
template <class T, int kDim>
__device__ void load_tile(const AttentionLaunch& args, const Source& src, int64_t first,
                          const SharedTile<kDim>& dst) {
  constexpr int kChunks = kDim / 8;
  const AttentionRows& array = *src.array;
  const auto* data = static_cast<const T*>(array.data);
  const int64_t base = src.batch * array.batch + src.row * array.row + src.head * array.head;
  const bool aligned = reinterpret_cast<uintptr_t>(data + base) % 16 == 0 && array.row % 8 == 0;
  const bool by_element = src.rotate || !aligned;
  for (int i = static_cast<int>(threadIdx.x); i < kQueries * kChunks; i += kThreads) {
    const int row = i / kChunks, chunk = i % kChunks;
    const bool exists = first + row < src.rows && chunk * 8 < args.head_dim;
    const int64_t at = exists ? base + (first + row) * array.row : 0;
    const uint32_t to = dst.at(row, chunk);
    if (!by_element) {
      copy_16_async(to, exists ? data + at + chunk * 8 : data, exists ? 16 : 0);
      continue;
    }
    const uint4 x =
        exists ? load_chunk<T>(args, src, at, first + row, chunk * 8) : uint4{0, 0, 0, 0};
    asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(x.x), "r"(x.y), "r"(x.z),
                 "r"(x.w)
                 : "memory");
  }
}

// Raw dot products of the warp's 16 queries with 64 keys: scores[n] has keys 8n + 2t, + 1 of rows g
// and g + 8 (lane = 4g + t).
template <class T, int kDim>
__device__ void multiply_keys(float (&scores)[kKeys / 8][4], const uint32_t (&q)[kDim / 16][4],
                              const SharedTile<kDim>& k, int lane) {
  const int row = lane % 8 + lane / 16 * 8, half = lane / 8 % 2;
#pragma unroll
  for (int n = 0; n < kKeys / 8; ++n) {
#pragma unroll
    for (float& score : scores[n]) score = 0;
  }
#pragma unroll
  for (int step = 0; step < kDim / 16; ++step) {
#pragma unroll
    for (int n = 0; n < kKeys / 16; ++n) {
      uint32_t b[4];
      load_matrices(b, k.at(n * 16 + row, step * 2 + half));
      multiply_add<T>(scores[2 * n], q[step], b[0], b[1]);
      multiply_add<T>(scores[2 * n + 1], q[step], b[2], b[3]);
    }
  }
}

// context += probabilities, rounded to T, times 64 rows of v.
template <class T, int kDim>
__device__ void multiply_values(float (&context)[kDim / 8][4], const float (&p)[kKeys / 8][4],
                                const SharedTile<kDim>& v, int lane) {
#pragma unroll
  for (int step = 0; step < kKeys / 16; ++step) {
    const uint32_t a[4] = {pack<T>(p[2 * step][0], p[2 * step][1]),
                           pack<T>(p[2 * step][2], p[2 * step][3]),
                           pack<T>(p[2 * step + 1][0], p[2 * step + 1][1]),
                           pack<T>(p[2 * step + 1][2], p[2 * step + 1][3])};
#pragma unroll
    for (int n = 0; n < kDim / 16; ++n) {
      uint32_t b[4];
      load_matrices_transposed(b, v.at(step * 16 + lane % 16, n * 2 + lane / 16));
      multiply_add<T>(context[2 * n], a, b[0], b[1]);
      multiply_add<T>(context[2 * n + 1], a, b[2], b[3]);
    }
  }
}

template <class T, int kDim>
__device__ void store_context(const AttentionLaunch& args, const Tile& tile,
                              const float (&context)[kDim / 8][4], const FragmentRows& rows,
                              int row, int lane) {
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    bool empty;
    const float inverse = 1.0f / finish_sum(args, tile, rows, r, row + 8 * r, empty);
    if (row + 8 * r >= tile.queries) continue;
    if (empty) {
      store_empty_row(args, tile, row + 8 * r, lane % 4, 4);
      continue;
    }
    auto* out = static_cast<T*>(args.out.data) + tile.batch * args.out.batch +
                (tile.query + row + 8 * r) * args.out.row + tile.head * args.out.head;
#pragma unroll
    for (int n = 0; n < kDim / 8; ++n) {
      const int col = n * 8 + lane % 4 * 2;
      if (n * 8 >= args.head_dim) break;
      *reinterpret_cast<uint32_t*>(out + col) =
          pack<T>(context[n][2 * r] * inverse, context[n][2 * r + 1] * inverse);
    }
  }
}

struct FlashLaunch {
  AttentionLaunch args;
  int64_t tiles;
};

template <class T, int kDim>
__global__ void __launch_bounds__(kThreads, kDim <= 64 ? 3 : 2)
    flash_kernel(const __grid_constant__ FlashLaunch launch) {
  const AttentionLaunch& args = launch.args;
  extern __shared__ __align__(128) unsigned char shared[];
  constexpr int kTileBytes = kQueries * kDim * 2;
  allow_next_kernel();
  wait_for_previous_kernel();
  const Tile tile = find_tile<kQueries>(args, launch.tiles, blockIdx.x);
  if (tile.queries == 0) return;
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const SharedTile<kDim> q_tile{shared_address(shared)}, k_tile{q_tile.base + kTileBytes},
      v_tile{q_tile.base + 2 * kTileBytes};
  const bool rotary = args.rotary.cos != nullptr;
  const Source q{&args.q, tile.batch, tile.query, tile.head, tile.queries, rotary};
  const Source k{&args.k, tile.batch, tile.key, tile.kv_head, tile.keys, rotary};
  const Source v{&args.v, tile.batch, tile.key, tile.kv_head, tile.keys, false};
  const int64_t visit = keys_to_visit(args, tile, kThreads);
  load_tile<T>(args, q, 0, q_tile);
  if (visit > 0) load_tile<T>(args, k, 0, k_tile);
  commit_copies();
  wait_for_copies();
  __syncthreads();

  uint32_t q_part[kDim / 16][4];
#pragma unroll
  for (int step = 0; step < kDim / 16; ++step)
    load_matrices(q_part[step], q_tile.at(warp * 16 + lane % 16, step * 2 + lane / 16));
  float context[kDim / 8][4] = {};
  const int row = warp * 16 + lane / 4;
  FragmentRows rows;
  float* table = reinterpret_cast<float*>(shared + 3 * kTileBytes) + warp * kTableFloats;

  for (int64_t key = 0; key < visit; key += kKeys) {
    load_tile<T>(args, v, key, v_tile);
    commit_copies();
    float scores[kKeys / 8][4];
    const StepLook look = look_at_step(args, tile, key);
    multiply_keys<T>(scores, q_part, k_tile, lane);
    int first_kept = 0;
    const StepMasks masks = masks_of_step(args, tile, key, look, table, first_kept);
    mask_fragment(args, tile, key, masks, first_kept, warp * 16, lane, table, scores, rows);
    softmax_step(scores, context, rows);
    wait_for_copies();
    __syncthreads();  // v is there, and every warp has read k
    if (key + kKeys < visit) load_tile<T>(args, k, key + kKeys, k_tile);
    commit_copies();
    multiply_values<T>(context, scores, v_tile, lane);
    wait_for_copies();
    __syncthreads();
  }
  store_context<T, kDim>(args, tile, context, rows, row, lane);
}

template <class T, int kDim>
cudaError_t launch_dim(const AttentionLaunch& args, cudaStream_t stream) {
  const int64_t tiles = attention_tiles(args, kQueries);
  const int64_t blocks = tiles * args.heads * args.batch;
  constexpr size_t kSharedBytes =
      size_t{3} * kQueries * kDim * 2 + 4 * sizeof(float) * kTableFloats;
  const auto kernel = &flash_kernel<T, kDim>;
  const cudaError_t status = cudaFuncSetAttribute(
      kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(kSharedBytes));
  if (status != cudaSuccess) return status;
  return launch_overlapped(kernel, static_cast<unsigned>(blocks), kThreads, kSharedBytes, stream,
                           FlashLaunch{args, tiles});
}

template <class T>
cudaError_t launch_type(const AttentionLaunch& args, cudaStream_t stream) {
  if (args.head_dim <= 32) return launch_dim<T, 32>(args, stream);
  if (args.head_dim <= 64) return launch_dim<T, 64>(args, stream);
  if (args.head_dim <= 96) return launch_dim<T, 96>(args, stream);
  return launch_dim<T, 128>(args, stream);
}

}  // namespace

cudaError_t launch_attention_flash(const AttentionLaunch& args, cudaStream_t stream) {
  if (args.q.type == AttentionType::kF16) return launch_type<__half>(args, stream);
  return launch_type<__nv_bfloat16>(args, stream);
}

}  // namespace vernier::backend::cuda
