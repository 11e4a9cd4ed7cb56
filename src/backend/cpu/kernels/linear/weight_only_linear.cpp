// cpu.weight_only_linear.panels: y = act(x·((w − zero)·scale) + bias) + residual on a weight of 8
// or 4 bits.
//
// x        [..., K], f32, f16 or bf16; any outer strides. w: constant [K, N] or [N, K]: q8, i8 or
// u8
//          of 8 bits, q4, i8 or u8 of 4
// scale    f32, zero w's type: constants, one number, one for each column, or for each column and
//          block of rows; blocks of 8, 16, … 512
// others   bias, residual and y each f32, f16 or bf16
// Error    w − zero is exact; sums are f32: K·2^-24·Σ|x||w| at most (in practice √K); then as
//          cpu.linear.highway. With bf16 products subnormal x count as zero
// Cost     2·M·N·K operations, in bf16 products where x is bf16 and the CPU has them (on AMX tiles
//          where K and the blocks are multiples of 32, else AVX-512 BF16), else in f32; the weight
//          is read once for 96 rows and unpacked for them, about 1/M of the work
// Memory   per part 96 rows of x, 64 columns of sums for them, and 128 unpacked rows of w (a block,
//          if that is more); with AMX 192 and 512
//
// Every element has one accumulator for each block, k from 0 upward; blocks are added in order,
// each times its scale. K is never split, so the bits of a row depend on neither tile, batch nor
// thread.
#include "backend/cpu/kernels/linear/weight_only_linear.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <optional>

#include "backend/cpu/kernels/linear/linear.h"
#include "backend/cpu/simd/convert.h"
#include "backend/cpu/simd/tiles.h"
#include "backend/supports.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/kernels/linear/weight_only_linear.cpp"
#include <hwy/foreach_target.h>

#include "backend/cpu/kernels/linear/gemm-inl.h"
#include "backend/cpu/kernels/linear/weight_only_unpack-inl.h"
#include "backend/cpu/simd/convert-inl.h"

HWY_BEFORE_NAMESPACE();
namespace vernier::backend::cpu {
namespace HWY_NAMESPACE {

#ifdef VERNIER_CPU_HAS_PAIRS
// ---- products of pairs

constexpr int kPairRows = 6, kPairVectors = 4;

HWY_INLINE VF32 add_pair_products(VF32 sums, VU32 a, VU32 b) {
  // AVX3 as Highway compiles it has no BF16; the instruction is there (Products::kPairs).
  asm("vdpbf16ps %2, %1, %0" : "+v"(sums.raw) : "v"(b.raw), "v"(a.raw));
  return sums;
}
#endif

/// What becomes of the sums of a tile.
enum class Finish : uint8_t {
  kKeep,   ///< the block goes on: sums are stored as they are
  kScale,  ///< the first block ends: sums times its scale
  kAdd     ///< another one ends: added to the sums, times its scale
};

#ifdef VERNIER_CPU_HAS_PAIRS
// One tile: a partial sum of `pairs` pairs of rows, in rows · 64 columns.
struct PairTile {
  const uint32_t* a;  // row r at a + r·step, in pairs
  int64_t step;
  const uint32_t* b;  // [pairs][64]
  int64_t pairs;
  Start start;     // of the partial sums: from 0, or from `partial`
  float* partial;  // [rows][64]
  float* sums;     // the same; for kKeep not written
  Finish finish;
  const float* scales;  // [64]
};

template <int kRows>
HWY_INLINE void pair_tile(const PairTile& t) {
  const F32 d;
  const U32 du;
  const auto width = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t c = 0; c < kPanelCols; c += width * kPairVectors) {
    VF32 acc[kRows][kPairVectors];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < kPairVectors; ++v) {
        acc[r][v] = t.start == Start::kZero
                        ? hn::Zero(d)
                        : hn::LoadU(d, t.partial + r * kPanelCols + c + v * width);
      }
    }
    const uint32_t* a = t.a;
    const uint32_t* b = t.b + c;
    for (int64_t p = 0; p < t.pairs; ++p) {
      VU32 bv[kPairVectors];
#pragma GCC unroll 4
      for (int v = 0; v < kPairVectors; ++v) bv[v] = hn::LoadU(du, b + v * width);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        const VU32 av = hn::Set(du, a[r * t.step]);
#pragma GCC unroll 4
        for (int v = 0; v < kPairVectors; ++v) acc[r][v] = add_pair_products(acc[r][v], av, bv[v]);
      }
      ++a;
      b += kPanelCols;
    }
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < kPairVectors; ++v) {
        const int64_t at = r * kPanelCols + c + v * width;
        if (t.finish == Finish::kKeep) {
          hn::StoreU(acc[r][v], d, t.partial + at);
          continue;
        }
        const VF32 scale = hn::LoadU(d, t.scales + c + v * width);
        const VF32 sum = t.finish == Finish::kScale
                             ? hn::Mul(acc[r][v], scale)
                             : hn::MulAdd(acc[r][v], scale, hn::LoadU(d, t.sums + at));
        hn::StoreU(sum, d, t.sums + at);
      }
    }
  }
}

