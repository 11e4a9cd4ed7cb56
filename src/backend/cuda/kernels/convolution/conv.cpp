// The Conv and ConvTranspose rows of kernels.def; kernels in conv.cu. Contract: ConvAttrs in
// core/attrs.h; one to three spatial axes.
#include "backend/cuda/kernels/convolution/conv.h"

#include <algorithm>

#include "backend/cuda/body.h"
#include "backend/cuda/check.h"
#include "backend/cuda/kernels/convolution/window_shape.h"
#include "backend/cuda/lines.h"
#include "backend/cuda/product_numerics.h"

namespace vernier::backend::cuda {
namespace {

Support supports_conv_16(const Problem& problem) {
  Support support = supports_spatial(problem);
  return support ? supports_tensor_cores(problem) : support;
}
Support supports_conv(const Problem& problem) {
  Support support = supports_spatial(problem);
  return support ? supports_float_product(problem) : support;
}

// ONNX's ConvInteger and QLinearConv are sums of f64, which are exact.
Support supports_conv_f64(const Problem& problem) {
  const auto is_f64 = [](const Operand& o) { return !o.present || o.dtype == DType::kF64; };
  if (!std::ranges::all_of(problem.inputs, is_f64) || !std::ranges::all_of(problem.outputs, is_f64))
    return no("operands and result are not all f64");
  return supports_spatial(problem);
}
Numerics f64_numerics(const Problem& problem) {
  Numerics numerics = f32_numerics(problem);
  numerics.compute = numerics.accumulate = DType::kF64;
  return numerics;
}

ConvLaunch operands_of(const LaunchCall& call) {
  ConvLaunch conv{};
  conv.x = call.in[0].data;
  conv.w = call.in[1].data;
  conv.bias = given(call.in, 2) ? call.in[2].data : nullptr;
  conv.y = call.out[0].data;
  conv.x_type = call.in[0].dtype;
  conv.w_type = call.in[1].dtype;
  if (conv.bias != nullptr) conv.bias_type = call.in[2].dtype;
  conv.y_type = call.out[0].dtype;
  conv.batch = call.in[0].dim(0);
  return conv;
}

/// Sizes of the spatial axes of the weights.
std::span<const int64_t> kernel_of(const TensorArg& w) {
  return std::span(w.shape).subspan(2, w.rank - 2);
}

template <bool kTensorCores>
void launch_conv(const LaunchCall& call) {
  const auto& attrs = attrs_of<ConvAttrs>(call.state);
  const TensorArg& w = call.in[1];
  ConvLaunch conv = operands_of(call);
  conv.groups = static_cast<int>(attrs.group);
  conv.group_in = static_cast<int>(w.dim(1));
  conv.group_out = static_cast<int>(w.dim(0) / attrs.group);
  conv.windows =
      windows_of({kernel_of(w), attrs.strides, attrs.dilations, attrs.pads, attrs.auto_pad},
                 call.in[0], call.out[0]);
  check_cuda(convolve(conv, kTensorCores, stream_of(call.execution)), "Conv");
}

// Padding of ConvTranspose where the output size is fixed by output_shape or auto_pad.
void set_transposed_pads(const ConvAttrs& attrs, int spatial, Windows& w) {
  if (attrs.output_shape.empty() && (attrs.auto_pad == 0 || attrs.auto_pad == 3)) return;
  for (int i = 0; i < spatial; ++i) {
    const int to = kSpatial - spatial + i;
    const auto k = static_cast<size_t>(i);
    const int64_t extra = attrs.output_padding.empty() ? 0 : attrs.output_padding[k];
    // In 64 bits: windows_of() saw no padding of this kind.
    const int64_t full = int64_t{w.stride[to]} * (w.out[to] - 1) + extra +
                         int64_t{w.kernel[to] - 1} * w.dilation[to] + 1;
    const int total =
        size_in_32_bits(std::max<int64_t>(full - w.in[to], 0), "the padding of a window");
    w.pad[to] = attrs.auto_pad == 1 ? total / 2 : total - total / 2;
  }
}

void launch_conv_transpose(const LaunchCall& call) {
  const auto& attrs = attrs_of<ConvAttrs>(call.state);
  const TensorArg &x = call.in[0], &w = call.in[1];
  ConvLaunch conv = operands_of(call);
  conv.groups = static_cast<int>(attrs.group);
  conv.group_in = static_cast<int>(x.dim(1) / attrs.group);
  conv.group_out = static_cast<int>(w.dim(1));
  // The windows walk over the output, their positions are those of the input.
  conv.windows =
      windows_of({kernel_of(w), attrs.strides, attrs.dilations, attrs.pads, 0}, call.out[0], x);
  set_transposed_pads(attrs, x.rank - 2, conv.windows);
  check_cuda(convolve_transposed(conv, stream_of(call.execution)), "ConvTranspose");
}

}  // namespace

extern const KernelBody conv_tensor_cores, conv_tiles, conv_f64, conv_transpose_direct;
constexpr KernelBody conv_tensor_cores{
    .supports = &supports_conv_16,
    .numerics = &tensor_core_numerics,
    .create = &decode_once<ConvAttrs>,
    .launch = &launch_conv<true>,
};
constexpr KernelBody conv_tiles{
    .supports = &supports_conv,
    .numerics = &float_product_numerics,
    .create = &decode_once<ConvAttrs>,
    .launch = &launch_conv<false>,
};
constexpr KernelBody conv_f64{
    .supports = &supports_conv_f64,
    .numerics = &f64_numerics,
    .create = &decode_once<ConvAttrs>,
    .launch = &launch_conv<false>,
};
constexpr KernelBody conv_transpose_direct{
    .supports = &supports_conv,
    .numerics = &float_product_numerics,
    .create = &decode_once<ConvAttrs>,
    .launch = &launch_conv_transpose,
};

}  // namespace vernier::backend::cuda
