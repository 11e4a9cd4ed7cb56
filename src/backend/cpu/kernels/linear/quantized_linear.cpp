// cpu.quantized_linear.panels: y = act((x − x_zero)·(w − w_zero)·x_scale·w_scale + bias) + residual
// on 8-bit operands.
//
// x        [..., K], q8, i8 or u8; any outer strides. w: constant [K, N] or [N, K], q8, i8 or u8.
// others   scales f32; bias, residual and y each f32, f16 or bf16
// Joins    a QuantizeRows of y, of 16 bits, by a given scale: bytes are stored in place of y
// Error    sums are exact integers; then f32: a few 2^-24 of each addend, the activation's, and
// half
//          an ulp of y
// Cost     2·M·N·K operations in multiplications of 8 bits (AMX: 16,384 per instruction of 16
//          cycles; AVX-512 VNNI: 64; without both 16-bit ones, at a quarter of that), and M·N
//          elements of f32 work
// Memory   per part 96 rows of x (on tiles up to 256 and 512 KiB) and a tile
//
// Bytes of x are multiplied as unsigned numbers u = x + 128 (u8: x itself), because the product of
// VNNI and of AMX is one of unsigned and signed numbers:
//   Σ (x − z)(w − v) = Σ u·w − o·Σ w − v·(Σ u − K·o),   o = z + 128 (u8: z)
// Σ w is packed with the weight; Σ u is summed only where the weight has zero points.
// The zero points of q8 rows are real numbers; they are taken off in f32.
// Sums are exact, so the bits of a row depend on neither tile, thread nor instruction set but for
// those of the activation, which are the same everywhere.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <span>

#include "backend/cpu/kernels/elementwise/quantize_rows.h"
#include "backend/cpu/kernels/linear/linear.h"
#include "backend/cpu/simd/tiles.h"
#include "backend/supports.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/kernels/linear/quantized_linear.cpp"
#include <hwy/foreach_target.h>

#include "backend/cpu/kernels/elementwise/quantize_rows-inl.h"
#include "backend/cpu/simd/convert-inl.h"
#include "backend/cpu/simd/math-inl.h"