template <int kRows>
void pair_rows(int64_t rows, const PairTile& t) {
  if (rows == kRows) return pair_tile<kRows>(t);
  if constexpr (kRows > 1) pair_rows<kRows - 1>(rows, t);
}

#endif

// ---- a panel

// The partial sums of rows [first, first + count) of w, which are at `row` of what is unpacked.
struct Run {
  int64_t first, row, count;
  Start start;
  Finish finish;
};

#ifdef VERNIER_CPU_HAS_PAIRS
void multiply_pairs(const WeightTiles& t, const Run& run) {
  const auto* x = reinterpret_cast<const uint32_t*>(t.x) + run.first / 2;
  const int64_t tiles = (t.rows + kPairRows - 1) / kPairRows, step = t.step / 2;
  for (int64_t i = 0; i < tiles; ++i) {
    const int64_t begin = t.rows * i / tiles, height = t.rows * (i + 1) / tiles - begin;
    pair_rows<kPairRows>(
        height, {.a = x + begin * step,
                 .step = step,
                 .b = reinterpret_cast<const uint32_t*>(t.unpacked) + run.row / 2 * kPanelCols,
                 .pairs = run.count / 2,
                 .start = run.start,
                 .partial = t.partial + begin * kPanelCols,
                 .sums = t.sums + begin * kPanelCols,
                 .finish = run.finish,
                 .scales = t.scales + run.first / t.block * t.scale_step});
  }
}

#endif

// What becomes of partial sums that are stored.
void finish_sums(const WeightTiles& t, const Run& run) {
  if (run.finish == Finish::kKeep) return;
  const F32 d;
  const auto width = static_cast<int64_t>(hn::Lanes(d));
  const float* scales = t.scales + run.first / t.block * t.scale_step;
  for (int64_t r = 0; r < t.rows; ++r) {
    for (int64_t c = 0; c < kPanelCols; c += width) {
      const int64_t at = r * kPanelCols + c;
      const VF32 partial = hn::LoadU(d, t.partial + at), scale = hn::LoadU(d, scales + c);
      const VF32 sum = run.finish == Finish::kScale
                           ? hn::Mul(partial, scale)
                           : hn::MulAdd(partial, scale, hn::LoadU(d, t.sums + at));
      hn::StoreU(sum, d, t.sums + at);
    }
  }
}

void multiply_on_tiles(const WeightTiles& t, const Run& run) {
  constexpr auto kWidth = static_cast<int64_t>(sizeof(uint16_t));
  multiply_panel_on_tiles({.operands = TileOperands::kBF16,
                           .a = t.x + run.first * kWidth,
                           .a_step = t.step * kWidth,
                           .rows = t.rows,
                           .panel = t.unpacked + run.row * kPanelCols * kWidth,
                           .sums = reinterpret_cast<std::byte*>(t.partial),
                           .steps = run.count / kTileStepRows,
                           .add = run.start == Start::kAdd});
  finish_sums(t, run);
}

