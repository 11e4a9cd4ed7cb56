// Attention of f32 arrays on mma.sync with TF32 operands (sm_80 and later): one block of 4 warps,
// 16 or 32 queries of a head each, steps of 64 keys from key 0 on, running softmax in registers. q,
// k, v and the probabilities are rounded to nearest, halves to even; sums are f32. Contract:
// attention.h. C++17.
#include "backend/cuda/kernels/attention/attention_fragments.cuh"

namespace vernier::backend::cuda {
namespace {

constexpr int kThreads = 128, kWarps = 4;
constexpr int kKeys = kStepKeys;  // part of a row's bits

// A number of TF32, to nearest, halves to even. NaN stays NaN.
__device__ inline uint32_t round_tf32(float x) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  uint32_t y;
  asm("cvt.rn.tf32.f32 %0, %1;" : "=r"(y) : "f"(x));
  return y;
#else
  const uint32_t bits = __float_as_uint(x);
  return x == x ? bits + 0xfff + (bits >> 13 & 1) & ~uint32_t{0x1fff} : bits;
#endif
}

// c[16, 8] += a[16, 8] · b[8, 8]
__device__ inline void multiply_add_tf32(float (&c)[4], const uint32_t (&a)[4], uint32_t b0,
                                         uint32_t b1) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// kTiles tiles of 16 queries a warp. Rows lie kPitch floats apart: what a warp reads together is in
// different banks.
template <int kDim_, int kTiles_>
struct Shape {
  static constexpr int kDim = kDim_, kTiles = kTiles_;
  static constexpr int kQueries = 16 * kTiles * kWarps;
  static constexpr int kPitch = kDim + 4;
  static constexpr size_t kBytes =
      size_t{4} * ((kQueries + 2 * kKeys) * kPitch + kWarps * kTableFloats);
};

// Rows of q, k or v of one head.
struct Source {
  const AttentionRows* array;
  int64_t batch, row, head;
  int64_t rows;  // that exist
  bool rotate;
};

// Elements one by one: where 16-byte loads are not aligned, and under rotary tables.
__device__ __noinline__ void load_elements(const AttentionLaunch& args, Source src, int64_t first,
                                           int rows, int dim, int pitch, bool pairs, float* dst) {
  const AttentionRows& array = *src.array;
  const int64_t base = src.batch * array.batch + src.row * array.row + src.head * array.head;
  // Each thread writes the chunks that it rounds.
  for (int r = 0; r < rows / 16; ++r) {
    const int thread_row = static_cast<int>(threadIdx.x) / 8;
    const int row = pairs ? r / 2 * 32 + 2 * thread_row + r % 2 : 16 * r + thread_row;
    const int64_t at = base + (first + row) * array.row;
    for (int d = static_cast<int>(threadIdx.x) % 8 * 4; d < dim; d += d % 4 == 3 ? 29 : 1) {
      float value = 0;
      if (first + row < src.rows && d < args.head_dim) {
        value = src.rotate ? load_rotated(args, array, at, src.batch, src.row + first + row, d)
                           : static_cast<const float*>(array.data)[at + d];
      }
      dst[row * pitch + d] = value;
    }
  }
}

// Calls body(row, chunk) for a thread's chunks of a tile's rows. Of v (kPairs) it has those of keys
// 2i and 2i + 1, one after the other.
template <class S, int kTileRows, bool kPairs, class Body>
__device__ __forceinline__ void each_own_chunk(const Body& body) {
  const int row = static_cast<int>(threadIdx.x) / 8, chunk = static_cast<int>(threadIdx.x) % 8;
#pragma unroll
  for (int part = 0; part < S::kDim / 32; ++part) {
#pragma unroll
    for (int r = 0; r < kTileRows / 16; ++r)
      body(kPairs ? r / 2 * 32 + 2 * row + r % 2 : 16 * r + row, chunk + 8 * part);
  }
}

// Rows [first, first + kTileRows) to shared memory; rows and columns that do not exist become 0.
// The caller commits and waits.
template <class S, int kTileRows, bool kPairs = false>
__device__ __forceinline__ void load_rows(const AttentionLaunch& args, const Source& src,
                                          int64_t first, float* dst) {
  const AttentionRows& array = *src.array;
  const F32Rows from = f32_rows(array, src.batch, src.row + first, src.head, src.rows - first);
  if (src.rotate || reinterpret_cast<uintptr_t>(from.data) % 16 != 0 || array.row % 4 != 0) {
    load_elements(args, src, first, kTileRows, S::kDim, S::kPitch, kPairs, dst);
    return;
  }
  const uint32_t to = shared_address(dst);
  each_own_chunk<S, kTileRows, kPairs>([&](int row, int chunk) {
    const bool exists = row < from.left && chunk * 4 < args.head_dim;
    copy_16_async(to + static_cast<uint32_t>((row * S::kPitch + chunk * 4) * 4),
                  from.data + row * from.stride + chunk * 4, exists ? 16 : 0);
  });
}

// Rounds what this thread has loaded.
template <class S, int kTileRows>
__device__ __forceinline__ void round_rows(float* tile) {
  each_own_chunk<S, kTileRows, false>([&](int row, int chunk) {
    auto* at = reinterpret_cast<uint4*>(tile + row * S::kPitch + chunk * 4);
    const float4 x = *reinterpret_cast<const float4*>(at);
    *at = {round_tf32(x.x), round_tf32(x.y), round_tf32(x.z), round_tf32(x.w)};
  });
}
// The same of v, and lays the keys 2i and 2i + 1 side by side: of columns 4c … 4c + 3 chunk c of
// row 2i holds the first two of both keys, of row 2i + 1 the others.
template <class S>
__device__ __forceinline__ void round_values(float* tile) {
  each_own_chunk<S, kKeys, true>([&](int row, int chunk) {
    if (row % 2 != 0) return;
    auto* at = reinterpret_cast<uint4*>(tile + row * S::kPitch + chunk * 4);
    auto* below = reinterpret_cast<uint4*>(tile + (row + 1) * S::kPitch + chunk * 4);
    const float4 x = *reinterpret_cast<const float4*>(at),
                 y = *reinterpret_cast<const float4*>(below);
    *at = {round_tf32(x.x), round_tf32(y.x), round_tf32(x.y), round_tf32(y.y)};
    *below = {round_tf32(x.z), round_tf32(y.z), round_tf32(x.w), round_tf32(y.w)};
  });
}

// Raw dot products of the warp's queries with 64 keys: scores[m][n] has keys 8n + 2t, + 1 of rows g
// and g + 8 of its m-th 16 queries (lane = 4g + t).
template <class S>
__device__ __forceinline__ void multiply_keys(float (&scores)[S::kTiles][kKeys / 8][4],
                                              const float* q, const float* k, int lane) {
#pragma unroll
  for (int i = 0; i < S::kTiles * kKeys / 2; ++i) scores[i / 32][i / 4 % 8][i % 4] = 0;
  // The matrices of a load: 8 keys, columns 4·(lane / 8) on; of q 16 rows, columns 4·(lane / 16)
  // on.
  const uint32_t own = shared_address(k + lane % 8 * S::kPitch + lane / 8 * 4);
  const uint32_t own_q = shared_address(q + lane % 16 * S::kPitch + lane / 16 * 4);
#pragma unroll
  for (int step = 0; step < S::kDim / 8; step += 2) {
    uint32_t a[S::kTiles][2][4];
#pragma unroll
    for (int i = 0; i < S::kTiles * 2; ++i) {
      const int at = 16 * (i / 2) * S::kPitch + (step + i % 2) * 8;
      load_matrices(a[i / 2][i % 2], own_q + static_cast<uint32_t>(at * 4));
    }
#pragma unroll
    for (int n = 0; n < kKeys / 8; n += 4) {
      uint32_t b[4][4];
#pragma unroll
      for (int i = 0; i < 4; ++i)
        load_matrices(b[i], own + static_cast<uint32_t>((8 * (n + i) * S::kPitch + step * 8) * 4));
        // Products of one sum are apart.
#pragma unroll
      for (int part = 0; part < 2; ++part) {
#pragma unroll
        for (int i = 0; i < 4 * S::kTiles; ++i) {
          const int m = i / 4, at = i % 4;
          multiply_add_tf32(scores[m][n + at], a[m][part], b[at][2 * part], b[at][2 * part + 1]);
        }
      }
    }
  }
}

// context += rounded probabilities times 64 rows of v. Products take the keys of 8 in the order in
// which the scores lie: row t of b is key 2t, row t + 4 key 2t + 1, as round_values() has put them
// side by side. Their column g is column 32·(n / 4) + 4g + n % 4 of v.
template <class S>
__device__ __forceinline__ void multiply_values(float (&context)[S::kTiles][S::kDim / 8][4],
                                                const float (&p)[S::kTiles][kKeys / 8][4],
                                                const float* v, int lane) {
  const auto* own = reinterpret_cast<const uint4*>(v + lane % 4 * 2 * S::kPitch + lane / 4 * 4);
#pragma unroll
  for (int step = 0; step < kKeys / 8; ++step) {
    uint32_t a[S::kTiles][4];
#pragma unroll
    for (int m = 0; m < S::kTiles; ++m) {
#pragma unroll
      for (int e = 0; e < 4; ++e) a[m][e] = round_tf32(p[m][step][e % 2 * 2 + e / 2]);
    }
#pragma unroll
    for (int part = 0; part < S::kDim / 32; ++part) {
      const uint4 low = own[(8 * step * S::kPitch + 32 * part) / 4],
                  high = own[((8 * step + 1) * S::kPitch + 32 * part) / 4];
#pragma unroll
      for (int m = 0; m < S::kTiles; ++m) {
        multiply_add_tf32(context[m][4 * part], a[m], low.x, low.y);
        multiply_add_tf32(context[m][4 * part + 1], a[m], low.z, low.w);
        multiply_add_tf32(context[m][4 * part + 2], a[m], high.x, high.y);
        multiply_add_tf32(context[m][4 * part + 3], a[m], high.z, high.w);
      }
    }
  }
}

template <class S>
__device__ __forceinline__ void store_context(const AttentionLaunch& args, const Tile& tile,
                                              const float (&context)[S::kDim / 8][4],
                                              const FragmentRows& rows, int row, int lane) {
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    bool empty;
    const float inverse = 1.0f / finish_sum(args, tile, rows, r, row + 8 * r, empty);
    if (row + 8 * r >= tile.queries) continue;
    if (empty) {
      store_empty_row(args, tile, row + 8 * r, lane % 4, 4);
      continue;
    }
    auto* out = static_cast<float*>(args.out.data) + tile.batch * args.out.batch +
                (tile.query + row + 8 * r) * args.out.row + tile.head * args.out.head;
    const bool aligned = reinterpret_cast<uintptr_t>(out) % 16 == 0;
#pragma unroll
    for (int part = 0; part < S::kDim / 32; ++part) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int col = 32 * part + lane % 4 * 8 + 4 * half;
        if (col >= args.head_dim) break;
        float x[4];
#pragma unroll
        for (int e = 0; e < 4; ++e) x[e] = context[4 * part + e][2 * r + half] * inverse;
        if (aligned) {
          *reinterpret_cast<float4*>(out + col) = float4{x[0], x[1], x[2], x[3]};
        } else {
#pragma unroll
          for (int e = 0; e < 4; ++e) out[col + e] = x[e];
        }
      }
    }
  }
}

