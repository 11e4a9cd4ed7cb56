// cpu.linear.highway: y = act(x·w + bias) + residual with Vernier's packed product, and the code
// that the other linear rows share with it. Contract: linear.h, LinearAttrs in core/attrs.h.
//
// Work is divided statically into a grid of row and column parts, one per thread of the session; K
// is never split, so the bits of a row depend on neither M nor the number of threads (gemm-inl.h).
// Error of a sum: <= K·2^-24·Σ|x||w| (in practice √K), plus the activation's (math-inl.h).
#include "backend/cpu/kernels/linear/linear.h"

#include <algorithm>
#include <charconv>
#include <cstring>

#include "core/error.h"

namespace vernier::backend::cpu {
namespace {

constexpr int64_t kRowUnit = 16;  // rows are assigned to threads in these units
// If results are not f32, blocks of 96 × 1024 products (384 KiB) stay in the second-level cache for
// the epilogue; gemm copies 96 rows of x at a time.
constexpr int64_t kTileRows = 96, kTilePanels = 16;

std::string_view layout_prefix(DType type) {
  if (type == DType::kBF16) return "panels64x2 bf16 ";
  return type == DType::kF16 ? "panels64 f16 " : "panels64 f32 ";
}
std::string layout(DType type, const WeightShape& w) {
  return std::string(layout_prefix(type)) + "K=" + std::to_string(w.k) +
         " N=" + std::to_string(w.n);
}
struct Layout {
  DType type;
  WeightShape shape;
  int64_t panel_bytes() const {
    return panel_elems(type, shape.k) * static_cast<int64_t>(size_bytes(type));
  }
  size_t bytes() const { return static_cast<size_t>(num_panels(shape.n) * panel_bytes()); }
};
// Parses the text of layout(); throws Error(kInput) for anything else.
Layout parse_layout(std::string_view text) {
  const auto shape = parse_weight_shape(text);
  for (DType type : {DType::kF32, DType::kF16, DType::kBF16}) {
    if (shape && text == layout(type, *shape)) return {type, *shape};
  }
  throw Error(ErrorCode::kInput,
              "a linear step's weight has layout \"" + std::string(text) +
                  "\"; expected \"panels64 f32 K=.. N=..\", \"panels64 f16 ..\" or \"panels64x2 "
                  "bf16 ..\"; rebuild the engine");
}

bool transposed(const Problem& problem) { return problem.attrs_as<LinearAttrs>().trans_w; }

// The contents as f32 numbers that `type` represents: rounded once from the model's type. f32
// contents are not copied: narrow_panel() rounds them.
struct Contents {
  std::vector<float> owned;
  const float* data;
  Contents(const Tensor& t, DType type) {
    if (t.dtype() == DType::kF32) {
      data = reinterpret_cast<const float*>(t.data());
      return;
    }
    owned.resize(t.elems());
    for (int64_t i = 0; i < t.elems(); ++i)
      owned[i] = static_cast<float>(round_to(type, t.float_at(i)));
    data = owned.data();
  }
};

class HighwayLinear final : public LinearState {
 public:
  explicit HighwayLinear(const PackedWeight& weight) : weight_(weight) {}

  std::unique_ptr<ShapeState> prepare(const PrepareCall& call) override {
    const auto threads = static_cast<size_t>(call.execution.threads->size());
    const bool direct = call.out[0].dtype == DType::kF32;
    return workspace_only(threads * (scratch_bytes() + (direct ? 0 : tile_bytes())));
  }

  void launch(const LaunchCall& call) const override {
    const LinearRun run(call);
    if (run.m == 0 || run.n == 0) return;
    ThreadTeam& threads = *call.execution.threads;
    const int64_t row_units = (run.m + kRowUnit - 1) / kRowUnit;
    const Grid grid =
        choose_grid({.threads = threads_worth(threads.size(), run.m, run.n, run.k),
                     .row_units = row_units,
                     .col_units = num_panels(run.n),
                     .row_unit_bytes = 4.0 * static_cast<double>(run.k * kRowUnit),
                     .col_unit_bytes = 4.0 * static_cast<double>(run.k * kPanelCols)});
    const size_t bytes = scratch_bytes() + (run.out.dtype == DType::kF32 ? 0 : tile_bytes());
    for_each_block(threads, grid, {run.m, kRowUnit, num_panels(run.n), kTileRows},
                   [&](Span rows, Span panels, int part) {
                     run_rows(run, rows, panels,
                              call.workspace + static_cast<size_t>(part) * bytes);
                   });
  }

 private:
  size_t scratch_bytes() const {
    return round_to_line(gemm_scratch_elems(weight_.shape.k, weight_.panels.dtype) * sizeof(float));
  }
  static size_t tile_bytes() {
    return static_cast<size_t>(kTileRows * kTilePanels * kPanelCols) * sizeof(float);
  }