#ifndef VERNIER_CPU_QUANTIZED_TILES_H_
#define VERNIER_CPU_QUANTIZED_TILES_H_
namespace vernier::backend::cpu {

constexpr int64_t kGroup = 4;         // bytes of k that one instruction multiplies
constexpr int64_t kBlockOfRows = 96;  // rows of x that are copied at a time, but for tiles
constexpr int64_t kMostTileRows = 6;
// Rows of sums at a time on tile registers, and how few are left to vectors.
constexpr int64_t kRowsOnTiles = 32, kTooFewForTiles = 3;

/// What multiplies bytes: 16-bit products, AVX-512 VNNI, or VNNI and AMX.
enum class ByteProducts { kPlain, kVnni, kTiles };

/// Rows of x as unsigned bytes against the panels of a weight, and what becomes of the sums.
struct QuantizedTiles {
  /// Row r at u + r·step; step is a multiple of kGroup. On tiles: whole tiles of rows.
  const uint8_t* u;
  int64_t step, rows;
  const int8_t* panels;  ///< [K/4][64][4] each
  int64_t groups;        ///< K/4, rounded up
  int64_t first_panel, end_panel, cols;
  ByteProducts products;
  bool is_signed;  ///< u are signed bytes: on tiles, in whole tiles and steps
  // The epilogue.
  const int32_t *row_sums, *col_sums;  ///< Σ u − K·o by row (null: no zero points); Σ w by column
  int32_t offset;                      ///< o
  const float* x_scales;               ///< by row, or one
  bool scale_per_row;
  const float* x_zeros;  ///< of q8, beside o: by row, or one; null: 0
  bool zero_per_row;
  const float* w_scales;   ///< by column
  const int32_t* w_zeros;  ///< by column, null where row_sums is
  EpilogueCall out;        ///< but for src; row 0 is row 0 of u, column 0 that of first_panel
  /// Of the step behind, which quantizes the result as it would be stored, from row 0 and column 0
  /// of `out` on. The result is not stored then. Null q: there is no such step.
  GivenRows next;
};

}  // namespace vernier::backend::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace vernier::backend::cpu {
namespace HWY_NAMESPACE {

using I32 = hn::Rebind<int32_t, F32>;
using VI32 = hn::Vec<I32>;

// The tile of sums in registers.
#if HWY_TARGET <= HWY_AVX3
constexpr int kTileVectors = 4;
constexpr int kTileRows = 6;
#else
constexpr int kTileVectors = 2;
constexpr int kTileRows = 4;
#endif
static_assert(kTileRows <= kMostTileRows);

// sums + Σ of the four products of unsigned bytes of u and signed bytes of w, in each lane.
template <bool kVnni>
HWY_INLINE VI32 add_products(VI32 sums, VI32 u, VI32 w) {
#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86
  if constexpr (kVnni) {
    // AVX3 as Highway compiles it has no VNNI; the instruction is there (has_vnni).
    asm("vpdpbusd %2, %1, %0" : "+v"(sums.raw) : "v"(u.raw), "v"(w.raw));
    return sums;
  }
#endif
#if HWY_TARGET <= HWY_AVX2 && HWY_ARCH_X86
  const hn::Repartition<int16_t, I32> d16;
  const I32 d;
  const auto low = hn::Set(d, 0x00ff00ff);
  const auto even_u = hn::BitCast(d16, hn::And(u, low));
  const auto odd_u = hn::BitCast(d16, hn::And(hn::ShiftRight<8>(u), low));
  const auto w16 = hn::BitCast(d16, w);
  const auto even_w = hn::ShiftRight<8>(hn::ShiftLeft<8>(w16));
  const auto odd_w = hn::ShiftRight<8>(w16);
#if HWY_TARGET <= HWY_AVX3
  const VI32 even{_mm512_madd_epi16(even_u.raw, even_w.raw)},
      odd{_mm512_madd_epi16(odd_u.raw, odd_w.raw)};
#else
  const VI32 even{_mm256_madd_epi16(even_u.raw, even_w.raw)},
      odd{_mm256_madd_epi16(odd_u.raw, odd_w.raw)};
#endif
  return hn::Add(sums, hn::Add(even, odd));
#else
  const I32 d;
  const auto byte = hn::Set(d, 0xff);
  sums = hn::Add(sums, hn::Mul(hn::And(u, byte), hn::ShiftRight<24>(hn::ShiftLeft<24>(w))));
  sums = hn::Add(
      sums, hn::Mul(hn::And(hn::ShiftRight<8>(u), byte), hn::ShiftRight<24>(hn::ShiftLeft<16>(w))));
  sums = hn::Add(
      sums, hn::Mul(hn::And(hn::ShiftRight<16>(u), byte), hn::ShiftRight<24>(hn::ShiftLeft<8>(w))));
  return hn::Add(sums, hn::Mul(hn::And(hn::ShiftRight<24>(u), byte), hn::ShiftRight<24>(w)));
#endif
}

// kRows rows against kTileVectors vectors of columns of a panel, in the groups of k from `first`
// on; sums to [kRows][64], to which those of later groups are added.
template <int kRows, bool kVnni>
HWY_INLINE void sum_tile(const QuantizedTiles& t, const uint8_t* u, const int8_t* w, int64_t first,
                         int32_t* sums) {
  const I32 d;
  const auto width = static_cast<int64_t>(hn::Lanes(d));
  VI32 acc[kRows][kTileVectors];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kTileVectors; ++v)
      acc[r][v] = first == 0 ? hn::Zero(d) : hn::LoadU(d, sums + r * kPanelCols + v * width);
  }
  const int64_t step = t.step;
  u += first * kGroup;
  w += first * kPanelCols * kGroup;
  for (int64_t g = first; g < t.groups; ++g) {
    VI32 wv[kTileVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kTileVectors; ++v)
      wv[v] = hn::LoadU(d, reinterpret_cast<const int32_t*>(w) + v * width);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      int32_t bytes;
      std::memcpy(&bytes, u + r * step, sizeof(bytes));
      const VI32 uv = hn::Set(d, bytes);
#pragma GCC unroll 4
      for (int v = 0; v < kTileVectors; ++v) acc[r][v] = add_products<kVnni>(acc[r][v], uv, wv[v]);
    }
    u += kGroup;
    w += kPanelCols * kGroup;
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kTileVectors; ++v)
      hn::StoreU(acc[r][v], d, sums + r * kPanelCols + v * width);
  }
}

template <int kRows, bool kVnni>
HWY_INLINE void sum_panel(const QuantizedTiles& t, const uint8_t* u, const int8_t* w, int64_t first,
                          int32_t* sums) {
  const I32 d;
  const auto cols = static_cast<int64_t>(hn::Lanes(d)) * kTileVectors;
  for (int64_t c = 0; c < kPanelCols; c += cols)
    sum_tile<kRows, kVnni>(t, u, w + c * kGroup, first, sums + c);
}

