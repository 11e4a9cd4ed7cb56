// The blocked FP64 product: see blocked_product.h. A tile of 4 or 8 rows and up to 3 vectors of
// columns stays in registers over a block of k; the block of b is copied to where its rows lie side
// by side, and, where b has many columns, the block of a to where a tile's numbers do.
// Method: Goto and van de Geijn, Anatomy of High-Performance Matrix Multiplication, ACM TOMS 34(3),
// 2008.
#include "reference/blocked_product.h"

#include <algorithm>
#include <vector>

#include "core/threads.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "reference/blocked_product.cpp"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace vernier::reference {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using F64 = hn::CappedTag<double, 8>;
constexpr int64_t kDepth = 256;                                // products of a block
constexpr int64_t kTileRows = HWY_TARGET <= HWY_AVX3 ? 8 : 4;  // of c in 32 or 16 registers
constexpr int kTileVectors = 3;                                // beside each other
constexpr int64_t kFewRows = 64;  // so few rows do not pay for a copy of b
// Of a, whose block of k (384 KiB) stays in the second cache for all columns: 8192 rows in one
// block take twice as long.
constexpr int64_t kBlockRows = 192;
constexpr int64_t kManyCols = 96;  // that pay for a copy of a

// Rows of a block of b, `stride` apart.
struct Strip {
  const double* rows;
  int64_t stride, depth;
};
// Up to kTileRows rows of a and c, at the block's first k and the strip's first column. A copy of a
// has the tile's numbers of one k side by side.
struct TileRows {
  const double* a;
  double* c;
  int64_t a_stride, c_stride, cols;
};

template <int kRows, int kVectors, bool kCopied>
HWY_INLINE void add_tile(const Strip& b, const TileRows& tile) {
  const F64 d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  hn::Vec<F64> sums[kRows][kVectors];
  for (auto& row : sums) {
    for (auto& sum : row) sum = hn::Zero(d);
  }
  for (int r = 0; r < kRows; ++r) hwy::Prefetch(tile.c + r * tile.c_stride);
  for (int64_t k = 0; k < b.depth; ++k) {
    const double* row = b.rows + k * b.stride;
    hn::Vec<F64> columns[kVectors];
    for (int v = 0; v < kVectors; ++v) columns[v] = hn::LoadU(d, row + v * lanes);
    for (int r = 0; r < kRows; ++r) {
      const hn::Vec<F64> factor =
          hn::Set(d, tile.a[kCopied ? k * kRows + r : r * tile.a_stride + k]);
      for (int v = 0; v < kVectors; ++v) sums[r][v] = hn::MulAdd(factor, columns[v], sums[r][v]);
    }
  }
  for (int r = 0; r < kRows; ++r) {
    double* c = tile.c + r * tile.c_stride;
    if (tile.cols == kVectors * lanes) {
      for (int v = 0; v < kVectors; ++v)
        hn::StoreU(hn::Add(hn::LoadU(d, c + v * lanes), sums[r][v]), d, c + v * lanes);
      continue;
    }
    HWY_ALIGN double parts[kVectors * hn::MaxLanes(F64())];
    for (int v = 0; v < kVectors; ++v) hn::Store(sums[r][v], d, parts + v * lanes);
    for (int64_t j = 0; j < tile.cols; ++j) c[j] += parts[j];
  }
}

// All rows of c at a strip of kVectors vectors.
template <int kVectors, bool kCopied>
HWY_INLINE void add_rows(const Strip& strip, TileRows tile, int64_t rows) {
  const auto add = [&]<int kRows>() HWY_ATTR {
    for (; rows >= kRows; rows -= kRows) {
      add_tile<kRows, kVectors, kCopied>(strip, tile);
      tile.a += kRows * (kCopied ? strip.depth : tile.a_stride);
      tile.c += kRows * tile.c_stride;
    }
  };
  add.template operator()<kTileRows>();
  add.template operator()<4>();
  add.template operator()<1>();
}

// A row of a strip, and zeros behind it.
HWY_INLINE void copy_row(const double* from, int64_t cols, double* to) {
  const F64 d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  if (cols == kTileVectors * lanes) {
    for (int v = 0; v < kTileVectors; ++v)
      hn::StoreU(hn::LoadU(d, from + v * lanes), d, to + v * lanes);
    return;
  }
  double* rest = std::copy_n(from, cols, to);
  std::fill_n(rest, kTileVectors * lanes - cols, 0.0);
}

