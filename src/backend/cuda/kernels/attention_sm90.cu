// Attention in 16 bit on Hopper (sm_90a): one block of 1 or 2 warpgroups, each with 64 queries of a
// head, and steps of 128 keys from key 0 on that the copy engine brings into a ring of tiles. Both
// products are wgmma; P·V of the first keys of a step runs while the exponentials of the others
// are taken, and two blocks share a multiprocessor (head size 64), so that one's products run beside
// the other's softmax. A row's bits depend on its query, keys and masks alone: the number of
// warpgroups changes none. Contract: attention.h. C++17.
// Source: Shah et al., FlashAttention-3, arXiv:2407.08608.
#include "backend/cuda/kernels/attention_device.cuh"
#include "backend/cuda/kernels/wgmma.cuh"

namespace vernier::backend::cuda {
namespace {

constexpr int kGroupQueries = 64;  // of a warpgroup
constexpr int kKeys = 128;         // of a step: part of a row's bits
constexpr int kSlots = 5;          // tiles of the ring: k, v, k, v, …
constexpr float kLog2E = 1.4426950408889634f;
// Raw scores (before scaling) beyond it are brought to it: −3.4e38 times log2(e) would be −inf.
constexpr float kLargestRaw = 0x1p100f;

struct Maps {
  CUtensorMap q, k, v;  // boxes of (64 queries | 128 keys) x 64 columns
};

// Where things lie in shared memory, from a 1024-byte aligned address on.
template <int kDim, int kGroups>
struct Room {
  static constexpr int kTileBytes = kKeys * kDim * 2;  // of k or v: columns 0 … 63, then 64 … 127
  static constexpr int kGroupBytes = kGroupQueries * kDim * 2;
  static constexpr int kRing = 0;
  static constexpr int kQuery = kRing + kSlots * kTileBytes;
  static constexpr int kBias = kQuery + kGroups * kGroupBytes;  // [group][parity][key]
  static constexpr int kBarriers = kBias + kGroups * 2 * kKeys * 4;
  static constexpr int kEnd = kBarriers + (2 * kSlots + 1) * 8;
  static constexpr int kBytes = kEnd + 1024;
};

// A score, bias or fill as it is before scaling. Finite stays finite.
__device__ inline float raw_score(float score, float inverse_scale) {
  const float raw = score * inverse_scale;
  return fabsf(raw) > kLargestRaw && fabsf(score) < kInfinity ? copysignf(kLargestRaw, score) : raw;
}

// The ring of key and value tiles: tile i is k (even) or v (odd) of step i / 2.
template <int kDim>
struct Ring {
  uint32_t base, full, empty;
  const Maps* maps;
  int row, head, batch;  // of the first key
  int count;             // tiles in all

