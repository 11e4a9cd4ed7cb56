// Steps of 64 keys in the attention kernels whose scores lie in registers: which of them have no
// masks at all, and a table in shared memory of what bias and masks do to the others, so that the
// code beside the products is short. Also rows without any probability. C++17.
#pragma once
#include "backend/cuda/kernels/attention/attention_device.cuh"

namespace vernier::backend::cuda {

constexpr int kStepKeys = kFlashStepKeys;

// What a warp looks at before the products of a step to know, after them, whether every query of
// the tile sees its 64 keys with no bias: then scores are only scaled.
struct StepLook {
  bool open;         // but for
  uint32_t kept[2];  // bytes of `keep`
};
__device__ inline StepLook look_at_step(const AttentionLaunch& args, const Tile& tile,
                                        int64_t key) {
  const AttentionTable& keep = args.keep;
  StepLook look{args.bias.data == nullptr && !args.by_position && key + kStepKeys <= tile.keys &&
                    keep.query == 0 && !(args.causal && tile.visible < key + kStepKeys - 1),
                {1, 1}};
  if (look.open && keep.data != nullptr) {
    const int64_t first = key + threadIdx.x % 32;
    const auto* data = static_cast<const uint8_t*>(keep.data) + tile.batch * keep.batch +
                       tile.head * keep.head + (tile.key + first) * keep.key;
    look.kept[0] = data[0];
    look.kept[1] = data[32 * keep.key];
  }
  return look;
}
// All lanes of the warp call it.
__device__ inline bool is_open(const StepLook& look) {
  return look.open && __all_sync(~0u, look.kept[0] != 0 && look.kept[1] != 0);
}
// Are bias and masks the same for all queries, but for causal?
__device__ inline bool is_by_key(const AttentionLaunch& args) {
  return args.bias.query == 0 && args.keep.query == 0 && !args.by_position;
}
// Row r of the tile sees the keys of the step up to this one plus r.
__device__ inline int last_visible(const AttentionLaunch& args, const Tile& tile, int64_t key) {
  if (!args.causal) return 2 * kStepKeys;
  constexpr int kFar = 1 << 20;
  const int64_t last = tile.visible - key;
  return last < -kFar ? -kFar : last > kFar ? kFar : static_cast<int>(last);
}

// Numbers in a table that say something else: the key is hidden, there is no such key.
constexpr uint32_t kHidden = 0x7fc0b1d5, kNoKey = 0x7fc0b1d6;

// The score from the dot product and the table's entry; ahead: hidden by causal, of which a table
// by key knows nothing.
__device__ __forceinline__ float table_score(const AttentionLaunch& args, float dot, float entry,
                                             bool ahead) {
  const uint32_t code = __float_as_uint(entry);
  float score = fmaf(dot, args.scale, entry);
  const float hidden = args.masks_add ? score - kInfinity : args.fill;
  score = ahead || code == kHidden ? hidden : score;
  return code == kNoKey ? -kInfinity : score;
}

// A lane's entries of each row: keys lane and lane + 32 of the step. Of kAtOnce rows they are
// loaded before the first is used.
template <int kAtOnce, class T, class Body>
__device__ __forceinline__ void each_entry_of(const T* data, int64_t row_stride, int64_t key_stride,
                                              int rows, int left, const Body& body) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (int first = 0; first < rows; first += kAtOnce) {
    T value[kAtOnce][2];
#pragma unroll
    for (int i = 0; i < kAtOnce * 2; ++i) {
      const int row = first + i / 2 < rows ? first + i / 2 : rows - 1;
      const int key = lane + i % 2 * 32 < left ? lane + i % 2 * 32 : left - 1;
      value[i / 2][i % 2] = data[row * row_stride + key * key_stride];
    }
#pragma unroll
    for (int i = 0; i < kAtOnce * 2; ++i) {
      if (first + i / 2 < rows) body(first + i / 2, lane + i % 2 * 32, value[i / 2][i % 2]);
    }
  }
}
template <class T, class Body>
__device__ __forceinline__ void each_entry(const T* data, int64_t row_stride, int64_t key_stride,
                                           int rows, int left, const Body& body) {
  if (rows == 1) return each_entry_of<1>(data, row_stride, key_stride, rows, left, body);
  each_entry_of<8>(data, row_stride, key_stride, rows, left, body);
}
__device__ inline float widened(float x) { return x; }
__device__ inline float widened(__half x) { return __half2float(x); }
__device__ inline float widened(__nv_bfloat16 x) { return __bfloat162float(x); }