void multiply_floats(const WeightTiles& t, const Run& run) {
  const F32 d;
  const auto width = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t c = 0; c < kPanelCols; c += 2 * width) {
    const PanelProduct product{
        .a = reinterpret_cast<const float*>(t.x) + run.first,
        .a_row_step = t.step,
        .a_k_step = 1,
        .b = reinterpret_cast<const float*>(t.unpacked) + run.row * kPanelCols + c,
        .b_step = kPanelCols,
        .c = t.partial + c,
        .c_step = kPanelCols,
        .k = run.count};
    if (run.start == Start::kZero)
      multiply_panel<2, Start::kZero>(product, t.rows, width);
    else
      multiply_panel<2, Start::kAdd>(product, t.rows, width);
  }
  finish_sums(t, run);
}

void multiply(const WeightTiles& t, const Run& run) {
  if (t.on_tiles) return multiply_on_tiles(t, run);
#ifdef VERNIER_CPU_HAS_PAIRS
  if (t.products != Products::kFloat) return multiply_pairs(t, run);
#endif
  multiply_floats(t, run);
}

void MultiplyWeightPanel(const WeightTiles& t) {
  for (int64_t first = 0; first < t.depth; first += t.chunk) {
    const int64_t count = std::min(t.chunk, t.depth - first);
    unpack(t, first, count);
    for (int64_t row = 0; row < count;) {
      const int64_t at = first + row, in_block = at % t.block;
      const int64_t rows = std::min({count - row, t.block - in_block, t.depth - at});
      const bool ends = in_block + rows == t.block || at + rows == t.depth;
      multiply(t, {.first = at,
                   .row = row,
                   .count = rows,
                   .start = in_block == 0 ? Start::kZero : Start::kAdd,
                   .finish = !ends          ? Finish::kKeep
                             : at < t.block ? Finish::kScale
                                            : Finish::kAdd});
      row += rows;
    }
  }
}

