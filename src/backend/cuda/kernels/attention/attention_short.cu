// Attention in 16 bit on Hopper over at most 128 keys, head sizes 32 and 64: one step, so nothing
// is carried from step to step. The operations on a row, and so its bits, are those of the first
// step of attention_sm90.cu. A block of 1 or 2 warpgroups, 64 queries each, stays and takes one
// tile of queries after the other where there are more than fit at once; the copy engine brings the
// next tile meanwhile. Contract: attention.h. C++17.
#include "backend/cuda/device/divider.cuh"
#include "backend/cuda/kernels/attention/attention_maps.cuh"

namespace vernier::backend::cuda {
namespace {

struct ShortLaunch {
  Maps maps;
  AttentionLaunch args;
  Divider<uint32_t> tiles, heads, sharing;  // tiles of a head, heads, heads per kv head
  unsigned all;                             // tiles
  bool runs_empty;                          // attend_short()
};

// Where things lie in shared memory, from a 1024-byte aligned address on: two stages, or one where
// a block has one tile.
template <int kDim, int kGroups>
struct ShortRoom {
  static constexpr int kGroupBytes = kGroupQueries * kDim * 2, kTileBytes = kKeys * kDim * 2;
  static constexpr int kBias = 0;                            // [group][parity][key]
  static constexpr int kBarriers = kGroups * 2 * kKeys * 4;  // [stage]: q and k, v, empty
  static constexpr int kStages = (kBarriers + 48 + 1023) / 1024 * 1024;  // k, v, q of each group
  static constexpr int kStageBytes = 2 * kTileBytes + kGroups * kGroupBytes;
  static constexpr int bytes(int stages) { return kStages + stages * kStageBytes + 1024; }
};

template <int kRows>
__device__ inline Tile short_tile(const ShortLaunch& launch, unsigned block) {
  if (launch.args.backwards) block = launch.all - 1 - block;
  const unsigned item = launch.tiles(block), batch = launch.heads(item);
  Tile tile;
  tile.batch = batch;
  tile.head = item - batch * launch.heads.divisor;
  tile.kv_head = launch.sharing(static_cast<unsigned>(tile.head));
  tile.query = (block - item * launch.tiles.divisor) * kRows;
  const int64_t left = launch.args.queries - tile.query;
  tile.queries = static_cast<int>(left < kRows ? left : kRows);
  tile.key = 0;
  tile.keys = launch.args.keys;
  tile.visible = tile.query + launch.args.keys - launch.args.queries;
  return tile;
}

// One thread brings a tile's queries, keys and values.
template <int kDim, int kGroups>
__device__ inline void load_stage(const ShortLaunch& launch, unsigned block, uint32_t stage,
                                  uint32_t full) {
  using Places = ShortRoom<kDim, kGroups>;
  const Tile tile = short_tile<kGroups * kGroupQueries>(launch, block);
  const int batch = static_cast<int>(tile.batch), kv_head = static_cast<int>(tile.kv_head);
  barrier_expect(full, Places::kTileBytes + kGroups * Places::kGroupBytes);
  copy_box(stage, &launch.maps.k, 0, 0, kv_head, batch, full);
#pragma unroll
  for (int g = 0; g < kGroups; ++g) {
    copy_box(stage + 2 * Places::kTileBytes + static_cast<uint32_t>(g * Places::kGroupBytes),
             &launch.maps.q, 0, static_cast<int>(tile.query) + g * kGroupQueries,
             static_cast<int>(tile.head), batch, full);
  }
  barrier_expect(full + 8, Places::kTileBytes);
  copy_box(stage + Places::kTileBytes, &launch.maps.v, 0, 0, kv_head, batch, full + 8);
}

// What a thread holds of the masks of a tile's keys, which are the same for all queries.
struct KeyMasks {
  uint32_t kept = 0;
  float bias = 0;
};
__device__ inline KeyMasks load_key_masks(const AttentionLaunch& args, const Tile& tile) {
  KeyMasks masks;
  if (args.keep.data != nullptr) masks.kept = load_kept(args, tile, 0);
  const int j = static_cast<int>(threadIdx.x) % 128;
  if (args.bias.data != nullptr && j < tile.keys) {
    masks.bias = load_float(args.bias.data, query_masks(args, tile, 0).bias + j * args.bias.key,
                            args.bias.type);
  }
  return masks;
}

// Two groups, of many rows, have no registers for more.
template <int kDim, int kGroups>
using QuantizingOf = std::conditional_t<kGroups == 1, QuantizingAhead<kDim>, QuantizingBehind>;

template <class T, int kDim, int kGroups, bool kMasked>
__device__ inline void attend_short(const ShortLaunch& launch) {
  using Places = ShortRoom<kDim, kGroups>;
  constexpr int kRows = kGroups * kGroupQueries;
  // Of 1 and 2 the better: 28.3 against 30.2 us at 128 x 12 x 128 x 64 on an H200; one warpgroup
  // alone and head size 32 fare better with two.
  constexpr int kParts = kDim == 64 && kGroups == 2 ? 1 : 2;
  const AttentionLaunch& args = launch.args;
  extern __shared__ unsigned char dynamic[];
  unsigned char* shared = dynamic + (1024 - shared_address(dynamic) % 1024) % 1024;
  const uint32_t base = shared_address(shared), barriers = base + Places::kBarriers;
  const int group = static_cast<int>(threadIdx.x) / 128,
            thread = static_cast<int>(threadIdx.x) % 128;
  if (threadIdx.x == 0) {
    prefetch_map(&launch.maps.k);
    prefetch_map(&launch.maps.q);
    prefetch_map(&launch.maps.v);
  }
  if (kGroups > 1 && threadIdx.x == 64) fetch_scaling(args);
  if (threadIdx.x == 32) {
#pragma unroll
    for (int i = 0; i < 6; ++i)
      barrier_init(barriers + static_cast<uint32_t>(i * 8), i % 3 == 2 ? kGroups * 4 : 1);
    fence_shared_to_async();
  }
  if (kGroups > 1) allow_next_kernel();
  __syncthreads();
  QuantizingOf<kDim, kGroups> quantizing;  // by constants
  quantizing.read(args, short_tile<kRows>(launch, blockIdx.x));
  const auto stage_at = [&](int i) {
    return base + Places::kStages + static_cast<uint32_t>(i * Places::kStageBytes);
  };
  const auto full_at = [&](int i) { return barriers + static_cast<uint32_t>(i * 24); };

  const int row = group * kGroupQueries + thread / 32 * 16 + thread % 32 / 4;
  const float slope = args.scale * kLog2E, inverse_scale = 1.0f / args.scale;
  auto* bias = reinterpret_cast<float*>(shared + Places::kBias) + group * 2 * kKeys;
  const int keys = static_cast<int>(args.keys);
  KeyMasks masks;
  // An empty run: first on whatever lies in shared memory, storing nothing, while the kernel before
  // still runs. Then the instructions are there.
  bool is_real = kGroups > 1 || !launch.runs_empty;
  int round = 0;
  for (unsigned block = blockIdx.x; block < launch.all;) {
    if (is_real && round == 0) {
      wait_for_previous_kernel();
      if (threadIdx.x == 0) {
        load_stage<kDim, kGroups>(launch, block, stage_at(0), full_at(0));
        if (block + gridDim.x < launch.all)
          load_stage<kDim, kGroups>(launch, block + gridDim.x, stage_at(1), full_at(1));
      }
      if constexpr (kMasked) masks = load_key_masks(args, short_tile<kRows>(launch, block));
    }
    const int place = round % 2;
    const uint32_t parity = static_cast<uint32_t>(round / 2 % 2), stage = stage_at(place);
    const unsigned next = block + gridDim.x;
    const bool has_bias = is_real && args.bias.data != nullptr;
    float scores[64], shift[2];
    if (is_real) barrier_wait(full_at(place), parity);
    multiply_keys<T, kDim>(
        stage + 2 * Places::kTileBytes + static_cast<uint32_t>(group * Places::kGroupBytes), stage,
        scores);
    // Beside the product: this tile's masks, and the loads of the next ones.
    KeptKeys kept{{}, true, false};
    if constexpr (kMasked) {
      if (args.keep.data != nullptr) kept = spread_kept(kept_bits(masks.kept));
      if (has_bias) {
        bias[place * kKeys + thread] = raw_score(masks.bias, inverse_scale);
        warpgroup_sync(group + 1);
      }
      if (next < launch.all) masks = load_key_masks(args, short_tile<kRows>(launch, next));
    }
    if (threadIdx.x == 0 && round > 0 && next < launch.all) {
      barrier_wait(full_at(1 - place) + 16, static_cast<uint32_t>((round - 1) / 2 % 2));
      load_stage<kDim, kGroups>(launch, next, stage_at(1 - place), full_at(1 - place));
    }
    __syncwarp();
    wgmma_wait<0>();
    Tile tile = short_tile<kRows>(launch, block);
    if (!is_real) tile.queries = 0;
    if constexpr (kMasked) {
      mask_scores<Masks::kByKey>(args, tile, row, 0, kept,
                                 has_bias ? bias + place * kKeys : nullptr, inverse_scale, scores);
    }
    if (keys < kKeys) {
      for_each_score(scores, [&](float& score, int n, int within, int) {
        if (8 * n + within >= keys) score = -kInfinity;
      });
    }
#pragma unroll
    for (int r = 0; r < 2; ++r) shift[r] = shift_of(row_maximum(scores, r, -kInfinity), slope);
    Rows rows;
    float context[kDim / 2] = {};
    if (is_real) barrier_wait(full_at(place) + 8, parity);
    // Not earlier: the next kernel's blocks would take instructions from the same cache, while
    // these wait for theirs.
    if (kGroups == 1 && is_real) allow_next_kernel();
    attend_values<T, kDim, kParts>(scores, slope, shift, stage + Places::kTileBytes, rows, context);
    wgmma_wait<0>();
    if (is_real && thread % 32 == 0) barrier_arrive(full_at(place) + 16);
    store_rows<T, kDim, false>(args, tile, rows, context, row, quantizing);
    if (!is_real) {
      is_real = true;
      continue;
    }
    if (next < launch.all) quantizing.read(args, short_tile<kRows>(launch, next));
    block = next, ++round;
  }
}

template <class T, int kDim, int kGroups, bool kMasked>
__global__ void __launch_bounds__(kGroups * 128, 2)
    short_kernel(const __grid_constant__ ShortLaunch launch) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  attend_short<T, kDim, kGroups, kMasked>(launch);
#else
  __trap();  // hopper_kernels_usable() is false for such code
#endif
}

// ---- host

// Of up to so many tiles, of 64 queries and a head of 64, the product of q, k and v before them has
// a multiprocessor for each of its own and leaves some free: there the blocks begin early enough
// for an empty run. Else they begin late, and it takes longer than it saves.
constexpr unsigned kEmptyRunTiles = 22;

template <class T, int kDim, int kGroups, bool kMasked>
cudaError_t launch_kernel(const AttentionLaunch& args, cudaStream_t stream) {
  using Places = ShortRoom<kDim, kGroups>;
  const int64_t tiles = attention_tiles(args, kGroups * kGroupQueries);
  const auto all = static_cast<unsigned>(tiles * args.heads * args.batch);
  ShortLaunch launch{{},
                     args,
                     Divider<uint32_t>(tiles),
                     Divider<uint32_t>(args.heads),
                     Divider<uint32_t>(args.heads / args.kv_heads),
                     all,
                     kGroups == 1 && all <= kEmptyRunTiles * 64 / kDim};
  cudaError_t status = make_maps(args, launch.maps);
  if (status != cudaSuccess) return status;
  const auto kernel = &short_kernel<T, kDim, kGroups, kMasked>;
  status =
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, Places::bytes(2));
  if (status != cudaSuccess) return status;
  constexpr auto kResident = static_cast<unsigned>(2 * kMultiprocessors);
  const bool stay = launch.all > kResident;
  return launch_overlapped(kernel, stay ? kResident : launch.all, kGroups * 128,
                           static_cast<size_t>(Places::bytes(stay ? 2 : 1)), stream, launch);
}

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

}  // namespace

bool attention_short_takes(const AttentionLaunch& args) {
  const auto differs = [](const AttentionTable& t) { return t.data != nullptr && t.query != 0; };
  const int64_t tiles = attention_tiles(args, kGroupQueries) * args.heads * args.batch;
  return !args.by_position && args.keys <= kKeys && args.head_dim <= 64 &&
         args.starts_q == nullptr && !differs(args.bias) && !differs(args.keep) &&
         tiles < int64_t{1} << 30 && attention_sm90_takes(args);
}

cudaError_t launch_attention_short(const AttentionLaunch& args, cudaStream_t stream) {
  const bool half = args.q.type == AttentionType::kF16;
  if (args.head_dim == 32)
    return half ? launch_dim<__half, 32>(args, stream)
                : launch_dim<__nv_bfloat16, 32>(args, stream);
  return half ? launch_dim<__half, 64>(args, stream) : launch_dim<__nv_bfloat16, 64>(args, stream);
}

}  // namespace vernier::backend::cuda
