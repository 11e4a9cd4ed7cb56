// Cases of Conv, ConvTranspose and the pools: 1 to 3 spatial axes, groups, dilations, every padding
// rule, ceil_mode, NaN, errors, symbolic sizes. Expected numbers are ONNX Runtime's and exact.
#include <cmath>

#include "ops/case.h"

namespace vernier::test {
namespace {

constexpr double kNaN = NAN, kInf = HUGE_VAL;
constexpr DType kF32 = DType::kF32;

OpCase row(std::string name, OpKind op, std::string attrs, std::vector<Arg> in, Arg y,
           double tolerance = 0) {
  return {std::move(name), op, std::move(attrs), std::move(in), {std::move(y)}, tolerance};
}
OpCase bad(std::string name, OpKind op, std::string attrs, std::vector<Arg> in, std::string error) {
  return {std::move(name), op, std::move(attrs), std::move(in), {}, 0, std::move(error)};
}

const Arg kLine = ramp(kF32, {1, 2, 5}, -4), kLineWeights = ramp(kF32, {2, 2, 3}, -5);
const Arg kPlanes = ramp(kF32, {1, 4, 3, 4}, -20);
const Arg kPlane = ramp(kF32, {1, 1, 3, 4}), kSquare = ramp(kF32, {1, 1, 2, 2}, -1);

const OpCases kConv(
    "Conv",
    {
        row("line_pads_stride_bias", OpKind::kConv, "{pads=[1, 2], strides=[2]}",
            {kLine, kLineWeights, f32({2}, {1, -1})}, f32({1, 2, 3}, {25, 20, -7, -1, 36, 39})),
        row("dilation", OpKind::kConv, "{dilations=[2]}", {kLine, kLineWeights},
            f32({1, 2, 1}, {23, 41})),
        row("groups_and_uneven_pads", OpKind::kConv, "{group=2, pads=[1, 0, 0, 1]}",
            {kPlanes, ramp(kF32, {4, 2, 2, 2}, -10)},
            f32({1, 4, 3, 4},
                {346, 324, 302, 156, 712,  660,  608,  308,  504,  452,  400,  196,
                 -86, -76, -66, -20, -24,  -12,  0,    20,   24,   36,   48,   36,
                 490, 532, 574, 284, 1064, 1140, 1216, 596,  1368, 1444, 1520, 740,
                 826, 900, 974, 492, 1864, 2004, 2144, 1076, 2424, 2564, 2704, 1348})),
        row("depthwise", OpKind::kConv, "{group=4, kernel_shape=[2, 2]}",
            {kPlanes, ramp(kF32, {4, 1, 2, 2}, -6)},
            f32({1, 4, 2, 3}, {324, 306, 288, 252, 234, 216, 20,  18,  16,  12,  10,  8,
                               100, 114, 128, 156, 170, 184, 564, 594, 624, 684, 714, 744})),
        row("same_upper", OpKind::kConv, "{auto_pad=1, strides=[2, 3]}", {kPlane, kSquare},
            f32({1, 1, 2, 2}, {14, 4, -8, -11})),
        row("same_lower", OpKind::kConv, "{auto_pad=2}", {kPlane, kSquare},
            f32({1, 1, 3, 4}, {0, 2, 5, 8, 8, 14, 16, 18, 16, 22, 24, 26})),
        row("valid", OpKind::kConv, "{auto_pad=3}", {kPlane, kSquare},
            f32({1, 1, 2, 3}, {14, 16, 18, 22, 24, 26})),
        row("three_axes", OpKind::kConv, "",
            {ramp(kF32, {1, 1, 2, 3, 2}, -4), ramp(kF32, {1, 1, 2, 2, 1}, -1)},
            f32({1, 1, 1, 2, 2}, {14, 16, 18, 20})),
        row("empty_batch", OpKind::kConv, "", {f32({0, 2, 5}, {}), kLineWeights},
            f32({0, 2, 3}, {})),
        row("padding_times_nan_weights_is_nan", OpKind::kConv, "{pads=[1, 0]}",
            {f32({1, 1, 2}, {1, 2}), f32({1, 1, 2}, {kNaN, 1})}, f32({1, 1, 2}, {kNaN, kNaN})),
        bad("channels", OpKind::kConv, "", {kLine, ramp(kF32, {2, 3, 3})},
            "input 0 has 2 channels, the weights of shape [2, 3, 3] with group 1 need 3"),
        bad("rank", OpKind::kConv, "", {f32({2, 3}, {1, 2, 3, 4, 5, 6}), kLineWeights},
            "expected [batch, channels, spatial...]"),
        bad("pads_count", OpKind::kConv, "{pads=[1]}", {kLine, kLineWeights},
            "pads has 1 items, expected 2"),
        bad("window_too_large", OpKind::kConv, "{dilations=[3]}", {kLine, kLineWeights},
            "the window spans 7 positions"),
        bad("group_zero", OpKind::kConv, "{group=0}", {kLine, kLineWeights},
            "group must be positive, got 0"),
        bad("stride_zero", OpKind::kConv, "{strides=[0]}", {kLine, kLineWeights},
            "strides and dilations must be positive"),
        bad("kernel_shape_differs", OpKind::kConv, "{kernel_shape=[4]}", {kLine, kLineWeights},
            "sizes 3 and 4 differ"),
    });

const Arg kThree = ramp(kF32, {1, 1, 3}, -1);

const OpCases kConvTranspose(
    "ConvTranspose",
    {
        row("stride_pads_output_padding", OpKind::kConvTranspose,
            "{strides=[2], pads=[1, 0], output_padding=[1]}",
            {ramp(kF32, {1, 2, 3}, -2), ramp(kF32, {2, 2, 2}, -3), f32({2}, {1, 2})},
            f32({1, 2, 6}, {7, 6, 7, 4, 7, 1, 6, 9, 10, 11, 14, 2})),
        row("groups_and_dilation", OpKind::kConvTranspose, "{group=2, dilations=[2, 1]}",
            {ramp(kF32, {1, 2, 2, 2}, -2), ramp(kF32, {2, 1, 2, 3}, -3)},
            f32({1, 2, 4, 4}, {6, 7,  4,  1,  0,  -3, -2, -1, 0,  -2, -5, -2, 0,  0,  1,  2,
                               6, 17, 22, 15, 12, 31, 40, 25, 12, 32, 37, 24, 24, 58, 67, 40})),
        row("output_shape_sets_the_pads", OpKind::kConvTranspose, "{strides=[2], output_shape=[5]}",
            {kThree, ramp(kF32, {1, 1, 4}, -1)}, f32({1, 1, 5}, {-1, -2, -1, 0, 1})),
        row("same_upper", OpKind::kConvTranspose, "{strides=[2], auto_pad=1}",
            {kThree, ramp(kF32, {1, 1, 3}, -1)}, f32({1, 1, 6}, {1, 0, -1, 0, -1, 0})),
        bad("output_padding_count", OpKind::kConvTranspose, "{output_padding=[1, 1]}",
            {kThree, ramp(kF32, {1, 1, 3})}, "output_padding has 2 items, expected 1"),
    });

const Arg kSeven = f32({1, 1, 7}, {3, -1, 4, 1, -5, 9, 2});
const Arg kSix = f32({1, 1, 6}, {3, -1, 4, 1, -5, 9});

const OpCases kPool(
    "Pool",
    {
        row("max", OpKind::kMaxPool, "{kernel_shape=[3], strides=[2], pads=[1, 1]}", {kSeven},
            f32({1, 1, 4}, {3, 4, 9, 9})),
        row("max_ceil", OpKind::kMaxPool, "{kernel_shape=[3], strides=[2], ceil_mode=true}", {kSix},
            f32({1, 1, 3}, {4, 4, 9})),
        row("max_dilated", OpKind::kMaxPool, "{kernel_shape=[2], dilations=[3]}", {kSeven},
            f32({1, 1, 4}, {3, -1, 9, 2})),
        row("max_same_upper", OpKind::kMaxPool, "{kernel_shape=[3, 3], strides=[2, 2], auto_pad=1}",
            {ramp(kF32, {1, 1, 4, 4})}, f32({1, 1, 2, 2}, {10, 11, 14, 15})),
        row("max_keeps_nan", OpKind::kMaxPool, "{kernel_shape=[2]}",
            {f32({1, 1, 4}, {1, kNaN, 5, kInf})}, f32({1, 1, 3}, {kNaN, kNaN, kInf})),
        row("max_i8", OpKind::kMaxPool, "{kernel_shape=[2], pads=[1, 0]}",
            {typed(DType::kI8, {1, 1, 2}, {-5, -9})}, typed(DType::kI8, {1, 1, 2}, {-5, -5})),
        row("average", OpKind::kAveragePool, "{kernel_shape=[3], strides=[2], pads=[1, 1]}",
            {kSeven}, f32({1, 1, 4}, {1, 4.0 / 3, 5.0 / 3, 5.5}), 1e-15),
        row("average_counts_padding", OpKind::kAveragePool,
            "{kernel_shape=[3], strides=[2], pads=[1, 1], count_include_pad=true}", {kSeven},
            f32({1, 1, 4}, {2.0 / 3, 4.0 / 3, 5.0 / 3, 11.0 / 3}), 1e-15),
        row("average_ceil", OpKind::kAveragePool, "{kernel_shape=[3], strides=[2], ceil_mode=true}",
            {kSix}, f32({1, 1, 3}, {2, 0, 2})),
        row("average_ceil_never_counts_beyond_the_padding", OpKind::kAveragePool,
            "{kernel_shape=[3], strides=[2], pads=[1, 1], ceil_mode=true, count_include_pad=true}",
            {kSix}, f32({1, 1, 4}, {2.0 / 3, 4.0 / 3, 5.0 / 3, 4.5}), 1e-15),
        row("average_dilated", OpKind::kAveragePool, "{kernel_shape=[2], dilations=[3]}", {kSeven},
            f32({1, 1, 4}, {2, -3, 6.5, 1.5})),
        row("global_average", OpKind::kGlobalAveragePool, "", {ramp(kF32, {1, 2, 2, 3})},
            f32({1, 2, 1, 1}, {2.5, 8.5})),
        row("global_max", OpKind::kGlobalMaxPool, "", {f32({1, 2, 2}, {1, -3, kNaN, 7})},
            f32({1, 2, 1}, {1, kNaN})),
        bad("average_of_integers", OpKind::kAveragePool, "{kernel_shape=[1]}",
            {typed(DType::kI8, {1, 1, 2}, {1, 2})}, "input 0 has type i8, expected a float type"),
        bad("kernel_rank", OpKind::kMaxPool, "{kernel_shape=[3, 3]}", {kSeven},
            "the kernel has 2 axes"),
    });

const ShapeCases kShapes("Window",
                         {
                             {.name = "conv_patches",
                              .op = OpKind::kConv,
                              .attrs = "{strides=[16, 16]}",
                              .in = {"f32 [batch, 3, 224, width]", "f32 [768, 3, 16, 16]"},
                              .out = {"f32 [batch, 768, 14, floordiv(width, 16)]"},
                              .guards = {"min(16, width) == 16"}},
                             {.name = "conv_same_keeps_the_size",
                              .op = OpKind::kConv,
                              .attrs = "{pads=[1, 1]}",
                              .in = {"f32 [batch, 4, n]", "f32 [8, 4, 3]"},
                              .out = {"f32 [batch, 8, n]"}},
                             {.name = "conv_transpose_doubles",
                              .op = OpKind::kConvTranspose,
                              .attrs = "{strides=[2]}",
                              .in = {"f32 [batch, 4, n]", "f32 [4, 8, 2]"},
                              .out = {"f32 [batch, 8, 2*n]"}},
                             {.name = "global_pool",
                              .op = OpKind::kGlobalAveragePool,
                              .in = {"f32 [batch, 4, h, w]"},
                              .out = {"f32 [batch, 4, 1, 1]"}},
                         });

}  // namespace
}  // namespace vernier::test