void WidenRow(DType type, const std::byte* src, int64_t elems, float* dst) {
  widen_elems(type, src, dst, elems);
}

}  // namespace HWY_NAMESPACE
}  // namespace vernier::backend::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vernier::backend::cpu {
namespace {

HWY_EXPORT(MultiplyWeightPanel);
HWY_EXPORT(WidenRow);

constexpr int64_t kLargestBlock = 512;  // of rows of w that share a scale
// Rows of a unit and of a block, and rows of w that are unpacked at a time: for pairs and f32, and
// on tile registers, whose sums pass through memory between two chunks.
constexpr int64_t kRowUnit = 6, kBlockOfRows = 96, kChunk = 128;
constexpr int64_t kBlockOnTiles = 192, kChunkOnTiles = 512;

int64_t rounded_up(int64_t count, int64_t to) { return (count + to - 1) / to * to; }

// Pairs of bf16, where the code that has the instruction is compiled and may run.
#if (HWY_TARGETS & HWY_AVX3) && HWY_ARCH_X86
Products best_products() {
  if (!cpu_has_bf16()) return Products::kFloat;
  return __builtin_cpu_supports("avx512vbmi") != 0 ? Products::kPairsByTables : Products::kPairs;
}
void run_panel(const WeightTiles& t) {
  if (t.products == Products::kFloat) return HWY_DYNAMIC_DISPATCH(MultiplyWeightPanel)(t);
  N_AVX3::MultiplyWeightPanel(t);
}
#else
Products best_products() { return Products::kFloat; }
void run_panel(const WeightTiles& t) { HWY_DYNAMIC_DISPATCH(MultiplyWeightPanel)(t); }
#endif

// ---- the packed weight: panels of 64 columns, [K/4][64][4] bytes each, or of 4 bits [K/8][64][4];
// the order of rows is that of floats_of() above. K is padded to a multiple of 8, columns past N
// are zeros. Numbers are held as WeightBits says.

struct Packed {
  WeightBits bits{DType::kQ8, 8};
  WeightShape shape;
  int64_t depth() const { return rounded_up(shape.k, kUnit); }
  int64_t panel_bytes() const { return depth() * kPanelCols * bits.bits / 8; }
  size_t bytes() const { return static_cast<size_t>(num_panels(shape.n) * panel_bytes()); }
  std::string layout() const {
    return "panels64 " + bits.text() + " K=" + std::to_string(shape.k) +
           " N=" + std::to_string(shape.n);
  }
  /// The byte of element (k, n), and the bit in it.
  struct Place {
    size_t byte;
    int shift;
  };
  Place place(int64_t k, int64_t n) const {
    constexpr int64_t kOrder[] = {0, 2, 1, 3};  // of rows in a lane
    const int64_t rows = bits.bits == 8 ? 4 : 8;
    const int64_t panel = n / kPanelCols * panel_bytes();
    const int64_t lane = panel + (k / rows * kPanelCols + n % kPanelCols) * 4;
    return {static_cast<size_t>(lane + kOrder[k % 4]), rows == 8 && k % 8 >= 4 ? 4 : 0};
  }
};

bool transposed(const Problem& problem) {
  return problem.attrs_as<WeightOnlyLinearAttrs>().trans_w;
}

WeightShape shape_of(const Problem& problem) {
  const SymShape& shape = problem.inputs[kWeightOnlyW].shape;
  const int64_t rows = shape[0].constant(), cols = shape[1].constant();
  return transposed(problem) ? WeightShape{cols, rows} : WeightShape{rows, cols};
}

Packed packed_of(const Problem& problem) { return {WeightBits(problem), shape_of(problem)}; }

Packed parse_layout(std::string_view text) {
  const auto shape = parse_weight_shape(text);
  for (const DType type : {DType::kQ8, DType::kQ4, DType::kI8, DType::kU8}) {
    for (const int64_t bits : {8, 4}) {
      if (!shape) continue;
      const Packed packed{{type, bits}, *shape};
      if (text == packed.layout()) return packed;
    }
  }
  throw Error(ErrorCode::kInput,
              "a weight-only product's weight has layout \"" + std::string(text) +
                  "\"; expected \"panels64 q8 of 8 bits K=.. N=..\", or q4, i8 or u8 of 8 or 4 "
                  "bits; rebuild the engine");
}

std::vector<PackedConstant> pack_weight(const Problem& problem) {
  const Packed to = packed_of(problem);
  const Tensor& w = *problem.inputs[kWeightOnlyW].constant;
  const bool trans = transposed(problem);
  const auto [k, n] = to.shape;
  PackedConstant packed{.input = kWeightOnlyW, .layout = to.layout(), .bytes = {}};
  packed.bytes.resize(to.bytes());
  for (int64_t i = 0; i < w.elems(); ++i) {
    const auto [byte, shift] = trans ? to.place(i % k, i / k) : to.place(i / n, i % n);
    packed.bytes[byte] |= static_cast<std::byte>(to.bits.held(w, i) << shift);
  }
  return {std::move(packed)};
}

Tensor unpack_weight(const Problem& problem, const ConstantArg& constant) {
  const Packed from = parse_layout(constant.layout);
  const auto [k, n] = from.shape;
  const WeightShape expected = shape_of(problem);
  VERNIER_ASSERT(k == expected.k && n == expected.n && constant.bytes.size() == from.bytes(),
                 std::string(constant.layout));
  const bool trans = transposed(problem);
  std::vector<std::byte> plain(static_cast<size_t>(k * n));
  for (int64_t i = 0; i < k * n; ++i) {
    const auto [byte, shift] = trans ? from.place(i % k, i / k) : from.place(i / n, i % n);
    const int held = std::to_integer<int>(constant.bytes[byte]) >> shift;
    plain[i] = from.bits.number(static_cast<uint8_t>(from.bits.bits == 4 ? held & 0xf : held));
  }
  return Tensor::from_bytes(from.bits.type, trans ? Shape{n, k} : Shape{k, n}, plain);
}

std::vector<PackedLayout> weight_layouts(const Problem& problem) {
  const Packed to = packed_of(problem);
  return {{.input = kWeightOnlyW, .layout = to.layout(), .bytes = to.bytes()}};
}

// ---- run time

// A list by block and column, padded to whole panels: what the constant has, one number repeated.
template <class T, class Number>
std::vector<T> by_column(const TensorArg& t, int64_t n, const Number& number) {
  const int64_t blocks = t.elems() == 1 ? 1 : t.elems() / n;
  const int64_t step = num_panels(n) * kPanelCols;
  std::vector<T> list(static_cast<size_t>(blocks * step));
  for (int64_t b = 0; b < blocks; ++b) {
    for (int64_t c = 0; c < n; ++c) list[b * step + c] = number(t.elems() == 1 ? 0 : b * n + c);
  }
  return list;
}

class WeightOnlyState final : public KernelState {
 public:
  explicit WeightOnlyState(const CreateCall& call)
      : attrs_(decode<WeightOnlyLinearAttrs>(call.attrs)), products_(best_products()) {
    for (const ConstantArg& constant : call.constants) {
      if (constant.input != 1) continue;
      packed_ = parse_layout(constant.layout);
      if (constant.bytes.size() == packed_.bytes()) bytes_ = constant.bytes.data();
    }
    if (bytes_ == nullptr)
      throw Error(ErrorCode::kInput,
                  "the engine holds no packed weight for a weight-only product; expected layout "
                  "\"panels64 q8 of 8 bits K=.. N=..\"; rebuild the engine");
    // The tables end at 127.
    if (packed_.bits.type != DType::kQ8 && products_ == Products::kPairsByTables)
      products_ = Products::kPairs;
    read_columns(operand_at(call.constant_inputs, kWeightOnlyScale),
                 operand_at(call.constant_inputs, kWeightOnlyZero));
    // The same for every number of rows: bits of both ways differ.
    has_tiles_ = products_ != Products::kFloat && has_tiles() && block() % kTileStepRows == 0 &&
                 packed_.depth() % kTileStepRows == 0;
  }

