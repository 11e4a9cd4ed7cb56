// The sm_90a matrix product: what happens to the sums of a tile, y = act(sums + bias) + residual.
// See gemm_sm90.cuh. C++17.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <type_traits>

#include "backend/cuda/device/activation.cuh"
#include "backend/cuda/device/hopper.cuh"
#include "backend/cuda/device/mma.cuh"
#include "backend/cuda/device/quantize_row.cuh"
#include "backend/cuda/kernels/linear/gemm_sm90_shape.cuh"

namespace vernier::backend::cuda {

// Thread `lane` of warp `warp` holds, per 64 rows and per 8 columns, the elements of rows
// 16·warp + lane/4 (+ 8) and columns 2·(lane % 4) (+ 1): d[4j], d[4j+1] and d[4j+2], d[4j+3].
// It goes slice by slice through one loop: code that is unrolled over all sums is several times the
// instruction cache and runs at less than half the speed (measured with GELU).

template <class S>
using GemmSums = typename S::Sum[S::kRowBlocks][S::kCols / 2];
template <class S>
using GemmSlice = float[S::kSliceCols / 2];

template <class T>
__device__ __forceinline__ float2 read_pair(const void* data, int64_t index) {
  if constexpr (sizeof(T) == 4) {
    return *reinterpret_cast<const float2*>(static_cast<const float*>(data) + index);
  } else if constexpr (__is_same(T, __half)) {
    return __half22float2(
        *reinterpret_cast<const __half2*>(static_cast<const __half*>(data) + index));
  } else {
    return __bfloat1622float2(
        *reinterpret_cast<const __nv_bfloat162*>(static_cast<const __nv_bfloat16*>(data) + index));
  }
}
// As read_pair, at any address of an element.
template <class T>
__device__ __forceinline__ float2 read_pair_at(const void* data, int64_t index, bool aligned) {
  if (aligned) return read_pair<T>(data, index);
  const T* at = static_cast<const T*>(data) + index;
  return {static_cast<float>(at[0]), static_cast<float>(at[1])};
}
template <class T>
__device__ __forceinline__ uint32_t narrow_pair(float a, float b) {
  if constexpr (__is_same(T, __half)) {
    const __half2 pair = __floats2half2_rn(a, b);
    return *reinterpret_cast<const uint32_t*>(&pair);
  } else {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(a, b);
    return *reinterpret_cast<const uint32_t*>(&pair);
  }
}

// Two neighbors of type T as they lie in memory.
template <class T>
using PairBits = std::conditional_t<sizeof(T) == 4, float2, uint32_t>;
template <class T>
__device__ __forceinline__ float2 widen_pair(PairBits<T> pair) {
  if constexpr (sizeof(T) == 4) {
    return pair;
  } else if constexpr (__is_same(T, __half)) {
    return __half22float2(*reinterpret_cast<const __half2*>(&pair));
  } else {
    return __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(&pair));
  }
}

// Slice `index`, of kWidth columns, of [kFirst, kFirst + kCount): a register's number cannot be
// computed, so branches.
template <class S, int kWidth, int kFirst, int kCount>
__device__ __forceinline__ void pick_slice(const GemmSums<S>& sums, int index,
                                           typename S::Sum (&v)[kWidth / 2]) {
  if constexpr (kCount == 1) {
    constexpr int kSlices = S::kCols / kWidth, kBlock = kFirst / kSlices, kBegin = kFirst % kSlices;
#pragma unroll
    for (int i = 0; i < kWidth / 2; ++i) v[i] = sums[kBlock][kBegin * (kWidth / 2) + i];
  } else if (index < kFirst + kCount / 2) {
    pick_slice<S, kWidth, kFirst, kCount / 2>(sums, index, v);
  } else {
    pick_slice<S, kWidth, kFirst + kCount / 2, kCount - kCount / 2>(sums, index, v);
  }
}

// The scale and zero point of x where the columns' numbers have them in them (GemmScales::folded):
// then a result is sum·scale + bias. Else 1 and 0.
struct GemmFolded {
  float scale = 1, zero = 0;
  __device__ __forceinline__ void read(const GemmScales& by) {
    if (!by.folded) return;
    scale = *by.x;
    if (by.x_zeros != nullptr)
      zero = *by.x_zeros;
    else if (by.x_zero != nullptr)
      zero = static_cast<float>(*by.x_zero);
  }
};

// That of a result which is quantized, read before the products.
struct GemmResultScale {
  float scale = 1, zero = 0;
  __device__ __forceinline__ void read(const GemmQuantized& by) {
    scale = *by.scale;
    if (by.zero != nullptr) zero = *by.zero;
  }
};

