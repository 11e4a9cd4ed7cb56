// Packed matrix product and the linear epilogue: see gemm.h.
#include "backend/cpu/kernels/linear/gemm.h"

#include <algorithm>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/kernels/linear/gemm.cpp"
#include <hwy/foreach_target.h>

#include "backend/cpu/kernels/linear/gemm-inl.h"
#include "backend/cpu/simd/convert-inl.h"
#include "backend/cpu/simd/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace vernier::backend::cpu {
namespace HWY_NAMESPACE {

// Rows of a copied at a time: they stay in the second-level cache for their panel products.
constexpr int64_t kBlockRows = 8 * kTileRows;
// Rows that are a power of two apart share a few cache sets; copies are spread by one line.
constexpr int64_t kSpread = 16;

int64_t BlockRows() { return kBlockRows; }

// A lane of the packed panel holds two rows of one column: the even one in its lower half.
void WidenPanel(FloatsIn src, int64_t k, float* dst) {
  if (src.dtype != DType::kBF16) return widen_elems(src.dtype, src.data, dst, k * kPanelCols);
  const F32 d;
  const U32 du;
  const auto width = static_cast<int64_t>(hn::Lanes(d));
  const auto* pairs = reinterpret_cast<const uint32_t*>(src.data);
  for (int64_t i = 0; i < k; i += 2, pairs += kPanelCols) {
    float* even = dst + i * kPanelCols;
    for (int64_t c = 0; c < kPanelCols; c += width) {
      const VU32 pair = hn::LoadU(du, pairs + c);
      hn::StoreU(hn::BitCast(d, hn::ShiftLeft<16>(pair)), d, even + c);
      hn::StoreU(hn::BitCast(d, hn::And(pair, hn::Set(du, 0xffff0000u))), d, even + kPanelCols + c);
    }
  }
}

void NarrowPanel(const float* src, int64_t k, FloatsOut dst) {
  const F32 d;
  const U32 du;
  const auto width = static_cast<int64_t>(hn::Lanes(d));
  if (dst.dtype != DType::kBF16) {
    for (int64_t i = 0; i < k * kPanelCols; i += width)
      store_floats(d, dst.dtype, hn::LoadU(d, src + i), dst.data, i, width);
    return;
  }
  auto* pairs = reinterpret_cast<uint32_t*>(dst.data);
  for (int64_t i = 0; i < panel_rows(dst.dtype, k); i += 2, pairs += kPanelCols) {
    for (int64_t c = 0; c < kPanelCols; c += width) {
      const auto row = [&](int64_t r) {
        return r < k ? round_to_bf16(hn::LoadU(d, src + r * kPanelCols + c)) : hn::Zero(du);
      };
      hn::StoreU(hn::Or(hn::ShiftRight<16>(row(i)), row(i + 1)), du, pairs + c);
    }
  }
}

/// Reads each panel of b once per kBlockRows rows of a. a is copied to scratch (rows spread over
/// the cache sets) so that the speed does not depend on its row step; 16-bit panels are widened
/// after it, which is 1/kBlockRows of the work.
void Gemm(const GemmCall& call) {
  const F32 d;
  const auto width = static_cast<int64_t>(hn::Lanes(d));
  const int64_t copy_step = call.k + kSpread;
  float* widened = call.scratch + kBlockRows * copy_step;
  for (int64_t row = 0; row < call.m; row += kBlockRows) {
    const int64_t rows = std::min(kBlockRows, call.m - row);
    for (int64_t r = 0; r < rows; ++r) {
      const FloatsIn from = call.a.at(call.rows->offset(call.first_row + row + r));
      widen_elems(from.dtype, from.data, call.scratch + r * copy_step, call.k);
    }
    const int64_t end_col = std::min(call.n, call.end_panel * kPanelCols);
    for (int64_t col = call.first_panel * kPanelCols; col < end_col; col += 2 * width) {
      const int64_t cols = std::min(2 * width, end_col - col);
      const FloatsIn packed =
          call.packed.at(col / kPanelCols * panel_elems(call.packed.dtype, call.k));
      const auto* panel = reinterpret_cast<const float*>(packed.data);
      if (packed.dtype != DType::kF32) {
        if (col % kPanelCols == 0) WidenPanel(packed, call.k, widened);
        panel = widened;
      }
      const PanelProduct product{.a = call.scratch,
                                 .a_row_step = copy_step,
                                 .a_k_step = 1,
                                 .b = panel + col % kPanelCols,
                                 .b_step = kPanelCols,
                                 .c = call.c + row * call.c_step + col,
                                 .c_step = call.c_step,
                                 .k = call.k};
      if (cols > width)
        multiply_panel<2, Start::kZero>(product, rows, cols - width);
      else
        multiply_panel<1, Start::kZero>(product, rows, cols);
    }
  }
}

template <DType kType, class Act>
void EpilogueRows(const EpilogueCall& call, const Act& act) {
  const F32 d;
  for (int64_t r = 0; r < call.rows; ++r) {
    const float* src = call.src + r * call.src_step;
    std::byte* dst = call.dst.at(r * call.dst_step).data;
    const FloatsIn bias = call.bias, residual = call.residual.at(r * call.residual_step);
    for_each_vector(d, call.cols, [&](int64_t c, int64_t lanes) {
      VF32 v = load_lanes(d, src + c, lanes);
      if (bias.present()) v = hn::Add(v, load_floats(d, bias.dtype, bias.data, c, lanes));
      v = act(d, v);
      if (residual.present())
        v = hn::Add(v, load_floats(d, residual.dtype, residual.data, c, lanes));
      store_floats(d, kType, v, dst, c, lanes);
    });
  }
}

template <DType kType>
void EpilogueInto(const EpilogueCall& call) {
  switch (call.activation) {
    case Activation::kNone:
      return EpilogueRows<kType>(call, [](F32, VF32 v) { return v; });
    case Activation::kGeluErf:
      // Results in 16 bits have no use for the small relative error of f32's in the tails.
      if constexpr (kType == DType::kF32)
        return EpilogueRows<kType>(call, [](F32 d, VF32 v) { return gelu_erf_f32(d, v); });
      else
        return EpilogueRows<kType>(call, [](F32 d, VF32 v) { return gelu_erf_table_f32(d, v); });
    case Activation::kGeluTanh:
      return EpilogueRows<kType>(call, [](F32 d, VF32 v) { return gelu_tanh_f32(d, v); });
    case Activation::kRelu:
      return EpilogueRows<kType>(call, [](F32 d, VF32 v) { return relu_f32(d, v); });
    case Activation::kTanh:
      return EpilogueRows<kType>(call, [](F32 d, VF32 v) { return tanh_f32(d, v); });
  }
}

void Epilogue(const EpilogueCall& call) {
  if (call.dst.dtype == DType::kF32) return EpilogueInto<DType::kF32>(call);
  if (call.dst.dtype == DType::kF16) return EpilogueInto<DType::kF16>(call);
  return EpilogueInto<DType::kBF16>(call);
}

}  // namespace HWY_NAMESPACE
}  // namespace vernier::backend::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vernier::backend::cpu {
HWY_EXPORT(BlockRows);
HWY_EXPORT(Gemm);
HWY_EXPORT(Epilogue);
HWY_EXPORT(NarrowPanel);
HWY_EXPORT(WidenPanel);

