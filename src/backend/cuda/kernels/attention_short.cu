// Attention in 16 bit on Hopper over at most 128 keys, head sizes 32 and 64: one step, so nothing
// is carried from step to step. The operations on a row, and so its bits, are those of the first
// step of attention_sm90.cu. A block of 1 or 2 warpgroups, 64 queries each, stays and takes one
// tile of queries after the other where there are more than fit at once; the copy engine brings the
// next tile meanwhile. Contract: attention.h. C++17.
#include "backend/cuda/device/divider.cuh"
#include "backend/cuda/kernels/attention_maps.cuh"

namespace vernier::backend::cuda {
namespace {

struct ShortLaunch {
  Maps maps;
  AttentionLaunch args;
  Divider<uint32_t> tiles, heads, sharing;  // tiles of a head, heads (or pairs), heads per kv head
  unsigned all;                             // tiles
};

// Where things lie in shared memory, from a 1024-byte aligned address on: two stages, or one where
// a block has one tile. A tile has 64 queries of a head for each warpgroup; with kHeads = 2, 128
// queries of two heads of size 32 that lie side by side, one for each warpgroup: rows of 128 bytes,
// which the copy engine brings as fast as rows of 64.
template <int kDim, int kGroups, int kHeads>
struct ShortRoom {
  static_assert(kHeads == 1 || (kDim == 32 && kGroups == 2), "two heads fill a row of 128 bytes");
  static constexpr int kRows = kHeads == 2 ? 128 : kGroups * kGroupQueries;
  static constexpr int kRowBytes = kHeads * kDim * 2;
  static constexpr int kTileBytes = kKeys * kRowBytes;
  static constexpr int kBias = 0;                            // [group][parity][key]
  static constexpr int kBarriers = kGroups * 2 * kKeys * 4;  // [stage]: q and k, v, empty
  static constexpr int kStages = (kBarriers + 48 + 1023) / 1024 * 1024;  // k, v, q
  static constexpr int kStageBytes = 2 * kTileBytes + kRows * kRowBytes;
  static constexpr int bytes(int stages) { return kStages + stages * kStageBytes + 1024; }
};

template <int kRows>
__device__ inline Tile short_tile(const ShortLaunch& launch, unsigned block) {
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
template <class Places>
__device__ inline void load_stage(const ShortLaunch& launch, unsigned block, uint32_t stage,
                                  uint32_t full) {
  const Tile tile = short_tile<Places::kRows>(launch, block);
  const int batch = static_cast<int>(tile.batch), kv_head = static_cast<int>(tile.kv_head);
  barrier_expect(full, Places::kTileBytes + Places::kRows * Places::kRowBytes);
  copy_box(stage, &launch.maps.k, 0, 0, kv_head, batch, full);
#pragma unroll
  for (int row = 0; row < Places::kRows; row += kGroupQueries) {
    copy_box(stage + static_cast<uint32_t>(2 * Places::kTileBytes + row * Places::kRowBytes),
             &launch.maps.q, 0, static_cast<int>(tile.query) + row, static_cast<int>(tile.head),
             batch, full);
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

template <int kGroups>
__device__ inline void start_stages(const Maps& maps, uint32_t barriers) {
  prefetch_map(&maps.k);
  prefetch_map(&maps.q);
  prefetch_map(&maps.v);
#pragma unroll
  for (int i = 0; i < 6; ++i)
    barrier_init(barriers + static_cast<uint32_t>(i * 8), i % 3 == 2 ? kGroups * 4 : 1);
  fence_shared_to_async();
}

// The part of a tile that a warpgroup works on at a time: 64 queries of one head.
template <class Places, int kHeads>
__device__ inline Tile own_tile(const ShortLaunch& launch, unsigned block, int group) {
  Tile tile = short_tile<Places::kRows>(launch, block);
  if constexpr (kHeads == 2) tile.head = tile.kv_head = 2 * tile.head + group;
  return tile;
}

template <class T, int kDim, int kGroups, int kHeads, bool kMasked>
__device__ inline void attend_short(const ShortLaunch& launch) {
  using Places = ShortRoom<kDim, kGroups, kHeads>;
  // Of 1 and 2 the better: 28.3 against 30.2 us at 128 x 12 x 128 x 64 on an H200; one warpgroup
  // alone and head size 32 fare better with two.
  constexpr int kParts = kDim == 64 && kGroups == 2 ? 1 : 2, kRowBytes = Places::kRowBytes;
  const AttentionLaunch& args = launch.args;
  extern __shared__ unsigned char dynamic[];
  unsigned char* shared = dynamic + (1024 - shared_address(dynamic) % 1024) % 1024;
  const uint32_t base = shared_address(shared), barriers = base + Places::kBarriers;
  const int group = static_cast<int>(threadIdx.x) / 128,
            thread = static_cast<int>(threadIdx.x) % 128;
  if (threadIdx.x == 32) start_stages<kGroups>(launch.maps, barriers);
  allow_next_kernel();
  __syncthreads();
  wait_for_previous_kernel();
  const auto stage_at = [&](int i) {
    return base + static_cast<uint32_t>(Places::kStages + i * Places::kStageBytes);
  };
  const auto full_at = [&](int i) { return barriers + static_cast<uint32_t>(i * 24); };
  if (threadIdx.x == 0) {
    load_stage<Places>(launch, blockIdx.x, stage_at(0), full_at(0));
    if (blockIdx.x + gridDim.x < launch.all)
      load_stage<Places>(launch, blockIdx.x + gridDim.x, stage_at(1), full_at(1));
  }
  const auto load_masks = [&](unsigned block) {
    return load_key_masks(args, own_tile<Places, kHeads>(launch, block, group));
  };
  KeyMasks masks;
  if constexpr (kMasked) masks = load_masks(blockIdx.x);

  const float slope = args.scale * kLog2E, inverse_scale = 1.0f / args.scale;
  auto* bias = reinterpret_cast<float*>(shared + Places::kBias) + group * 2 * kKeys;
  const int keys = static_cast<int>(args.keys);
  // Where the warpgroup's head begins in a row of keys or values.
  const auto within_row = static_cast<uint32_t>(kHeads == 2 ? group * kDim * 2 : 0);
  int round = 0;
  for (unsigned block = blockIdx.x; block < launch.all; block += gridDim.x, ++round) {
    const int place = round % 2;
    const uint32_t parity = static_cast<uint32_t>(round / 2 % 2), stage = stage_at(place);
    const unsigned next = block + gridDim.x;
    KeptKeys kept{{}, true};
    barrier_wait(full_at(place), parity);
#pragma unroll 1
    for (int part = kHeads == 2 ? 0 : group; part < (kHeads == 2 ? 2 : group + 1); ++part) {
      const int row = part * kGroupQueries + thread / 32 * 16 + thread % 32 / 4;
      const auto queries =
          static_cast<uint32_t>(2 * Places::kTileBytes + part * kGroupQueries * kRowBytes);
      float scores[64], shift[2];
      multiply_keys<T, kDim, kRowBytes>(stage + queries + within_row, stage + within_row, scores);
      // Beside the product: the masks, and the loads of the next tile.
      if (kMasked && (kHeads == 1 || part == 0)) {
        if (args.keep.data != nullptr) kept = spread_kept(masks.kept);
        if (args.bias.data != nullptr) {
          bias[place * kKeys + thread] = raw_score(masks.bias, inverse_scale);
          warpgroup_sync(group + 1);
        }
        if (next < launch.all) masks = load_masks(next);
      }
      if (threadIdx.x == 0 && part == 0 && round > 0 && next < launch.all) {
        barrier_wait(full_at(1 - place) + 16, static_cast<uint32_t>((round - 1) / 2 % 2));
        load_stage<Places>(launch, next, stage_at(1 - place), full_at(1 - place));
      }
      __syncwarp();
      wgmma_wait<0>();
      if constexpr (kMasked) {
        mask_scores<Masks::kByKey>(args, own_tile<Places, kHeads>(launch, block, group), row, 0,
                                   kept, args.bias.data != nullptr ? bias + place * kKeys : nullptr,
                                   inverse_scale, scores);
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
      barrier_wait(full_at(place) + 8, parity);
      attend_values<T, kDim, kParts, kRowBytes>(
          scores, slope, shift, stage + Places::kTileBytes + within_row, rows, context);
      wgmma_wait<0>();
      if (thread % 32 == 0 && (kHeads == 1 || part == 1)) barrier_arrive(full_at(place) + 16);
      store_rows<T, kDim>(args, own_tile<Places, kHeads>(launch, block, group), rows, context, row);
    }
  }
}

template <class T, int kDim, int kGroups, int kHeads, bool kMasked>
__global__ void __launch_bounds__(kGroups * 128, 2)
    short_kernel(const __grid_constant__ ShortLaunch launch) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  attend_short<T, kDim, kGroups, kHeads, kMasked>(launch);
#else
  __trap();  // attention_sm90_usable() is false for such code
#endif
}

// ---- host

constexpr unsigned kMultiprocessors = 132;

template <class T, int kDim, int kGroups, int kHeads, bool kMasked>
cudaError_t launch_kernel(const AttentionLaunch& args, cudaStream_t stream) {
  using Places = ShortRoom<kDim, kGroups, kHeads>;
  const int64_t tiles = attention_tiles(args, Places::kRows), heads = args.heads / kHeads;
  ShortLaunch launch{{},
                     args,
                     Divider<uint32_t>(tiles),
                     Divider<uint32_t>(heads),
                     Divider<uint32_t>(args.heads / args.kv_heads),
                     static_cast<unsigned>(tiles * heads * args.batch)};
  AttentionLaunch mapped = args;  // two heads side by side as one
  mapped.heads /= kHeads, mapped.kv_heads /= kHeads, mapped.head_dim *= kHeads;
  for (AttentionRows* x : {&mapped.q, &mapped.k, &mapped.v}) x->head *= kHeads;
  cudaError_t status = make_maps(mapped, launch.maps);
  if (status != cudaSuccess) return status;
  const auto kernel = &short_kernel<T, kDim, kGroups, kHeads, kMasked>;
  status =
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, Places::bytes(2));
  if (status != cudaSuccess) return status;
  constexpr unsigned kResident = 2 * kMultiprocessors;
  const bool stay = launch.all > kResident;
  return launch_overlapped(kernel, stay ? kResident : launch.all, kGroups * 128,
                           static_cast<size_t>(Places::bytes(stay ? 2 : 1)), stream, launch);
}

template <class T, int kDim, bool kMasked>
cudaError_t launch_dim(const AttentionLaunch& args, cudaStream_t stream) {
  const int64_t blocks = attention_tiles(args, 2 * kGroupQueries) * args.heads * args.batch;
  if (args.queries <= kGroupQueries || blocks < kMultiprocessors)
    return launch_kernel<T, kDim, 1, 1, kMasked>(args, stream);
  if constexpr (kDim == 32) {
    const bool side_by_side = args.heads % 2 == 0 && args.kv_heads == args.heads &&
                              args.q.head == kDim && args.k.head == kDim && args.v.head == kDim;
    if (side_by_side && blocks >= 2 * kMultiprocessors)
      return launch_kernel<T, kDim, 2, 2, kMasked>(args, stream);
  }
  return launch_kernel<T, kDim, 2, 1, kMasked>(args, stream);
}

template <class T>
cudaError_t launch_type(const AttentionLaunch& args, cudaStream_t stream) {
  const bool masked = args.bias.data != nullptr || args.keep.data != nullptr || args.causal;
  if (args.head_dim == 32)
    return masked ? launch_dim<T, 32, true>(args, stream) : launch_dim<T, 32, false>(args, stream);
  return masked ? launch_dim<T, 64, true>(args, stream) : launch_dim<T, 64, false>(args, stream);
}

}  // namespace

bool attention_short_takes(const AttentionLaunch& args) {
  const auto differs = [](const AttentionTable& t) { return t.data != nullptr && t.query != 0; };
  const int64_t tiles = attention_tiles(args, kGroupQueries) * args.heads * args.batch;
  return args.keys <= kKeys && args.head_dim <= 64 && args.starts_q == nullptr &&
         !differs(args.bias) && !differs(args.keep) && tiles < int64_t{1} << 30 &&
         attention_sm90_takes(args);
}

cudaError_t launch_attention_short(const AttentionLaunch& args, cudaStream_t stream) {
  return args.q.type == AttentionType::kF16 ? launch_type<__half>(args, stream)
                                            : launch_type<__nv_bfloat16>(args, stream);
}

}  // namespace vernier::backend::cuda