  __device__ uint32_t tile(int i) const {
    return base + static_cast<uint32_t>(i % kSlots * kKeys * kDim * 2);
  }
  __device__ void load(int i) const {
    const uint32_t barrier = full + static_cast<uint32_t>(i % kSlots * 8);
    expect_bytes(barrier, kKeys * kDim * 2);
    for (int col = 0; col < kDim; col += 64) {
      load_box(tile(i) + static_cast<uint32_t>(col * kKeys * 2), i % 2 == 0 ? maps->k : maps->v,
               barrier, col, row + i / 2 * kKeys, head, batch);
    }
  }
  __device__ void wait(int i) const {
    wait_for(full + static_cast<uint32_t>(i % kSlots * 8), i / kSlots & 1);
  }
  // Called by every thread that has read tile i; one of them fills the slot of the tile before it,
  // which the other warps have left by then or soon will.
  __device__ void leave(int i) const {
    if (threadIdx.x % 32 == 0) arrive(empty + static_cast<uint32_t>(i % kSlots * 8));
    if (threadIdx.x == 0 && i > 0 && i - 1 + kSlots < count) {
      wait_for(empty + static_cast<uint32_t>((i - 1) % kSlots * 8), (i - 1) / kSlots & 1);
      load(i - 1 + kSlots);
    }
    __syncwarp();
  }
};

// What a lane carries of its rows g and g + 8 of the warp (lane = 4g + t).
struct Rows {
  QueryMasks masks[2];
  float max[2] = {-kInfinity, -kInfinity};  // of raw scores
  float sum[2] = {0, 0};                    // this lane's part
};

// Which of 128 keys are kept, the same for all queries: four words by key.
struct KeptKeys {
  uint32_t words[4];
  __device__ bool all() const { return (words[0] & words[1] & words[2] & words[3]) == ~0u; }
};
__device__ inline KeptKeys kept_keys(const AttentionLaunch& args, const QueryMasks& masks,
                                     int64_t key, int64_t keys) {
  KeptKeys kept;
  const auto* keep = static_cast<const uint8_t*>(args.keep.data);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int64_t j = key + 32 * i + threadIdx.x % 32;
    kept.words[i] =
        __ballot_sync(~0u, j >= keys || keep[masks.keep + j * args.keep.key] != 0);
  }
  return kept;
}

// Element e of a fragment's eight columns: key 8n + 2t + e % 2 of row e / 2.
template <class Each>
__device__ inline void for_each_score(float (&scores)[64], const Each& each) {
  const int first = static_cast<int>(threadIdx.x) % 4 * 2;
#pragma unroll
  for (int n = 0; n < 16; ++n) {
#pragma unroll
    for (int e = 0; e < 4; ++e) each(scores[4 * n + e], n, first + e % 2, e / 2);
  }
}

// Bias and masks of the step that starts at `key`; scores are raw. bias_by_key: the step's biases
// in shared memory where all queries have the same, else null.
__device__ inline void mask_scores(const AttentionLaunch& args, const Rows& rows, int64_t key,
                                   int64_t keys, const float* bias_by_key, float inverse_scale,
                                   float (&scores)[64]) {
  if (bias_by_key != nullptr) {
    for_each_score(scores, [&](float& score, int n, int within, int) {
      score += bias_by_key[8 * n + within];
    });
  } else if (args.bias.data != nullptr) {
    for_each_score(scores, [&](float& score, int n, int within, int r) {
      const int64_t j = key + 8 * n + within;
      if (j >= keys) return;
      const int64_t at = rows.masks[r].bias + j * args.bias.key;
      score += raw_score(load_float(args.bias.data, at, args.bias.type), inverse_scale);
    });
  }
  const float fill = raw_score(args.fill, inverse_scale);
  if (args.keep.data != nullptr && args.keep.query == 0) {
    const KeptKeys kept = kept_keys(args, rows.masks[0], key, keys);
    if (!kept.all()) {
      for_each_score(scores, [&](float& score, int n, int within, int) {
        if ((kept.words[n / 4] >> (n % 4 * 8 + within) & 1) == 0) score = fill;
      });
    }
  } else if (args.keep.data != nullptr) {
    for_each_score(scores, [&](float& score, int n, int within, int r) {
      const int64_t j = key + 8 * n + within;
      if (j >= keys) return;
      const auto* keep = static_cast<const uint8_t*>(args.keep.data);
      if (keep[rows.masks[r].keep + j * args.keep.key] == 0) score = fill;
    });
  }
  if (!args.causal) return;
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int64_t left = rows.masks[r].visible - key;
    const int visible = left > kKeys ? kKeys : left < -1 ? -1 : static_cast<int>(left);
    for_each_score(scores, [&](float& score, int n, int within, int row) {
      if (row == r && 8 * n + within > visible) score = fill;
    });
  }
}

