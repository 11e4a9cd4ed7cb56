// Cases of the operators in src/rules/quantise.cpp. Row fields: case.h.
#include <cmath>

#include "ops/case.h"

namespace vernier::test {
namespace {

constexpr DType kF32 = DType::kF32, kF64 = DType::kF64, kF8 = DType::kF8E4M3;
constexpr DType kU8 = DType::kU8, kI8 = DType::kI8, kU16 = DType::kU16, kQ8 = DType::kQ8;

Arg u8(Shape shape, std::vector<double> values) {
  return typed(kU8, std::move(shape), std::move(values));
}
Arg i8(Shape shape, std::vector<double> values) {
  return typed(kI8, std::move(shape), std::move(values));
}

// clang-format off
const OpCases kQuantize("QuantizeLinear", OpKind::kQuantizeLinear, {
    {.name = "one_scale_saturates",
     .in = {f32({7}, {0, 2, 3, 1000, -254, -1000, -256}), f32({}, {2}), u8({}, {128})},
     .out = {u8({7}, {128, 129, 130, 255, 1, 0, 0})}},
    {.name = "halves_go_to_even", .attrs = "{dtype=i8}",
     .in = {f32({5}, {0.5, 1.5, 2.5, -0.5, -1.5}), f32({1}, {1})},
     .out = {i8({5}, {0, 2, 2, 0, -2})}},
    {.name = "without_zero_point_it_is_u8",
     .in = {f32({2}, {-1, 300}), f32({}, {1})}, .out = {u8({2}, {0, 255})}},
    {.name = "along_an_axis", .attrs = "{axis=0, dtype=i8}",
     .in = {f32({2, 3}, {1, 2, 3, 4, 5, 600}), f32({2}, {1, 2}), i8({2}, {0, -10})},
     .out = {i8({2, 3}, {1, 2, 3, -8, -8, 127})}},
    {.name = "along_a_negative_axis", .attrs = "{axis=-1}",
     .in = {f32({1, 3}, {1, 8, 27}), f32({3}, {1, 2, 3})}, .out = {u8({1, 3}, {1, 4, 9})}},
    {.name = "in_blocks_with_a_ragged_end", .attrs = "{axis=1, block_size=2}",
     .in = {f32({2, 5}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}), f32({2, 3}, {1, 0.5, 0.25, 1, 2, 5}),
            u8({2, 3}, {0, 1, 2, 3, 4, 5})}, .out = {u8({2, 5}, {1, 2, 7, 9, 22, 9, 10, 8, 8, 7})}},
    {.name = "sixteen_bits", .attrs = "{dtype=u16}",
     .in = {f32({3}, {0, 70000, -1}), f32({}, {1}), typed(kU16, {}, {10})},
     .out = {typed(kU16, {3}, {10, 65535, 9})}},
    {.name = "integers_too",          .attrs = "{dtype=i8}",
     .in = {i32({3}, {10, -7, 1000}), f32({}, {2})}, .out = {i8({3}, {5, -4, 127})}},
    {.name = "to_eight_bit_floats", .attrs = "{dtype=f8e4m3}",
     .in = {f32({4}, {0, 2, -1000, NAN}), f32({}, {2})},
     .out = {typed(kF8, {4}, {0, 1, -448, NAN})}},
    {.name = "nan_is_zero_and_infinity_saturates",
     .in = {f32({3}, {NAN, INFINITY, -INFINITY}), f32({}, {2}), u8({}, {7})},
     .out = {u8({3}, {7, 255, 0})}},
    {.name = "nothing",  .in = {f32({0, 3}, {}), f32({3}, {1, 1, 1})}, .out = {u8({0, 3}, {})}},
    {.name = "a_scalar", .in = {f32({}, {9}), f32({}, {2})},  .out = {u8({}, {4})}},
    {.name = "of_bools", .in = {boolean({1}, {1}), f32({}, {1})}, .error = "input 0 has type bool"},
    {.name = "integer_scale", .in = {f32({1}, {1}), i32({}, {1})}, .error = "input 1 has type i32"},
    {.name = "to_a_wide_type",        .attrs = "{dtype=i64}",
     .in = {f32({1}, {1}), f32({}, {1})}, .error = "quantizes to i64, expected 8 or 16 bits"},
    {.name = "zero_point_of_another_type", .attrs = "{dtype=i8}",
     .in = {f32({1}, {1}), f32({}, {1}), u8({}, {1})},
     .error = "the zero point is u8, the output i8"},
    {.name = "count_along_the_axis",
     .in = {ramp(kF32, {2, 3}), f32({2}, {1, 1})}, .error = "sizes 2 and 3 differ"},
    {.name = "axis_outside",          .attrs = "{axis=2}",
     .in = {ramp(kF32, {2, 3}), f32({3}, {1, 1, 1})}, .error = "axis 2 is outside [-2, 2)"},
    {.name = "rank_of_the_scale", .in = {ramp(kF32, {2, 3}), ramp(kF32, {2, 3})},
     .error = "input 1 has shape [2, 3], expected rank 1"},
    {.name = "rank_of_the_zero_point", .attrs = "{axis=0}",
     .in = {ramp(kF32, {2, 3}), f32({2}, {1, 1}), u8({}, {0})},
     .error = "the zero point has shape [], the scale [2]"},
    {.name = "rank_of_blocks", .attrs = "{block_size=2}",
     .in = {ramp(kF32, {2, 3}), f32({2}, {1, 1})},
     .error = "the scale has shape [2], expected the rank of [2, 3]"},
    {.name = "number_of_blocks",      .attrs = "{block_size=2}",
     .in = {ramp(kF32, {2, 3}), ramp(kF32, {2, 3})}, .error = "sizes 3 and 2 differ"},
    {.name = "negative_blocks",       .attrs = "{block_size=-1}",
     .in = {ramp(kF32, {2}), f32({}, {1})}, .error = "block_size is -1, expected 0 or more"},
});

const OpCases kDequantize("DequantizeLinear", OpKind::kDequantizeLinear, {
    {.name = "one_scale", .in = {u8({5}, {0, 3, 128, 255, 127}), f32({}, {2}), u8({}, {128})},
     .out = {f32({5}, {-256, -250, 0, 254, -2})}},
    {.name = "along_an_axis", .attrs = "{axis=1}",
     .in = {i8({1, 3, 2}, {0, 3, 4, 24, -5, 6}), f32({3}, {2, 4, 5}), i8({3}, {1, 2, -3})},
     .out = {f32({1, 3, 2}, {-2, 4, 8, 88, -10, 45})}},
    {.name = "in_blocks", .attrs = "{axis=0, block_size=2}",
     .in = {i8({3, 2}, {1, 2, 3, 4, 5, 6}), f32({2, 2}, {1, 10, 100, 1000})},
     .out = {f32({3, 2}, {1, 20, 3, 40, 500, 6000})}},
    {.name = "sums_of_products",
     .in = {i32({3}, {-100000, 0, 7}), f32({}, {0.5})}, .out = {f32({3}, {-50000, 0, 3.5})}},
    {.name = "eight_bit_floats", .attrs = "{dtype=f64}",
     .in = {typed(kF8, {3}, {0.5, -448, NAN}), f32({}, {2})},
     .out = {typed(kF64, {3}, {1, -896, NAN})}},
    {.name = "nothing", .in = {u8({0}, {}), f32({}, {1})}, .out = {f32({0}, {})}},
    {.name = "of_floats", .in = {f32({1}, {1}), f32({}, {1})},
     .error = "input 0 is f32, expected a quantized type or i32"},
    {.name = "zero_point_of_another_type",
     .in = {u8({1}, {1}), f32({}, {1}), i8({}, {1})}, .error = "input 2 has type i8, expected u8"},
    {.name = "to_integers", .attrs = "{dtype=i32}",
     .in = {u8({1}, {1}), f32({}, {1})}, .error = "its output type is i32, expected a float type"},
});
// clang-format on

// Scores of 2 × 3 classes × 3 positions: 0, 1, …, 17.
const Arg kScores = ramp(kF32, {2, 3, 3}), kTargets = i64({2, 3}, {0, 1, 2, 2, 1, 0});

// clang-format off
const OpCases kLoss("NegativeLogLikelihoodLoss", OpKind::kNegativeLogLikelihoodLoss, {
    {.name = "as_it_is",                      .attrs = "{reduction=0}",
     .in = {kScores, kTargets}, .out = {f32({2, 3}, {-0.0, -4, -8, -15, -13, -11})}},
    {.name = "sum",  .attrs = "{reduction=1}", .in = {kScores, kTargets}, .out = {f32({}, {-51})}},
    {.name = "mean",                           .in = {kScores, kTargets}, .out = {f32({}, {-8.5})}},
    {.name = "weights", .attrs = "{reduction=0}", .in = {kScores, kTargets, f32({3}, {1, 10, 100})},
     .out = {f32({2, 3}, {-0.0, -40, -800, -1500, -130, -11})}},
    {.name = "mean_over_the_weights",
     .in = {kScores, kTargets, f32({3}, {1, 2, 1})}, .out = {f32({}, {-8.5})}},
    {.name = "ignored_targets_count_nothing", .attrs = "{ignores=true, ignore_index=-1}",
     .in = {ramp(kF32, {3, 2}), i32({3}, {1, -1, 0})}, .out = {f32({}, {-2.5})}},
    {.name = "all_ignored",                   .attrs = "{ignores=true}",
     .in = {ramp(kF32, {1, 2}), i64({1}, {0})}, .out = {f32({}, {NAN})}},
    {.name = "no_rows_sum_to_zero",           .attrs = "{reduction=1}",
     .in = {f32({0, 2}, {}), i64({0}, {})}, .out = {f32({}, {0})}},
    {.name = "nan_goes_in_and_comes_out",     .attrs = "{reduction=1}",
     .in = {f32({2, 1}, {NAN, 1}), i64({2}, {0, 0})}, .out = {f32({}, {NAN})}},
    {.name = "target_outside", .in = {ramp(kF32, {2, 3}), i64({2}, {2, 3})},
     .error = "3 at element 1 of input 1 is outside [0, 2]"},
    {.name = "negative_target", .in = {ramp(kF32, {1, 3}), i64({1}, {-1})},
     .error = "-1 at element 0 of input 1 is outside [0, 2]"},
    {.name = "ranks", .in = {ramp(kF32, {2, 3}), i64({2, 3}, {0, 0, 0, 0, 0, 0})},
     .error = "scores [2, 3] and targets [2, 3], expected [N, C, d...] and [N, d...]"},
    {.name = "sizes",
     .in = {ramp(kF32, {2, 3, 4}), i64({2, 1}, {0, 0})}, .error = "sizes 4 and 1 differ"},
    {.name = "float_targets",
     .in = {ramp(kF32, {1, 3}), f32({1}, {0})}, .error = "the targets are f32, expected integers"},
    {.name = "count_of_weights",
     .in = {ramp(kF32, {1, 3}), i64({1}, {0}), f32({2}, {1, 1})}, .error = "sizes 2 and 3 differ"},
    {.name = "type_of_weights",
     .in = {ramp(kF32, {1, 3}), i64({1}, {0}), typed(kF64, {3}, {1, 1, 1})},
     .error = "input 2 has type f64, expected f32"},
    {.name = "integer_scores",
     .in = {i64({1, 3}, {0, 0, 0}), i64({1}, {0})}, .error = "input 0 has type i64"},
});

const ShapeCases kShapes("Quantise", {
    {.name = "scales_are_as_many_as_the_axis", .op = OpKind::kQuantizeLinear,
     .attrs = "{axis=1, dtype=i8}", .in = {"f32 [batch, hidden]", "f32 [h2]", "i8 [h3]"},
     .out = {"i8 [batch, hidden]"}, .substitutions = {"h2 := hidden", "h3 := hidden"}},
    {.name = "dequantised_is_of_the_scales_type", .op = OpKind::kDequantizeLinear,
     .in = {"u8 [batch, 3]", "f16 []"}, .out = {"f16 [batch, 3]"}},
    {.name = "targets_have_the_scores_sizes", .op = OpKind::kNegativeLogLikelihoodLoss,
     .attrs = "{reduction=0}", .in = {"f32 [batch, classes, seq]", "i64 [b2, seq]"},
     .out = {"f32 [batch, seq]"}, .substitutions = {"b2 := batch"}},
});
const OpCases kQuantizeRows("QuantizeRows", OpKind::kQuantizeRows, {
    {.name = "by_the_range_of_each_row",
     .in = {f32({3, 3}, {1, -127, 127, 0, 0, 0, -8, 119, 1})},
     .out = {typed(kQ8, {3, 3}, {1, -127, 127, 0, 0, 0, -127, 127, -109}),
             f32({3, 1}, {1, 0, 0.5}), f32({3, 1}, {0, 0, -111})}},
    {.name = "zero_is_in_the_range", .in = {f32({2}, {127, 1})},
     .out = {typed(kQ8, {2}, {127, -125}), f32({1}, {0.5}), f32({1}, {-127})}},
    {.name = "times_the_factor_of_each_column", .in = {f32({2, 3}, {508, -127, 63.5, 0, 127, 0}), f32({3}, {0.25, 1, 2})},
     .out = {typed(kQ8, {2, 3}, {127, -127, 127, -127, 127, -127}),
             f32({2, 1}, {1, 0.5}), f32({2, 1}, {0, -127})}},
    {.name = "count_of_factors", .in = {f32({1, 3}, {1, 2, 3}), f32({2}, {1, 1})}, .error = "sizes 2 and 3 differ"},
    {.name = "integer_factors",  .in = {f32({1, 2}, {1, 2}), i32({2}, {1, 1})}, .error = "input 1 has type i32"},
    {.name = "factors_of_rows",  .in = {f32({2, 2}, {1, 2, 3, 4}), f32({2, 2}, {1, 1, 1, 1})}, .error = "input 1 has shape [2, 2], expected rank 1"},
    {.name = "with_a_given_scale", .in = {f32({2, 3}, {1, -2, 10, 0, 0.5, 0.75}), f32({3}, {1, 1, 2}), f32({}, {0.5}), f32({1}, {-3})},
     .out = {typed(kQ8, {2, 3}, {-1, -7, 37, -3, -2, 0})}},
    {.name = "a_scale_without_zero", .in = {f32({1, 2}, {1, 2}), none(), f32({}, {1})}, .error = "must both be given or both be absent"},
    {.name = "scales_of_rows",    .in = {f32({2, 2}, {1, 2, 3, 4}), none(), f32({2, 1}, {1, 1}), f32({}, {0})},
     .out = {typed(kQ8, {2, 2}, {})}, .error = "input 2 has shape [2, 1], expected one number"},
    {.name = "no_rows",           .in = {f32({0, 2}, {})},
     .out = {typed(kQ8, {0, 2}, {}), f32({0, 1}, {}), f32({0, 1}, {})}},
    {.name = "a_scalar",          .in = {f32({}, {1})}, .error = "at least one axis, got a scalar"},
    {.name = "of_integers",       .in = {i32({1, 1}, {1})}, .error = "input 0 has type i32"},
});

const OpCases kQuantizedLinear("QuantizedLinear", OpKind::kQuantizedLinear, {
    {.name = "by_row_and_column",
     .in = {typed(kQ8, {2, 2}, {1, -2, 3, 0}), typed(kQ8, {2, 2}, {3, 4, 5, 6}),
            f32({2, 1}, {0.5, 2}), f32({2}, {1, 2})},
     .out = {f32({2, 2}, {-3.5, -8, 18, 48})}},
    {.name = "zero_points_bias_and_residual", .attrs = "{activation=3, trans_w=true}",
     .in = {u8({1, 2}, {3, 1}), u8({2, 2}, {130, 129, 128, 127}), f32({}, {2}), f32({1}, {1}),
            u8({}, {2}), u8({2}, {128, 130}), f32({2}, {1, -10}), f32({1, 2}, {100, 200})},
     .out = {f32({1, 2}, {103, 200})}},
    {.name = "wide_operands",
     .in = {i32({1, 1}, {1}), i8({1, 1}, {1}), f32({}, {1}), f32({}, {1})},
     .error = "input 0 is i32, expected q8, i8 or u8"},
    {.name = "inner_sizes",
     .in = {i8({1, 2}, {1, 1}), i8({3, 1}, {1, 1, 1}), f32({}, {1}), f32({}, {1})},
     .error = "inner sizes differ"},
    {.name = "scales_of_other_rows",
     .in = {i8({2, 1}, {1, 1}), i8({1, 1}, {1}), f32({3, 1}, {1, 1, 1}), f32({}, {1})},
     .error = "sizes 3 and 2 differ"},
    {.name = "scales_of_other_columns",
     .in = {i8({1, 1}, {1}), i8({1, 2}, {1, 1}), f32({}, {1}), f32({3}, {1, 1, 1})},
     .error = "sizes 3 and 2 differ"},
    {.name = "zero_point_by_row",
     .in = {i8({2, 1}, {1, 1}), i8({1, 1}, {1}), f32({}, {1}), f32({}, {1}), i8({2}, {1, 2})},
     .error = "expected one number"},
    {.name = "zero_point_of_another_type",
     .in = {i8({1, 1}, {1}), i8({1, 1}, {1}), f32({}, {1}), f32({}, {1}), u8({}, {1})},
     .error = "input 4 has type u8"},
});

// clang-format on

}  // namespace
}  // namespace vernier::test