// What is known of this thread's columns: their bias as f32, 0 where there is none (an added +0
// also turns sums of −0 into +0); of 8 bits also their scales and sums of w, and the factors of a
// result that is quantized. A group reads it together: each thread its part, as it is stored, long
// before it is needed, and the others' through shared memory before the products. Of 8 bits there
// are too many for registers: they stay there.
template <class S>
using GemmBias = float2[S::kCols / 8];
template <class S>
struct GemmColumnPart {
  static constexpr int kCount = (S::kCols + 127) / 128, kOfScaled = S::kScales ? kCount : 1,
                       kOfQuantized = S::kQuantizes ? kCount : 1;
  uint32_t bias[kCount];
  float scales[kOfScaled], w_sums[kOfScaled], factors[kOfQuantized];

  __device__ __forceinline__ void read(const GemmArguments& args, int tile_col) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const int at = i * 128 + threadIdx.x % 128, col = tile_col + at;
      bias[i] = 0;
      const bool inside = at < S::kCols && col < args.n;
      if constexpr (S::kQuantizes)
        factors[i] = inside && args.quantized.factors != nullptr ? args.quantized.factors[col] : 1;
      if constexpr (S::kScales) {
        scales[i] = inside ? args.scales.w[args.scales.by_column ? col : 0] : 0;
        w_sums[i] = inside ? args.scales.w_sums[col] : 0;
      }
      if (args.bias == nullptr || !inside) continue;
      if (args.bias_type == GemmType::kF32) {
        bias[i] = static_cast<const uint32_t*>(args.bias)[col];
      } else {
        bias[i] = static_cast<const uint16_t*>(args.bias)[col];
      }
    }
  }
  /// `x`: what is known of the operand (GemmFolded).
  __device__ __forceinline__ void share(const GemmArguments& args, const GemmFolded& x,
                                        uint32_t through, int group) const {
    const auto widened = [&](uint32_t bits) {
      if (args.bias_type == GemmType::kF32) return __uint_as_float(bits);
      using Narrow =
          std::conditional_t<__is_same(typename S::Narrow, __half), __half, __nv_bfloat16>;
      return widen_pair<Narrow>(bits).x;
    };
    warpgroup_sync(1 + group);  // the last tile's has been read
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const int at = i * 128 + threadIdx.x % 128;
      if (at >= S::kCols) continue;
      if constexpr (S::kScales) {
        const float half = args.activation == epilogue::kGeluErf ? 0.5f : 1.0f;
        const float scale = half * x.scale * scales[i], own = half * widened(bias[i]);
        // Of zero 0 not 0·scale, which is NaN where the scale is infinite.
        const uint32_t pair = through + at / 2 * 16 + at % 2 * 4;
        store_shared(pair, scale);
        store_shared(pair + 8, x.zero == 0 ? own : __fmaf_rn(-x.zero * w_sums[i], scale, own));
        store_shared(through + (2 * S::kCols + at) * 4, w_sums[i]);
        if constexpr (S::kQuantizes) store_shared(through + (3 * S::kCols + at) * 4, factors[i]);
      } else {
        store_shared(through + at * 4, widened(bias[i]) + 0.0f);
      }
    }
    warpgroup_sync(1 + group);
  }
};
template <class S, bool kScales = S::kScales>
struct GemmColumns {
  GemmBias<S> bias;
  __device__ __forceinline__ void load(uint32_t from) {
#pragma unroll
    for (int j = 0; j < S::kCols / 8; ++j)
      bias[j] = load_shared_pair(from + (8 * j + 2 * (threadIdx.x % 4)) * 4);
  }
};
// The numbers of this thread's two columns of eight.
struct GemmColumnPair {
  float2 scale, bias, w_sum;  // w_sum: not where the scale of x is folded, and not of f8
};
template <class S>
struct GemmColumns<S, true> {
  uint32_t pairs, singles;  // where this thread's are
  __device__ __forceinline__ void load(uint32_t shared) {
    pairs = shared + threadIdx.x % 4 * 16;
    singles = shared + S::kCols * 8 + threadIdx.x % 4 * 8;
  }
  template <bool kFolded>
  __device__ __forceinline__ GemmColumnPair pair_of(int eight) const {
    const uint4 four = load_shared_16_bytes(pairs + eight * 64);
    GemmColumnPair pair{{__uint_as_float(four.x), __uint_as_float(four.y)},
                        {__uint_as_float(four.z), __uint_as_float(four.w)},
                        {}};
    if constexpr (!kFolded && !S::kIsF8) pair.w_sum = load_shared_pair(singles + eight * 32);
    return pair;
  }
  __device__ __forceinline__ float2 factors_of(int eight) const {
    return load_shared_pair(singles + S::kCols * 4 + eight * 32);
  }
};