// The new maxima of both rows; `factor` is what sums and contexts so far are multiplied by and
// `shift` what exponents are lowered by: 2^(score·slope − shift).
__device__ inline void raise_maxima(const float (&scores)[64], float slope, Rows& rows,
                                    float (&shift)[2], float (&factor)[2]) {
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    float top[2] = {rows.max[r], -kInfinity};
#pragma unroll
    for (int n = 0; n < 16; ++n) {
      top[n % 2] = fmaxf(top[n % 2], fmaxf(scores[4 * n + 2 * r], scores[4 * n + 2 * r + 1]));
    }
    float max = fmaxf(top[0], top[1]);
    max = fmaxf(max, __shfl_xor_sync(~0u, max, 1));
    max = fmaxf(max, __shfl_xor_sync(~0u, max, 2));
    // While every key so far is hidden with −inf, 2^(−inf − 0) = 0 keeps the sum at 0.
    shift[r] = max == -kInfinity ? 0.0f : max * slope;
    factor[r] = exp2_fast(rows.max[r] * slope - shift[r]);
    rows.max[r] = max;
    rows.sum[r] *= factor[r];
  }
}

// context += 2^(scores·slope − shift) · v, in parts of 32 keys: each part's product runs while the
// next part's exponentials are taken.
template <class T, int kDim>
__device__ inline void attend_values(const float (&scores)[64], float slope,
                                     const float (&shift)[2], uint32_t v, Rows& rows,
                                     float (&context)[kDim / 2]) {
  uint32_t p[8][4];
  float sums[2][2] = {};
#pragma unroll
  for (int part = 0; part < 4; ++part) {
#pragma unroll
    for (int n = 4 * part; n < 4 * part + 4; ++n) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const float x = exp2_fast(fmaf(scores[4 * n + 2 * r], slope, -shift[r]));
        const float y = exp2_fast(fmaf(scores[4 * n + 2 * r + 1], slope, -shift[r]));
        sums[r][0] += x;
        sums[r][1] += y;
        p[n / 2][n % 2 * 2 + r] = pack<T>(x, y);
      }
    }
    begin_products();
#pragma unroll
    for (int step = 2 * part; step < 2 * part + 2; ++step) {
      multiply_registers<T>(context, p[step],
                            tile_descriptor(v + static_cast<uint32_t>(step * 2048), kKeys * 128));
    }
    commit_products();
  }
#pragma unroll
  for (int r = 0; r < 2; ++r) rows.sum[r] += sums[r][0] + sums[r][1];
}

// Rows of a value tile from `keys` on become 0: they are another sequence's, and 0 · NaN is NaN.
template <int kDim>
__device__ inline void clear_rows(uint32_t tile, int keys, int group) {
  const int thread = static_cast<int>(threadIdx.x) % 128;
  for (int i = keys * 8 + thread; i < kKeys * 8; i += 128) {
#pragma unroll
    for (int col = 0; col < kDim; col += 64) {
      const uint32_t at = tile + static_cast<uint32_t>(col * kKeys * 2 + i * 16);
      asm volatile("st.shared.v4.b32 [%0], {%1, %1, %1, %1};" ::"r"(at), "r"(0) : "memory");
    }
  }
  fence_shared_writes();
  sync_group(group);
}

// context / sum in type T, through the group's room for its queries so that memory is written in
// whole rows.
template <class T, int kDim>
__device__ inline void store_rows(const AttentionLaunch& args, const Tile& tile, Rows& rows,
                                  float (&context)[kDim / 2], unsigned char* room, int first_row,
                                  int group) {
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32 % 4;
  sync_group(group);  // every warp's products have read the queries
  unsigned char* own = room + warp * 16 * kDim * 2;
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    float sum = rows.sum[r];
    sum += __shfl_xor_sync(~0u, sum, 1);
    sum += __shfl_xor_sync(~0u, sum, 2);
    const bool empty = tile.keys == 0 || is_empty_row(args, sum, true);
    const float inverse = 1.0f / sum;
    const int row = lane / 4 + 8 * r;
#pragma unroll
    for (int n = 0; n < kDim / 8; ++n) {
      float x = context[4 * n + 2 * r] * inverse, y = context[4 * n + 2 * r + 1] * inverse;
      if (empty) {
        const int col = 8 * n + lane % 4 * 2;
        x = empty_context(args, tile, col);
        y = empty_context(args, tile, col + 1);
      }
      const int chunk = n ^ (row & 7);
      *reinterpret_cast<uint32_t*>(own + row * kDim * 2 + chunk * 16 + lane % 4 * 4) =
          pack<T>(x, y);
    }
  }
  __syncwarp();
  constexpr int kChunks = kDim / 8;