  std::unique_ptr<ShapeState> prepare(const PrepareCall& call) const {
    const DType x = call.in[0].dtype;
    const int64_t rows = std::min(block_rows(x), elems_between(call.in[0], 0, call.in[0].rank - 1));
    return workspace_only(static_cast<size_t>(call.execution.threads->size()) *
                          places(rows, x).bytes);
  }

  void launch(const LaunchCall& call) const;

 private:
  void read_columns(const TensorArg& scales, const TensorArg& zeros) {
    const int64_t n = packed_.shape.n;
    if (scales.data == nullptr || (given(zeros) && zeros.data == nullptr))
      throw Error(ErrorCode::kInput,
                  "the scales or zero points of a weight-only product are not constants of the "
                  "engine; rebuild the engine");
    blocks_ = std::max(scales.elems(), given(zeros) ? zeros.elems() : 0) > n;
    scales_ = by_column<float>(scales, n, [&](int64_t i) { return scales.as<const float>()[i]; });
    if (!given(zeros)) return;
    zeros_ = by_column<int32_t>(zeros, n, [&](int64_t i) {
      const int32_t zero =
          zeros.dtype == DType::kU8 ? zeros.as<const uint8_t>()[i] : zeros.as<const int8_t>()[i];
      return zero + static_cast<int32_t>(packed_.bits.offset());
    });
    const auto fits = [](int32_t zero) { return zero >= 0 && zero < 16; };
    if (packed_.bits.bits == 4 && !std::ranges::all_of(zeros_, fits))
      throw Error(ErrorCode::kInput,
                  "a zero point of a weight of 4 bits has more bits; rebuild the engine");
  }

