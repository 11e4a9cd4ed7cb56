// Matrix product on packed panels, and what follows it in a linear layer. Contract of the bits:
// gemm-inl.h. Highway, all targets, dispatched here.
#pragma once
#include <cstddef>
#include <cstdint>

#include "backend/cpu/body.h"

namespace vernier::backend::cpu {

/// A packed [k, n] matrix is panels of 64 columns, each row-major [k][64], columns past n zero: the
/// same on every machine, and where k is a multiple of 16 it is what oneDNN calls BA16a64b.
inline constexpr int64_t kPanelCols = 64;
constexpr int64_t num_panels(int64_t n) { return (n + kPanelCols - 1) / kPanelCols; }
constexpr size_t packed_elems(int64_t k, int64_t n) {
  return static_cast<size_t>(num_panels(n) * kPanelCols * k);
}

/// A [k, n] matrix in memory, element (i, j) at data[i·row_step + j·col_step].
struct MatrixView {
  const float* data = nullptr;
  int64_t rows = 0, cols = 0;
  int64_t row_step = 0, col_step = 1;
};
/// Packs panels [first_panel, end_panel) of `b` to their place in `packed`.
void pack_panels(const MatrixView& b, float* packed, int64_t first_panel, int64_t end_panel);

/// c[m, n] = a[m, k] · b[k, n] for column panels [first_panel, end_panel) of b; c is all n columns.
struct GemmCall {
  const float* a = nullptr;  ///< row r at a + rows->offset(first_row + r), columns contiguous
  const Rows* rows = nullptr;
  int64_t first_row = 0;
  const float* packed = nullptr;
  float* c = nullptr;
  int64_t c_step = 0;
  int64_t m = 0, n = 0, k = 0;
  int64_t first_panel = 0, end_panel = 0;
  float* scratch = nullptr;  ///< gemm_scratch_elems(k) floats, this thread's own
};
size_t gemm_scratch_elems(int64_t k);
void gemm(const GemmCall& call);

/// dst = act(src + bias) + residual over a [rows, cols] block; dst may be src.
struct EpilogueCall {
  const float* src = nullptr;
  int64_t src_step = 0;
  float* dst = nullptr;
  int64_t dst_step = 0;
  const float* bias = nullptr;      ///< [cols] or null
  const float* residual = nullptr;  ///< rows residual_step apart, or null
  int64_t residual_step = 0;
  int64_t rows = 0, cols = 0;
  Activation activation = Activation::kNone;
};
void linear_epilogue(const EpilogueCall& call);

/// How `threads` workers share an [row_units, col_units] grid of work: rows × cols parts with
/// rows · cols <= threads, the smallest largest part first, then the fewest units read.
struct Grid {
  int rows = 1, cols = 1;
};
struct GridCall {
  int threads = 1;
  int64_t row_units = 0, col_units = 0;
  double row_unit_bytes = 0, col_unit_bytes = 0;  ///< read per unit by each part
};
Grid choose_grid(const GridCall& call);

/// [begin, end) of part `index` of `parts` equal shares of `count`.
struct Span {
  int64_t begin = 0, end = 0;
};
inline Span share(int64_t count, int index, int parts) {
  return {count * index / parts, count * (index + 1) / parts};
}

}  // namespace vernier::backend::cpu