#pragma unroll
  for (int i = lane; i < 16 * kChunks; i += 32) {
    const int row = i / kChunks, chunk = i % kChunks, at = first_row + warp * 16 + row;
    if (at >= tile.queries) continue;
    auto* out = static_cast<T*>(args.out.data) + tile.batch * args.out.batch +
                (tile.query + at) * args.out.row + tile.head * args.out.head;
    *reinterpret_cast<uint4*>(out + chunk * 8) =
        *reinterpret_cast<const uint4*>(own + row * kDim * 2 + (chunk ^ (row & 7)) * 16);
  }
}

// kMasked: bias, keep or causal. Else only keys past the last one are hidden.
template <class T, int kDim, int kGroups, bool kMasked>
__device__ inline void attend_tile(const Maps& maps, const AttentionLaunch& args, int64_t tiles) {
  using Places = Room<kDim, kGroups>;
  extern __shared__ unsigned char dynamic[];
  unsigned char* shared = dynamic + (1024 - shared_address(dynamic) % 1024) % 1024;
  const uint32_t base = shared_address(shared), barriers = base + Places::kBarriers;
  const Tile tile = find_tile<kGroups * kGroupQueries>(args, tiles, blockIdx.x);
  if (tile.queries == 0) return;
  const int64_t visit = kMasked ? keys_to_visit(args, tile, kGroups * 128) : tile.keys;
  const int steps = static_cast<int>((visit + kKeys - 1) / kKeys);
  const int group = static_cast<int>(threadIdx.x) / 128;
  const Ring<kDim> ring{base + Places::kRing,
                        barriers,
                        barriers + kSlots * 8,
                        &maps,
                        static_cast<int>(tile.key),
                        static_cast<int>(tile.kv_head),
                        static_cast<int>(tile.batch),
                        2 * steps};
  const uint32_t query_barrier = barriers + 2 * kSlots * 8;
  if (threadIdx.x == 0) {
    for (int i = 0; i < kSlots; ++i) {
      init_barrier(ring.full + static_cast<uint32_t>(i * 8), 1);
      init_barrier(ring.empty + static_cast<uint32_t>(i * 8), kGroups * 4);
    }
    init_barrier(query_barrier, 1);
    fence_shared_writes();
    expect_bytes(query_barrier, kGroups * Places::kGroupBytes);
    for (int g = 0; g < kGroups; ++g) {
      for (int col = 0; col < kDim; col += 64) {
        load_box(base + Places::kQuery +
                     static_cast<uint32_t>(g * Places::kGroupBytes + col * kGroupQueries * 2),
                 maps.q, query_barrier, col, static_cast<int>(tile.query) + g * kGroupQueries,
                 static_cast<int>(tile.head), static_cast<int>(tile.batch));
      }
    }
    for (int i = 0; i < kSlots && i < ring.count; ++i) ring.load(i);
  }
  __syncthreads();

  const int thread = static_cast<int>(threadIdx.x) % 128;
  const int row = group * kGroupQueries + thread / 32 * 16 + thread % 32 / 4;
  const uint32_t query =
      base + Places::kQuery + static_cast<uint32_t>(group * Places::kGroupBytes);
  const float slope = args.scale * kLog2E, inverse_scale = 1.0f / args.scale;
  Rows rows;
  rows.masks[0] = query_masks(args, tile, row);
  rows.masks[1] = query_masks(args, tile, row + 8);
  const bool bias_by_key = kMasked && args.bias.data != nullptr && args.bias.query == 0;
  auto* bias = reinterpret_cast<float*>(shared + Places::kBias) + group * 2 * kKeys;
  float context[kDim / 2] = {};
  wait_for(query_barrier, 0);

  for (int step = 0; step < steps; ++step) {
    const int64_t key = static_cast<int64_t>(step) * kKeys;
    float scores[64];
    ring.wait(2 * step);
    begin_products();
#pragma unroll
    for (int d = 0; d < kDim; d += 16) {
      const uint32_t within = static_cast<uint32_t>(d % 64 * 2);
      const uint32_t part = static_cast<uint32_t>(d / 64);
      multiply_shared<T>(
          scores, tile_descriptor(query + part * kGroupQueries * 128 + within, 16),
          tile_descriptor(ring.tile(2 * step) + part * kKeys * 128 + within, 16), d > 0);
    }
    commit_products();
    if (bias_by_key) {
      const int64_t j = key + thread;
      bias[step % 2 * kKeys + thread] =
          j < tile.keys
              ? raw_score(load_float(args.bias.data, rows.masks[0].bias + j * args.bias.key,
                                     args.bias.type),
                          inverse_scale)
              : 0.0f;
      sync_group(group);
    }
    wait_for_products();
    ring.leave(2 * step);
    if constexpr (kMasked) {
      mask_scores(args, rows, key, tile.keys, bias_by_key ? bias + step % 2 * kKeys : nullptr,
                  inverse_scale, scores);
    }
    const int valid = tile.keys - key < kKeys ? static_cast<int>(tile.keys - key) : kKeys;
    if (valid < kKeys) {
      for_each_score(scores, [&](float& score, int n, int within, int) {
        if (8 * n + within >= valid) score = -kInfinity;
      });
    }
    float shift[2], factor[2];
    raise_maxima(scores, slope, rows, shift, factor);
#pragma unroll
    for (int i = 0; i < kDim / 2; ++i) context[i] *= factor[i / 2 % 2];
    const int values = 2 * step + 1;
    ring.wait(values);
    if (valid < kKeys && args.starts_q != nullptr) clear_rows<kDim>(ring.tile(values), valid, group);
    attend_values<T, kDim>(scores, slope, shift, ring.tile(values), rows, context);
    wait_for_products();
    ring.leave(values);
  }
  store_rows<T, kDim>(args, tile, rows, context,
                      shared + Places::kQuery + group * Places::kGroupBytes,
                      group * kGroupQueries, group);
}

