// The attributes that all convolutions share, plain and quantized.
#pragma once
#include "core/attrs.h"
#include "onnx/node_context.h"

namespace vernier::onnx {

/// NOTSET 0, SAME_UPPER 1, SAME_LOWER 2, VALID 3.
int64_t auto_pad(NodeContext& node);
/// kernel_shape, strides, dilations, pads, group and auto_pad.
ConvAttrs conv_attrs(NodeContext& node);

}  // namespace vernier::onnx
