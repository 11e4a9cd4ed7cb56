// cpu.linear.highway: y = act(x·w + bias) + residual with our own packed product. Also what the
// oneDNN row shares with it. Contract: linear.h, LinearAttrs in core/attrs.h.
//
// Work is cut statically into a grid of row and column parts, one per thread; K is never split, so
// the bits of a row depend on neither M nor the number of threads (gemm-inl.h). Error of a sum:
// <= K·2^-24·Σ|x||w| (in practice √K), plus the activation's (math-inl.h).
#include "backend/cpu/kernels/linear.h"

#include <algorithm>
#include <cstring>

#include "core/error.h"

namespace vernier::backend::cpu {
namespace {

constexpr std::string_view kLayoutPrefix = "panels64 f32 ";
constexpr int64_t kRowUnit = 16;  // rows are dealt to threads in these

std::string layout(const WeightShape& w) {
  return std::string(kLayoutPrefix) + "K=" + std::to_string(w.k) + " N=" + std::to_string(w.n);
}

bool transposed(const Problem& problem) { return problem.attrs_as<LinearAttrs>().trans_w; }

class HighwayLinear final : public LinearState {
 public:
  explicit HighwayLinear(const float* packed) : packed_(packed) {}

  std::unique_ptr<ShapeState> prepare(const PrepareCall& call) override {
    const auto threads = static_cast<size_t>(call.execution.threads->size());
    return workspace_only(threads * scratch_bytes(call.in[0].dim(-1)));
  }

  void launch(const LaunchCall& call) const override {
    const LinearRun run(call);
    if (run.m == 0 || run.n == 0) return;
    ThreadPool& threads = *call.execution.threads;
    const int64_t row_units = (run.m + kRowUnit - 1) / kRowUnit;
    const Grid grid =
        choose_grid({.threads = threads.size(),
                     .row_units = row_units,
                     .col_units = num_panels(run.n),
                     .row_unit_bytes = 4.0 * static_cast<double>(run.k * kRowUnit),
                     .col_unit_bytes = 4.0 * static_cast<double>(run.k * kPanelCols)});
    threads.parallel_for(grid.rows * grid.cols, 1, [&](int64_t begin, int64_t end, int worker) {
      for (int64_t part = begin; part < end; ++part) {
        const Span units = share(row_units, static_cast<int>(part) / grid.cols, grid.rows);
        const Span panels = share(num_panels(run.n), static_cast<int>(part) % grid.cols, grid.cols);
        run_part(run, units, panels,
                 call.workspace + static_cast<size_t>(worker) * scratch_bytes(run.k));
      }
    });
  }

 private:
  static size_t scratch_bytes(int64_t k) {
    return round_to_line(gemm_scratch_elems(k) * sizeof(float));
  }

  void run_part(const LinearRun& run, Span units, Span panels, std::byte* scratch) const {
    const int64_t row0 = units.begin * kRowUnit;
    const int64_t rows = std::min(run.m, units.end * kRowUnit) - row0;
    if (rows <= 0 || panels.begin == panels.end) return;
    gemm({.a = run.x,
          .rows = &run.rows,
          .first_row = row0,
          .packed = packed_,
          .c = run.out + row0 * run.n,
          .c_step = run.n,
          .m = rows,
          .n = run.n,
          .k = run.k,
          .first_panel = panels.begin,
          .end_panel = panels.end,
          .scratch = reinterpret_cast<float*>(scratch)});
    if (!run.has_epilogue()) return;
    const int64_t col0 = panels.begin * kPanelCols;
    EpilogueCall epilogue = run.epilogue(row0, col0);
    epilogue.src = epilogue.dst;
    epilogue.src_step = run.n;
    epilogue.rows = rows;
    epilogue.cols = std::min(run.n, panels.end * kPanelCols) - col0;
    linear_epilogue(epilogue);
  }