  // Where the arrays of a part begin in its workspace.
  struct Places {
    int64_t step;  // elements between rows of x
    size_t unpacked, partial, sums, bytes;
  };
  Places places(int64_t rows, DType x) const {
    rows = rounded_up(rows, kRowsOfTile);
    const size_t width = products_of(x) == Products::kFloat ? sizeof(float) : sizeof(uint16_t);
    // Rows that are a power of two apart share a few cache sets.
    Places p{.step = packed_.depth() + 32, .unpacked = 0, .partial = 0, .sums = 0, .bytes = 0};
    p.unpacked = round_to_line(static_cast<size_t>(rows * p.step) * width);
    p.partial = p.unpacked + round_to_line(static_cast<size_t>(chunk(x) * kPanelCols) * width);
    const size_t sums = static_cast<size_t>(rows * kPanelCols) * sizeof(float);
    p.sums = p.partial + sums;
    p.bytes = p.sums + sums;
    return p;
  }
  Products products_of(DType x) const { return x == DType::kBF16 ? products_ : Products::kFloat; }
  bool on_tiles(DType x) const { return has_tiles_ && x == DType::kBF16; }
  int64_t block_rows(DType x) const { return on_tiles(x) ? kBlockOnTiles : kBlockOfRows; }
  int64_t block() const { return blocks_ ? attrs_.block_size : packed_.depth(); }
  // Whole blocks, or a part of the one that there is.
  int64_t chunk(DType x) const {
    const int64_t rows = on_tiles(x) ? kChunkOnTiles : kChunk;
    return blocks_ ? rounded_up(rows, attrs_.block_size) : std::min(rows, packed_.depth());
  }
  void copy_rows(const TensorArg& x, const Rows& rows, int64_t first, int64_t count,
                 const Places& p, std::byte* to) const;