  void run_rows(const LinearRun& run, Span rows, Span panels, std::byte* workspace) const {
    const bool direct = run.out.dtype == DType::kF32;
    const int64_t step = direct ? panels.end - panels.begin : kTilePanels;
    for (int64_t panel = panels.begin; panel < panels.end; panel += step)
      run_tile(run, rows, {panel, std::min(panels.end, panel + step)}, workspace);
  }

  void run_tile(const LinearRun& run, Span rows, Span panels, std::byte* workspace) const {
    const int64_t col0 = panels.begin * kPanelCols;
    EpilogueCall epilogue = run.epilogue(rows.begin, col0);
    const bool direct = run.out.dtype == DType::kF32;
    auto* product =
        reinterpret_cast<float*>(direct ? epilogue.dst.data : workspace + scratch_bytes());
    epilogue.src = product;
    epilogue.src_step = direct ? run.n : kTilePanels * kPanelCols;
    epilogue.rows = rows.end - rows.begin;
    epilogue.cols = std::min(run.n, panels.end * kPanelCols) - col0;
    gemm({.a = run.x,
          .rows = &run.rows,
          .first_row = rows.begin,
          .packed = weight_.panels.at(panels.begin * panel_elems(weight_.panels.dtype, run.k)),
          .c = product,
          .c_step = epilogue.src_step,
          .m = epilogue.rows,
          .n = epilogue.cols,
          .k = run.k,
          .first_panel = 0,
          .end_panel = panels.end - panels.begin,
          .scratch = reinterpret_cast<float*>(workspace)});
    if (!direct || run.has_epilogue()) linear_epilogue(epilogue);
  }