struct Tf32Launch {
  AttentionLaunch args;
  int64_t tiles;
};

template <class S>
__global__ void __launch_bounds__(kThreads, 2)
    tf32_kernel(const __grid_constant__ Tf32Launch launch) {
  const AttentionLaunch& args = launch.args;
  extern __shared__ __align__(128) float shared_tf32[];
  allow_next_kernel();
  wait_for_previous_kernel();
  const Tile tile = find_tile<S::kQueries>(args, launch.tiles, blockIdx.x);
  if (tile.queries == 0) return;
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  float *k_tile = shared_tf32, *v_tile = k_tile + kKeys * S::kPitch,
        *q_tile = v_tile + kKeys * S::kPitch;
  const bool rotary = args.rotary.cos != nullptr;
  const Source q{&args.q, tile.batch, tile.query, tile.head, tile.queries, rotary};
  const Source k{&args.k, tile.batch, tile.key, tile.kv_head, tile.keys, rotary};
  const Source v{&args.v, tile.batch, tile.key, tile.kv_head, tile.keys, false};
  const int64_t visit = keys_to_visit(args, tile, kThreads);
  load_rows<S, S::kQueries>(args, q, 0, q_tile);
  if (visit > 0) load_rows<S, kKeys>(args, k, 0, k_tile);
  commit_copies();
  wait_for_copies();
  round_rows<S, S::kQueries>(q_tile);
  const int first_row = warp * 16 * S::kTiles;
  const float* q_rows = q_tile + first_row * S::kPitch;
  float context[S::kTiles][S::kDim / 8][4] = {};
  FragmentRows rows[S::kTiles];
  float* table = q_tile + S::kQueries * S::kPitch + warp * kTableFloats;
  for (int64_t key = 0; key < visit; key += kKeys) {
    wait_for_copies();
    round_rows<S, kKeys>(k_tile);
    __syncthreads();  // q and k are there, and every warp has read v
    load_rows<S, kKeys, true>(args, v, key, v_tile);
    commit_copies();
    float scores[S::kTiles][kKeys / 8][4];
    const StepLook look = look_at_step(args, tile, key);
    multiply_keys<S>(scores, q_rows, k_tile, lane);
    int first_kept = 0;
    const StepMasks masks = masks_of_step(args, tile, key, look, table, first_kept);
#pragma unroll
    for (int m = 0; m < S::kTiles; ++m) {
      mask_fragment(args, tile, key, masks, first_kept, first_row + 16 * m, lane, table, scores[m],
                    rows[m]);
      softmax_step(scores[m], context[m], rows[m]);
    }
    wait_for_copies();
    round_values<S>(v_tile);
    __syncthreads();  // v is there, and every warp has read k
    if (key + kKeys < visit) load_rows<S, kKeys>(args, k, key + kKeys, k_tile);
    commit_copies();
    multiply_values<S>(context, scores, v_tile, lane);
  }
#pragma unroll
  for (int m = 0; m < S::kTiles; ++m)
    store_context<S>(args, tile, context[m], rows[m], first_row + 16 * m + lane / 4, lane);
}