template <int kRows, bool kVnni>
void sum_rows(int64_t rows, const QuantizedTiles& t, const uint8_t* u, const int8_t* w,
              int64_t first, int32_t* sums) {
  if (rows == kRows) return sum_panel<kRows, kVnni>(t, u, w, first, sums);
  if constexpr (kRows > 1) sum_rows<kRows - 1, kVnni>(rows, t, u, w, first, sums);
}

// Rows in tile registers; the groups of k behind the last whole step in vectors. Sums are exact:
// both are the same.
void sum_rows_on_tiles(int64_t rows, const QuantizedTiles& t, const uint8_t* u, const int8_t* w,
                       std::span<const std::byte> fetch, int32_t* sums) {
  const int64_t steps = t.groups * kGroup / kTileStepBytes;
  if (steps > 0) {
    multiply_panel_on_tiles(
        {.operands = t.is_signed ? TileOperands::kSignedBytes : TileOperands::kUnsignedBytes,
         .a = reinterpret_cast<const std::byte*>(u),
         .a_step = t.step,
         .rows = rows,
         .panel = reinterpret_cast<const std::byte*>(w),
         .sums = reinterpret_cast<std::byte*>(sums),
         .steps = steps,
         .fetch = fetch});
  }
  const int64_t first = steps * kTileStepBytes / kGroup;
  if (first == t.groups) return;
  for (int64_t row = 0; row < rows; row += kTileRows) {
    sum_rows<kTileRows, true>(std::min<int64_t>(kTileRows, rows - row), t, u + row * t.step, w,
                              first, sums + row * kPanelCols);
  }
}

template <Activation kActivation>
HWY_INLINE VF32 activated(F32 d, VF32 v) {
  if constexpr (kActivation == Activation::kGeluErf) return gelu_erf_table_f32(d, v);
  if constexpr (kActivation == Activation::kGeluTanh) return gelu_tanh_f32(d, v);
  if constexpr (kActivation == Activation::kRelu) return relu_f32(d, v);
  if constexpr (kActivation == Activation::kTanh) return tanh_f32(d, v);
  return v;
}

// What all rows share, by column of a panel. Behind the last column: no bias, factors 1.
struct PanelColumns {
  HWY_ALIGN int32_t offsets[kPanelCols];  // o·Σ w
  HWY_ALIGN float sums[kPanelCols];       // Σ w
  HWY_ALIGN float bias[kPanelCols];
  HWY_ALIGN float factors[kPanelCols];  // of `next`
};
void read_columns(const QuantizedTiles& t, int64_t panel, PanelColumns& to) {
  const F32 d;
  const I32 di;
  const int64_t col0 = panel * kPanelCols, cols = std::min(kPanelCols, t.cols - col0);
  const FloatsIn bias = t.out.bias.at((panel - t.first_panel) * kPanelCols);
  const float* factors = t.next.factors;
  if (factors != nullptr) factors += (panel - t.first_panel) * kPanelCols;
  for (int64_t c = 0; c < kPanelCols; c += static_cast<int64_t>(hn::Lanes(d))) {
    const VI32 sums = hn::LoadU(di, t.col_sums + col0 + c);
    hn::Store(hn::Mul(hn::Set(di, t.offset), sums), di, to.offsets + c);
    hn::Store(hn::ConvertTo(d, sums), d, to.sums + c);
    hn::Store(hn::Zero(d), d, to.bias + c);
    hn::Store(hn::Set(d, 1.0F), d, to.factors + c);
  }
  for_each_vector(d, cols, [&](int64_t c, int64_t lanes) {
    if (bias.present()) hn::Store(load_floats(d, bias.dtype, bias.data, c, lanes), d, to.bias + c);
    if (factors != nullptr) hn::Store(load_lanes(d, factors + c, lanes), d, to.factors + c);
  });
}