// Scales and zero points of this thread's rows, of products of 8 bits.
template <class S, bool kScales = S::kScales>
struct GemmRows {
  __device__ __forceinline__ void read(const GemmArguments&, int) {}
};
template <class S>
struct GemmRows<S, true> {
  float scales[2 * S::kRowBlocks], zeros[2 * S::kRowBlocks];
  __device__ __forceinline__ void read(const GemmArguments& args, int tile_row) {
    const GemmScales& by = args.scales;
    if (by.folded) return;
    const float zero = by.x_zero == nullptr ? 0 : static_cast<float>(*by.x_zero);
#pragma unroll
    for (int i = 0; i < 2 * S::kRowBlocks; ++i) {
      const int row =
          tile_row + i / 2 * 64 + i % 2 * 8 + threadIdx.x / 32 % 4 * 16 + threadIdx.x % 32 / 4;
      const int last = min(row, args.m - 1);
      scales[i] = by.x[by.by_row ? last : 0];
      zeros[i] = by.x_zeros == nullptr ? zero : by.x_zeros[by.zeros_by_row ? last : 0];
    }
  }
};

// v = what the four sums of eight columns, in rows g and g + 8 of row block `block`, become before
// the activation; of erf GELU a half of that, as share() has it. kFolded: GemmScales::folded.
__device__ __forceinline__ float as_f32(int sum) {
  // Not __int2float_rn(), which the compiler moves behind the branches of scaled_slice(): then it
  // selects each sum by an instruction of its own.
  float value;
  asm volatile("cvt.rn.f32.s32 %0, %1;" : "=f"(value) : "r"(sum));
  return value;
}
__device__ __forceinline__ float as_f32(float sum) { return sum; }
template <class S, bool kFolded>
__device__ __forceinline__ void scaled(const typename S::Sum* d, const GemmColumnPair& column,
                                       const GemmRows<S>& rows, int block, float* v) {
  if constexpr (kFolded) {
#pragma unroll
    for (int i = 0; i < 4; i += 2) {
      v[i] = __fmaf_rn(as_f32(d[i]), column.scale.x, column.bias.x);
      v[i + 1] = __fmaf_rn(as_f32(d[i + 1]), column.scale.y, column.bias.y);
    }
  } else {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float x_scale = rows.scales[2 * block + half], zero = -rows.zeros[2 * block + half];
      float a = as_f32(d[2 * half]), b = as_f32(d[2 * half + 1]);
      if constexpr (!S::kIsF8) {  // f8 has no zero points
        a = __fmaf_rn(zero, column.w_sum.x, a);
        b = __fmaf_rn(zero, column.w_sum.y, b);
      }
      v[2 * half] = __fmaf_rn(x_scale, a * column.scale.x, column.bias.x);
      v[2 * half + 1] = __fmaf_rn(x_scale, b * column.scale.y, column.bias.y);
    }
  }
}
// The same of kEights times eight columns of kBlocks row blocks, one block after the other: part
// `index` of [kFirst, kFirst + kCount) of a tile. A register's number cannot be computed, so
// branches.
template <class S, bool kFolded, int kEights, int kBlocks, int kFirst, int kCount>
__device__ __forceinline__ void scaled_slice(const GemmSums<S>& sums, int index,
                                             const GemmColumns<S>& columns, const GemmRows<S>& rows,
                                             float (&v)[4 * kEights * kBlocks]) {
  if constexpr (kCount == 1) {
    constexpr int kAcross = S::kCols / (8 * kEights), kBlock = kFirst / kAcross * kBlocks,
                  kBegin = kFirst % kAcross * kEights;
#pragma unroll
    for (int j = 0; j < kEights; ++j) {
      const GemmColumnPair column = columns.template pair_of<kFolded>(kBegin + j);
#pragma unroll
      for (int b = 0; b < kBlocks; ++b)
        scaled<S, kFolded>(sums[kBlock + b] + 4 * (kBegin + j), column, rows, kBlock + b,
                           v + 4 * (b * kEights + j));
    }
  } else if (index < kFirst + kCount / 2) {
    scaled_slice<S, kFolded, kEights, kBlocks, kFirst, kCount / 2>(sums, index, columns, rows, v);
  } else {
    scaled_slice<S, kFolded, kEights, kBlocks, kFirst + kCount / 2, kCount - kCount / 2>(
        sums, index, columns, rows, v);
  }
}
template <class S>
__device__ __forceinline__ void add_bias(GemmSums<S>& sums, const GemmBias<S>& bias) {
#pragma unroll
  for (int b = 0; b < S::kRowBlocks; ++b) {
#pragma unroll
    for (int j = 0; j < S::kCols / 8; ++j) {
      float* d = sums[b] + 4 * j;
      d[0] += bias[j].x, d[1] += bias[j].y, d[2] += bias[j].x, d[3] += bias[j].y;
    }
  }
}