template <class T, int kDim, int kGroups, bool kMasked>
__global__ void __launch_bounds__(kGroups * 128, kDim == 64 ? 4 / kGroups : 1)
    sm90_kernel(const __grid_constant__ Maps maps, const __grid_constant__ AttentionLaunch args,
                int64_t tiles) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  attend_tile<T, kDim, kGroups, kMasked>(maps, args, tiles);
#else
  __trap();  // attention_sm90_usable() is false for such code
#endif
}

// ---- host

using EncodeTiled = decltype(&cuTensorMapEncodeTiled);
EncodeTiled encode_tiled() {
  static const EncodeTiled found = [] {
    void* function = nullptr;
    cudaDriverEntryPointQueryResult result{};
    const cudaError_t status = cudaGetDriverEntryPointByVersion(
        "cuTensorMapEncodeTiled", &function, 12000, cudaEnableDefault, &result);
    return status == cudaSuccess ? reinterpret_cast<EncodeTiled>(function) : nullptr;
  }();
  return found;
}

// x as [batch, heads, rows, width] in boxes of box_rows x 64 columns; what lies outside reads as 0.
struct MapShape {
  int64_t batch, heads, rows, width;
  uint32_t box_rows;
};
cudaError_t make_map(const AttentionRows& x, const MapShape& shape, CUtensorMap& map) {
  const auto bytes = [&](int64_t stride, int64_t size) {
    return static_cast<cuuint64_t>(size == 1 ? shape.width : stride) * 2;
  };
  const cuuint64_t sizes[4] = {
      static_cast<cuuint64_t>(shape.width), static_cast<cuuint64_t>(shape.rows),
      static_cast<cuuint64_t>(shape.heads), static_cast<cuuint64_t>(shape.batch)};
  const cuuint64_t strides[3] = {bytes(x.row, shape.rows), bytes(x.head, shape.heads),
                                 bytes(x.batch, shape.batch)};
  const cuuint32_t box[4] = {64, shape.box_rows, 1, 1}, steps[4] = {1, 1, 1, 1};
  const EncodeTiled encode = encode_tiled();
  if (encode == nullptr) return cudaErrorNotSupported;
  const CUresult result = encode(
      &map,
      x.type == AttentionType::kF16 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16
                                    : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
      4, x.data, sizes, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
      CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
      CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  return result == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue;
}

cudaError_t make_maps(const AttentionLaunch& args, Maps& maps) {
  const MapShape q{args.batch, args.heads, args.queries, args.head_dim, kGroupQueries};
  const MapShape k{args.batch, args.kv_heads, args.keys, args.head_dim, kKeys};
  cudaError_t status = make_map(args.q, q, maps.q);
  if (status == cudaSuccess) status = make_map(args.k, k, maps.k);
  if (status == cudaSuccess) status = make_map(args.v, k, maps.v);
  return status;
}

template <class T, int kDim, int kGroups, bool kMasked>
cudaError_t launch_kernel(const AttentionLaunch& args, cudaStream_t stream) {
  Maps maps;
  cudaError_t status = make_maps(args, maps);
  if (status != cudaSuccess) return status;
  constexpr int kBytes = Room<kDim, kGroups>::kBytes;
  const auto kernel = &sm90_kernel<T, kDim, kGroups, kMasked>;
  status = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes);
  if (status != cudaSuccess) return status;
  const int64_t tiles = attention_tiles(args, kGroups * kGroupQueries);
  kernel<<<static_cast<unsigned>(tiles * args.heads * args.batch), kGroups * 128, kBytes,
           stream>>>(maps, args, tiles);
  return cudaGetLastError();
}

