// The tiled matrix product below MatMul, Gemm, Einsum and Conv: c[row, col] = Σ_k a[row, k]·b[k,
// col] in f32, one block per tile of 64 × 64. A `Problem` (a plain struct, the kernel's argument)
// says where the elements are:
//   int64_t rows, cols, batches; int k
//   bool a_along_k(), b_along_k()       neighboring k (else rows, columns) are neighbors in
//   memory Batch begin(batch)                  where the matrices of a batch are; the others get it
//   Row row(Batch, r), Col col(Batch, c)       what finding elements of a row or column starts from
//   float a(Row, k), float b(Col, k)    elements as f32
//   T a16<T>(Row, k), b16<T>            the same in their 16-bit type
//   const T* a_run<T>(Batch, r, k), b_run<T>(Batch, c, k)   8 elements in a row, 16-byte aligned,
//                                       along the direction above; null where there are none
//   void store(Batch, r, c, float sum)
//   T* out_run<T>(Batch, r, c)          optional: 8 neighbors of a row of c, 16-byte aligned, that
//                                       are to be sum · alpha(); null where no tile has them
// Each sum goes through k upwards, without regard to tiles: bits of an element depend on its row of
// a, its column of b and k only. Rows, columns and k beyond the sizes are zeros on both sides.
#pragma once
#include <mma.h>

#include <type_traits>
#include <utility>

#include "backend/cuda/device/elements.cuh"

namespace vernier::backend::cuda {

inline constexpr int kTile = 64;
inline constexpr int64_t kMaxGridY = 65535;

template <class Problem>
dim3 product_grid(const Problem& p) {
  const int64_t tiles = ((p.rows + kTile - 1) / kTile) * ((p.cols + kTile - 1) / kTile);
  return dim3(blocks_for(tiles, 1),
              static_cast<unsigned>(p.batches < kMaxGridY ? p.batches : kMaxGridY));
}

/// visit(Batch, row0, col0) for the tiles of this block.
template <class Problem, class Visit>
__device__ void for_each_tile(const Problem& p, const Visit& visit) {
  const int64_t col_tiles = (p.cols + kTile - 1) / kTile;
  const int64_t tiles = (p.rows + kTile - 1) / kTile * col_tiles;
  for (int64_t i = blockIdx.y; i < p.batches; i += gridDim.y) {
    const typename Problem::Batch batch = p.begin(i);
    for (int64_t t = blockIdx.x; t < tiles; t += gridDim.x)
      visit(batch, t / col_tiles * kTile, t % col_tiles * kTile);
  }
}

// ---- f32 operands (or any mix, widened): 16 × 16 threads of 4 × 4 elements, fused multiply-add

inline constexpr int kDepth = 16;                       // of k per step
inline constexpr int kLoads = kTile * kDepth / kBlock;  // elements a thread loads per operand

/// Which element of a (kTile, kDepth) step a thread's load i is.
struct LoadPlace {
  int along, k;
};
__device__ inline LoadPlace load_place(bool along_k, int i) {
  const int at = static_cast<int>(threadIdx.x) + i * kBlock;
  if (along_k) return {at / kDepth, at % kDepth};
  return {at % kTile, at / kTile};
}

template <class Problem>
__global__ void __launch_bounds__(kBlock) product_f32(const __grid_constant__ Problem p) {
  __shared__ __align__(16) float a_tile[kDepth][kTile + 4], b_tile[kDepth][kTile + 4];
  const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
  for_each_tile(p, [&](const typename Problem::Batch& batch, int64_t row0, int64_t col0) {
    typename Problem::Row rows[kLoads];
    typename Problem::Col cols[kLoads];
    bool row_inside[kLoads], col_inside[kLoads];
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      const int64_t r = row0 + load_place(p.a_along_k(), i).along;
      const int64_t c = col0 + load_place(p.b_along_k(), i).along;
      row_inside[i] = r < p.rows;
      col_inside[i] = c < p.cols;
      if (row_inside[i]) rows[i] = p.row(batch, r);
      if (col_inside[i]) cols[i] = p.col(batch, c);
    }
    float a_next[kLoads], b_next[kLoads], sums[4][4] = {};
    const auto load = [&](int k0) {
#pragma unroll
      for (int i = 0; i < kLoads; ++i) {
        const int ka = k0 + load_place(p.a_along_k(), i).k;
        const int kb = k0 + load_place(p.b_along_k(), i).k;
        a_next[i] = row_inside[i] && ka < p.k ? p.a(rows[i], ka) : 0.0f;
        b_next[i] = col_inside[i] && kb < p.k ? p.b(cols[i], kb) : 0.0f;
      }
    };
    load(0);
    for (int k0 = 0; k0 < p.k; k0 += kDepth) {
      __syncthreads();  // the previous step has been read
#pragma unroll
      for (int i = 0; i < kLoads; ++i) {
        const LoadPlace at_a = load_place(p.a_along_k(), i), at_b = load_place(p.b_along_k(), i);
        a_tile[at_a.k][at_a.along] = a_next[i];
        b_tile[at_b.k][at_b.along] = b_next[i];
      }
      __syncthreads();
      if (k0 + kDepth < p.k) load(k0 + kDepth);
#pragma unroll
      for (int k = 0; k < kDepth; ++k) {
        const float4 a = *reinterpret_cast<const float4*>(&a_tile[k][ty * 4]);
        const float4 b = *reinterpret_cast<const float4*>(&b_tile[k][tx * 4]);
        const float left[4] = {a.x, a.y, a.z, a.w}, right[4] = {b.x, b.y, b.z, b.w};
#pragma unroll
        for (int i = 0; i < 4; ++i) {
#pragma unroll
          for (int j = 0; j < 4; ++j) sums[i][j] = fmaf(left[i], right[j], sums[i][j]);
        }
      }
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int64_t r = row0 + ty * 4 + i, c = col0 + tx * 4 + j;
        if (r < p.rows && c < p.cols) p.store(batch, r, c, sums[i][j]);
      }
    }
  });
}