// sums −= Σ_k x · zero point of w, which few models have.
template <class S>
__device__ __forceinline__ void subtract_zeros(GemmSums<S>& sums, const GemmArguments& args,
                                               GemmTile tile) {
  const GemmScales& by = args.scales;
  const int lane = threadIdx.x % 32, first = tile.col + 2 * (lane % 4);
#pragma unroll
  for (int b = 0; b < S::kRowBlocks; ++b) {
    int x_sums[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = tile.row + 64 * b + threadIdx.x / 32 % 4 * 16 + 8 * half + lane / 4;
      x_sums[half] = by.x_sums[min(row, args.m - 1)];
    }
#pragma unroll
    for (int j = 0; j < S::kCols / 8; ++j) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int zero = by.w_zeros[by.w_zeros_by_column ? min(first + 8 * j + i, args.n - 1) : 0];
        sums[b][4 * j + i] -= x_sums[0] * zero;
        sums[b][4 * j + 2 + i] -= x_sums[1] * zero;
      }
    }
  }
}

// The degree of erf GELU's polynomial (device/activation.cuh) for results of kBytes each.
template <int kBytes>
inline constexpr int kGeluDegree = kBytes == 4 ? 8 : 5;
template <class S, int kBytes, int kCount>
__device__ __forceinline__ void gelu(float (&v)[kCount]) {
  constexpr int kDegree = kGeluDegree<kBytes>;
  epilogue::for_each(v, [](float x) {
    return S::kScales ? epilogue::gelu_erf_of_half<kDegree>(x) : epilogue::gelu_erf<kDegree>(x);
  });
}
template <class S, int kCount>
__device__ __forceinline__ void activate(float (&v)[kCount], const GemmArguments& args) {
  if (args.activation != epilogue::kGeluErf)
    epilogue::activate(v, args.activation);
  else if (args.y_type == GemmType::kF32)
    gelu<S, 4>(v);
  else
    gelu<S, 2>(v);
}

// Where this thread's elements of a slice are in y: rows row and row + 8, columns col + 8j.
struct GemmSpot {
  int row, col;
};
template <class S, class Residual>
__device__ __forceinline__ void add_residual_of(GemmSlice<S>& v, const GemmArguments& args,
                                                GemmSpot spot) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int64_t at = static_cast<int64_t>(spot.row + 8 * half) * args.n + spot.col;
#pragma unroll
    for (int j = 0; j < S::kSliceCols / 8; ++j) {
      if (spot.row + 8 * half >= args.m || spot.col + 8 * j >= args.n) continue;
      const float2 add = read_pair_at<Residual>(args.residual, at + 8 * j, args.residual_aligned);
      v[4 * j + 2 * half] += add.x, v[4 * j + 2 * half + 1] += add.y;
    }
  }
}
template <class S>
__device__ __forceinline__ void add_residual(GemmSlice<S>& v, const GemmArguments& args,
                                             GemmSpot spot) {
  if (args.residual_type == GemmType::kF32) {
    add_residual_of<S, float>(v, args, spot);
  } else {
    add_residual_of<S, typename S::Narrow>(v, args, spot);
  }
}
// The residual of a tile that is one slice, read before its products, beside the first of x: all
// pairs are in flight at once.
template <class S>
struct ResidualAhead {
  static constexpr bool kIs = S::kSlices == 1;
  PairBits<typename S::Narrow> pairs[S::kSliceCols / 4];
  bool is_read;
  __device__ __forceinline__ void read(const GemmArguments& args, GemmTile tile) {
    using T = typename S::Narrow;
    is_read = args.residual != nullptr && args.residual_aligned &&
              (args.residual_type == GemmType::kF32) == (sizeof(T) == 4);
    if (!is_read) return;
    const int warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
    const int row = tile.row + 16 * warp + lane / 4, col = tile.col + 2 * (lane % 4);
#pragma unroll
    for (int i = 0; i < S::kSliceCols / 4; ++i) {
      const int r = row + i % 2 * 8, c = col + i / 2 * 8;
      const auto* at = reinterpret_cast<const PairBits<T>*>(static_cast<const T*>(args.residual) +
                                                            static_cast<int64_t>(r) * args.n + c);
      pairs[i] = r < args.m && c < args.n ? *at : PairBits<T>{};
    }
  }
  __device__ __forceinline__ void add(GemmSlice<S>& v) const {
#pragma unroll
    for (int i = 0; i < S::kSliceCols / 4; ++i) {
      const float2 add = widen_pair<typename S::Narrow>(pairs[i]);
      v[2 * i] += add.x, v[2 * i + 1] += add.y;
    }
  }
};

// Straight from registers: 8 bytes (f32) or 4 (16 bits) per thread, four threads side by side.
template <class S, class Out>
__device__ __forceinline__ void store_direct(const GemmSlice<S>& v, const GemmArguments& args,
                                             GemmSpot spot) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int64_t at = static_cast<int64_t>(spot.row + 8 * half) * args.n + spot.col;
    Out* y = static_cast<Out*>(args.y) + at;
