// cuda.linear.sm90: Linear with 16-bit operands on our own matrix product (gemm_sm90.h), everything
// in its epilogue; cuda.linear.sm90_tf32: the same with f32 operands whose products may be TF32;
// cuda.linear_add_layer_norm.sm90: followed by the sum and the norm (linear_norm_sm90.h).
// The weight is packed as [N, K] in its stored type; f32 is rounded to TF32 when it is loaded.
#include <algorithm>
#include <cstring>

#include "backend/cuda/check.h"
#include "backend/cuda/kernels/linear/gemm_sm90.h"
#include "backend/cuda/kernels/linear/linear_norm_sm90.h"
#include "backend/cuda/kernels/linear/row_buckets.h"
#include "backend/cuda/product_numerics.h"
#include "backend/cuda/usable.h"
#include "core/convert.h"

namespace vernier::backend::cuda {
namespace {

// ---- the packed weight: "k-major f16 K=768 N=3072", rows of K

constexpr std::string_view kLayout = "k-major";

WeightShape parse_layout(std::string_view text) {
  const WeightShape shape = weight_shape_of(text);
  for (DType type : {DType::kF16, DType::kBF16, DType::kF32}) {
    if (text == weight_layout(kLayout, type, shape)) return shape;
  }
  throw Error(ErrorCode::kInput, "a linear step's weight has layout \"" + std::string(text) +
                                     "\"; expected \"k-major f16 K=.. N=..\" or the like with bf16 "
                                     "or f32; rebuild the engine");
}

std::vector<PackedConstant> pack(const Problem& problem) {
  const Operand& weight = problem.inputs[1];
  const WeightShape w = weight_shape(problem);
  const Tensor plain = converted(*weight.constant, weight.dtype);
  PackedConstant packed{.input = 1, .layout = weight_layout(kLayout, weight.dtype, w), .bytes = {}};
  packed.bytes.resize(plain.bytes());
  if (is_weight_transposed(problem)) {
    std::memcpy(packed.bytes.data(), plain.data(), plain.bytes());
  } else {
    transpose_weight(size_bytes(weight.dtype), plain.data(), packed.bytes.data(), w.k, w.n);
  }
  return {std::move(packed)};
}

std::vector<PackedLayout> packed_layouts(const Problem& problem) {
  const WeightShape w = weight_shape(problem);
  const DType type = problem.inputs[1].dtype;
  return {{.input = 1,
           .layout = weight_layout(kLayout, type, w),
           .bytes = static_cast<size_t>(w.k * w.n) * size_bytes(type)}};
}

Tensor unpack(const Problem& problem, const ConstantArg& packed) {
  const WeightShape w = weight_shape(problem), stored = parse_layout(packed.layout);
  const DType type = problem.inputs[1].dtype;
  VERNIER_ASSERT(stored.k == w.k && stored.n == w.n &&
                     packed.bytes.size() == static_cast<size_t>(w.k * w.n) * size_bytes(type),
                 std::string(packed.layout));
  if (is_weight_transposed(problem)) return Tensor::from_bytes(type, {w.n, w.k}, packed.bytes);
  std::vector<std::byte> plain(packed.bytes.size());
  transpose_weight(size_bytes(type), packed.bytes.data(), plain.data(), w.n, w.k);
  return Tensor::from_bytes(type, {w.k, w.n}, plain);
}

// ---- supported problems

constexpr size_t kScale = 4, kShift = 5;  // inputs of LinearAddLayerNorm

Support supports_product(const Problem& problem) {
  const DType type = problem.inputs[0].dtype;
  Support support = supports_constant_weight(problem);
  for (size_t i = 2; support && i < 4; ++i) support = is_type_or_f32(problem, i, type);
  if (!support) return support;
  const DType out = problem.outputs[0].dtype;
  if (out != type && out != DType::kF32)
    return no("the output is " + std::string(name(out)) + ", this kernel gives " +
              std::string(name(type)) + " or f32");
  const WeightShape w = weight_shape(problem);
  if (w.k % 8 != 0 || w.n % 8 != 0)
    return no("K = " + std::to_string(w.k) + " or N = " + std::to_string(w.n) +
              " is not a multiple of 8");
  constexpr int64_t kMax = int64_t{1} << 30;
  if (w.k > kMax || w.n > kMax) return no("the weight is too large");
  if (!hopper_kernels_usable()) return no("no sm_90 GPU, or not compiled for sm_90a");
  return yes();
}

Support supports(const Problem& problem) {
  const Support support = supports_tensor_cores(problem);
  return support ? supports_product(problem) : support;
}
// The residual and the result are of the operands' type, scale and shift f32 constants.
Support supports_norm(const Problem& problem) {
  constexpr size_t kResidual = 3;
  const Support support = supports(problem);
  if (!support) return support;
  const DType type = problem.inputs[0].dtype;
  if (problem.inputs[kResidual].dtype != type || problem.outputs[0].dtype != type)
    return no("the residual or the output is not " + std::string(name(type)));
  for (size_t i = kScale; i <= kShift; ++i) {
    if (!problem.has_input(i)) continue;
    const Operand& input = problem.inputs[i];
    if (input.dtype != DType::kF32 || !input.is_constant())
      return no("scale and bias of the norm are not constants in f32");
  }
  const WeightShape w = weight_shape(problem);
  if (!linear_norm_sm90_has(static_cast<int>(w.n), static_cast<int>(w.k)))
    return no("N = " + std::to_string(w.n) +
              " is not 256, 384 or 512, or with K up to N 768 or 1024");
  return yes();
}
Support supports_tf32(const Problem& problem) {
  if (!takes_tf32(problem)) return no("its products may not be TF32");
  const Support support = supports_float_product(problem);
  if (!support) return support;
  if (problem.inputs[1].dtype != DType::kF32) return no("the weight is not f32");
  return supports_product(problem);
}

Numerics numerics(const Problem& problem) {
  Numerics numerics = tensor_core_numerics(problem);
  // device/activation.cuh: GELU of a 16-bit result is within 7e-7 times max(|x|, 1).
  if (numerics.approximation_abs > 0 && problem.outputs[0].dtype != DType::kF32)
    numerics.approximation_abs = numerics.approximation_rel = 8e-7;
  return numerics;
}

// The product takes the operands' type before the sum.
Numerics norm_numerics(const Problem& problem) {
  constexpr size_t kProductPoint = 2;
  Numerics numerics = tensor_core_numerics(problem);
  numerics.points[kProductPoint].type = problem.inputs[0].dtype;
  return numerics;
}

// ---- running

TileShapes tile_shapes() {
  return {gemm_sm90_variants(),
          &gemm_sm90_name,
          {gemm_sm90_few_rows(), kGemmFewRows, kGemmShapeSwitchUs}};
}

std::unique_ptr<KernelState> create(const CreateCall& call) {
  check_cuda(prepare_gemm_sm90(), "preparing Linear");
  return make_tiled_state(call, {&parse_layout}, tile_shapes());
}

GemmType gemm_type(DType type) {
  if (type == DType::kF32) return GemmType::kF32;
  return type == DType::kF16 ? GemmType::kF16 : GemmType::kBF16;
}
GemmType gemm_type(std::span<const TensorArg> operands, size_t i) {
  return given(operands, i) ? gemm_type(operands[i].dtype) : GemmType::kF32;
}

GemmSm90 product_of(const TiledState& state, std::span<const TensorArg> in,
                    std::span<const TensorArg> out) {
  const auto data = [in](size_t i) { return given(in, i) ? in[i].data : nullptr; };
  return {.x = in[0].data,
          .w = state.w,
          .bias = data(2),
          .residual = data(3),
          .y = out[0].data,
          .m = rows_of(in[0]),
          .n = static_cast<int>(state.shape.n),
          .k = static_cast<int>(state.shape.k),
          .operands = gemm_type(in[0].dtype),
          .bias_type = gemm_type(in, 2),
          .residual_type = gemm_type(in, 3),
          .y_type = gemm_type(out[0].dtype),
          .activation = static_cast<int>(state.activation),
          .processors = state.processors,
          .overlap = true,
          .constant_bias = state.constant_bias};
}

int tile_of(const TiledState& state, const GemmSm90& product) {
  const int tuned = state.tiles[bucket_of(product.m)];
  return tuned >= 0 && gemm_sm90_has(tuned, product.operands)
             ? tuned
             : gemm_sm90_choice(product.m, product.n, product.k, product.operands,
                                product.processors);
}

void launch(const LaunchCall& call) {
  const auto& state = static_cast<const TiledState&>(*call.state);
  GemmSm90 product = product_of(state, call.in, call.out);
  product.backwards = call.backwards;
  check_cuda(launch_gemm_sm90(product, tile_of(state, product), stream_of(call.execution)),
             "Linear");
}

std::string tune_products(const TuneCall& call, const TiledState& state, bool adds) {
  const std::array residual{RowInput{3, state.shape.n}};
  return tune_tiles(call, state.shape, residual, tile_shapes(), [&state, adds](const TileRun& run) {
    GemmSm90 product = product_of(state, run.in, run.out);
    product.m = run.rows;
    if (!adds) product.residual = nullptr;
    check_cuda(launch_gemm_sm90(product, run.tile, stream_of(run.execution)), "timing Linear");
  });
}
std::string tune(const TuneCall& call) {
  const auto made = create(call.create);
  return tune_products(call, static_cast<const TiledState&>(*made), true);
}

// ---- with a norm

struct NormState final : TiledState {
  float epsilon = 0;
  int64_t wave = 0;
};

std::unique_ptr<KernelState> create_norm(const CreateCall& call) {
  check_cuda(prepare_gemm_sm90(), "preparing Linear");
  check_cuda(prepare_linear_norm_sm90(), "preparing Linear with LayerNorm");
  auto state = std::make_unique<NormState>();
  fill_tiled_state(call, {&parse_layout}, tile_shapes(), *state);
  state->epsilon = static_cast<float>(decode<LinearNormAttrs>(call.attrs).epsilon);
  state->wave = linear_norm_sm90_wave(static_cast<int>(state->shape.n), state->processors);
  if (state->wave == 0)
    throw Error(ErrorCode::kInput, "no kernel has LayerNorm over " +
                                       std::to_string(state->shape.n) +
                                       " columns in its product; rebuild the engine");
  return state;
}

// How many of `rows`, from the first, one kernel computes; two kernels compute the others.
// In units of what a wave of rows takes with these two: one kernel takes 0.85 for it, and few rows
// take 0.3 more than their share (H200, bench_linear_norm).
int64_t joined_rows(int64_t rows, int64_t wave) {
  constexpr double kWave = 0.85, kFew = 0.3, kWorthIt = 0.97;
  const auto waves = static_cast<double>(rows / wave);
  const double rest = static_cast<double>(rows % wave) / static_cast<double>(wave);
  const double none = rows < wave ? kFew + (1 - kFew) * rest : waves + rest;
  const double whole = kWave * waves + (rest > 0 ? kFew + (1 - kFew) * rest : 0);
  const double all = kWave * (waves + (rest > 0 ? 1 : 0));
  if (std::min(all, whole) > kWorthIt * none) return 0;
  return all <= whole ? rows : rows / wave * wave;
}

// Rows [first, first + count).
LinearNormSm90 part_of(LinearNormSm90 norm, int64_t first, int64_t count) {
  GemmSm90& product = norm.product;
  const auto moved = [first](const void* data, int64_t row) {
    return static_cast<const std::byte*>(data) + first * row * 2;  // of 16 bits
  };
  product.x = moved(product.x, product.k);
  product.residual = moved(product.residual, product.n);
  product.y = static_cast<std::byte*>(product.y) + first * product.n * 2;
  product.m = count;
  return norm;
}

void launch_norm(const LaunchCall& call) {
  const auto& state = static_cast<const NormState&>(*call.state);
  LinearNormSm90 norm{.product = product_of(state, call.in, call.out),
                      .scale = call.in[kScale].as<const float>(),
                      .shift = given(call.in, kShift) ? call.in[kShift].as<const float>() : nullptr,
                      .epsilon = state.epsilon,
                      .wave = state.wave};
  norm.product.backwards = call.backwards;
  const cudaStream_t stream = stream_of(call.execution);
  const int64_t rows = norm.product.m,
                joined = linear_norm_sm90_joins(norm) ? joined_rows(rows, state.wave) : 0;
  if (joined > 0)
    check_cuda(launch_linear_norm_joined(part_of(norm, 0, joined), stream),
               "Linear with LayerNorm");
  if (joined == rows) return;
  // The product goes to y, and the norm from there to y.
  const LinearNormSm90 rest = part_of(norm, joined, rows - joined);
  GemmSm90 product = rest.product;
  product.residual = nullptr;
  check_cuda(launch_gemm_sm90(product, tile_of(state, product), stream), "Linear");
  check_cuda(launch_linear_norm_rows(rest, stream), "LayerNorm");
}

// The product alone: the norm takes as long behind any.
std::string tune_norm(const TuneCall& call) {
  const auto made = create_norm(call.create);
  return tune_products(call, static_cast<const TiledState&>(*made), false);
}

constexpr KernelBody body(Support (*supports)(const Problem&), Numerics (*numerics)(const Problem&),
                          const char* bit_class) {
  return {
      .supports = supports,
      .numerics = numerics,
      .bit_class = bit_class,
      .pack = &pack,
      .unpack = &unpack,
      .packed_layouts = &packed_layouts,
      .create = &create,
      .prepare = &prepare_tiled,
      .launch = &launch,
      .tune = &tune,
      .variants = kBucketVariants,
  };
}

constexpr KernelBody norm_body() {
  KernelBody made = body(&supports_norm, &norm_numerics,
                         "wgmma, 16 of K at a time, K not split; a row's sums in parts");
  made.create = &create_norm;
  made.launch = &launch_norm;
  made.tune = &tune_norm;
  return made;
}

}  // namespace

extern const KernelBody linear_sm90, linear_sm90_tf32, linear_norm_sm90;
constexpr KernelBody linear_norm_sm90 = norm_body();
constexpr KernelBody linear_sm90 =
    body(&supports, &numerics, "wgmma, 16 of K at a time, K not split");
constexpr KernelBody linear_sm90_tf32 =
    body(&supports_tf32, &tf32_numerics, "wgmma, 8 of K at a time, K not split");

}  // namespace vernier::backend::cuda