// Two warpgroups share the loads of keys and values; one where that would leave multiprocessors
// without work.
constexpr int64_t kMultiprocessors = 132;
template <class T, int kDim>
cudaError_t launch_dim(const AttentionLaunch& args, cudaStream_t stream) {
  const bool masked = args.bias.data != nullptr || args.keep.data != nullptr || args.causal;
  const int64_t blocks = attention_tiles(args, 2 * kGroupQueries) * args.heads * args.batch;
  if (args.queries > kGroupQueries && blocks >= kMultiprocessors) {
    return masked ? launch_kernel<T, kDim, 2, true>(args, stream)
                  : launch_kernel<T, kDim, 2, false>(args, stream);
  }
  return masked ? launch_kernel<T, kDim, 1, true>(args, stream)
                : launch_kernel<T, kDim, 1, false>(args, stream);
}

bool is_mappable(const AttentionRows& x, int64_t batch, int64_t rows, int64_t heads) {
  const auto good = [](int64_t stride, int64_t size) {
    return size == 1 || (stride > 0 && stride % 8 == 0 && stride < int64_t{1} << 38);
  };
  return reinterpret_cast<uintptr_t>(x.data) % 16 == 0 && good(x.batch, batch) &&
         good(x.row, rows) && good(x.head, heads);
}

}  // namespace

bool attention_sm90_takes(const AttentionLaunch& args) {
  return args.keys > 0 && is_mappable(args.q, args.batch, args.queries, args.heads) &&
         is_mappable(args.k, args.batch, args.keys, args.kv_heads) &&
         is_mappable(args.v, args.batch, args.keys, args.kv_heads);
}

bool attention_sm90_usable() {
  int device = 0, major = 0;
  cudaFuncAttributes attributes{};
  return cudaGetDevice(&device) == cudaSuccess &&
         cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) == cudaSuccess &&
         major == 9 &&
         cudaFuncGetAttributes(&attributes, sm90_kernel<__half, 64, 2, false>) == cudaSuccess &&
         attributes.binaryVersion == 90;
}

cudaError_t launch_attention_sm90(const AttentionLaunch& args, cudaStream_t stream) {
  const bool half = args.q.type == AttentionType::kF16;
  if (args.head_dim == 64)
    return half ? launch_dim<__half, 64>(args, stream) : launch_dim<__nv_bfloat16, 64>(args, stream);
  return half ? launch_dim<__half, 128>(args, stream) : launch_dim<__nv_bfloat16, 128>(args, stream);
}

}  // namespace vernier::backend::cuda