// Rows [row, row + rows) of the result, in the columns of panel `panel`: rounded to kType, and then
// to bytes where kBytes.
template <DType kType, bool kBytes, Activation kActivation>
void finish_tile(const QuantizedTiles& t, int64_t row, int64_t rows, int64_t panel,
                 const PanelColumns& columns, const int32_t* sums) {
  const F32 d;
  const I32 di;
  constexpr size_t kWidth = kBytes ? 1 : kType == DType::kF32 ? 4 : 2;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const EpilogueCall& out = t.out;
  const int64_t col0 = panel * kPanelCols, cols = std::min(kPanelCols, t.cols - col0);
  const int64_t out_col = (panel - t.first_panel) * kPanelCols;
  const bool whole = cols == kPanelCols;
  // A panel with fewer columns: what is read and written beside them is here.
  HWY_ALIGN std::byte own_residual[kPanelCols * sizeof(float)] = {};
  HWY_ALIGN std::byte own_result[kPanelCols * sizeof(float)];
  const auto inverse = hn::Set(d, t.next.by.inverse), zero = hn::Set(d, t.next.by.zero);
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t at = (row + r) * out.dst_step + out_col;
    std::byte* to = out.dst.at(at).data;
    if constexpr (kBytes) to = reinterpret_cast<std::byte*>(t.next.at(row + r, out_col).q);
    std::byte* const dst = whole ? to : own_result;
    FloatsIn residual = out.residual.at((row + r) * out.residual_step + out_col);
    if (!whole && residual.present()) {
      std::memcpy(own_residual, residual.data, static_cast<size_t>(cols) * residual.elem_bytes());
      residual.data = own_residual;
    }
    const auto x_scale = hn::Set(d, t.x_scales[t.scale_per_row ? row + r : 0]);
    const auto x_zero =
        hn::Set(d, t.x_zeros == nullptr ? 0 : t.x_zeros[t.zero_per_row ? row + r : 0]);
    const auto row_sum = hn::Set(di, t.row_sums == nullptr ? 0 : t.row_sums[row + r]);
    // Sums by column and their scales are padded to whole panels.
    for (int64_t c = 0; c < kPanelCols; c += lanes) {
      VI32 sum = hn::LoadU(di, sums + r * kPanelCols + c);
      sum = hn::Sub(sum, hn::Load(di, columns.offsets + c));
      if (t.row_sums != nullptr)
        sum = hn::Sub(sum, hn::Mul(row_sum, hn::LoadU(di, t.w_zeros + col0 + c)));
      VF32 v = hn::ConvertTo(d, sum);
      if (t.x_zeros != nullptr) v = hn::NegMulAdd(x_zero, hn::Load(d, columns.sums + c), v);
      v = hn::MulAdd(hn::Mul(v, hn::LoadU(d, t.w_scales + col0 + c)), x_scale,
                     hn::Load(d, columns.bias + c));
      v = activated<kActivation>(d, v);
      if (residual.present())
        v = hn::Add(v, load_floats(d, residual.dtype, residual.data, c, lanes));
      if constexpr (kBytes) {
        v = hn::Mul(as_stored<kType>(d, v), hn::Load(d, columns.factors + c));
        store_bytes<int8_t>(q8_by(d, v, inverse, zero), reinterpret_cast<int8_t*>(dst) + c, lanes);
      } else {
        store_floats(d, kType, v, dst, c, lanes);
      }
    }
    if (!whole) std::memcpy(to, own_result, static_cast<size_t>(cols) * kWidth);
  }
}

using FinishTile = void (*)(const QuantizedTiles&, int64_t row, int64_t rows, int64_t panel,
                            const PanelColumns&, const int32_t* sums);

template <DType kType, bool kBytes>
FinishTile finish_of(Activation activation) {
  switch (activation) {
    case Activation::kNone:
      break;
    case Activation::kGeluErf:
      return &finish_tile<kType, kBytes, Activation::kGeluErf>;
    case Activation::kGeluTanh:
      return &finish_tile<kType, kBytes, Activation::kGeluTanh>;
    case Activation::kRelu:
      return &finish_tile<kType, kBytes, Activation::kRelu>;
    case Activation::kTanh:
      return &finish_tile<kType, kBytes, Activation::kTanh>;
  }
  return &finish_tile<kType, kBytes, Activation::kNone>;
}
FinishTile finish_of(const QuantizedTiles& t) {
  const Activation activation = t.out.activation;
  const bool bytes = t.next.q != nullptr;
  if (t.out.dst.dtype == DType::kBF16)
    return bytes ? finish_of<DType::kBF16, true>(activation)
                 : finish_of<DType::kBF16, false>(activation);
  if (t.out.dst.dtype == DType::kF16)
    return bytes ? finish_of<DType::kF16, true>(activation)
                 : finish_of<DType::kF16, false>(activation);
  return finish_of<DType::kF32, false>(activation);
}