  WeightOnlyLinearAttrs attrs_;
  Products products_;
  Packed packed_;
  const std::byte* bytes_ = nullptr;
  bool has_tiles_ = false;
  bool blocks_ = false;  // are there several scales or zero points for a column?
  std::vector<float> scales_;
  std::vector<int32_t> zeros_;  // as packed bytes have them; none: empty
};

// Rows of x as they are multiplied, padded with zeros.
void WeightOnlyState::copy_rows(const TensorArg& x, const Rows& rows, int64_t first, int64_t count,
                                const Places& p, std::byte* to) const {
  const bool floats = products_of(x.dtype) == Products::kFloat;
  const auto width = static_cast<int64_t>(floats ? sizeof(float) : sizeof(uint16_t));
  const FloatsIn src(x);
  const int64_t k = packed_.shape.k;
  for (int64_t r = 0; r < count; ++r) {
    std::byte* row = to + r * p.step * width;
    const FloatsIn from = src.at(rows.offset(first + r));
    if (floats)
      HWY_DYNAMIC_DISPATCH(WidenRow)(from.dtype, from.data, k, reinterpret_cast<float*>(row));
    else
      std::memcpy(row, from.data, static_cast<size_t>(k * width));
    std::memset(row + k * width, 0, static_cast<size_t>((packed_.depth() - k) * width));
  }
  if (!on_tiles(x.dtype)) return;
  for (int64_t r = count; r % kRowsOfTile != 0; ++r)
    std::memset(to + r * p.step * width, 0, static_cast<size_t>(packed_.depth() * width));
}

void WeightOnlyState::launch(const LaunchCall& call) const {
  const TensorArg& x = call.in[0];
  const int64_t k = packed_.shape.k, n = packed_.shape.n, padded = num_panels(n) * kPanelCols;
  const int64_t m = elems_between(x, 0, x.rank - 1);
  if (m == 0) return;
  ThreadTeam& threads = *call.execution.threads;
  const Rows x_rows(x);
  const FloatsOut out(call.out[0]);
  const auto floats = [&](size_t i) {
    return given(call.in, i) ? FloatsIn(call.in[i]) : FloatsIn();
  };
  const FloatsIn bias = floats(kWeightOnlyBias), residual = floats(kWeightOnlyResidual);
  const Places p = places(std::min(block_rows(x.dtype), m), x.dtype);
  const int64_t unit = on_tiles(x.dtype) ? kRowsOfTile : kRowUnit;
  // Columns are shared rather than rows: each part unpacks what it reads.
  const Grid grid = choose_grid({.threads = threads_worth(threads.size(), m, n, k / 2),
                                 .row_units = (m + unit - 1) / unit,
                                 .col_units = num_panels(n),
                                 .row_unit_bytes = static_cast<double>(k * unit),
                                 .col_unit_bytes = 4.0 * static_cast<double>(k * kPanelCols)});
  const ResultBlocks blocks{m, unit, num_panels(n), block_rows(x.dtype)};
  for_each_block(threads, grid, blocks, [&](Span span, Span panels, int part) {
    std::optional<TileScope> tiles;
    if (on_tiles(x.dtype)) tiles.emplace();
    std::byte* own = call.workspace + static_cast<size_t>(part) * p.bytes;
    const int64_t row = span.begin, rows = span.end - row;
    copy_rows(x, x_rows, row, rows, p, own);
    for (int64_t panel = panels.begin; panel < panels.end; ++panel) {
      const int64_t col = panel * kPanelCols, at = row * n + col;
      auto* sums = reinterpret_cast<float*>(own + p.sums);
      run_panel({.products = products_of(x.dtype),
                 .on_tiles = on_tiles(x.dtype),
                 .x = own,
                 .step = p.step,
                 .rows = rows,
                 .panel = bytes_ + panel * packed_.panel_bytes(),
                 .bits = packed_.bits.bits,
                 .depth = packed_.depth(),
                 .block = block(),
                 .chunk = chunk(x.dtype),
                 .scales = scales_.data() + col,
                 .scale_step = std::ssize(scales_) > padded ? padded : 0,
                 .zeros = zeros_.empty() ? nullptr : zeros_.data() + col,
                 .zero_step = std::ssize(zeros_) > padded ? padded : 0,
                 .zero = static_cast<int32_t>(packed_.bits.offset()),
                 .unpacked = own + p.unpacked,
                 .partial = reinterpret_cast<float*>(own + p.partial),
                 .sums = sums});
      linear_epilogue({.src = sums,
                       .src_step = kPanelCols,
                       .dst = out.at(at),
                       .dst_step = n,
                       .bias = bias.at(col),
                       .residual = residual.at(at),
                       .residual_step = n,
                       .rows = rows,
                       .cols = std::min(kPanelCols, n - col),
                       .activation = attrs_.activation});
    }
  });
}

Support supports_weight_only(const Problem& problem) {
  if (const Support weight = supports_weight_matrix(problem); !weight) return weight;
  if (const Support operands = weight_only_operands(problem); !operands) return operands;
  if (problem.attrs_as<WeightOnlyLinearAttrs>().block_size > kLargestBlock)
    return no("blocks of more than 512 rows");
  return supports_residual(problem, kWeightOnlyResidual);
}

}  // namespace

extern const KernelBody weight_only_linear_panels;
constexpr KernelBody weight_only_linear_panels{
    .supports = &supports_weight_only,
    .numerics = &weight_only_numerics,
    .strided_inputs = 1,
    .pack = &pack_weight,
    .unpack = &unpack_weight,
    .packed_layouts = &weight_layouts,
    .create = [](const CreateCall& call) -> std::unique_ptr<KernelState> {
      return std::make_unique<WeightOnlyState>(call);
    },
    .prepare = [](const PrepareCall& call) -> std::unique_ptr<ShapeState> {
      return static_cast<const WeightOnlyState*>(call.state)->prepare(call);
    },
    .launch =
        [](const LaunchCall& call) {
          static_cast<const WeightOnlyState*>(call.state)->launch(call);
        },
};

}  // namespace vernier::backend::cpu
#endif