  PackedWeight weight_;
};

}  // namespace

Support supports_weight_matrix(const Problem& problem) {
  const Operand& weight = problem.inputs[1];
  if (!weight.is_constant()) return no("the weight is not a constant");
  if (rank_of(weight) != 2) return no("the weight is not a matrix");
  if (product(weight.shape) == Dim(0)) return no("the weight is empty");
  return yes();
}
Support supports_residual(const Problem& problem, size_t residual) {
  if (problem.has_input(residual) &&
      str(problem.inputs[residual].shape) != str(problem.outputs[0].shape))
    return no("the residual is broadcast");
  return yes();
}
Support supports_packed_weight(const Problem& problem) {
  const Support weight = supports_weight_matrix(problem);
  return weight ? supports_residual(problem, 3) : weight;
}
Support supports_packed_linear(const Problem& problem) {
  Support floats = all_f32(problem);
  return floats ? supports_packed_weight(problem) : floats;
}

WeightShape weight_shape(const Problem& problem) {
  const SymShape& shape = problem.inputs[1].shape;
  const int64_t rows = shape[0].constant(), cols = shape[1].constant();
  return transposed(problem) ? WeightShape{cols, rows} : WeightShape{rows, cols};
}

std::optional<WeightShape> parse_weight_shape(std::string_view layout) {
  constexpr int64_t kLimit = int64_t{1} << 28;
  const auto number = [layout](std::string_view key) {
    int64_t value = 0;
    const size_t at = layout.find(key);
    if (at != std::string_view::npos)
      std::from_chars(layout.data() + at + key.size(), layout.data() + layout.size(), value);
    return value;
  };
  const WeightShape shape{number("K="), number("N=")};
  const bool sane = shape.k > 0 && shape.k < kLimit && shape.n > 0 && shape.n < kLimit;
  return sane ? std::optional(shape) : std::nullopt;
}

std::vector<PackedLayout> linear_layouts(const Problem& problem) {
  const Layout to{problem.inputs[1].dtype, weight_shape(problem)};
  return {{.input = 1, .layout = layout(to.type, to.shape), .bytes = to.bytes()}};
}

std::vector<PackedConstant> pack_linear(const Problem& problem) {
  const Operand& weight = problem.inputs[1];
  const Layout to{weight.dtype, weight_shape(problem)};
  const auto [k, n] = to.shape;
  const bool trans = transposed(problem);
  const Contents contents(*weight.constant, to.type);
  PackedConstant packed{.input = 1, .layout = layout(to.type, to.shape), .bytes = {}};
  packed.bytes.resize(to.bytes());
  std::vector<float> wide(static_cast<size_t>(panel_elems(DType::kF32, k)));
  for (int64_t panel = 0; panel < num_panels(n); ++panel) {
    const int64_t col = panel * kPanelCols;
    const MatrixView columns{.data = contents.data + (trans ? col * k : col),
                             .rows = k,
                             .cols = std::min(kPanelCols, n - col),
                             .row_step = trans ? 1 : n,
                             .col_step = trans ? k : 1};
    pack_panels(columns, wide.data(), 0, 1);
    std::byte* dst = packed.bytes.data() + panel * to.panel_bytes();
    if (to.type == DType::kF32)
      std::memcpy(dst, wide.data(), static_cast<size_t>(to.panel_bytes()));
    else
      narrow_panel(wide.data(), k, {dst, to.type});
  }
  return {std::move(packed)};
}

namespace {

// The columns of w from `first` on that a panel has.
template <class Element>
void unpack_panel(const Layout& from, const std::byte* panel, int64_t first, bool trans,
                  std::byte* plain) {
  const auto [k, n] = from.shape;
  const bool in_pairs = from.type == DType::kBF16;  // of neighboring k
  const int64_t cols = std::min(kPanelCols, n - first);
  for (int64_t i = 0; i < k; ++i) {
    for (int64_t col = 0; col < cols; ++col) {
      const int64_t at = in_pairs ? (i / 2 * kPanelCols + col) * 2 + i % 2 : i * kPanelCols + col;
      const int64_t to = trans ? (first + col) * k + i : i * n + first + col;
      std::memcpy(plain + static_cast<size_t>(to) * sizeof(Element),
                  panel + static_cast<size_t>(at) * sizeof(Element), sizeof(Element));
    }
  }
}

}  // namespace

Tensor unpack_linear(const Problem& problem, const ConstantArg& packed) {
  const bool trans = transposed(problem);
  const Layout from = parse_layout(packed.layout);
  const int64_t k = from.shape.k, n = from.shape.n;
  const WeightShape expected = weight_shape(problem);
  VERNIER_ASSERT(k == expected.k && n == expected.n && packed.bytes.size() == from.bytes(),
                 std::string(packed.layout));
  constexpr int64_t kLeastElems = int64_t{1} << 16;  // of a thread
  return Tensor::filled(from.type, trans ? Shape{n, k} : Shape{k, n}, [&](std::byte* plain) {
    in_parallel(num_panels(n), std::max<int64_t>(kLeastElems / (k * kPanelCols), 1),
                [&](int64_t begin, int64_t end) {
                  for (int64_t p = begin; p < end; ++p) {
                    const std::byte* panel = packed.bytes.data() + p * from.panel_bytes();
                    if (from.type == DType::kF32)
                      unpack_panel<float>(from, panel, p * kPanelCols, trans, plain);
                    else
                      unpack_panel<uint16_t>(from, panel, p * kPanelCols, trans, plain);
                  }
                });
  });
}

PackedWeight packed_weight(const CreateCall& call, DType type) {
  for (const ConstantArg& constant : call.constants) {
    if (constant.input != 1 || !constant.layout.starts_with(layout_prefix(type))) continue;
    const Layout layout = parse_layout(constant.layout);
    if (constant.bytes.size() == layout.bytes())
      return {{constant.bytes.data(), type}, layout.shape};
  }
  throw Error(ErrorCode::kInput,
              "the engine holds no packed weight for a linear step; expected layout \"" +
                  std::string(layout_prefix(type)) + "K=.. N=..\"; rebuild the engine");
}

LinearRun::LinearRun(const LaunchCall& call)
    : m(elems_between(call.in[0], 0, call.in[0].rank - 1)),
      k(call.in[0].dim(-1)),
      n(call.out[0].dim(-1)),
      rows(call.in[0]),
      x(call.in[0]),
      out(call.out[0]),
      bias(call.in.size() > 2 ? FloatsIn(call.in[2]) : FloatsIn()),
      residual(call.in.size() > 3 ? FloatsIn(call.in[3]) : FloatsIn()),
      activation(decode<LinearAttrs>(call.attrs).activation) {}

EpilogueCall LinearRun::epilogue(int64_t row0, int64_t col0) const {
  const int64_t at = row0 * n + col0;
  return {.dst = out.at(at),
          .dst_step = n,
          .bias = bias.at(col0),
          .residual = residual.at(at),
          .residual_step = n,
          .activation = activation};
}

std::unique_ptr<LinearState> make_highway_linear(const PackedWeight& weight) {
  return std::make_unique<HighwayLinear>(weight);
}
std::unique_ptr<LinearState> make_linear(const PackedWeight& weight, int parts, bool tiles) {
  auto state = tiles ? make_tile_linear(weight) : nullptr;
  if (state == nullptr) state = make_onednn_linear(weight, parts);
  return state == nullptr ? make_highway_linear(weight) : std::move(state);
}
std::unique_ptr<ShapeState> prepare_linear(const PrepareCall& call) {
  return static_cast<LinearState*>(call.state)->prepare(call);
}
void launch_linear(const LaunchCall& call) {
  static_cast<const LinearState*>(call.state)->launch(call);
}

extern const KernelBody linear_highway;
constexpr KernelBody linear_highway{
    .supports = &supports_packed_linear,
    .numerics = &f32_numerics,
    .strided_inputs = 1,
    .pack = &pack_linear,
    .unpack = &unpack_linear,
    .packed_layouts = &linear_layouts,
    .create = [](const CreateCall& call) -> std::unique_ptr<KernelState> {
      return make_highway_linear(packed_weight(call, DType::kF32));
    },
    .prepare = &prepare_linear,
    .launch = &launch_linear,
    .variants = kRowVariants,
};

}  // namespace vernier::backend::cpu