// Adds what relative positions say, scaled, to entries of `rows` <= 8 rows of the tile from `from`
// on. The warp's lanes call it together. kByKey: those of keys, whose neighbors are queries. Of
// kAtOnce entries all is loaded before the first changes.
template <bool kByKey, int kPitch, class P>
__device__ __forceinline__ void add_positions_of(const AttentionLaunch& args, const Tile& tile,
                                                 int64_t key, int from, int rows, int left,
                                                 float* table) {
  constexpr int kAtOnce = 8;
  const AttentionPositions& positions = kByKey ? args.key_positions : args.query_positions;
  const P* data = static_cast<const P*>(positions.data);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int64_t distance = tile.query - tile.first + from - key;  // of the first row and key
  const int64_t base = positions_of(positions, tile, kByKey ? tile.key + key : tile.query + from);
  __syncwarp();
  for (int first = 0; first < 8 * kStepKeys / 32; first += kAtOnce) {
    int at[kAtOnce], row[kAtOnce], in_step[kAtOnce];
    P value[kAtOnce];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      row[i] = kByKey ? lane % 8 : (first + i) / 2;
      in_step[i] = kByKey ? (first + i) * 4 + lane / 8 : (first + i) % 2 * 32 + lane;
      row[i] = row[i] < rows ? row[i] : rows - 1;
      in_step[i] = in_step[i] < left ? in_step[i] : left - 1;
      at[i] = bucket_at(positions, distance + row[i] - in_step[i]);
    }
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i)
      value[i] = data[base + (kByKey ? in_step[i] : row[i]) * positions.row + at[i]];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const int own_row = kByKey ? lane % 8 : (first + i) / 2;
      const int own_key = kByKey ? (first + i) * 4 + lane / 8 : (first + i) % 2 * 32 + lane;
      if (own_row >= rows || own_key >= left) continue;
      float& entry = table[own_row * kPitch + own_key];
      entry = fmaf(widened(value[i]), args.scale, entry);
      if (entry != entry) entry = __uint_as_float(0x7fffffff);  // it is not to look like a code
    }
  }
  __syncwarp();
}
template <bool kByKey, int kPitch>
__device__ __noinline__ void add_positions(const AttentionLaunch& args, const Tile& tile,
                                           int64_t key, int from, int rows, int left,
                                           float* table) {
  const AttentionPositions& positions = kByKey ? args.key_positions : args.query_positions;
  if (positions.data == nullptr) return;
  if (positions.type == AttentionType::kF32)
    add_positions_of<kByKey, kPitch, float>(args, tile, key, from, rows, left, table);
  else if (positions.type == AttentionType::kF16)
    add_positions_of<kByKey, kPitch, __half>(args, tile, key, from, rows, left, table);
  else
    add_positions_of<kByKey, kPitch, __nv_bfloat16>(args, tile, key, from, rows, left, table);
}

