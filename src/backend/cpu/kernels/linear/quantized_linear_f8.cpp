// cpu.quantized_linear.f8: y = act((x·w)·x_scale·w_scale + bias) + residual on operands of f8e4m3.
// For engines that are checked on a CPU before they run on a GPU: a CPU has no such products, so
// that operands are widened to f32, and a build in 16 bits is faster.
//
// x        [..., K], f8e4m3; any outer strides. w: constant [K, N] or [N, K], f8e4m3
// others   scales f32; bias, residual and y each f32, f16 or bf16
// Error    products are exact, sums are those of gemm.h; then f32: a few 2^-24 of each addend, the
//          activation's, and half an ulp of y
// Cost     2·M·N·K operations in f32; the weight is widened once for every 256 rows
// Memory   per part 256 rows of x, a panel of w and a tile, f32
#include <algorithm>
#include <array>
#include <cstring>

#include "backend/cpu/kernels/linear/linear.h"
#include "backend/supports.h"

namespace vernier::backend::cpu {
namespace {

constexpr int64_t kBlockOfRows = 256, kRowUnit = 16;

// The f32 value of every byte.
const std::array<float, 256>& values_of_bytes() {
  static const std::array<float, 256> kValues = [] {
    std::array<float, 256> values{};
    for (size_t i = 0; i < values.size(); ++i) values[i] = f8e4m3_to_f32(static_cast<uint8_t>(i));
    return values;
  }();
  return kValues;
}

void widen(const std::byte* src, int64_t count, float* dst) {
  const std::array<float, 256>& values = values_of_bytes();
  for (int64_t i = 0; i < count; ++i) dst[i] = values[std::to_integer<size_t>(src[i])];
}

// ---- the packed weight: panels of 64 columns, [K][64] bytes each, columns padded with zeros

struct Packed {
  WeightShape shape;
  int64_t panel_bytes() const { return shape.k * kPanelCols; }
  size_t bytes() const { return static_cast<size_t>(num_panels(shape.n) * panel_bytes()); }
  int64_t at(int64_t k, int64_t n) const {
    return n / kPanelCols * panel_bytes() + k * kPanelCols + n % kPanelCols;
  }
  std::string layout() const {
    return "panels64 f8e4m3 K=" + std::to_string(shape.k) + " N=" + std::to_string(shape.n);
  }
};

Packed parse_layout(std::string_view text) {
  const auto shape = parse_weight_shape(text);
  if (shape && text == Packed{*shape}.layout()) return {*shape};
  throw Error(ErrorCode::kInput, "a quantized product's weight has layout \"" + std::string(text) +
                                     "\"; expected \"panels64 f8e4m3 K=.. N=..\"; rebuild the "
                                     "engine");
}

bool transposed(const Problem& problem) { return problem.attrs_as<QuantizedLinearAttrs>().trans_w; }

// Where element (k, n) of a weight of this shape lies.
int64_t place_of(bool trans_w, const WeightShape& shape, int64_t k, int64_t n) {
  return trans_w ? n * shape.k + k : k * shape.n + n;
}

std::vector<PackedConstant> pack_f8(const Problem& problem) {
  const Packed to{weight_shape(problem)};
  const Tensor& w = *problem.inputs[kQuantizedW].constant;
  PackedConstant packed{.input = kQuantizedW, .layout = to.layout(), .bytes = {}};
  packed.bytes.resize(to.bytes());
  for (int64_t k = 0; k < to.shape.k; ++k) {
    for (int64_t n = 0; n < to.shape.n; ++n) {
      const int64_t from = place_of(transposed(problem), to.shape, k, n);
      if (w.dtype() == DType::kF8E4M3)
        packed.bytes[to.at(k, n)] = w.data()[from];
      else
        store_float(DType::kF8E4M3, w.float_at(from), &packed.bytes[to.at(k, n)]);
    }
  }
  return {std::move(packed)};
}

Tensor unpack_f8(const Problem& problem, const ConstantArg& constant) {
  const Packed from = parse_layout(constant.layout);
  const WeightShape shape = weight_shape(problem);
  VERNIER_ASSERT(
      shape.k == from.shape.k && shape.n == from.shape.n && constant.bytes.size() == from.bytes(),
      std::string(constant.layout));
  const bool trans = transposed(problem);
  std::vector<std::byte> plain(static_cast<size_t>(shape.k * shape.n));
  for (int64_t k = 0; k < shape.k; ++k) {
    for (int64_t n = 0; n < shape.n; ++n)
      plain[place_of(trans, shape, k, n)] = constant.bytes[from.at(k, n)];
  }
  return Tensor::from_bytes(DType::kF8E4M3,
                            trans ? Shape{shape.n, shape.k} : Shape{shape.k, shape.n}, plain);
}

std::vector<PackedLayout> layouts_f8(const Problem& problem) {
  const Packed to{weight_shape(problem)};
  return {{.input = kQuantizedW, .layout = to.layout(), .bytes = to.bytes()}};
}

// ---- run time

class F8State final : public KernelState {
 public:
  explicit F8State(const CreateCall& call) {
    for (const ConstantArg& constant : call.constants) {
      if (constant.input != kQuantizedW) continue;
      packed_ = parse_layout(constant.layout);
      if (constant.bytes.size() == packed_.bytes()) bytes_ = constant.bytes.data();
    }
    const TensorArg scales = operand_at(call.constant_inputs, kWScale);
    if (bytes_ == nullptr || scales.data == nullptr)
      throw Error(ErrorCode::kInput,
                  "the engine holds no packed weight, or no scales of it, for a product of "
                  "f8e4m3; rebuild the engine");
    scales_.resize(static_cast<size_t>(packed_.shape.n));
    for (int64_t c = 0; c < packed_.shape.n; ++c)
      scales_[c] = scales.as<const float>()[scales.elems() == 1 ? 0 : c];
  }

