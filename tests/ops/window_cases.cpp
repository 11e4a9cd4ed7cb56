// Cases of Conv, ConvTranspose and the pools: 1 to 3 spatial axes, groups, dilations, every padding
// rule, ceil_mode, NaN, errors, symbolic sizes. Expected numbers are ONNX Runtime's and exact.
#include <cmath>

#include "ops/case.h"

namespace vernier::test {
namespace {

constexpr double kNaN = NAN, kInf = HUGE_VAL;
constexpr DType kF32 = DType::kF32;

const Arg kLine = ramp(kF32, {1, 2, 5}, -4), kLineWeights = ramp(kF32, {2, 2, 3}, -5);
const Arg kPlanes = ramp(kF32, {1, 4, 3, 4}, -20);
const Arg kPlane = ramp(kF32, {1, 1, 3, 4}), kSquare = ramp(kF32, {1, 1, 2, 2}, -1);

// clang-format off
const OpCases kConv("Conv", OpKind::kConv, {
    {.name = "line_pads_stride_bias", .attrs = "{pads=[1, 2], strides=[2]}",
     .in = {kLine, kLineWeights, f32({2}, {1, -1})},
     .out = {f32({1, 2, 3}, {25, 20, -7, -1, 36, 39})}},
    {.name = "dilation",             .attrs = "{dilations=[2]}",
     .in = {kLine, kLineWeights}, .out = {f32({1, 2, 1}, {23, 41})}},
    {.name = "groups_and_uneven_pads", .attrs = "{group=2, pads=[1, 0, 0, 1]}",
     .in = {kPlanes, ramp(kF32, {4, 2, 2, 2}, -10)},
     .out = {f32({1, 4, 3, 4}, {346, 324, 302, 156, 712, 660, 608, 308, 504, 452, 400, 196, -86,
             -76, -66, -20, -24, -12, 0, 20, 24, 36, 48, 36, 490, 532, 574, 284, 1064, 1140, 1216,
             596, 1368, 1444, 1520, 740, 826, 900, 974, 492, 1864, 2004, 2144, 1076, 2424, 2564,
             2704, 1348})}},
    {.name = "depthwise", .attrs = "{group=4, kernel_shape=[2, 2]}",
     .in = {kPlanes, ramp(kF32, {4, 1, 2, 2}, -6)},
     .out = {f32({1, 4, 2, 3}, {324, 306, 288, 252, 234, 216, 20, 18, 16, 12, 10, 8, 100, 114, 128,
             156, 170, 184, 564, 594, 624, 684, 714, 744})}},
    {.name = "same_upper",           .attrs = "{auto_pad=1, strides=[2, 3]}",
     .in = {kPlane, kSquare},     .out = {f32({1, 1, 2, 2}, {14, 4, -8, -11})}},
    {.name = "same_lower", .attrs = "{auto_pad=2}", .in = {kPlane, kSquare},
     .out = {f32({1, 1, 3, 4}, {0, 2, 5, 8, 8, 14, 16, 18, 16, 22, 24, 26})}},
    {.name = "valid",                .attrs = "{auto_pad=3}",
     .in = {kPlane, kSquare},     .out = {f32({1, 1, 2, 3}, {14, 16, 18, 22, 24, 26})}},
    {.name = "three_axes", .in = {ramp(kF32, {1, 1, 2, 3, 2}, -4), ramp(kF32, {1, 1, 2, 2, 1}, -1)},
     .out = {f32({1, 1, 1, 2, 2}, {14, 16, 18, 20})}},
    {.name = "empty_batch", .in = {f32({0, 2, 5}, {}), kLineWeights}, .out = {f32({0, 2, 3}, {})}},
    {.name = "padding_times_nan_weights_is_nan", .attrs = "{pads=[1, 0]}",
     .in = {f32({1, 1, 2}, {1, 2}), f32({1, 1, 2}, {kNaN, 1})},
     .out = {f32({1, 1, 2}, {kNaN, kNaN})}},
    {.name = "channels", .in = {kLine, ramp(kF32, {2, 3, 3})},
     .error = "input 0 has 2 channels, the weights of shape [2, 3, 3] with group 1 need 3"},
    {.name = "rank", .in = {f32({2, 3}, {1, 2, 3, 4, 5, 6}), kLineWeights},
     .error = "expected [batch, channels, spatial...]"},
    {.name = "pads_count",           .attrs = "{pads=[1]}",
     .in = {kLine, kLineWeights}, .error = "pads has 1 items, expected 2"},
    {.name = "window_too_large",     .attrs = "{dilations=[3]}",
     .in = {kLine, kLineWeights}, .error = "the window spans 7 positions"},
    {.name = "group_zero",           .attrs = "{group=0}",
     .in = {kLine, kLineWeights}, .error = "group must be positive, got 0"},
    {.name = "stride_zero",          .attrs = "{strides=[0]}",
     .in = {kLine, kLineWeights}, .error = "strides and dilations must be positive"},
    {.name = "kernel_shape_differs", .attrs = "{kernel_shape=[4]}",
     .in = {kLine, kLineWeights}, .error = "sizes 3 and 4 differ"},
});
// clang-format on

const Arg kThree = ramp(kF32, {1, 1, 3}, -1);

// clang-format off
const OpCases kConvTranspose("ConvTranspose", OpKind::kConvTranspose, {
    {.name = "stride_pads_output_padding",
     .attrs = "{strides=[2], pads=[1, 0], output_padding=[1]}",
     .in = {ramp(kF32, {1, 2, 3}, -2), ramp(kF32, {2, 2, 2}, -3), f32({2}, {1, 2})},
     .out = {f32({1, 2, 6}, {7, 6, 7, 4, 7, 1, 6, 9, 10, 11, 14, 2})}},
    {.name = "groups_and_dilation", .attrs = "{group=2, dilations=[2, 1]}",
     .in = {ramp(kF32, {1, 2, 2, 2}, -2), ramp(kF32, {2, 1, 2, 3}, -3)},
     .out = {f32({1, 2, 4, 4}, {6, 7, 4, 1, 0, -3, -2, -1, 0, -2, -5, -2, 0, 0, 1, 2, 6, 17, 22, 15,
             12, 31, 40, 25, 12, 32, 37, 24, 24, 58, 67, 40})}},
    {.name = "output_shape_sets_the_pads", .attrs = "{strides=[2], output_shape=[5]}",
     .in = {kThree, ramp(kF32, {1, 1, 4}, -1)}, .out = {f32({1, 1, 5}, {-1, -2, -1, 0, 1})}},
    {.name = "same_upper",                 .attrs = "{strides=[2], auto_pad=1}",
     .in = {kThree, ramp(kF32, {1, 1, 3}, -1)}, .out = {f32({1, 1, 6}, {1, 0, -1, 0, -1, 0})}},
    {.name = "output_padding_count",       .attrs = "{output_padding=[1, 1]}",
     .in = {kThree, ramp(kF32, {1, 1, 3})},     .error = "output_padding has 2 items, expected 1"},
});
// clang-format on

const Arg kSeven = f32({1, 1, 7}, {3, -1, 4, 1, -5, 9, 2});
const Arg kSix = f32({1, 1, 6}, {3, -1, 4, 1, -5, 9});

// clang-format off
const OpCases kPool("Pool", {
    {.name = "max", .op = OpKind::kMaxPool, .attrs = "{kernel_shape=[3], strides=[2], pads=[1, 1]}",
     .in = {kSeven},                             .out = {f32({1, 1, 4}, {3, 4, 9, 9})}},
    {.name = "max_ceil", .op = OpKind::kMaxPool,
     .attrs = "{kernel_shape=[3], strides=[2], ceil_mode=true}", .in = {kSix},
     .out = {f32({1, 1, 3}, {4, 4, 9})}},
    {.name = "max_dilated", .op = OpKind::kMaxPool, .attrs = "{kernel_shape=[2], dilations=[3]}",
     .in = {kSeven},                             .out = {f32({1, 1, 4}, {3, -1, 9, 2})}},
    {.name = "max_same_upper", .op = OpKind::kMaxPool,
     .attrs = "{kernel_shape=[3, 3], strides=[2, 2], auto_pad=1}", .in = {ramp(kF32, {1, 1, 4, 4})},
     .out = {f32({1, 1, 2, 2}, {10, 11, 14, 15})}},
    {.name = "max_keeps_nan", .op = OpKind::kMaxPool, .attrs = "{kernel_shape=[2]}",
     .in = {f32({1, 1, 4}, {1, kNaN, 5, kInf})}, .out = {f32({1, 1, 3}, {kNaN, kNaN, kInf})}},
    {.name = "max_i8", .op = OpKind::kMaxPool, .attrs = "{kernel_shape=[2], pads=[1, 0]}",
     .in = {typed(DType::kI8, {1, 1, 2}, {-5, -9})},
     .out = {typed(DType::kI8, {1, 1, 2}, {-5, -5})}},
    {.name = "max_of_padding_alone", .op = OpKind::kMaxPool,
     .attrs = "{kernel_shape=[2], strides=[2], pads=[2, 0]}",
     .in = {typed(DType::kBool, {1, 1, 2}, {1, 1})},
     .out = {typed(DType::kBool, {1, 1, 2}, {0, 1})}},
    {.name = "max_indices", .op = OpKind::kMaxPoolIndices,
     .attrs = "{kernel_shape=[3], strides=[2], pads=[1, 1]}", .in = {kSeven},
     .out = {i64({1, 1, 4}, {0, 2, 5, 5})}},
    {.name = "max_indices_of_planes", .op = OpKind::kMaxPoolIndices,
     .attrs = "{kernel_shape=[2, 2]}", .in = {ramp(kF32, {1, 2, 2, 3})},
     .out = {i64({1, 2, 1, 2}, {4, 5, 10, 11})}},
    {.name = "max_indices_column_major", .op = OpKind::kMaxPoolIndices,
     .attrs = "{kernel_shape=[2, 2], column_major=true}", .in = {ramp(kF32, {1, 2, 2, 3})},
     .out = {i64({1, 2, 1, 2}, {3, 5, 9, 11})}},
    {.name = "max_indices_column_major_of_three_axes", .op = OpKind::kMaxPoolIndices,
     .attrs = "{kernel_shape=[1, 1, 1], column_major=true}", .in = {ramp(kF32, {1, 1, 2, 2, 2})},
     .out = {i64({1, 1, 2, 2, 2}, {0, 4, 2, 6, 1, 5, 3, 7})}},
    {.name = "max_indices_take_the_first", .op = OpKind::kMaxPoolIndices,
     .attrs = "{kernel_shape=[3]}", .in = {f32({1, 1, 4}, {2, 2, 1, 2})},
     .out = {i64({1, 1, 2}, {0, 1})}},
    {.name = "max_indices_of_nan", .op = OpKind::kMaxPoolIndices, .attrs = "{kernel_shape=[2]}",
     .in = {f32({1, 1, 4}, {1, kNaN, 5, kInf})}, .out = {i64({1, 1, 3}, {1, 1, 3})}},
    {.name = "max_indices_i8", .op = OpKind::kMaxPoolIndices,
     .attrs = "{kernel_shape=[2], pads=[1, 0]}", .in = {typed(DType::kI8, {1, 1, 2}, {-9, -5})},
     .out = {i64({1, 1, 2}, {0, 1})}},
    {.name = "max_indices_of_padding_alone", .op = OpKind::kMaxPoolIndices,
     .attrs = "{kernel_shape=[2], strides=[2], pads=[2, 0]}",
     .in = {typed(DType::kBool, {1, 1, 2}, {1, 1})}, .out = {i64({1, 1, 2}, {-1, 0})}},
    {.name = "max_indices_of_no_images", .op = OpKind::kMaxPoolIndices,
     .attrs = "{kernel_shape=[2]}", .in = {f32({0, 1, 3}, {})}, .out = {i64({0, 1, 2}, {})}},
    {.name = "max_indices_kernel_rank", .op = OpKind::kMaxPoolIndices,
     .attrs = "{kernel_shape=[3, 3]}", .in = {kSeven}, .error = "the kernel has 2 axes"},
    {.name = "average", .op = OpKind::kAveragePool,
     .attrs = "{kernel_shape=[3], strides=[2], pads=[1, 1]}", .in = {kSeven},
     .out = {f32({1, 1, 4}, {1, 4.0 / 3, 5.0 / 3, 5.5})}, .tolerance = 1e-15},
    {.name = "average_counts_padding", .op = OpKind::kAveragePool,
     .attrs = "{kernel_shape=[3], strides=[2], pads=[1, 1], count_include_pad=true}",
     .in = {kSeven}, .out = {f32({1, 1, 4}, {2.0 / 3, 4.0 / 3, 5.0 / 3, 11.0 / 3})},
     .tolerance = 1e-15},
    {.name = "average_ceil", .op = OpKind::kAveragePool,
     .attrs = "{kernel_shape=[3], strides=[2], ceil_mode=true}", .in = {kSix},
     .out = {f32({1, 1, 3}, {2, 0, 2})}},
    {.name = "average_ceil_never_counts_beyond_the_padding", .op = OpKind::kAveragePool,
     .attrs = "{kernel_shape=[3], strides=[2], pads=[1, 1], ceil_mode=true, "
              "count_include_pad=true}",
     .in = {kSix}, .out = {f32({1, 1, 4}, {2.0 / 3, 4.0 / 3, 5.0 / 3, 4.5})}, .tolerance = 1e-15},
    {.name = "average_dilated", .op = OpKind::kAveragePool,
     .attrs = "{kernel_shape=[2], dilations=[3]}", .in = {kSeven},
     .out = {f32({1, 1, 4}, {2, -3, 6.5, 1.5})}},
    {.name = "global_average", .op = OpKind::kGlobalAveragePool,
     .in = {ramp(kF32, {1, 2, 2, 3})},           .out = {f32({1, 2, 1, 1}, {2.5, 8.5})}},
    {.name = "global_max", .op = OpKind::kGlobalMaxPool,
     .in = {f32({1, 2, 2}, {1, -3, kNaN, 7})},   .out = {f32({1, 2, 1}, {1, kNaN})}},
    {.name = "average_of_integers", .op = OpKind::kAveragePool, .attrs = "{kernel_shape=[1]}",
     .in = {typed(DType::kI8, {1, 1, 2}, {1, 2})},
     .error = "input 0 has type i8, expected a float type"},
    {.name = "kernel_rank", .op = OpKind::kMaxPool, .attrs = "{kernel_shape=[3, 3]}",
     .in = {kSeven},                             .error = "the kernel has 2 axes"},
});

const ShapeCases kShapes("Window", {
    {.name = "conv_patches", .op = OpKind::kConv, .attrs = "{strides=[16, 16]}",
     .in = {"f32 [batch, 3, 224, width]", "f32 [768, 3, 16, 16]"},
     .out = {"f32 [batch, 768, 14, floordiv(width, 16)]"}, .guards = {"min(16, width) == 16"}},
    {.name = "conv_same_keeps_the_size", .op = OpKind::kConv,          .attrs = "{pads=[1, 1]}",
     .in = {"f32 [batch, 4, n]", "f32 [8, 4, 3]"}, .out = {"f32 [batch, 8, n]"}},
    {.name = "conv_transpose_doubles",   .op = OpKind::kConvTranspose, .attrs = "{strides=[2]}",
     .in = {"f32 [batch, 4, n]", "f32 [4, 8, 2]"}, .out = {"f32 [batch, 8, 2*n]"}},
    {.name = "global_pool",              .op = OpKind::kGlobalAveragePool,
     .in = {"f32 [batch, 4, h, w]"},               .out = {"f32 [batch, 4, 1, 1]"}},
});
// clang-format on

}  // namespace
}  // namespace vernier::test