template <ByteProducts kProducts>
HWY_INLINE void sum_products(int64_t rows, const QuantizedTiles& t, const uint8_t* u,
                             const int8_t* w, std::span<const std::byte> fetch, int32_t* sums) {
  if constexpr (kProducts == ByteProducts::kTiles) {
    if (rows > kTooFewForTiles) return sum_rows_on_tiles(rows, t, u, w, fetch, sums);
  }
  sum_rows<kTileRows, kProducts != ByteProducts::kPlain>(rows, t, u, w, 0, sums);
}

template <ByteProducts kProducts>
void MultiplyPanels(const QuantizedTiles& t, FinishTile finish) {
  constexpr bool kTiled = kProducts == ByteProducts::kTiles;
  constexpr int64_t kMostRows = kTiled ? kRowsOnTiles : kTileRows;
  HWY_ALIGN int32_t sums[kMostRows * kPanelCols];
  const int64_t panel_bytes = t.groups * kGroup * kPanelCols;
  const int64_t tiles = (t.rows + kMostRows - 1) / kMostRows;
  PanelColumns columns;
  for (int64_t panel = t.first_panel; panel < t.end_panel; ++panel) {
    read_columns(t, panel, columns);
    for (int64_t i = 0; i < tiles; ++i) {
      // Vectors take tiles of nearly equal height, tile registers whole ones.
      const int64_t row = kTiled ? i * kMostRows : t.rows * i / tiles;
      const int64_t end = kTiled ? std::min(t.rows, row + kMostRows) : t.rows * (i + 1) / tiles;
      const int8_t* w = t.panels + panel * panel_bytes;
      std::span<const std::byte> next;
      if (kTiled && panel + 1 < t.end_panel)
        next = part_of_panel(reinterpret_cast<const std::byte*>(w) + panel_bytes, panel_bytes, i,
                             tiles);
      sum_products<kProducts>(end - row, t, t.u + row * t.step, w, next, sums);
      finish(t, row, end - row, panel, columns, sums);
    }
  }
}

void QuantizedProduct(const QuantizedTiles& t) {
  const FinishTile finish = finish_of(t);
  switch (t.products) {
    case ByteProducts::kTiles:
      return MultiplyPanels<ByteProducts::kTiles>(t, finish);
    case ByteProducts::kVnni:
      return MultiplyPanels<ByteProducts::kVnni>(t, finish);
    case ByteProducts::kPlain:
      return MultiplyPanels<ByteProducts::kPlain>(t, finish);
  }
}