#pragma unroll
    for (int j = 0; j < S::kSliceCols / 8; ++j) {
      if (spot.row + 8 * half >= args.m || spot.col + 8 * j >= args.n) continue;
      const float a = v[4 * j + 2 * half], b = v[4 * j + 2 * half + 1];
      if (!args.y_aligned) {
        y[8 * j] = static_cast<Out>(a), y[8 * j + 1] = static_cast<Out>(b);
      } else if constexpr (sizeof(Out) == 4) {
        *reinterpret_cast<float2*>(y + 8 * j) = float2{a, b};
      } else {
        *reinterpret_cast<uint32_t*>(y + 8 * j) = narrow_pair<Out>(a, b);
      }
    }
  }
}
// A warp's 16 rows through its strip of shared memory (16-byte chunks, swizzled against bank
// conflicts), then in 16-byte stores that fill whole rows of the slice.
template <class S>
__device__ __forceinline__ void store_strip(const GemmSlice<S>& v, const GemmArguments& args,
                                            uint32_t strip, int row, int col) {
  using T = typename S::Result;
  constexpr int kChunks = S::kSliceCols / 8;
  const int lane = threadIdx.x % 32;
  const auto chunk_at = [strip](int r, int c) {
    return strip + r * (kChunks * 16) + (c ^ (r / (8 / kChunks) % kChunks)) * 16;
  };
  __syncwarp();  // the strip's last contents have been read
#pragma unroll
  for (int j = 0; j < kChunks; j += 2) {
    store_matrices(chunk_at(lane % 16, j + lane / 16), narrow_pair<T>(v[4 * j], v[4 * j + 1]),
                   narrow_pair<T>(v[4 * j + 2], v[4 * j + 3]),
                   narrow_pair<T>(v[4 * j + 4], v[4 * j + 5]),
                   narrow_pair<T>(v[4 * j + 6], v[4 * j + 7]));
  }
  __syncwarp();
#pragma unroll
  for (int i = lane; i < 16 * kChunks; i += 32) {
    const int r = i / kChunks, c = i % kChunks;
    const uint4 chunk = load_shared_16_bytes(chunk_at(r, c));
    if (row + r < args.m && col + 8 * c < args.n) {
      const int64_t at = static_cast<int64_t>(row + r) * args.n + col + 8 * c;
      *reinterpret_cast<uint4*>(static_cast<T*>(args.y) + at) = chunk;
    }
  }
}

// Where this thread's pair i (of columns 8·(i/2) …, of row g or g + 8) lies in a box of f32.
__device__ __forceinline__ uint32_t pair_place(uint32_t box, int i) {
  const int lane = threadIdx.x % 32;
  return box_place(box, lane / 4 + i % 2 * 8, i / 2 * 2 + lane % 4 / 2) + lane % 2 * 8;
}
/// v += the box's elements of this thread.
template <class T, int kCount>
__device__ __forceinline__ void add_box(uint32_t box, float (&v)[kCount]) {
  if constexpr (sizeof(T) == 4) {
#pragma unroll
    for (int i = 0; i < kCount / 2; ++i) {
      const float2 add = load_shared_pair(pair_place(box, i));
      v[2 * i] += add.x, v[2 * i + 1] += add.y;
    }
  } else {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int j = 0; j < kCount / 4; j += 2) {
      uint32_t pairs[4];
      load_matrices(pairs, box_place(box, lane % 16, j + lane / 16));
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float2 add = widen_pair<T>(pairs[i]);
        v[4 * j + 2 * i] += add.x, v[4 * j + 2 * i + 1] += add.y;
      }
    }
  }
}