// The block of a in the order in which add_rows() goes through it.
HWY_INLINE void copy_rows(const double* a, int64_t stride, int64_t rows, int64_t depth,
                          double* to) {
  const auto copy = [&]<int kRows>() HWY_ATTR {
    for (; rows >= kRows; rows -= kRows, a += kRows * stride) {
      for (int64_t k = 0; k < depth; ++k)
        for (int r = 0; r < kRows; ++r) *to++ = a[r * stride + k];
    }
  };
  copy.template operator()<kTileRows>();
  copy.template operator()<4>();
  copy.template operator()<1>();
}

// Columns [begin, end) of up to kBlockRows rows of c, over one block of k.
template <bool kCopied>
HWY_INLINE void multiply_block(MatMulSizes sizes, int64_t depth, const double* a, const double* b,
                               double* c, int64_t begin, int64_t end) {
  constexpr int64_t kMostWidth = kTileVectors * static_cast<int64_t>(hn::MaxLanes(F64()));
  const auto lanes = static_cast<int64_t>(hn::Lanes(F64()));
  const int64_t width = kTileVectors * lanes;
  HWY_ALIGN double copy[kDepth * kMostWidth];
  for (int64_t j = begin; j < end; j += width) {
    const int64_t cols = std::min(width, end - j);
    Strip strip{b + j, sizes.n, depth};
    if (sizes.m > kFewRows || cols < width) {
      for (int64_t l = 0; l < depth; ++l)
        copy_row(strip.rows + l * sizes.n, cols, copy + l * width);
      strip.rows = copy;
      strip.stride = width;
    }
    const TileRows tile{a, c + j, sizes.k, sizes.n, cols};
    if (cols > 2 * lanes)
      add_rows<3, kCopied>(strip, tile, sizes.m);
    else if (cols > lanes)
      add_rows<2, kCopied>(strip, tile, sizes.m);
    else
      add_rows<1, kCopied>(strip, tile, sizes.m);
  }
}

// Columns [begin, end) of c.
void MultiplyColumns(MatMulSizes sizes, const double* a, const double* b, double* c, int64_t begin,
                     int64_t end) {
  const bool copies = sizes.m > kFewRows && end - begin >= kManyCols;
  static thread_local std::vector<double> copy;
  if (copies) copy.resize(static_cast<size_t>(kBlockRows * kDepth));
  for (int64_t i = 0; i < sizes.m; i += kBlockRows) {
    const MatMulSizes block{std::min(kBlockRows, sizes.m - i), sizes.n, sizes.k};
    for (int64_t k = 0; k < sizes.k; k += kDepth) {
      const int64_t depth = std::min(kDepth, sizes.k - k);
      const double *rows = a + i * sizes.k + k, *strip = b + k * sizes.n;
      if (copies) {
        copy_rows(rows, sizes.k, block.m, depth, copy.data());
        multiply_block<true>(block, depth, copy.data(), strip, c + i * sizes.n, begin, end);
      } else {
        multiply_block<false>(block, depth, rows, strip, c + i * sizes.n, begin, end);
      }
    }
  }
}
}  // namespace HWY_NAMESPACE
}  // namespace vernier::reference
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vernier::reference {
HWY_EXPORT(MultiplyColumns);

void multiply_in_blocks(MatMulSizes sizes, const double* a, const double* b, double* c) {
  constexpr int64_t kGrain = 24;                        // columns: a multiple of every tile's
  constexpr int64_t kLeastProducts = int64_t{1} << 20;  // of a thread
  const int64_t m = std::max<int64_t>(sizes.m, 1), n = std::max<int64_t>(sizes.n, 1);
  const int64_t k = std::max<int64_t>(sizes.k, 1);
  if (sizes.m > sizes.n) {
    return in_parallel(sizes.m, std::max<int64_t>(kLeastProducts / (n * k), 1),
                       [=](int64_t begin, int64_t end) {
                         HWY_DYNAMIC_DISPATCH(MultiplyColumns)
                         ({end - begin, sizes.n, sizes.k}, a + begin * sizes.k, b,
                          c + begin * sizes.n, 0, sizes.n);
                       });
  }
  const int64_t strips = (sizes.n + kGrain - 1) / kGrain;
  in_parallel(strips, std::max<int64_t>(kLeastProducts / (m * k * kGrain), 1),
              [=](int64_t begin, int64_t end) {
                HWY_DYNAMIC_DISPATCH(MultiplyColumns)
                (sizes, a, b, c, begin * kGrain, std::min(end * kGrain, sizes.n));
              });
}

}  // namespace vernier::reference
#endif
