// The QuantizeLinear, DequantizeLinear and NegativeLogLikelihoodLoss rows of kernels.def; kernels
// in quantise.cu. Contract: QuantizeAttrs and LossAttrs in core/attrs.h.
#include "backend/cuda/kernels/elementwise/quantise.h"

#include "backend/cuda/body.h"
#include "backend/cuda/check.h"

namespace vernier::backend::cuda {
namespace {

bool is_up_to_f64(DType type) {
  return type == DType::kF64 || type == DType::kF32 || is_16_bit_float(type);
}
bool takes_integer(DType type) { return is_integer(type) && !is_only_evaluated(type); }
Support no_loop(const char* what, DType type) {
  return no(std::string(what) + " is " + std::string(name(type)));
}

Support supports_quantise(const Problem& problem) {
  const DType x = problem.inputs[0].dtype, scale = problem.inputs[1].dtype,
              y = problem.outputs[0].dtype;
  if (!is_up_to_f64(x) && !is_integer(x)) return no_loop("the input", x);
  if (!is_up_to_f64(scale)) return no_loop("the scale", scale);
  if (!is_8_bit_float(y) && (!takes_integer(y) || size_bytes(y) > 4))
    return no_loop("the output", y);
  return yes();
}
Support supports_dequantise(const Problem& problem) {
  const DType x = problem.inputs[0].dtype, scale = problem.inputs[1].dtype,
              y = problem.outputs[0].dtype;
  if (!is_8_bit_float(x) && !takes_integer(x)) return no_loop("the input", x);
  if (!is_up_to_f64(scale)) return no_loop("the scale", scale);
  if (!is_up_to_f64(y)) return no_loop("the output", y);
  return yes();
}

// In f64, rounded once to the stored type.
Numerics f64_numerics(const Problem& problem) {
  Numerics numerics = f32_numerics(problem);
  numerics.compute = numerics.accumulate = DType::kF64;
  return numerics;
}

QuantiseLaunch arguments(const LaunchCall& call) {
  const auto attrs = decode<QuantizeAttrs>(call.attrs);
  const TensorArg &x = call.in[0], &scale = call.in[1], &y = call.out[0];
  QuantiseLaunch args{};
  args.x = array_of(x);
  args.scale = array_of(scale);
  args.zero = optional_array(call.in, 2);
  args.y = array_of(y);
  args.size = args.inner = 1;
  args.block = attrs.block_size;
  args.one_scale = scale.elems() == 1 && attrs.block_size == 0;
  args.one_zero = args.zero.data != nullptr && elems_of(args.zero) == 1;
  args.saturate = attrs.saturate;
  if (!args.one_scale) {
    const auto axis = static_cast<int>(positive_axis(attrs.axis, x.rank));
    args.size = x.dim(axis);
    args.inner = elems_between(x, axis + 1, x.rank);
    args.blocks = args.block > 0 ? scale.dim(axis) : 0;
  }
  if (is_integer(y.dtype)) {
    const int bits = 8 * static_cast<int>(size_bytes(y.dtype));
    args.lowest = is_signed_integer(y.dtype) ? -(int64_t{1} << (bits - 1)) : 0;
    args.highest = args.lowest + (int64_t{1} << bits) - 1;
  }
  return args;
}

void launch_quantise(const LaunchCall& call) {
  check_cuda(quantise(arguments(call), stream_of(call.execution)), "QuantizeLinear");
}
void launch_dequantise(const LaunchCall& call) {
  check_cuda(dequantise(arguments(call), stream_of(call.execution)), "DequantizeLinear");
}

Support supports_loss(const Problem& problem) {
  if (!is_integer(problem.inputs[1].dtype)) return no_loop("the target", problem.inputs[1].dtype);
  return all_up_to_f32(problem);
}

void launch_loss(const LaunchCall& call) {
  const auto attrs = decode<LossAttrs>(call.attrs);
  const TensorArg& x = call.in[0];
  check_cuda(negative_log_likelihood({.x = array_of(x),
                                      .targets = array_of(call.in[1]),
                                      .weights = optional_array(call.in, 2),
                                      .y = array_of(call.out[0]),
                                      .classes = x.dim(1),
                                      .inner = elems_between(x, 2, x.rank),
                                      .ignores = attrs.ignores,
                                      .sums = attrs.reduction == LossReduction::kSum,
                                      .mean = attrs.reduction == LossReduction::kMean,
                                      .ignore_index = attrs.ignore_index},
                                     stream_of(call.execution)),
             "NegativeLogLikelihoodLoss");
}

}  // namespace

extern const KernelBody quantise_direct, dequantise_direct, negative_log_likelihood_block;
constexpr KernelBody quantise_direct{
    .supports = &supports_quantise,
    .numerics = &f64_numerics,
    .launch = &launch_quantise,
};
constexpr KernelBody dequantise_direct{
    .supports = &supports_dequantise,
    .numerics = &f64_numerics,
    .launch = &launch_dequantise,
};
constexpr KernelBody negative_log_likelihood_block{
    .supports = &supports_loss,
    .numerics = &f32_numerics,
    .launch = &launch_loss,
};

}  // namespace vernier::backend::cuda