// ---- 16-bit operands on tensor cores: 4 warps of 32 × 32 elements, k in steps of 16

inline constexpr int kThreads16 = 128;
inline constexpr int kDepth16 = 32;
inline constexpr int kRun = 8;  // elements of one 16-byte load

/// A (kTile, kDepth16) step of one operand into shared memory, element (along, k) at
/// along·along_step + k·k_step. run(along, k) and element(along, k) as in Problem; outside: 0.
template <class T, class Run, class Element>
__device__ void load_step16(T* tile, int along_step, int k_step, bool along_k, const Run& run,
                            const Element& element) {
  constexpr int kRuns = kTile * kDepth16 / kRun;
  for (int at = threadIdx.x; at < kRuns; at += kThreads16) {
    const int along = along_k ? at / (kDepth16 / kRun) : at % (kTile / kRun) * kRun;
    const int k = along_k ? at % (kDepth16 / kRun) * kRun : at / (kTile / kRun);
    T* dst = tile + along * along_step + k * k_step;
    const int step = along_k ? k_step : along_step;
    __align__(16) T values[kRun];
    const T* src = run(along, k);
    if (src != nullptr) {
      *reinterpret_cast<uint4*>(values) = *reinterpret_cast<const uint4*>(src);
    } else {
#pragma unroll
      for (int i = 0; i < kRun; ++i)
        values[i] = along_k ? element(along, k + i) : element(along + i, k);
    }
    if (step == 1) {
      *reinterpret_cast<uint4*>(dst) = *reinterpret_cast<const uint4*>(values);
    } else {
#pragma unroll
      for (int i = 0; i < kRun; ++i) dst[i * step] = values[i];
    }
  }
}

/// Has a Problem out_run() and alpha()?
template <class Problem, class = void>
struct stores_runs : std::false_type {};
template <class Problem>
struct stores_runs<Problem, std::void_t<decltype(std::declval<const Problem&>().alpha())>>
    : std::true_type {};