// Fills table[row][kPitch] for `rows` rows of the tile from `first` on and the 64 keys from `key`
// on: what is added to a score, or a code. The warp's lanes call it together and synchronize
// before they read. Returns, with masks_add, bit r: bias and masks leave row r a key. By key (one
// row): the first key that they leave, causal not asked, or a large number.
template <int kPitch>
__device__ __noinline__ int fill_table(const AttentionLaunch& args, Tile tile, int64_t key,
                                       int first, int rows, float* table) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int left = tile.keys - key < kStepKeys ? static_cast<int>(tile.keys - key) : kStepKeys;
  // Rows past the last query have what the last one has; their results are not used.
  const int last = tile.queries - 1, from = first < last ? first : last;
  const int exist = last - from + 1 < rows ? last - from + 1 : rows;
  const QueryMasks masks = query_masks(args, tile, from);
  const auto row_at = [&](int row, int in_step) -> float& { return table[row * kPitch + in_step]; };
  const auto hide = [&](float& entry) {
    entry = args.masks_add ? entry - kInfinity : __uint_as_float(kHidden);
  };
  const auto add = [&](const auto* data) {
    each_entry(data + masks.bias + key * args.bias.key, args.bias.query, args.bias.key, exist, left,
               [&](int row, int in_step, auto value) {
                 const float bias = widened(value);  // NaN is not to look like a code
                 row_at(row, in_step) = bias == bias ? bias : __uint_as_float(0x7fffffff);
               });
  };
  if (args.bias.data == nullptr) {
    for (int i = lane; i < rows * kStepKeys; i += 32) row_at(i / kStepKeys, i % kStepKeys) = 0;
  } else if (args.bias.type == AttentionType::kF32) {
    add(static_cast<const float*>(args.bias.data));
  } else if (args.bias.type == AttentionType::kF16) {
    add(static_cast<const __half*>(args.bias.data));
  } else {
    add(static_cast<const __nv_bfloat16*>(args.bias.data));
  }
  if (args.by_position) {
    add_positions<false, kPitch>(args, tile, key, from, exist, left, table);
    add_positions<true, kPitch>(args, tile, key, from, exist, left, table);
  }
  if (args.keep.data != nullptr) {
    each_entry(static_cast<const uint8_t*>(args.keep.data) + masks.keep + key * args.keep.key,
               args.keep.query, args.keep.key, exist, left,
               [&](int row, int in_step, uint8_t kept) {
                 if (kept == 0) hide(row_at(row, in_step));
               });
  }
  const bool by_key = rows == 1;
  const int64_t ahead = by_key ? kStepKeys : masks.visible - key;  // of the first row
  unsigned seen = 0;
  for (int row = 0; row < exist; ++row) {
    const bool keeps = keeps_query(args, tile, from + row);
    unsigned kept[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int in_step = lane + 32 * half;
      float& entry = row_at(row, in_step);
      if (in_step > ahead + row || !keeps) hide(entry);
      if (in_step >= left) entry = __uint_as_float(kNoKey);
      kept[half] = __ballot_sync(~0u, in_step < left && entry != -kInfinity);
    }
    if (by_key)
      return kept[0] != 0   ? __ffs(static_cast<int>(kept[0])) - 1
             : kept[1] != 0 ? __ffs(static_cast<int>(kept[1])) + 31
                            : 1 << 30;
    seen |= static_cast<unsigned>((kept[0] | kept[1]) != 0) << row;
  }
  return static_cast<int>(seen);
}

// What is left of a row with probability 0 everywhere, by a few lanes: columns first, first + step
// …
__device__ __noinline__ inline void store_empty_row(const AttentionLaunch& args, Tile tile, int row,
                                                    int first, int step) {
  const int64_t at =
      tile.batch * args.out.batch + (tile.query + row) * args.out.row + tile.head * args.out.head;
  for (int col = first; col < args.value_dim; col += step)
    store_float(args.out.data, at + col, args.out.type, empty_context(args, tile, col));
}

// ---- f32 rows of q, k or v to shared memory

// Rows that exist; row r begins at data + r·stride.
struct F32Rows {
  const float* data;
  int64_t stride;
  int left;
};
__device__ inline F32Rows f32_rows(const AttentionRows& x, int64_t batch, int64_t row, int64_t head,
                                   int64_t left) {
  return {static_cast<const float*>(x.data) + batch * x.batch + row * x.row + head * x.head, x.row,
          left < (1 << 20) ? static_cast<int>(left) : 1 << 20};
}

// Calls body(row, chunk) for this thread's 16-byte chunks of kRows rows of kDim floats: 8 lanes
// have 128 bytes of a row.
template <int kThreads, int kRows, int kDim, class Body>
__device__ __forceinline__ void each_chunk(const Body& body) {
  const int row = static_cast<int>(threadIdx.x) / 8, chunk = static_cast<int>(threadIdx.x) % 8;
#pragma unroll
  for (int r = 0; r < kRows / (kThreads / 8); ++r) {
#pragma unroll
    for (int part = 0; part < kDim / 32; ++part) body(row + r * (kThreads / 8), chunk + 8 * part);
  }
}

}  // namespace vernier::backend::cuda