  const float* packed_;
};

}  // namespace

Support supports_packed_linear(const Problem& problem) {
  Support floats = all_f32(problem);
  if (!floats) return floats;
  const Operand& weight = problem.inputs[1];
  if (weight.constant == nullptr) return no("the weight is not a constant");
  if (rank_of(weight) != 2) return no("the weight is not a matrix");
  if (weight.constant->elems() == 0) return no("the weight is empty");
  if (problem.inputs.size() > 3 && problem.inputs[3].present &&
      str(problem.inputs[3].shape) != str(problem.outputs[0].shape)) {
    return no("the residual is broadcast");
  }
  return yes();
}

WeightShape weight_shape(const Problem& problem) {
  const Shape& shape = problem.inputs[1].constant->shape();
  return transposed(problem) ? WeightShape{shape[1], shape[0]} : WeightShape{shape[0], shape[1]};
}

std::vector<PackedConstant> pack_linear(const Problem& problem) {
  const WeightShape w = weight_shape(problem);
  const bool trans = transposed(problem);
  const MatrixView view{.data = reinterpret_cast<const float*>(problem.inputs[1].constant->data()),
                        .rows = w.k,
                        .cols = w.n,
                        .row_step = trans ? 1 : w.n,
                        .col_step = trans ? w.k : 1};
  PackedConstant packed{.input = 1, .layout = layout(w), .bytes = {}};
  packed.bytes.resize(packed_elems(w.k, w.n) * sizeof(float));
  pack_panels(view, reinterpret_cast<float*>(packed.bytes.data()), 0, num_panels(w.n));
  return {std::move(packed)};
}

Tensor unpack_linear(const Problem& problem, const ConstantArg& packed) {
  const bool trans = transposed(problem);
  const Operand& weight = problem.inputs[1];
  const int64_t rows = weight.shape[0].constant(), cols = weight.shape[1].constant();
  const WeightShape w = trans ? WeightShape{cols, rows} : WeightShape{rows, cols};
  VERNIER_ASSERT(
      packed.layout == layout(w) && packed.bytes.size() == packed_elems(w.k, w.n) * sizeof(float),
      std::string(packed.layout));
  const auto* src = reinterpret_cast<const float*>(packed.bytes.data());
  std::vector<float> plain(static_cast<size_t>(w.k * w.n));
  for (int64_t i = 0; i < w.k; ++i) {
    for (int64_t j = 0; j < w.n; ++j) {
      const int64_t at = j / kPanelCols * kPanelCols * w.k + i * kPanelCols + j % kPanelCols;
      plain[static_cast<size_t>(trans ? j * w.k + i : i * w.n + j)] = src[at];
    }
  }
  return Tensor::from_bytes(DType::kF32, {rows, cols}, std::as_bytes(std::span(plain)));
}

bool linear_layout_is_current(std::string_view layout) {
  return layout.substr(0, kLayoutPrefix.size()) == kLayoutPrefix;
}

const float* packed_weight(const CreateCall& call) {
  for (const ConstantArg& constant : call.constants) {
    if (constant.input == 1 && linear_layout_is_current(constant.layout))
      return reinterpret_cast<const float*>(constant.bytes.data());
  }
  throw Error(ErrorCode::kInput,
              "the engine holds no packed weight for a linear step; expected "
              "layout \"panels64 f32\"; rebuild the engine");
}

LinearRun::LinearRun(const LaunchCall& call)
    : m(elems_between(call.in[0], 0, call.in[0].rank - 1)),
      k(call.in[0].dim(-1)),
      n(call.out[0].dim(-1)),
      rows(call.in[0]),
      x(call.in[0].as<const float>()),
      out(call.out[0].as<float>()),
      bias(call.in.size() > 2 ? call.in[2].as<const float>() : nullptr),
      residual(call.in.size() > 3 ? call.in[3].as<const float>() : nullptr),
      activation(decode<LinearAttrs>(call.attrs).activation) {}

EpilogueCall LinearRun::epilogue(int64_t row0, int64_t col0) const {
  const int64_t at = row0 * n + col0;
  return {.dst = out + at,
          .dst_step = n,
          .bias = bias == nullptr ? nullptr : bias + col0,
          .residual = residual == nullptr ? nullptr : residual + at,
          .residual_step = n,
          .activation = activation};
}

std::unique_ptr<LinearState> make_highway_linear(const float* packed) {
  return std::make_unique<HighwayLinear>(packed);
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
    .layout_is_current = &linear_layout_is_current,
    .create = [](const CreateCall& call) -> std::unique_ptr<KernelState> {
      return make_highway_linear(packed_weight(call));
    },
    .prepare = &prepare_linear,
    .launch = &launch_linear,
};

}  // namespace vernier::backend::cpu