// Bytes of a row as unsigned ones.
void UnsignedBytes(const std::byte* src, int64_t count, uint8_t flip, uint8_t* dst) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(src);
  for (int64_t i = 0; i < count; ++i) dst[i] = static_cast<uint8_t>(bytes[i] ^ flip);
}
int32_t SumBytes(const uint8_t* bytes, int64_t count) {
  int32_t sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += bytes[i];
  return sum;
}

}  // namespace HWY_NAMESPACE
}  // namespace vernier::backend::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vernier::backend::cpu {
namespace {

HWY_EXPORT(QuantizedProduct);
HWY_EXPORT(UnsignedBytes);
HWY_EXPORT(SumBytes);

ByteProducts byte_products() {
#if HWY_ARCH_X86 && (defined(__GNUC__) || defined(__clang__))
  if (__builtin_cpu_supports("avx512vnni") == 0) return ByteProducts::kPlain;
  return has_tiles() ? ByteProducts::kTiles : ByteProducts::kVnni;
#else
  return ByteProducts::kPlain;
#endif
}

// ---- the packed weight: panels of 64 columns, [K/4][64][4] bytes each, k and columns padded with
// zeros; behind them Σ_k w by column, i32. Unsigned weights are held 128 lower.

struct Packed {
  DType type;
  WeightShape shape;
  int64_t groups() const { return (shape.k + kGroup - 1) / kGroup; }
  int64_t panel_bytes() const { return groups() * kGroup * kPanelCols; }
  size_t sums_at() const { return static_cast<size_t>(num_panels(shape.n) * panel_bytes()); }
  size_t bytes() const {
    return sums_at() + static_cast<size_t>(num_panels(shape.n) * kPanelCols) * sizeof(int32_t);
  }
  int64_t at(int64_t k, int64_t n) const {
    return n / kPanelCols * panel_bytes() + (k / kGroup * kPanelCols + n % kPanelCols) * kGroup +
           k % kGroup;
  }
  std::string layout() const {
    return "panels64x4 " + std::string(name(type)) + " K=" + std::to_string(shape.k) +
           " N=" + std::to_string(shape.n);
  }
};

Packed packed_of(const Problem& problem) {
  return {problem.inputs[1].dtype, weight_shape(problem)};
}

Packed parse_layout(std::string_view text) {
  const auto shape = parse_weight_shape(text);
  for (const DType type : {DType::kQ8, DType::kI8, DType::kU8}) {
    if (shape && text == Packed{type, *shape}.layout()) return {type, *shape};
  }
  throw Error(ErrorCode::kInput, "a quantized product's weight has layout \"" + std::string(text) +
                                     "\"; expected \"panels64x4 q8 K=.. N=..\", or i8 or u8; "
                                     "rebuild the engine");
}

bool transposed(const Problem& problem) { return problem.attrs_as<QuantizedLinearAttrs>().trans_w; }

// The weight as the signed bytes that are multiplied, in its own order.
std::vector<int8_t> signed_bytes(const Tensor& w, DType type) {
  std::vector<int8_t> bytes(static_cast<size_t>(w.elems()));
  if (is_float(w.dtype()) && w.dtype() != DType::kQ8) {
    for (int64_t i = 0; i < w.elems(); ++i) store_float(DType::kQ8, w.float_at(i), &bytes[i]);
    return bytes;
  }
  const auto flip = static_cast<uint8_t>(type == DType::kU8 ? 0x80 : 0);  // 128 lower
  for (size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<int8_t>(std::to_integer<uint8_t>(w.data()[i]) ^ flip);
  return bytes;
}

std::vector<PackedConstant> pack_quantized(const Problem& problem) {
  const Packed to = packed_of(problem);
  const auto [k, n] = to.shape;
  const bool trans = transposed(problem);
  const std::vector<int8_t> from = signed_bytes(*problem.inputs[1].constant, to.type);
  PackedConstant packed{.input = 1, .layout = to.layout(), .bytes = {}};
  packed.bytes.resize(to.bytes());
  std::vector<int32_t> sums(static_cast<size_t>(num_panels(n) * kPanelCols));
  const int64_t rows = trans ? n : k, cols = trans ? k : n;
  for (int64_t row = 0; row < rows; ++row) {
    const int8_t* line = from.data() + row * cols;
    for (int64_t col = 0; col < cols; ++col) {
      const int64_t i = trans ? col : row, j = trans ? row : col;
      packed.bytes[to.at(i, j)] = static_cast<std::byte>(line[col]);
      sums[j] += line[col];
    }
  }
  std::memcpy(packed.bytes.data() + to.sums_at(), sums.data(), sums.size() * sizeof(int32_t));
  return {std::move(packed)};
}

Tensor unpack_quantized(const Problem& problem, const ConstantArg& constant) {
  const Packed from = parse_layout(constant.layout);
  const auto [k, n] = from.shape;
  const WeightShape expected = weight_shape(problem);
  VERNIER_ASSERT(k == expected.k && n == expected.n && constant.bytes.size() == from.bytes(),
                 std::string(constant.layout));
  const bool trans = transposed(problem);
  std::vector<std::byte> plain(static_cast<size_t>(k * n));
  const int raise = from.type == DType::kU8 ? 128 : 0;
  for (int64_t i = 0; i < k * n; ++i) {
    const int64_t row = trans ? i % k : i / n, col = trans ? i / k : i % n;
    const auto byte = std::to_integer<int8_t>(constant.bytes[from.at(row, col)]);
    plain[i] = static_cast<std::byte>(byte + raise);
  }
  return Tensor::from_bytes(from.type, trans ? Shape{n, k} : Shape{k, n}, plain);
}

std::vector<PackedLayout> quantized_layouts(const Problem& problem) {
  const Packed to = packed_of(problem);
  return {{.input = 1, .layout = to.layout(), .bytes = to.bytes()}};
}

// ---- run time

int32_t zero_at(const TensorArg& zeros, int64_t i) {
  const int64_t at = zeros.elems() == 1 ? 0 : i;
  return zeros.dtype == DType::kU8 ? zeros.as<const uint8_t>()[at] - 128
                                   : zeros.as<const int8_t>()[at];
}

class QuantizedState final : public KernelState {
 public:
  explicit QuantizedState(const CreateCall& call) : products_(byte_products()) {
    read_weight(call);
    read_columns(operand_at(call.constant_inputs, 3), operand_at(call.constant_inputs, 5));
  }

  size_t part_bytes() const {
    return rows_bytes() + round_to_line(static_cast<size_t>(block_rows()) * sizeof(int32_t));
  }

  void launch(const LaunchCall& call) const;

 private:
  void read_weight(const CreateCall& call) {
    for (const ConstantArg& constant : call.constants) {
      if (constant.input != 1) continue;
      packed_ = parse_layout(constant.layout);
      if (constant.bytes.size() != packed_.bytes()) break;
      bytes_ = constant.bytes.data();
    }
    if (bytes_ == nullptr)
      throw Error(ErrorCode::kInput,
                  "the engine holds no packed weight for a quantized product; expected layout "
                  "\"panels64x4 q8 K=.. N=..\"; rebuild the engine");
  }
  void read_columns(const TensorArg& scales, const TensorArg& zeros) {
    if (scales.data == nullptr || (given(zeros) && zeros.data == nullptr))
      throw Error(ErrorCode::kInput,
                  "the scales or zero points of a quantized product's weight are not constants of "
                  "the engine; rebuild the engine");
    const int64_t n = packed_.shape.n;
    scales_.resize(padded_cols());
    for (int64_t c = 0; c < n; ++c)
      scales_[c] = scales.as<const float>()[scales.elems() == 1 ? 0 : c];
    // u8 weights are held 128 lower: their zero points too, and they have one of -128 without any.
    if (!given(zeros) && packed_.type != DType::kU8) return;
    zeros_.resize(scales_.size());
    for (int64_t c = 0; c < n; ++c) zeros_[c] = given(zeros) ? zero_at(zeros, c) : -128;
  }

  int64_t step() const { return (packed_.shape.k + 63) / 64 * 64 + 64; }
  int64_t block_rows() const {
    return products_ == ByteProducts::kTiles ? rows_for_tiles(step()) : kBlockOfRows;
  }
  size_t rows_bytes() const { return round_to_line(static_cast<size_t>(block_rows() * step())); }
  int64_t padded_cols() const { return num_panels(packed_.shape.n) * kPanelCols; }

  ByteProducts products_;
  Packed packed_{};
  const std::byte* bytes_ = nullptr;
  // By column, padded to whole panels; no zero points: empty.
  std::vector<float> scales_;
  std::vector<int32_t> zeros_;
};

void QuantizedState::launch(const LaunchCall& call) const {
  const TensorArg &x = call.in[0], &x_scale = call.in[2];
  const int64_t k = packed_.shape.k, n = packed_.shape.n;
  const int64_t m = elems_between(x, 0, x.rank - 1);
  if (m == 0) return;
  ThreadTeam& threads = *call.execution.threads;
  const bool zeros = !zeros_.empty();
  const bool is_unsigned = x.dtype == DType::kU8;
  int32_t offset = is_unsigned ? 0 : 128;
  const bool real_zero = given(call.in, 4) && call.in[4].dtype == DType::kF32;
  if (given(call.in, 4) && !real_zero)
    offset = zero_at(call.in[4], 0) + 128;  // u8: the zero point itself
  const bool zero_per_row = real_zero && call.in[4].elems() != 1;
  const Rows x_rows(x);
  const FloatsOut out(call.out[0]);
  const FloatsIn bias = given(call.in, 6) ? FloatsIn(call.in[6]) : FloatsIn();
  const FloatsIn residual = given(call.in, 7) ? FloatsIn(call.in[7]) : FloatsIn();
  const Activation activation = decode<QuantizedLinearAttrs>(call.attrs).activation;
  const bool scale_per_row = x_scale.elems() != 1;
  GivenRows next;
  if (call.next != nullptr && call.result_unused) next = GivenRows::of(*call.next);

  const int64_t unit = products_ == ByteProducts::kTiles ? kRowsOfTile : kMostTileRows;
  const Grid grid = choose_grid({.threads = threads_worth(threads.size(), m, n, k / 4),
                                 .row_units = (m + unit - 1) / unit,
                                 .col_units = num_panels(n),
                                 .row_unit_bytes = static_cast<double>(k * unit),
                                 .col_unit_bytes = static_cast<double>(k * kPanelCols)});
  const ResultBlocks blocks{m, unit, num_panels(n), block_rows()};
  for_each_block(threads, grid, blocks, [&](Span block, Span panels, int part) {
    std::optional<TileScope> tiles;
    if (products_ == ByteProducts::kTiles) tiles.emplace();
    std::byte* own = call.workspace + static_cast<size_t>(part) * part_bytes();
    auto* u = reinterpret_cast<uint8_t*>(own);
    auto* row_sums = reinterpret_cast<int32_t*>(own + rows_bytes());
    const int64_t row = block.begin, rows = block.end - row;
    const std::byte* first = x.data + x_rows.offset(row);
    const bool direct = products_ == ByteProducts::kTiles && !is_unsigned && !zeros &&
                        x_rows.every(k) && tiles_read_in_place(first, rows, k);
    for (int64_t r = 0; r < rows && !direct; ++r) {
      uint8_t* to = u + r * step();
      HWY_DYNAMIC_DISPATCH(UnsignedBytes)
      (x.data + x_rows.offset(row + r), k, is_unsigned ? 0 : 0x80, to);
      std::memset(to + k, 0, static_cast<size_t>(packed_.groups() * kGroup - k));
      if (zeros)
        row_sums[r] = HWY_DYNAMIC_DISPATCH(SumBytes)(to, k) - static_cast<int32_t>(k) * offset;
    }
    const int64_t first_col = panels.begin * kPanelCols, at = row * n + first_col;
    HWY_DYNAMIC_DISPATCH(QuantizedProduct)
    ({.u = direct ? reinterpret_cast<const uint8_t*>(first) : u,
      .step = direct ? k : step(),
      .rows = rows,
      .panels = reinterpret_cast<const int8_t*>(bytes_),
      .groups = packed_.groups(),
      .first_panel = panels.begin,
      .end_panel = panels.end,
      .cols = n,
      .products = products_,
      .is_signed = direct,
      .row_sums = zeros ? row_sums : nullptr,
      .col_sums = reinterpret_cast<const int32_t*>(bytes_ + packed_.sums_at()),
      .offset = direct ? offset - 128 : offset,
      .x_scales = x_scale.as<const float>() + (scale_per_row ? row : 0),
      .scale_per_row = scale_per_row,
      .x_zeros = real_zero ? call.in[4].as<const float>() + (zero_per_row ? row : 0) : nullptr,
      .zero_per_row = zero_per_row,
      .w_scales = scales_.data(),
      .w_zeros = zeros_.data(),
      .out = {.dst = out.at(at),
              .dst_step = n,
              .bias = bias.at(first_col),
              .residual = residual.at(at),
              .residual_step = n,
              .activation = activation},
      .next = next.q == nullptr ? GivenRows{} : next.at(row, first_col)});
  });
  if (call.next != nullptr && next.q == nullptr) launch_quantize_rows(*call.next);
}

Support supports_quantized(const Problem& problem) {
  for (size_t i : {size_t{0}, size_t{1}}) {
    if (!is_8_bits(problem.inputs[i].dtype))
      return no("input " + std::to_string(i) + " is " + std::string(name(problem.inputs[i].dtype)) +
                ", this kernel takes q8, i8 and u8");
  }
  if (const Support weight = supports_weight_matrix(problem); !weight) return weight;
  if (problem.has_input(kXZero) && is_float(problem.inputs[kXZero].dtype) &&
      (problem.inputs[kXZero].dtype != DType::kF32 || problem.has_input(kWZero)))
    return no("the zero points are " + std::string(name(problem.inputs[kXZero].dtype)) +
              ", this kernel takes f32, and none of the weight then");
  if (const Support residual = supports_residual(problem, kQuantizedResidual); !residual)
    return residual;
  return quantized_operands(problem);
}

bool joins(const Problem& own, const Problem& next) {
  return quantizes_result_of(own, next) && is_given_q8(next) &&
         is_16_bit_float(own.outputs[0].dtype);
}

}  // namespace

extern const KernelBody quantized_linear_panels;
constexpr VariantSize kVariants[] = {{.size = kMostTileRows, .repeats = true},
                                     {.size = kRowsOfTile, .repeats = true},
                                     {.size = kBlockOfRows, .repeats = true}};
constexpr KernelBody quantized_linear_panels{
    .supports = &supports_quantized,
    .numerics = &quantized_numerics,
    .strided_inputs = 1,
    .pack = &pack_quantized,
    .unpack = &unpack_quantized,
    .packed_layouts = &quantized_layouts,
    .create = [](const CreateCall& call) -> std::unique_ptr<KernelState> {
      return std::make_unique<QuantizedState>(call);
    },
    .prepare = [](const PrepareCall& call) -> std::unique_ptr<ShapeState> {
      const auto& state = *static_cast<const QuantizedState*>(call.state);
      const auto threads = static_cast<size_t>(call.execution.threads->size());
      return workspace_only(threads * state.part_bytes());
    },
    .launch =
        [](const LaunchCall& call) {
          static_cast<const QuantizedState*>(call.state)->launch(call);
        },
    .joins = &joins,
    .variants = kVariants,
};

}  // namespace vernier::backend::cpu
#endif
