// cuda.linear.cuda_cores: Linear with f32 operands, in f32 throughout, on our own matrix product
// (linear_f32.h), everything in its epilogue. The weight is packed in panels of 16 columns.
#include "backend/cuda/kernels/linear/linear_f32.h"

#include "backend/cuda/check.h"
#include "backend/cuda/kernels/linear/row_buckets.h"
#include "backend/cuda/product_numerics.h"
#include "backend/cuda/usable.h"
#include "core/convert.h"
#include "core/threads.h"

namespace vernier::backend::cuda {
namespace {

// ---- the packed weight: "panels f32 K=768 N=3072"

constexpr std::string_view kLayout = "panels";

WeightShape parse_layout(std::string_view text) {
  const WeightShape shape = weight_shape_of(text);
  if (text == weight_layout(kLayout, DType::kF32, shape)) return shape;
  throw Error(ErrorCode::kInput, "a linear step's weight has layout \"" + std::string(text) +
                                     "\"; expected \"panels f32 K=.. N=..\"; rebuild the engine");
}
size_t packed_elems(const WeightShape& w) {
  return static_cast<size_t>(panels_of(w.n) * kPanelCols * padded_k(w.k));
}

// visit(element of the plain weight, element of the packed one) for every element, panels in
// parallel.
template <class Visit>
void for_each_element(const WeightShape& w, bool trans_w, const Visit& visit) {
  constexpr int64_t kLeastElems = int64_t{1} << 18;  // of a thread
  in_parallel(panels_of(w.n), kLeastElems / (w.k * kPanelCols) + 1,
              [=](int64_t begin, int64_t end) {
                for (int64_t panel = begin; panel < end; ++panel) {
                  const int64_t first = panel * kPanelCols;
                  const int64_t cols = std::min<int64_t>(kPanelCols, w.n - first);
                  for (int64_t k = 0; k < w.k; ++k) {
                    for (int64_t col = 0; col < cols; ++col) {
                      const int64_t n = first + col;
                      visit(trans_w ? n * w.k + k : k * w.n + n,
                            (panel * padded_k(w.k) + k) * kPanelCols + col);
                    }
                  }
                }
              });
}

std::vector<PackedConstant> pack(const Problem& problem) {
  const Operand& weight = problem.inputs[1];
  const WeightShape w = weight_shape(problem);
  const Tensor plain = converted(*weight.constant, DType::kF32);
  PackedConstant packed{.input = 1, .layout = weight_layout(kLayout, DType::kF32, w), .bytes = {}};
  packed.bytes.resize(packed_elems(w) * sizeof(float));
  const auto* src = reinterpret_cast<const float*>(plain.data());
  auto* dst = reinterpret_cast<float*>(packed.bytes.data());
  for_each_element(w, problem.attrs_as<LinearAttrs>().trans_w,
                   [=](int64_t from, int64_t to) { dst[to] = src[from]; });
  return {std::move(packed)};
}

std::vector<PackedLayout> packed_layouts(const Problem& problem) {
  const WeightShape w = weight_shape(problem);
  return {{.input = 1,
           .layout = weight_layout(kLayout, DType::kF32, w),
           .bytes = packed_elems(w) * sizeof(float)}};
}

Tensor unpack(const Problem& problem, const ConstantArg& packed) {
  const WeightShape w = weight_shape(problem), stored = parse_layout(packed.layout);
  VERNIER_ASSERT(
      stored.k == w.k && stored.n == w.n && packed.bytes.size() == packed_elems(w) * sizeof(float),
      std::string(packed.layout));
  const bool trans_w = problem.attrs_as<LinearAttrs>().trans_w;
  std::vector<std::byte> plain(static_cast<size_t>(w.k * w.n) * sizeof(float));
  const auto* src = reinterpret_cast<const float*>(packed.bytes.data());
  auto* dst = reinterpret_cast<float*>(plain.data());
  for_each_element(w, trans_w, [=](int64_t to, int64_t from) { dst[to] = src[from]; });
  return Tensor::from_bytes(DType::kF32, trans_w ? Shape{w.n, w.k} : Shape{w.k, w.n}, plain);
}

// ---- supported problems

Support supports(const Problem& problem) {
  if (problem.inputs[0].dtype != DType::kF32 || problem.inputs[1].dtype != DType::kF32)
    return no("operands are not f32");
  if (takes_tf32(problem)) return no("the request allows TF32, which tensor cores take");
  Support support = supports_float_product(problem);
  if (support) support = supports_constant_weight(problem);
  if (!support) return support;
  const WeightShape w = weight_shape(problem);
  constexpr int64_t kMax = int64_t{1} << 30;
  if (w.k > kMax || w.n > kMax) return no("the weight is too large");
  if (!copy_engine_usable()) return no("no sm_90 GPU, or not compiled for one");
  return yes();
}

// ---- running

TileShapes tile_shapes() { return {linear_f32_variants(), &linear_f32_name}; }

std::unique_ptr<KernelState> create(const CreateCall& call) {
  check_cuda(prepare_linear_f32(), "preparing Linear");
  auto state = make_tiled_state(call, {&parse_layout}, tile_shapes());
  for (const ConstantArg& constant : call.constants) {
    if (constant.input == 1 && constant.bytes.size() != packed_elems(state->shape) * sizeof(float))
      throw Error(ErrorCode::kInput,
                  "the packed weight '" + std::string(constant.layout) + "' has " +
                      std::to_string(constant.bytes.size()) + " bytes, " +
                      std::to_string(packed_elems(state->shape) * sizeof(float)) +
                      " expected; rebuild the engine");
  }
  return state;
}

LinearF32 product_of(const TiledState& state, int64_t rows, std::span<const TensorArg> in,
                     std::span<const TensorArg> out) {
  const FloatArray bias = float_array(in, 2), residual = float_array(in, 3);
  return {.x = in[0].as<const float>(),
          .w = reinterpret_cast<const float*>(state.w),
          .bias = bias.data,
          .residual = residual.data,
          .y = out[0].data,
          .m = rows,
          .n = static_cast<int>(state.shape.n),
          .k = static_cast<int>(state.shape.k),
          .bias_type = bias.type,
          .residual_type = residual.type,
          .y_type = out[0].dtype,
          .activation = static_cast<int>(state.activation),
          .processors = state.processors};
}

void launch(const LaunchCall& call) {
  const auto& state = static_cast<const TiledState&>(*call.state);
  const LinearF32 product = product_of(state, rows_of(call.in[0]), call.in, call.out);
  const int tuned = state.tiles[bucket_of(product.m)];
  const int variant =
      tuned >= 0 ? tuned : linear_f32_choice(product.m, product.n, product.k, product.processors);
  check_cuda(launch_linear_f32(product, variant, stream_of(call.execution)), "Linear");
}

std::string tune(const TuneCall& call) {
  const auto made = create(call.create);
  const auto& state = static_cast<const TiledState&>(*made);
  const std::array residual{RowInput{3, state.shape.n}};
  return tune_tiles(call, state.shape, residual, tile_shapes(), [&state](const TileRun& run) {
    check_cuda(launch_linear_f32(product_of(state, run.rows, run.in, run.out), run.tile,
                                 stream_of(run.execution)),
               "timing Linear");
  });
}

}  // namespace

extern const KernelBody linear_f32;
constexpr KernelBody linear_f32{
    .supports = &supports,
    .numerics = &float_product_numerics,
    .bit_class = "one chain of f32 fused multiply-adds over K",
    .pack = &pack,
    .unpack = &unpack,
    .packed_layouts = &packed_layouts,
    .create = &create,
    .prepare = &prepare_tiled,
    .launch = &launch,
    .tune = &tune,
    .variants = kBucketVariants,
};

}  // namespace vernier::backend::cuda