/// y = act(sums + bias) + residual in type Result: 16 rows and 128 bytes of a warp after the other
/// into a box of shared memory each, and from there to y through the copy engine (which leaves out
/// what is beyond y). One after the other, because all at once they would hold up the other group's
/// products (measured: 5 % at K = 1024). kResidual: it lies in the boxes already.
template <class S, bool kGelu, bool kResidual, bool kFolded = false>
__device__ __forceinline__ void finish_boxes(const GemmSums<S>& sums, const GemmColumns<S>& columns,
                                             const GemmRows<S>& rows, const CUtensorMap* y_map,
                                             uint32_t boxes, GemmTile tile) {
  using T = typename S::Result;
  const int warp = uniform(threadIdx.x / 32 % 4), lane = threadIdx.x % 32;
  constexpr int kEights = S::kBoxCols / 8;
#pragma unroll
  for (int c = 0; c < S::kCols / S::kBoxCols; ++c) {
    GemmColumnPair pairs[S::kScales ? kEights : 1];
    if constexpr (S::kScales) {
#pragma unroll
      for (int j = 0; j < kEights; ++j)
        pairs[j] = columns.template pair_of<kFolded>(kEights * c + j);
    }
#pragma unroll
    for (int b = 0; b < S::kRowBlocks; ++b) {
      float v[4 * kEights];
#pragma unroll
      for (int j = 0; j < kEights; ++j) {
        const typename S::Sum* d = sums[b] + 4 * (kEights * c + j);
        if constexpr (S::kScales) {
          scaled<S, kFolded>(d, pairs[j], rows, b, v + 4 * j);
        } else {
          const float2 add = columns.bias[kEights * c + j];
          v[4 * j] = d[0] + add.x, v[4 * j + 1] = d[1] + add.y;
          v[4 * j + 2] = d[2] + add.x, v[4 * j + 3] = d[3] + add.y;
        }
      }
      if constexpr (kGelu) gelu<S, sizeof(T)>(v);
      const uint32_t box = boxes + (b * (S::kCols / S::kBoxCols) + c) * S::kBoxBytes;
      if constexpr (kResidual) add_box<T>(box, v);
      if constexpr (sizeof(T) == 4) {
#pragma unroll
        for (int i = 0; i < 2 * kEights; ++i)
          store_shared_pair(pair_place(box, i), {v[2 * i], v[2 * i + 1]});
      } else {
#pragma unroll
        for (int j = 0; j < kEights; j += 2) {
          store_matrices(box_place(box, lane % 16, j + lane / 16),
                         narrow_pair<T>(v[4 * j], v[4 * j + 1]),
                         narrow_pair<T>(v[4 * j + 2], v[4 * j + 3]),
                         narrow_pair<T>(v[4 * j + 4], v[4 * j + 5]),
                         narrow_pair<T>(v[4 * j + 6], v[4 * j + 7]));
        }
      }
      fence_shared_to_async();
      __syncwarp();
      if (lane == 0)
        store_box(y_map, box, tile.col + S::kBoxCols * c, tile.row + 64 * b + 16 * warp);
    }
  }
}

// Column c of this warp's boxes, which are filled.
template <class S>
__device__ __forceinline__ void store_boxes(const CUtensorMap* y_map, uint32_t boxes, int c,
                                            GemmTile tile) {
  const int warp = uniform(threadIdx.x / 32 % 4);  // by the whole warp
  fence_shared_to_async();
  __syncwarp();
  if (threadIdx.x % 32 != 0) return;
#pragma unroll
  for (int b = 0; b < S::kRowBlocks; ++b)
    store_box(y_map, boxes + (b * (S::kCols / S::kBoxCols) + c) * S::kBoxBytes,
              tile.col + S::kBoxCols * c, tile.row + 64 * b + 16 * warp);
}

// Eights of columns that are computed together, so that one's latency hides behind the others: one
// after the other, a layer's largest product takes 20 % longer. Those of two row blocks are the
// same columns, whose numbers are read once: where the products keep shared memory busy, such reads
// hold them up.
inline constexpr int kEightsTogether = 8;

/// The same of sums that are scaled, with GELU, in a loop: unrolled over all sums, the code is
/// several times the instruction cache.
template <class S, bool kFolded>
__device__ __forceinline__ void finish_boxes_gelu(const GemmSums<S>& sums,
                                                  const GemmColumns<S>& columns,
                                                  const GemmRows<S>& rows, const CUtensorMap* y_map,
                                                  uint32_t boxes, GemmTile tile) {
  using T = typename S::Result;
  const int warp = uniform(threadIdx.x / 32 % 4), lane = threadIdx.x % 32;
  constexpr int kEach = kEightsTogether / S::kRowBlocks, kEights = S::kBoxCols / 8,
                kAcross = S::kBoxes ? S::kCols / (8 * kEach) : 1;
  static_assert(kEights % kEach == 0);
#pragma unroll 1
  for (int i = 0; i < kAcross; ++i) {
    float v[4 * kEightsTogether];
    scaled_slice<S, kFolded, kEach, S::kRowBlocks, 0, kAcross>(sums, i, columns, rows, v);
    gelu<S, sizeof(T)>(v);
    const int c = i * kEach / kEights, first = i * kEach % kEights;
#pragma unroll
    for (int b = 0; b < S::kRowBlocks; ++b) {
      const uint32_t box = boxes + (b * (S::kCols / S::kBoxCols) + c) * S::kBoxBytes;
#pragma unroll
      for (int j = 0; j < kEach; j += 2) {
        const float* eight = v + 4 * (b * kEach + j);
        store_matrices(box_place(box, lane % 16, first + j + lane / 16),
                       narrow_pair<T>(eight[0], eight[1]), narrow_pair<T>(eight[2], eight[3]),
                       narrow_pair<T>(eight[4], eight[5]), narrow_pair<T>(eight[6], eight[7]));
      }
    }
    if (first + kEach == kEights) store_boxes<S>(y_map, boxes, c, tile);
  }
}

