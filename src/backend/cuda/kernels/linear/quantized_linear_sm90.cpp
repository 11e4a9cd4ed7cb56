// cuda.quantized_linear.sm90: QuantizedLinear on our own matrix product (gemm_sm90.h), everything
// in its epilogue; cuda.quantized_linear.sm90_fast: the same of f8e4m3, where sums may be less
// exact than f32's.
//
// x        [..., K], q8 or i8        w: constant [K, N] or [N, K], q8 or i8; or both f8e4m3
// scales   f32, w's constant; zero points of x: f32, or one i8; of w: constants of i8
// others   bias, residual and y: f32 and one of f16 and bf16
// Error    sums are exact integers (of f8e4m3: as gemm_sm90.h has them); then f32: a few 2^-24 of
//          each addend, the activation's, and half an ulp of y. Where x's scale and zero point are
//          one constant each, the columns' scales and bias have them in them.
// The weight is packed as [N, K]; behind it Σ_k (w − zero) by column, f32 (of f8e4m3, without zero
// points: 0). With zero points of w a launch ahead adds up the rows of x; 4 bytes of workspace
// each.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "backend/cuda/check.h"
#include "backend/cuda/kernels/elementwise/quantize_rows_step.h"
#include "backend/cuda/kernels/linear/gemm_sm90.h"
#include "backend/cuda/kernels/linear/row_buckets.h"
#include "backend/cuda/kernels/linear/row_sums.h"
#include "backend/cuda/usable.h"
#include "backend/supports.h"
#include "core/convert.h"