template <class Problem, class T>
__global__ void __launch_bounds__(kThreads16) product_16(const __grid_constant__ Problem p) {
  namespace wmma = nvcuda::wmma;
  constexpr int kAStep = kDepth16 + 8, kBStep = kTile + 8, kSumStep = kTile + 4;
  __shared__ __align__(32) T a_tile[kTile * kAStep];     // (kTile, kDepth16)
  __shared__ __align__(32) T b_tile[kDepth16 * kBStep];  // (kDepth16, kTile)
  __shared__ __align__(32) float sum_tile[kTile * kSumStep];
  __shared__ typename Problem::Row rows[kTile];
  __shared__ typename Problem::Col cols[kTile];
  const int warp = threadIdx.x / 32, warp_row = warp / 2 * 32, warp_col = warp % 2 * 32;
  for_each_tile(p, [&](const typename Problem::Batch& batch, int64_t row0, int64_t col0) {
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sums[2][2];
    for (auto& row : sums)
      for (auto& sum : row) wmma::fill_fragment(sum, 0.0f);
    if (threadIdx.x < kTile) {
      if (row0 + threadIdx.x < p.rows) rows[threadIdx.x] = p.row(batch, row0 + threadIdx.x);
      if (col0 + threadIdx.x < p.cols) cols[threadIdx.x] = p.col(batch, col0 + threadIdx.x);
    }
    for (int k0 = 0; k0 < p.k; k0 += kDepth16) {
      __syncthreads();  // the previous step has been read
      load_step16(
          a_tile, kAStep, 1, p.a_along_k(),
          [&](int r, int k) { return p.template a_run<T>(batch, row0 + r, k0 + k); },
          [&](int r, int k) {
            const bool inside = row0 + r < p.rows && k0 + k < p.k;
            return inside ? p.template a16<T>(rows[r], k0 + k) : T(0.0f);
          });
      load_step16(
          b_tile, 1, kBStep, p.b_along_k(),
          [&](int c, int k) { return p.template b_run<T>(batch, col0 + c, k0 + k); },
          [&](int c, int k) {
            const bool inside = col0 + c < p.cols && k0 + k < p.k;
            return inside ? p.template b16<T>(cols[c], k0 + k) : T(0.0f);
          });
      __syncthreads();
#pragma unroll
      for (int k = 0; k < kDepth16; k += 16) {
        wmma::fragment<wmma::matrix_a, 16, 16, 16, T, wmma::row_major> left[2];
        wmma::fragment<wmma::matrix_b, 16, 16, 16, T, wmma::row_major> right[2];
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          wmma::load_matrix_sync(left[i], a_tile + (warp_row + i * 16) * kAStep + k, kAStep);
          wmma::load_matrix_sync(right[i], b_tile + k * kBStep + warp_col + i * 16, kBStep);
        }
#pragma unroll
        for (int i = 0; i < 2; ++i) {
#pragma unroll
          for (int j = 0; j < 2; ++j) wmma::mma_sync(sums[i][j], left[i], right[j], sums[i][j]);
        }
      }
    }
    __syncthreads();  // the previous tile's sums have been stored
#pragma unroll
    for (int i = 0; i < 2; ++i) {
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        wmma::store_matrix_sync(sum_tile + (warp_row + i * 16) * kSumStep + warp_col + j * 16,
                                sums[i][j], kSumStep, wmma::mem_row_major);
      }
    }
    __syncthreads();
    if constexpr (stores_runs<Problem>::value) {
      if (p.template out_run<T>(batch, row0, col0) != nullptr && row0 + kTile <= p.rows &&
          col0 + kTile <= p.cols) {
#pragma unroll 4
        for (int at = threadIdx.x; at < kTile * kTile / kRun; at += kThreads16) {
          const int r = at / (kTile / kRun), c = at % (kTile / kRun) * kRun;
          const float* sum = sum_tile + r * kSumStep + c;
          __align__(16) T values[kRun];
#pragma unroll
          for (int i = 0; i < kRun; ++i) values[i] = T(sum[i] * p.alpha());
          *reinterpret_cast<uint4*>(p.template out_run<T>(batch, row0 + r, col0 + c)) =
              *reinterpret_cast<const uint4*>(values);
        }
        return;
      }
    }
#pragma unroll 4
    for (int at = threadIdx.x; at < kTile * kTile; at += kThreads16) {
      const int64_t r = row0 + at / kTile, c = col0 + at % kTile;
      if (r < p.rows && c < p.cols)
        p.store(batch, r, c, sum_tile[at / kTile * kSumStep + at % kTile]);
    }
  });
}

}  // namespace vernier::backend::cuda