// A slice of the sums before the activation; those in f32 have their bias already.
template <class S>
__device__ __forceinline__ void take_slice(const GemmSums<S>& sums, const GemmColumns<S>& columns,
                                           const GemmRows<S>& rows, const GemmArguments& args,
                                           int slice, GemmSlice<S>& v) {
  if constexpr (S::kScales) {
    if (args.scales.folded)
      scaled_slice<S, true, S::kSliceCols / 8, 1, 0, S::kSlices>(sums, slice, columns, rows, v);
    else
      scaled_slice<S, false, S::kSliceCols / 8, 1, 0, S::kSlices>(sums, slice, columns, rows, v);
  } else {
    pick_slice<S, S::kSliceCols, 0, S::kSlices>(sums, slice, v);
  }
}

// v of kBlocks times kEights times four elements, of columns 8·(first + j) … of a tile and rows g
// and g + 8 of row blocks: y as it is stored in f16, quantized. Of four elements the bytes of row
// g, above them those of row g + 8.
template <class S, int kEights, int kBlocks>
__device__ __forceinline__ void quantize(const GemmArguments& args, const GemmColumns<S>& columns,
                                         const RowScaling& by, int first,
                                         float (&v)[4 * kEights * kBlocks],
                                         uint32_t (&bytes)[kEights * kBlocks]) {
#pragma unroll
  for (int i = 0; i < 4 * kEights * kBlocks; i += 2) {
    const float2 pair = widen_pair<__half>(narrow_pair<__half>(v[i], v[i + 1]));
    v[i] = pair.x, v[i + 1] = pair.y;
  }
  if (args.quantized.factors != nullptr) {
#pragma unroll
    for (int j = 0; j < kEights; ++j) {
      const float2 factor = columns.factors_of(first + j);
#pragma unroll
      for (int b = 0; b < kBlocks; ++b) {
        float* four = v + 4 * (b * kEights + j);
        four[0] *= factor.x, four[1] *= factor.y, four[2] *= factor.x, four[3] *= factor.y;
      }
    }
  }
#pragma unroll
  for (int j = 0; j < kEights * kBlocks; ++j) {
    const float* four = v + 4 * j;
    if constexpr (S::kIsF8)
      bytes[j] =
          packed_f8(by.scaled(four[0]), by.scaled(four[1]), by.scaled(four[2]), by.scaled(four[3]));
    else
      bytes[j] = GivenRounding(by.second, by.shift).bytes(four[0], four[1], four[2], four[3]);
  }
}
// Of the two threads with lanes 2i and 2i + 1: the first gets row g's four bytes, the second those
// of row g + 8. By whole warps.
__device__ __forceinline__ uint32_t own_four_bytes(uint32_t bytes) {
  const uint32_t others = __shfl_xor_sync(~0u, bytes, 1);
  return __byte_perm(bytes, others, threadIdx.x % 2 == 0 ? 0x5410 : 0x3276);
}
template <class S>
__device__ __forceinline__ RowScaling scaling_of(const GemmResultScale& by) {
  return given_scaling(&by.scale, &by.zero, S::kIsF8);
}

// q of kTogether times 8 columns of a warp's rows into its boxes.
template <class S, int kTogether>
__device__ __forceinline__ void store_bytes_in_box(uint32_t box, int first_eight,
                                                   const uint32_t* bytes) {
  const int lane = threadIdx.x % 32, row = lane / 4 + lane % 2 * 8;
#pragma unroll
  for (int j = 0; j < kTogether; ++j) {
    const int eight = first_eight + j;
    store_shared_32_bits(
        box_place<S::kBoxRowBytes>(box, row, eight / 2) + eight % 2 * 8 + lane % 4 / 2 * 4,
        own_four_bytes(bytes[j]));
  }
}