  size_t part_bytes() const { return round_to_line(static_cast<size_t>(4 * part_elems())); }

  void launch(const LaunchCall& call) const {
    const TensorArg& x = call.in[kQuantizedX];
    const int64_t k = packed_.shape.k, n = packed_.shape.n;
    const int64_t m = elems_between(x, 0, x.rank - 1);
    if (m == 0) return;
    ThreadTeam& threads = *call.execution.threads;
    const Rows x_rows(x);
    const int64_t row_units = (m + kRowUnit - 1) / kRowUnit;
    const Grid grid = choose_grid({.threads = threads_worth(threads.size(), m, n, k),
                                   .row_units = row_units,
                                   .col_units = num_panels(n),
                                   .row_unit_bytes = static_cast<double>(k * kRowUnit),
                                   .col_unit_bytes = static_cast<double>(k * kPanelCols)});
    const ResultBlocks blocks{m, kRowUnit, num_panels(n), kBlockOfRows};
    for_each_block(threads, grid, blocks, [&](Span block, Span panels, int part) {
      auto* own =
          reinterpret_cast<float*>(call.workspace + static_cast<size_t>(part) * part_bytes());
      const int64_t row = block.begin, rows = block.end - row;
      for (int64_t r = 0; r < rows; ++r) widen(x.data + x_rows.offset(row + r), k, own + r * k);
      for (int64_t panel = panels.begin; panel < panels.end; ++panel)
        multiply(call, row, rows, panel, own);
    });
  }

 private:
  int64_t part_elems() const {
    const int64_t k = packed_.shape.k;
    return kBlockOfRows * k + k * kPanelCols + kBlockOfRows * kPanelCols +
           static_cast<int64_t>(gemm_scratch_elems(k));
  }

  // Rows [row, row + rows), which are at `own` in f32, and the columns of a panel.
  void multiply(const LaunchCall& call, int64_t row, int64_t rows, int64_t panel,
                float* own) const {
    const int64_t k = packed_.shape.k, n = packed_.shape.n, col = panel * kPanelCols;
    const int64_t cols = std::min(kPanelCols, n - col);
    float *w = own + kBlockOfRows * k, *sums = w + k * kPanelCols,
          *scratch = sums + kBlockOfRows * kPanelCols;
    widen(bytes_ + panel * packed_.panel_bytes(), packed_.panel_bytes(), w);
    const Rows dense(rows, k);
    gemm({.a = static_cast<const float*>(own),
          .rows = &dense,
          .packed = static_cast<const float*>(w),
          .c = sums,
          .c_step = kPanelCols,
          .m = rows,
          .n = cols,
          .k = k,
          .first_panel = 0,
          .end_panel = 1,
          .scratch = scratch});
    const TensorArg& x_scale = call.in[kXScale];
    const auto* x_scales = x_scale.as<const float>();
    for (int64_t r = 0; r < rows; ++r) {
      const float scale = x_scales[x_scale.elems() == 1 ? 0 : row + r];
      for (int64_t c = 0; c < cols; ++c) sums[r * kPanelCols + c] *= scale * scales_[col + c];
    }
    const auto input = [&](size_t i) {
      return given(call.in, i) ? FloatsIn(call.in[i]) : FloatsIn();
    };
    const int64_t at = row * n + col;
    linear_epilogue({.src = sums,
                     .src_step = kPanelCols,
                     .dst = FloatsOut(call.out[0]).at(at),
                     .dst_step = n,
                     .bias = input(kQuantizedBias).at(col),
                     .residual = input(kQuantizedResidual).at(at),
                     .residual_step = n,
                     .rows = rows,
                     .cols = cols,
                     .activation = decode<QuantizedLinearAttrs>(call.attrs).activation});
  }

  Packed packed_{};
  const std::byte* bytes_ = nullptr;
  std::vector<float> scales_;  // by column
};

Support supports_f8(const Problem& problem) {
  for (size_t i : {kQuantizedX, kQuantizedW}) {
    if (problem.inputs[i].dtype != DType::kF8E4M3)
      return no("input " + std::to_string(i) + " is " + std::string(name(problem.inputs[i].dtype)) +
                ", this kernel takes f8e4m3");
  }
  if (const Support weight = supports_weight_matrix(problem); !weight) return weight;
  if (problem.has_input(kXZero) || problem.has_input(kWZero))
    return no("f8e4m3 has no zero points");
  if (const Support residual = supports_residual(problem, kQuantizedResidual); !residual)
    return residual;
  return quantized_operands(problem);
}

}  // namespace

extern const KernelBody quantized_linear_f8;
constexpr VariantSize kVariants[] = {{.size = kRowUnit, .repeats = true},
                                     {.size = kBlockOfRows, .repeats = true}};
constexpr KernelBody quantized_linear_f8{
    .supports = &supports_f8,
    .numerics = &quantized_numerics,
    .strided_inputs = 1,
    .pack = &pack_f8,
    .unpack = &unpack_f8,
    .packed_layouts = &layouts_f8,
    .create = [](const CreateCall& call) -> std::unique_ptr<KernelState> {
      return std::make_unique<F8State>(call);
    },
    .prepare = [](const PrepareCall& call) -> std::unique_ptr<ShapeState> {
      const auto& state = *static_cast<const F8State*>(call.state);
      const auto threads = static_cast<size_t>(call.execution.threads->size());
      return workspace_only(threads * state.part_bytes());
    },
    .launch = [](const LaunchCall& call) { static_cast<const F8State*>(call.state)->launch(call); },
    .variants = kVariants,
};

}  // namespace vernier::backend::cpu