namespace vernier::backend::cuda {
namespace {

constexpr std::string_view kLayout = "k-major";

size_t packed_bytes(const WeightShape& w) {
  return static_cast<size_t>(w.k * w.n) + static_cast<size_t>(w.n) * sizeof(float);
}

WeightShape parse_layout(std::string_view text) {
  const WeightShape shape = weight_shape_of(text);
  for (DType type : {DType::kQ8, DType::kI8, DType::kF8E4M3}) {
    if (text == weight_layout(kLayout, type, shape)) return shape;
  }
  throw Error(ErrorCode::kInput,
              "a quantized product's weight has layout \"" + std::string(text) +
                  "\"; expected \"k-major q8 K=.. N=..\", i8 or f8e4m3; rebuild the "
                  "engine");
}

std::vector<PackedConstant> pack(const Problem& problem) {
  const Operand& weight = problem.inputs[kQuantizedW];
  const WeightShape w = weight_shape(problem);
  const bool is_f8 = weight.dtype == DType::kF8E4M3;
  const Tensor plain =
      is_float(weight.dtype) ? converted(*weight.constant, weight.dtype) : *weight.constant;
  PackedConstant packed{
      .input = kQuantizedW, .layout = weight_layout(kLayout, weight.dtype, w), .bytes = {}};
  packed.bytes.resize(packed_bytes(w));
  if (is_weight_transposed(problem)) {
    std::memcpy(packed.bytes.data(), plain.data(), plain.bytes());
  } else {
    transpose_weight(1, plain.data(), packed.bytes.data(), w.k, w.n);
  }
  const auto* bytes = reinterpret_cast<const int8_t*>(packed.bytes.data());
  auto* sums = reinterpret_cast<float*>(packed.bytes.data() + w.k * w.n);  // w.k is 16·i
  const Tensor* zeros = problem.has_input(kWZero) ? problem.inputs[kWZero].constant : nullptr;
  for (int64_t column = 0; column < w.n; ++column) {
    int64_t sum = 0;
    if (zeros != nullptr) sum = -w.k * zeros->integer_at(zeros->elems() == 1 ? 0 : column);
    for (int64_t k = 0; k < w.k && !is_f8; ++k) sum += bytes[column * w.k + k];
    sums[column] = static_cast<float>(sum);
  }
  return {std::move(packed)};
}

std::vector<PackedLayout> packed_layouts(const Problem& problem) {
  const WeightShape w = weight_shape(problem);
  return {{.input = kQuantizedW,
           .layout = weight_layout(kLayout, problem.inputs[kQuantizedW].dtype, w),
           .bytes = packed_bytes(w)}};
}

Tensor unpack(const Problem& problem, const ConstantArg& packed) {
  const WeightShape w = weight_shape(problem), stored = parse_layout(packed.layout);
  const DType type = problem.inputs[kQuantizedW].dtype;
  VERNIER_ASSERT(stored.k == w.k && stored.n == w.n && packed.bytes.size() == packed_bytes(w),
                 std::string(packed.layout));
  const auto bytes = packed.bytes.first(w.k * w.n);
  if (is_weight_transposed(problem)) return Tensor::from_bytes(type, {w.n, w.k}, bytes);
  std::vector<std::byte> plain(bytes.size());
  transpose_weight(1, bytes.data(), plain.data(), w.n, w.k);
  return Tensor::from_bytes(type, {w.k, w.n}, plain);
}

// ---- supported problems

Support supports_operands(const Problem& problem) {
  const bool is_f8 = problem.inputs[kQuantizedX].dtype == DType::kF8E4M3;
  for (size_t i : {kQuantizedX, kQuantizedW}) {
    const DType type = problem.inputs[i].dtype;
    if (is_f8 ? type != DType::kF8E4M3 : type != DType::kQ8 && type != DType::kI8)
      return no("input " + std::to_string(i) + " is " + std::string(name(type)) +
                ", this kernel takes q8 and i8, or f8e4m3 of both");
  }
  if (const Support operands = quantized_operands(problem); !operands) return operands;
  if (is_f8 && problem.asked.compute.type != DType::kF8E4M3 &&
      !is_16_bit_float(problem.outputs[0].dtype))
    return no("sums of the model's own f8e4m3 are not exact enough for a result of f32");
  if (problem.has_input(kWZero) && (is_f8 || problem.inputs[kWZero].dtype != DType::kI8))
    return no("zero points of the weight are not i8");
  if (!problem.has_input(kXZero)) return yes();
  if (is_f8) return no("f8e4m3 has no zero points");
  const Operand& zero = problem.inputs[kXZero];
  if (zero.dtype != DType::kF32 && (zero.dtype != DType::kI8 || product(zero.shape) != Dim(1)))
    return no("the zero points are neither f32 nor one i8");
  return yes();
}

// bias, residual and the result are f32 or all of one type of 16 bits.
Support supports_types(const Problem& problem) {
  DType narrow = DType::kF32;
  const auto fits = [&narrow](const Operand& o) {
    if (!o.present || o.dtype == DType::kF32) return true;
    if (!is_16_bit_float(o.dtype) || (narrow != DType::kF32 && narrow != o.dtype)) return false;
    narrow = o.dtype;
    return true;
  };
  const bool all =
      fits(problem.outputs[0]) &&
      (!problem.has_input(kQuantizedBias) || fits(problem.inputs[kQuantizedBias])) &&
      (!problem.has_input(kQuantizedResidual) || fits(problem.inputs[kQuantizedResidual]));
  return all ? yes() : no("bias, residual and result are not f32 and one of f16 and bf16");
}

Support supports(const Problem& problem) {
  if (const Support operands = supports_operands(problem); !operands) return operands;
  if (const Support weight = supports_weight_matrix(problem); !weight) return weight;
  if (const Support residual = supports_residual(problem, kQuantizedResidual); !residual)
    return residual;
  if (const Support types = supports_types(problem); !types) return types;
  const WeightShape w = weight_shape(problem);
  if (w.k % 16 != 0 || w.n % 8 != 0)
    return no("K = " + std::to_string(w.k) +
              " is not a multiple of 16, or N = " + std::to_string(w.n) + " of 8");
  constexpr int64_t kMax = int64_t{1} << 30;
  if (w.n > kMax) return no("the weight is too large");
  if (!hopper_kernels_usable()) return no("no sm_90 GPU, or not compiled for sm_90a");
  return yes();
}

Support supports_fast(const Problem& problem) {
  const TypeRequest& sums = problem.asked.accumulate;
  if (problem.inputs[kQuantizedX].dtype != DType::kF8E4M3) return no("the operands are not f8e4m3");
  if (sums.type == DType::kUndefined || !represents(DType::kTF32, sums.type) ||
      (sums.exact && sums.type != DType::kTF32))
    return no("sums are asked for in f32");
  if (const int64_t k = weight_shape(problem).k; k > kMostFastProducts)
    return no("sums of K = " + std::to_string(k) + " products lose too much; at most " +
              std::to_string(kMostFastProducts));
  return supports(problem);
}

// wgmma cuts products of f8 off at a 2^-12th or less of the largest of 32 of them and the sum of
// those before. What `products` of them lose, rms, as a part of the root of the sum of their
// squares and of the sum: a quarter of this where one is far larger than the others, a tenth where
// all are alike; more where, beside that, most have one sign (TileShapes.SumsOfF8...).
double f8_sum_error(int64_t products) { return std::sqrt(static_cast<double>(products)) * 0x1p-14; }

Numerics numerics(const Problem& problem) {
  Numerics numerics = quantized_numerics(problem);
  if (problem.inputs[kQuantizedX].dtype == DType::kF8E4M3) {
    numerics.sum_error = f8_sum_error(std::min(kPromotedProducts, weight_shape(problem).k));
    // Of a model's own numbers, which are not rounded: the sums are no better than TF32's products.
    if (numerics.compute == DType::kF32) numerics.compute = DType::kTF32;
  }
  // device/activation.cuh: GELU of a 16-bit result is within 7e-7 times max(|x|, 1).
  if (numerics.approximation_abs > 0 && problem.outputs[0].dtype != DType::kF32)
    numerics.approximation_abs = numerics.approximation_rel = 8e-7;
  return numerics;
}

// wgmma keeps more bits of its sums than TF32 has, cut off where f32's are rounded.
Numerics fast_numerics(const Problem& problem) {
  Numerics numerics = cuda::numerics(problem);
  numerics.accumulate = DType::kTF32;
  numerics.sum_error = f8_sum_error(weight_shape(problem).k);
  return numerics;
}

// ---- running

struct QuantizedState : TiledState {
  bool fast_sums = false;
  bool one_scale = false, one_zero = false;  ///< of x: constant, one number
};

TileShapes tile_shapes() {
  return {gemm_sm90_variants(),
          &gemm_sm90_name,
          {gemm_sm90_few_rows(), kGemmFewRows, kGemmShapeSwitchUs}};
}

template <bool kFast>
std::unique_ptr<KernelState> create(const CreateCall& call) {
  check_cuda(prepare_gemm_sm90(), "preparing QuantizedLinear");
  auto state = std::make_unique<QuantizedState>();
  fill_tiled_state(call, {&parse_layout, 1, kQuantizedBias}, tile_shapes(), *state);
  state->activation = decode<QuantizedLinearAttrs>(call.attrs).activation;
  state->fast_sums = kFast;
  const auto one_constant = [&call](size_t i) {
    const TensorArg arg = operand_at(call.constant_inputs, i);
    return arg.data != nullptr && arg.elems() == 1;
  };
  state->one_scale = one_constant(kXScale), state->one_zero = one_constant(kXZero);
  return state;
}

GemmType gemm_type(std::span<const TensorArg> operands, size_t i) {
  if (!given(operands, i) || operands[i].dtype == DType::kF32) return GemmType::kF32;
  return operands[i].dtype == DType::kF16 ? GemmType::kF16 : GemmType::kBF16;
}

GemmType operand_type(const QuantizedState& state, std::span<const TensorArg> in) {
  if (in[kQuantizedX].dtype != DType::kF8E4M3) return GemmType::kI8;
  return state.fast_sums ? GemmType::kF8Fast : GemmType::kF8;
}

// But for zero points of w, which need sums of x's rows (launch).
GemmSm90 product_of(const QuantizedState& state, std::span<const TensorArg> in,
                    std::span<const TensorArg> out) {
  const auto data = [in](size_t i) { return given(in, i) ? in[i].data : nullptr; };
  const auto numbers = [&data](size_t i) { return reinterpret_cast<const float*>(data(i)); };
  const auto several = [in](size_t i) { return given(in, i) && in[i].elems() != 1; };
  const bool real_zero = given(in, kXZero) && is_float(in[kXZero].dtype);
  const GemmScales scales{
      .x = numbers(kXScale),
      .x_zeros = real_zero ? numbers(kXZero) : nullptr,
      .x_zero = real_zero ? nullptr : reinterpret_cast<const int8_t*>(data(kXZero)),
      .w = numbers(kWScale),
      .w_sums = reinterpret_cast<const float*>(state.w + state.shape.k * state.shape.n),
      .by_row = several(kXScale),
      .zeros_by_row = several(kXZero),
      .by_column = several(kWScale),
      .folded = state.one_scale && (state.one_zero || !given(in, kXZero))};
  return {.x = in[kQuantizedX].data,
          .w = state.w,
          .bias = data(kQuantizedBias),
          .residual = data(kQuantizedResidual),
          .y = out[0].data,
          .m = rows_of(in[kQuantizedX]),
          .n = static_cast<int>(state.shape.n),
          .k = static_cast<int>(state.shape.k),
          .operands = operand_type(state, in),
          .bias_type = gemm_type(in, kQuantizedBias),
          .residual_type = gemm_type(in, kQuantizedResidual),
          .y_type = gemm_type(out, 0),
          .activation = static_cast<int>(state.activation),
          .processors = state.processors,
          .overlap = true,
          .constant_bias = state.constant_bias,
          .scales = scales};
}

int tile_of(const QuantizedState& state, const GemmSm90& product) {
  const int tuned = state.tiles[bucket_of(product.m)];
  if (tuned >= 0 && gemm_sm90_has(tuned, product.operands)) return tuned;
  return gemm_sm90_choice(product.m, product.n, product.k, product.operands, product.processors);
}

std::unique_ptr<ShapeState> prepare(const PrepareCall& call) {
  auto state = prepare_tiled(call);
  if (given(call.in, kWZero))
    state->workspace_bytes = static_cast<size_t>(rows_of(call.in[kQuantizedX])) * sizeof(int32_t);
  return state;
}

void launch(const LaunchCall& call) {
  const auto& state = static_cast<const QuantizedState&>(*call.state);
  GemmSm90 product = product_of(state, call.in, call.out);
  product.backwards = call.backwards;
  if (given(call.in, kWZero)) {
    const TensorArg& zero = call.in[kWZero];
    auto* sums = reinterpret_cast<int32_t*>(call.workspace);
    check_cuda(launch_row_sums(static_cast<const int8_t*>(product.x), product.m, product.k, sums,
                               stream_of(call.execution)),
               "the sums of QuantizedLinear's rows");
    product.scales.w_zeros = zero.as<const int8_t>();
    product.scales.x_sums = sums;
    product.scales.w_zeros_by_column = zero.elems() != 1;
  }
  if (const auto by = given_scale_behind(call))
    product.quantized = {.q = by->q, .factors = by->factors, .scale = by->scale, .zero = by->zero};
  check_cuda(launch_gemm_sm90(product, tile_of(state, product), stream_of(call.execution)),
             "QuantizedLinear");
  if (call.next != nullptr && product.quantized.q == nullptr) launch_quantize_rows(*call.next);
}

// A QuantizeRows with a given scale of results in f16.
bool joins(const Problem& own, const Problem& next) {
  const bool to_f8 = next.outputs[0].dtype == DType::kF8E4M3;
  return quantizes_result_of(own, next) && next.has_input(2) &&
         to_f8 == (own.inputs[kQuantizedX].dtype == DType::kF8E4M3) &&
         own.outputs[0].dtype == DType::kF16 && !own.has_input(kQuantizedResidual);
}

template <bool kFast>
std::string tune(const TuneCall& call) {
  const auto made = create<kFast>(call.create);
  const auto& state = static_cast<const QuantizedState&>(*made);
  const std::array others{RowInput{kXScale, 1}, RowInput{kXZero, 1},
                          RowInput{kQuantizedResidual, state.shape.n}};
  return tune_tiles(call, state.shape, others, tile_shapes(), [&](const TileRun& run) {
    GemmSm90 product = product_of(state, run.in, run.out);
    product.m = run.rows;
    if (!call.next_in.empty()) {  // into the result's memory, which is larger
      const GivenScale by = given_scale(call.next_in, run.out[0]);
      product.quantized = {.q = by.q, .factors = by.factors, .scale = by.scale, .zero = by.zero};
    }
    check_cuda(launch_gemm_sm90(product, run.tile, stream_of(run.execution)),
               "timing QuantizedLinear");
  });
}

template <bool kFast>
constexpr KernelBody body(Support (*supports)(const Problem&), Numerics (*numerics)(const Problem&),
                          const char* bit_class) {
  return {.supports = supports,
          .numerics = numerics,
          .bit_class = bit_class,
          .pack = &pack,
          .unpack = &unpack,
          .packed_layouts = &packed_layouts,
          .create = &create<kFast>,
          .prepare = &prepare,
          .launch = &launch,
          .tune = &tune<kFast>,
          .joins = &joins,
          .variants = kBucketVariants};
}

}  // namespace

extern const KernelBody quantized_linear_sm90, quantized_linear_sm90_fast;
constexpr KernelBody quantized_linear_sm90 =
    body<false>(&supports, &numerics, "exact sums, or those of f8 in one order, then f32");
constexpr KernelBody quantized_linear_sm90_fast =
    body<true>(&supports_fast, &fast_numerics, "sums of f8 in one order, then f32");

}  // namespace vernier::backend::cuda