/// q of a tile through boxes of 16 rows and 128 or 64 columns.
template <class S, bool kGelu, bool kFolded>
__device__ __forceinline__ void finish_bytes(const GemmSums<S>& sums, const GemmColumns<S>& columns,
                                             const GemmRows<S>& rows, const GemmArguments& args,
                                             const GemmResultScale& result_scale,
                                             const CUtensorMap* y_map, uint32_t boxes,
                                             GemmTile tile) {
  const RowScaling by = scaling_of<S>(result_scale);
  constexpr int kEach = kEightsTogether / S::kRowBlocks, kEights = S::kBoxCols / 8,
                kAcross = S::kBoxes ? S::kCols / (8 * kEach) : 1;
  static_assert(kEights % kEach == 0);
#pragma unroll 1
  for (int i = 0; i < kAcross; ++i) {
    float v[4 * kEightsTogether];
    scaled_slice<S, kFolded, kEach, S::kRowBlocks, 0, kAcross>(sums, i, columns, rows, v);
    if constexpr (kGelu) gelu<S, 2>(v);
    uint32_t bytes[kEightsTogether];
    quantize<S, kEach, S::kRowBlocks>(args, columns, by, i * kEach, v, bytes);
    const int c = i * kEach / kEights, first = i * kEach % kEights;
#pragma unroll
    for (int b = 0; b < S::kRowBlocks; ++b)
      store_bytes_in_box<S, kEach>(boxes + (b * (S::kCols / S::kBoxCols) + c) * S::kBoxBytes, first,
                                   bytes + b * kEach);
    if (first + kEach == kEights) store_boxes<S>(y_map, boxes, c, tile);
  }
}
/// The same of a slice, straight from registers.
template <class S>
__device__ __forceinline__ void store_bytes(GemmSlice<S>& v, const GemmArguments& args,
                                            const GemmColumns<S>& columns, int first_eight,
                                            const GemmResultScale& result_scale, GemmSpot spot) {
  const RowScaling by = scaling_of<S>(result_scale);
  const int odd = threadIdx.x % 2, row = spot.row + 8 * odd, first = spot.col - 2 * odd;
  int8_t* q = args.quantized.q + static_cast<int64_t>(row) * args.n + first;
  uint32_t bytes[S::kSliceCols / 8];
  quantize<S, S::kSliceCols / 8, 1>(args, columns, by, first_eight, v, bytes);
#pragma unroll
  for (int j = 0; j < S::kSliceCols / 8; ++j) {
    const uint32_t own = own_four_bytes(bytes[j]);
    if (row < args.m && first + 8 * j < args.n) *reinterpret_cast<uint32_t*>(q + 8 * j) = own;
  }
}

/// A tile of a group through boxes, as args.finish has it.
template <class S, bool kFolded>
__device__ __forceinline__ void finish_in_boxes(const GemmSums<S>& sums,
                                                const GemmColumns<S>& columns,
                                                const GemmRows<S>& rows, const GemmArguments& args,
                                                const GemmResultScale& result_scale,
                                                const CUtensorMap* y_map, uint32_t boxes,
                                                GemmTile tile) {
  if constexpr (!S::kBoxes) {
  } else if constexpr (S::kQuantizes) {
    if (args.finish == GemmFinish::kBoxesGelu)
      finish_bytes<S, true, kFolded>(sums, columns, rows, args, result_scale, y_map, boxes, tile);
    else
      finish_bytes<S, false, kFolded>(sums, columns, rows, args, result_scale, y_map, boxes, tile);
  } else if (args.finish == GemmFinish::kBoxesGelu) {
    if constexpr (S::kScales)
      finish_boxes_gelu<S, kFolded>(sums, columns, rows, y_map, boxes, tile);
    else
      finish_boxes<S, true, false>(sums, columns, rows, y_map, boxes, tile);
  } else if (args.finish == GemmFinish::kBoxesResidual) {
    finish_boxes<S, false, true, kFolded>(sums, columns, rows, y_map, boxes, tile);
  } else {
    finish_boxes<S, false, false, kFolded>(sums, columns, rows, y_map, boxes, tile);
  }
}

/// y = act(sums) + residual for one tile of a group, any types.
template <class S>
__device__ __forceinline__ void finish(const GemmSums<S>& sums, const GemmColumns<S>& columns,
                                       const GemmRows<S>& rows, const GemmArguments& args,
                                       const GemmResultScale& result_scale,
                                       const ResidualAhead<S>& ahead, uint32_t strip,
                                       GemmTile tile) {
  using T = typename S::Result;
  const int warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
#pragma unroll 1
  for (int slice = 0; slice < S::kSlices; ++slice) {
    const int row = tile.row + slice / S::kColSlices * 64 + 16 * warp;
    const int begin = slice % S::kColSlices * S::kSliceCols;
    const GemmSpot spot{row + lane / 4, tile.col + begin + 2 * (lane % 4)};
    GemmSlice<S> v;
    take_slice<S>(sums, columns, rows, args, slice, v);
    activate<S>(v, args);
    if (args.residual != nullptr) {
      if (ResidualAhead<S>::kIs && ahead.is_read) {
        ahead.add(v);
      } else {
        add_residual<S>(v, args, spot);
      }
    }
    if constexpr (S::kQuantizes) {
      store_bytes<S>(v, args, columns, begin / 8, result_scale, spot);
      continue;
    }
    if (args.y_type == GemmType::kF32) {
      store_direct<S, float>(v, args, spot);
      continue;
    }
    if constexpr (sizeof(T) == 2) {
      if constexpr (S::kSliceCols % 16 == 0) {
        if (args.y_aligned) {
          store_strip<S>(v, args, strip, row, tile.col + begin);
          continue;
        }
      }
      store_direct<S, T>(v, args, spot);
    }
  }
}

}  // namespace vernier::backend::cuda