void pack_panels(const MatrixView& b, float* packed, int64_t first_panel, int64_t end_panel) {
  const int64_t panel = kPanelCols;
  for (int64_t q = first_panel; q < end_panel; ++q) {
    const int64_t cols = std::min(panel, b.cols - q * panel);
    float* dst = packed + q * panel * b.rows;
    const float* src = b.data + q * panel * b.col_step;
    if (b.col_step == 1) {
      for (int64_t i = 0; i < b.rows; ++i) {
        std::memcpy(dst + i * panel, src + i * b.row_step,
                    static_cast<size_t>(cols) * sizeof(float));
      }
    } else {
      // Columns of b are rows in memory: eight at a time share the written cache lines.
      for (int64_t j0 = 0; j0 < cols; j0 += 8) {
        const int64_t j_end = std::min(cols, j0 + 8);
        for (int64_t i = 0; i < b.rows; ++i) {
          for (int64_t j = j0; j < j_end; ++j)
            dst[i * panel + j] = src[i * b.row_step + j * b.col_step];
        }
      }
    }
    for (int64_t i = 0; i < b.rows && cols < panel; ++i)
      std::fill(dst + i * panel + cols, dst + (i + 1) * panel, 0.0f);
  }
}

void narrow_panel(const float* src, int64_t k, FloatsOut dst) {
  HWY_DYNAMIC_DISPATCH(NarrowPanel)(src, k, dst);
}
void widen_panel(FloatsIn src, int64_t k, float* dst) {
  HWY_DYNAMIC_DISPATCH(WidenPanel)(src, k, dst);
}

size_t gemm_scratch_elems(int64_t k, DType packed) {
  const auto rows = static_cast<size_t>(HWY_DYNAMIC_DISPATCH(BlockRows)());
  const size_t panel = packed == DType::kF32 ? 0 : static_cast<size_t>((k + 1) * kPanelCols);
  return rows * static_cast<size_t>(k + 16) + panel;
}
void gemm(const GemmCall& call) { HWY_DYNAMIC_DISPATCH(Gemm)(call); }
void linear_epilogue(const EpilogueCall& call) { HWY_DYNAMIC_DISPATCH(Epilogue)(call); }

int threads_worth(int threads, int64_t m, int64_t n, int64_t k) {
  // A core does at least 50 products and reads 20 bytes of a weight per nanosecond; another thread
  // starts after 0.5 to 1 µs.
  constexpr double kProductsPerNs = 50, kBytesPerNs = 20, kLeastNs = 2000;
  const double weight = static_cast<double>(n) * static_cast<double>(k);
  const double ns = std::max(static_cast<double>(m) * weight / kProductsPerNs,
                             weight * sizeof(float) / kBytesPerNs);
  return ns < kLeastNs ? 1 : threads;
}

Grid choose_grid(const GridCall& call) {
  const auto parts = [](int64_t units, int count) { return (units + count - 1) / count; };
  Grid best;
  double best_work = 0, best_bytes = 0;
  const auto most = [&](int64_t units) {
    return static_cast<int>(std::clamp<int64_t>(units, 1, call.threads));
  };
  for (int rows = 1; rows <= most(call.row_units); ++rows) {
    const int cols = std::min(call.threads / rows, most(call.col_units));
    const auto part_rows = static_cast<double>(parts(call.row_units, rows));
    const auto part_cols = static_cast<double>(parts(call.col_units, cols));
    const double work = part_rows * part_cols;
    const double bytes = part_rows * call.row_unit_bytes + part_cols * call.col_unit_bytes;
    if (rows == 1 || work < best_work || (work == best_work && bytes < best_bytes)) {
      best = {rows, cols};
      best_work = work;
      best_bytes = bytes;
    }
  }
  return best;
}

}  // namespace vernier::backend::cpu
#endif