template <class S>
cudaError_t launch_shape(const AttentionLaunch& args, cudaStream_t stream) {
  const auto kernel = &tf32_kernel<S>;
  const cudaError_t status = cudaFuncSetAttribute(
      kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(S::kBytes));
  if (status != cudaSuccess) return status;
  const int64_t tiles = attention_tiles(args, S::kQueries);
  return launch_overlapped(kernel, static_cast<unsigned>(tiles * args.heads * args.batch), kThreads,
                           S::kBytes, stream, Tf32Launch{args, tiles});
}

// Tiles of 128 queries where they make enough blocks.
template <int kDim>
cudaError_t launch_either(const AttentionLaunch& args, cudaStream_t stream) {
  using Large = Shape<kDim, 2>;
  constexpr int64_t kEnough = 128;
  const int64_t blocks = attention_tiles(args, Large::kQueries) * args.heads * args.batch;
  return blocks >= kEnough ? launch_shape<Large>(args, stream)
                           : launch_shape<Shape<kDim, 1>>(args, stream);
}

}  // namespace

cudaError_t launch_attention_tf32(const AttentionLaunch& args, cudaStream_t stream) {
  if (args.head_dim <= 32) return launch_either<32>(args, stream);
  if (args.head_dim <= 64) return launch_either<64>(args, stream);
  if (args.head_dim <= 96) return launch_shape<Shape<96, 1>>(args, stream);
  return launch_shape<Shape<128, 1>>(args, stream);
}

}  // namespace vernier::backend::cuda
