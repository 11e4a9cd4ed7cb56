// Inference and cost of Conv, ConvTranspose and the pools. Contract: context.h, rules.h; attribute
// meanings at ConvAttrs and PoolAttrs in core/attrs.h. Data is [batch, channels, spatial...].
#include "rules/checks.h"

namespace vernier::rules {
namespace {

// The windows of one spatial axis.
struct AxisWindow {
  Dim kernel;
  int64_t stride = 1, dilation = 1, pad_begin = 0, pad_end = 0;
  int64_t auto_pad = 0;
  Dim reach() const { return (kernel - 1) * Dim(dilation) + 1; }  // input positions it spans
};

int64_t item_or(const std::vector<int64_t>& list, size_t i, int64_t otherwise) {
  return list.empty() ? otherwise : list[i];
}

// Fails unless a list attribute is empty or has one item per axis (pads: two).
void check_count(InferContext& context, const std::vector<int64_t>& list, size_t expected,
                 const char* what) {
  if (list.empty() || list.size() == expected) return;
  context.fail(std::string(what) + " has " + std::to_string(list.size()) + " items, expected " +
               std::to_string(expected));
}

template <class Attrs>
std::vector<AxisWindow> axis_windows(InferContext& context, const Attrs& attrs,
                                     const SymShape& kernel) {
  const size_t rank = context.shape(0).size() - 2;
  require_between(context, "auto_pad", attrs.auto_pad, 0, 3);
  check_count(context, attrs.strides, rank, "strides");
  check_count(context, attrs.dilations, rank, "dilations");
  check_count(context, attrs.pads, 2 * rank, "pads");
  if (kernel.size() != rank) {
    context.fail("the kernel has " + std::to_string(kernel.size()) + " axes, input 0 of shape " +
                 str(context.shape(0)) + " has " + std::to_string(rank) + " spatial ones");
  }
  std::vector<AxisWindow> windows;
  for (size_t i = 0; i < rank; ++i) {
    AxisWindow w{kernel[i],     item_or(attrs.strides, i, 1), item_or(attrs.dilations, i, 1), 0, 0,
                 attrs.auto_pad};
    if (w.stride < 1 || w.dilation < 1) context.fail("strides and dilations must be positive");
    require_between(context, "a stride", w.stride, 1);
    require_between(context, "a dilation", w.dilation, 1);
    context.require_at_most(1, kernel[i]);
    context.require_at_most(kernel[i], kLargestNumber);
    if (attrs.auto_pad == 0) {
      w.pad_begin = item_or(attrs.pads, i, 0);
      w.pad_end = item_or(attrs.pads, rank + i, 0);
      require_between(context, "a pad", w.pad_begin, -kLargestNumber);
      require_between(context, "a pad", w.pad_end, -kLargestNumber);
    }
    windows.push_back(std::move(w));
  }
  return windows;
}

Dim ceildiv(const Dim& a, int64_t b) { return floordiv(a + Dim(b - 1), b); }

// Output positions along one axis.
Dim output_size(InferContext& context, const AxisWindow& w, const Dim& in, bool ceil_mode) {
  if (w.auto_pad == 1 || w.auto_pad == 2) return ceildiv(in, w.stride);
  const Dim slack = in + Dim(w.pad_begin + w.pad_end) - w.reach();
  if (const auto known = slack.as_constant(); known && *known < 0) {
    context.fail("the window spans " + w.reach().str() + " positions but input 0 of shape " +
                 str(context.shape(0)) + " has fewer, padding included");
  }
  context.require_at_most(w.reach() - Dim(w.pad_begin + w.pad_end), in);
  if (!ceil_mode) return floordiv(slack, w.stride) + 1;
  // The last window must begin inside the input or its first padding.
  const Dim begins_inside = floordiv(in + Dim(w.pad_begin - 1), w.stride) + 1;
  return min(ceildiv(slack, w.stride) + 1, begins_inside);
}

void require_spatial(InferContext& context) {
  if (context.rank(0) >= 3) return;
  context.fail("input 0 has shape " + str(context.shape(0)) +
               ", expected [batch, channels, spatial...]");
}

// Kernel sizes: the weights', which kernel_shape must repeat where given.
SymShape kernel_of_weights(InferContext& context, const ConvAttrs& attrs) {
  require_rank(context, 1, context.rank(0));
  SymShape kernel(context.shape(1).begin() + 2, context.shape(1).end());
  check_count(context, attrs.kernel_shape, kernel.size(), "kernel_shape");
  for (size_t i = 0; i < attrs.kernel_shape.size(); ++i)
    kernel[i] = context.unify(kernel[i], attrs.kernel_shape[i]);
  return kernel;
}

void check_conv_inputs(InferContext& context, const ConvAttrs& attrs) {
  require_spatial(context);
  require_float(context, 0);
  require_same_type(context, 1);
  if (context.has_input(2)) {
    require_same_type(context, 2);
    require_rank(context, 2, 1);
  }
  if (attrs.group < 1) context.fail("group must be positive, got " + std::to_string(attrs.group));
}

double weights_per_channel(const CostCall& call) {
  return static_cast<double>(num_elems(std::span(call.in[1]).subspan(1)));
}

SymShape pooled_shape(InferContext& context, const PoolAttrs& attrs) {
  require_spatial(context);
  const SymShape x = context.shape(0);
  const SymShape kernel(attrs.kernel_shape.begin(), attrs.kernel_shape.end());
  const std::vector<AxisWindow> windows = axis_windows(context, attrs, kernel);
  SymShape out{x[0], x[1]};
  for (size_t i = 0; i < windows.size(); ++i)
    out.push_back(output_size(context, windows[i], x[i + 2], attrs.ceil_mode));
  return out;
}

Cost pool_cost(const CostCall& call, const PoolAttrs& attrs) {
  const auto outputs = static_cast<double>(num_elems(call.out[0]));
  double taps = 1;
  for (int64_t size : attrs.kernel_shape) taps *= static_cast<double>(size);
  return {outputs * taps, tensor_bytes(call)};
}

}  // namespace

void infer_conv(InferContext& context) {
  const auto attrs = context.attrs<ConvAttrs>();
  check_conv_inputs(context, attrs);
  const SymShape kernel = kernel_of_weights(context, attrs);
  const SymShape x = context.shape(0), w = context.shape(1);
  if (equal(x[1], w[1] * Dim(attrs.group)) == false) {
    context.fail("input 0 has " + x[1].str() + " channels, the weights of shape " + str(w) +
                 " with group " + std::to_string(attrs.group) + " need " +
                 (w[1] * Dim(attrs.group)).str());
  }
  context.unify(x[1], w[1] * Dim(attrs.group));
  if (mod(w[0], attrs.group) != Dim(0))
    context.fail("the weights' " + w[0].str() + " output channels are not divisible into " +
                 std::to_string(attrs.group) + " groups");
  if (context.has_input(2)) context.unify(context.shape(2)[0], w[0]);
  SymShape out{x[0], w[0]};
  const std::vector<AxisWindow> windows = axis_windows(context, attrs, kernel);
  for (size_t i = 0; i < windows.size(); ++i)
    out.push_back(output_size(context, windows[i], x[i + 2], false));
  context.set_output(0, context.dtype(0), std::move(out));
}
Cost cost_conv(const CostCall& call) {
  const auto outputs = static_cast<double>(num_elems(call.out[0]));
  return {2 * outputs * weights_per_channel(call), tensor_bytes(call)};
}

// Weights are [in channels, out channels / group, kernel...].
void infer_conv_transpose(InferContext& context) {
  const auto attrs = context.attrs<ConvAttrs>();
  check_conv_inputs(context, attrs);
  const SymShape kernel = kernel_of_weights(context, attrs);
  const SymShape x = context.shape(0), w = context.shape(1);
  context.unify(x[1], w[0]);
  if (mod(x[1], attrs.group) != Dim(0))
    context.fail("the " + x[1].str() + " input channels are not divisible into " +
                 std::to_string(attrs.group) + " groups");
  check_count(context, attrs.output_shape, kernel.size(), "output_shape");
  check_count(context, attrs.output_padding, kernel.size(), "output_padding");
  SymShape out{x[0], w[1] * Dim(attrs.group)};
  if (context.has_input(2)) context.unify(context.shape(2)[0], out[1]);
  const std::vector<AxisWindow> windows = axis_windows(context, attrs, kernel);
  for (size_t i = 0; i < windows.size(); ++i) {
    const AxisWindow& a = windows[i];
    require_between(context, "an output_padding", item_or(attrs.output_padding, i, 0),
                    -kLargestNumber);
    if (!attrs.output_shape.empty()) {
      require_between(context, "an output_shape", attrs.output_shape[i], 0);
      context.require_at_most(x[i + 2], kLargestNumber);
      out.push_back(attrs.output_shape[i]);
    } else if (a.auto_pad == 1 || a.auto_pad == 2) {
      out.push_back(x[i + 2] * Dim(a.stride));
    } else {
      out.push_back((x[i + 2] - 1) * Dim(a.stride) + a.reach() +
                    Dim(item_or(attrs.output_padding, i, 0) - a.pad_begin - a.pad_end));
    }
  }
  context.set_output(0, context.dtype(0), std::move(out));
}
Cost cost_conv_transpose(const CostCall& call) {
  const auto inputs = static_cast<double>(num_elems(call.in[0]));
  return {2 * inputs * weights_per_channel(call), tensor_bytes(call)};
}

void infer_pool(InferContext& context) {
  SymShape out = pooled_shape(context, context.attrs<PoolAttrs>());
  context.set_output(0, context.dtype(0), std::move(out));
}

void infer_max_pool_indices(InferContext& context) {
  context.set_output(0, DType::kI64, pooled_shape(context, context.attrs<PoolIndicesAttrs>()));
}

void infer_average_pool(InferContext& context) {
  require_float(context, 0);
  infer_pool(context);
}

Cost cost_pool(const CostCall& call) { return pool_cost(call, decode<PoolAttrs>(call.attrs)); }
Cost cost_max_pool_indices(const CostCall& call) {
  return pool_cost(call, decode<PoolIndicesAttrs>(call.attrs));
}

void infer_global_pool(InferContext& context) {
  require_spatial(context);
  require_float(context, 0);
  SymShape out = context.shape(0);
  for (size_t i = 2; i < out.size(); ++i) out[i] = 1;
  context.set_output(0, context.dtype(0), std::move(out));
}

}  // namespace vernier::rules
