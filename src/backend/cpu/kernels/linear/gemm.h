// Matrix product on packed panels, and the epilogue of a linear layer. Contract of the bits:
// gemm-inl.h. Highway, all targets, dispatched here.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "backend/cpu/body.h"

namespace vernier::backend::cpu {

/// Address and storage type of contiguous floats: f32, bf16 or f16. Null: absent.
template <class Byte>
struct Floats {
  using F32 = std::conditional_t<std::is_const_v<Byte>, const float, float>;
  Byte* data = nullptr;
  DType dtype = DType::kF32;

  Floats() = default;
  Floats(Byte* first, DType type) : data(first), dtype(type) {}
  /// f32, the common case.
  // NOLINTNEXTLINE(google-explicit-constructor)
  Floats(F32* first) : data(reinterpret_cast<Byte*>(first)) {}
  explicit Floats(const TensorArg& t) : data(t.data), dtype(t.dtype) {}

  bool present() const { return data != nullptr; }
  size_t elem_bytes() const { return dtype == DType::kF32 ? 4 : 2; }
  /// `elems` elements further; absent stays absent.
  Floats at(int64_t elems) const {
    if (data == nullptr) return *this;
    return {data + elems * static_cast<int64_t>(elem_bytes()), dtype};
  }
};
using FloatsIn = Floats<const std::byte>;
using FloatsOut = Floats<std::byte>;

/// A packed [k, n] matrix is panels of 64 columns, columns past n zero: the same on every machine.
///   f32, f16   [n/64][k][64]; f32 with k a multiple of 16 is what oneDNN calls BA16a64b
///   bf16       [n/64][k/2][64][2], k padded with zeros to a multiple of 32: oneDNN's BA16a64b2a
inline constexpr int64_t kPanelCols = 64;
constexpr int64_t num_panels(int64_t n) { return (n + kPanelCols - 1) / kPanelCols; }
/// Rows of a packed panel: k, and the padding of bf16.
constexpr int64_t panel_rows(DType type, int64_t k) {
  return type == DType::kBF16 ? (k + 31) / 32 * 32 : k;
}
constexpr int64_t panel_elems(DType type, int64_t k) { return panel_rows(type, k) * kPanelCols; }
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

/// One f32 panel [k][64] rounded to a bf16 or f16 one, and back.
void narrow_panel(const float* src, int64_t k, FloatsOut dst);
/// dst has room for k rounded up to even rows.
void widen_panel(FloatsIn src, int64_t k, float* dst);

/// c[m, n] = a[m, k] · b[k, n] for column panels [first_panel, end_panel) of b; c is all n columns.
/// 16-bit operands are widened exactly: the bits are those of the same product in f32.
struct GemmCall {
  FloatsIn a;  ///< row r at element rows->offset(first_row + r), columns contiguous
  const Rows* rows = nullptr;
  int64_t first_row = 0;
  FloatsIn packed;
  float* c = nullptr;
  int64_t c_step = 0;
  int64_t m = 0, n = 0, k = 0;
  int64_t first_panel = 0, end_panel = 0;
  float* scratch = nullptr;  ///< gemm_scratch_elems(k, packed type) floats, this thread's own
};
size_t gemm_scratch_elems(int64_t k, DType packed = DType::kF32);
void gemm(const GemmCall& call);

/// dst = act(src + bias) + residual over a [rows, cols] block, in f32, rounded once to dst's type.
/// dst may be src where both are f32, and may be residual.
struct EpilogueCall {
  const float* src = nullptr;
  int64_t src_step = 0;
  FloatsOut dst;
  int64_t dst_step = 0;
  FloatsIn bias;      ///< [cols], or absent
  FloatsIn residual;  ///< rows residual_step apart, or absent
  int64_t residual_step = 0;
  int64_t rows = 0, cols = 0;
  Activation activation = Activation::kNone;
};
void linear_epilogue(const EpilogueCall& call);

/// How `threads` threads share an [row_units, col_units] grid of work: rows × cols parts with
/// rows · cols <= threads, none of them empty, the smallest largest part first, then the fewest
/// units read.
struct Grid {
  int rows = 1, cols = 1;
};
struct GridCall {
  int threads = 1;
  int64_t row_units = 0, col_units = 0;
  double row_unit_bytes = 0, col_unit_bytes = 0;  ///< read per unit by each part
};
Grid choose_grid(const GridCall& call);
/// `threads`, or 1 if x [m, k] · w [k, n] ends before another thread would have started.
int threads_worth(int threads, int64_t m, int64_t n, int64_t k);

/// [begin, end) of part `index` of `parts` equal shares of `count`.
struct Span {
  int64_t begin = 0, end = 0;
};
inline Span share(int64_t count, int index, int parts) {
  return {count * index / parts, count * (index + 1) / parts};
}

/// A result of so many rows and panels of columns. Cells of a grid begin at multiples of row_unit.
struct ResultBlocks {
  int64_t rows, row_unit, panels;
  int64_t most_rows;  ///< of a block
};
/// Calls body(rows, panels, part) for blocks of the result, the cells of `grid` on all threads.
template <class Body>
void for_each_block(ThreadTeam& threads, const Grid& grid, const ResultBlocks& result,
                    const Body& body) {
  const int64_t units = (result.rows + result.row_unit - 1) / result.row_unit;
  threads.parallel_for(grid.rows * grid.cols, 1, [&](int64_t begin, int64_t end, int part) {
    for (int64_t cell = begin; cell < end; ++cell) {
      const Span own = share(units, static_cast<int>(cell) / grid.cols, grid.rows);
      const Span panels = share(result.panels, static_cast<int>(cell) % grid.cols, grid.cols);
      const int64_t last = std::min(result.rows, own.end * result.row_unit);
      for (int64_t row = own.begin * result.row_unit; row < last; row += result.most_rows)
        body(Span{row, std::min(last, row + result.most_rows)}, panels, part);
    }
  });
}

}  // namespace vernier::backend::cpu
