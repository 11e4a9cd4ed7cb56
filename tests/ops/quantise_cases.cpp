// Cases of the operators in src/ops/quantize.cpp. Row fields: case.h.
#include <cmath>

#include "ops/case.h"

namespace vernier::test {
namespace {

constexpr DType kF32 = DType::kF32, kF64 = DType::kF64, kF8 = DType::kF8E4M3;
constexpr DType kU8 = DType::kU8, kI8 = DType::kI8, kU16 = DType::kU16;

Arg u8(Shape shape, std::vector<double> values) {
  return typed(kU8, std::move(shape), std::move(values));
}
Arg i8(Shape shape, std::vector<double> values) {
  return typed(kI8, std::move(shape), std::move(values));
}

OpCase quantise(std::string name, std::string attrs, std::vector<Arg> in, Arg y) {
  return {
      std::move(name), OpKind::kQuantizeLinear, std::move(attrs), std::move(in), {std::move(y)}};
}
OpCase bad_quantise(std::string name, std::string attrs, std::vector<Arg> in, std::string error) {
  return {std::move(name), OpKind::kQuantizeLinear, std::move(attrs), std::move(in), {}, 0,
          std::move(error)};
}
OpCase dequantise(std::string name, std::string attrs, std::vector<Arg> in, Arg y) {
  return {
      std::move(name), OpKind::kDequantizeLinear, std::move(attrs), std::move(in), {std::move(y)}};
}
OpCase bad_dequantise(std::string name, std::vector<Arg> in, std::string error) {
  return {std::move(name), OpKind::kDequantizeLinear, "", std::move(in), {}, 0, std::move(error)};
}

const OpCases kQuantize(
    "QuantizeLinear",
    {
        quantise("one_scale_saturates", "",
                 {f32({7}, {0, 2, 3, 1000, -254, -1000, -256}), f32({}, {2}), u8({}, {128})},
                 u8({7}, {128, 129, 130, 255, 1, 0, 0})),
        quantise("halves_go_to_even", "{dtype=i8}",
                 {f32({5}, {0.5, 1.5, 2.5, -0.5, -1.5}), f32({1}, {1})}, i8({5}, {0, 2, 2, 0, -2})),
        quantise("without_zero_point_it_is_u8", "", {f32({2}, {-1, 300}), f32({}, {1})},
                 u8({2}, {0, 255})),
        quantise("along_an_axis", "{axis=0, dtype=i8}",
                 {f32({2, 3}, {1, 2, 3, 4, 5, 600}), f32({2}, {1, 2}), i8({2}, {0, -10})},
                 i8({2, 3}, {1, 2, 3, -8, -8, 127})),
        quantise("along_a_negative_axis", "{axis=-1}",
                 {f32({1, 3}, {1, 8, 27}), f32({3}, {1, 2, 3})}, u8({1, 3}, {1, 4, 9})),
        quantise("in_blocks_with_a_ragged_end", "{axis=1, block_size=2}",
                 {f32({2, 5}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}),
                  f32({2, 3}, {1, 0.5, 0.25, 1, 2, 5}), u8({2, 3}, {0, 1, 2, 3, 4, 5})},
                 u8({2, 5}, {1, 2, 7, 9, 22, 9, 10, 8, 8, 7})),
        quantise("sixteen_bits", "{dtype=u16}",
                 {f32({3}, {0, 70000, -1}), f32({}, {1}), typed(kU16, {}, {10})},
                 typed(kU16, {3}, {10, 65535, 9})),
        quantise("integers_too", "{dtype=i8}", {i32({3}, {10, -7, 1000}), f32({}, {2})},
                 i8({3}, {5, -4, 127})),
        quantise("to_eight_bit_floats", "{dtype=f8e4m3}",
                 {f32({4}, {0, 2, -1000, NAN}), f32({}, {2})}, typed(kF8, {4}, {0, 1, -448, NAN})),
        quantise("nan_is_zero_and_infinity_saturates", "",
                 {f32({3}, {NAN, INFINITY, -INFINITY}), f32({}, {2}), u8({}, {7})},
                 u8({3}, {7, 255, 0})),
        quantise("nothing", "", {f32({0, 3}, {}), f32({3}, {1, 1, 1})}, u8({0, 3}, {})),
        quantise("a_scalar", "", {f32({}, {9}), f32({}, {2})}, u8({}, {4})),
        bad_quantise("of_bools", "", {boolean({1}, {1}), f32({}, {1})}, "input 0 has type bool"),
        bad_quantise("integer_scale", "", {f32({1}, {1}), i32({}, {1})}, "input 1 has type i32"),
        bad_quantise("to_a_wide_type", "{dtype=i64}", {f32({1}, {1}), f32({}, {1})},
                     "quantizes to i64, expected 8 or 16 bits"),
        bad_quantise("zero_point_of_another_type", "{dtype=i8}",
                     {f32({1}, {1}), f32({}, {1}), u8({}, {1})},
                     "the zero point is u8, the output i8"),
        bad_quantise("count_along_the_axis", "", {ramp(kF32, {2, 3}), f32({2}, {1, 1})},
                     "sizes 2 and 3 differ"),
        bad_quantise("axis_outside", "{axis=2}", {ramp(kF32, {2, 3}), f32({3}, {1, 1, 1})},
                     "axis 2 is outside [-2, 2)"),
        bad_quantise("rank_of_the_scale", "", {ramp(kF32, {2, 3}), ramp(kF32, {2, 3})},
                     "input 1 has shape [2, 3], expected rank 1"),
        bad_quantise("rank_of_the_zero_point", "{axis=0}",
                     {ramp(kF32, {2, 3}), f32({2}, {1, 1}), u8({}, {0})},
                     "the zero point has shape [], the scale [2]"),
        bad_quantise("rank_of_blocks", "{block_size=2}", {ramp(kF32, {2, 3}), f32({2}, {1, 1})},
                     "the scale has shape [2], expected the rank of [2, 3]"),
        bad_quantise("number_of_blocks", "{block_size=2}", {ramp(kF32, {2, 3}), ramp(kF32, {2, 3})},
                     "sizes 3 and 2 differ"),
        bad_quantise("negative_blocks", "{block_size=-1}", {ramp(kF32, {2}), f32({}, {1})},
                     "block_size is -1, expected 0 or more"),
    });

const OpCases kDequantize(
    "DequantizeLinear",
    {
        dequantise("one_scale", "", {u8({5}, {0, 3, 128, 255, 127}), f32({}, {2}), u8({}, {128})},
                   f32({5}, {-256, -250, 0, 254, -2})),
        dequantise("along_an_axis", "{axis=1}",
                   {i8({1, 3, 2}, {0, 3, 4, 24, -5, 6}), f32({3}, {2, 4, 5}), i8({3}, {1, 2, -3})},
                   f32({1, 3, 2}, {-2, 4, 8, 88, -10, 45})),
        dequantise("in_blocks", "{axis=0, block_size=2}",
                   {i8({3, 2}, {1, 2, 3, 4, 5, 6}), f32({2, 2}, {1, 10, 100, 1000})},
                   f32({3, 2}, {1, 20, 3, 40, 500, 6000})),
        dequantise("sums_of_products", "", {i32({3}, {-100000, 0, 7}), f32({}, {0.5})},
                   f32({3}, {-50000, 0, 3.5})),
        dequantise("eight_bit_floats", "{dtype=f64}",
                   {typed(kF8, {3}, {0.5, -448, NAN}), f32({}, {2})},
                   typed(kF64, {3}, {1, -896, NAN})),
        dequantise("nothing", "", {u8({0}, {}), f32({}, {1})}, f32({0}, {})),
        bad_dequantise("of_floats", {f32({1}, {1}), f32({}, {1})},
                       "input 0 is f32, expected a quantized type or i32"),
        bad_dequantise("zero_point_of_another_type", {u8({1}, {1}), f32({}, {1}), i8({}, {1})},
                       "input 2 has type i8, expected u8"),
        {"to_integers",
         OpKind::kDequantizeLinear,
         "{dtype=i32}",
         {u8({1}, {1}), f32({}, {1})},
         {},
         0,
         "its output type is i32, expected a float type"},
    });

OpCase loss(std::string name, std::string attrs, std::vector<Arg> in, Arg y) {
  return {std::move(name),
          OpKind::kNegativeLogLikelihoodLoss,
          std::move(attrs),
          std::move(in),
          {std::move(y)}};
}
OpCase bad_loss(std::string name, std::vector<Arg> in, std::string error) {
  return {std::move(name), OpKind::kNegativeLogLikelihoodLoss, "", std::move(in), {}, 0,
          std::move(error)};
}
// Scores of 2 × 3 classes × 3 positions: 0, 1, …, 17.
const Arg kScores = ramp(kF32, {2, 3, 3}), kTargets = i64({2, 3}, {0, 1, 2, 2, 1, 0});

const OpCases kLoss(
    "NegativeLogLikelihoodLoss",
    {
        loss("as_it_is", "{reduction=0}", {kScores, kTargets},
             f32({2, 3}, {-0.0, -4, -8, -15, -13, -11})),
        loss("sum", "{reduction=1}", {kScores, kTargets}, f32({}, {-51})),
        loss("mean", "", {kScores, kTargets}, f32({}, {-8.5})),
        loss("weights", "{reduction=0}", {kScores, kTargets, f32({3}, {1, 10, 100})},
             f32({2, 3}, {-0.0, -40, -800, -1500, -130, -11})),
        loss("mean_over_the_weights", "", {kScores, kTargets, f32({3}, {1, 2, 1})},
             f32({}, {-8.5})),
        loss("ignored_targets_count_nothing", "{ignores=true, ignore_index=-1}",
             {ramp(kF32, {3, 2}), i32({3}, {1, -1, 0})}, f32({}, {-2.5})),
        loss("all_ignored", "{ignores=true}", {ramp(kF32, {1, 2}), i64({1}, {0})}, f32({}, {NAN})),
        loss("no_rows_sum_to_zero", "{reduction=1}", {f32({0, 2}, {}), i64({0}, {})}, f32({}, {0})),
        loss("nan_goes_in_and_comes_out", "{reduction=1}",
             {f32({2, 1}, {NAN, 1}), i64({2}, {0, 0})}, f32({}, {NAN})),
        bad_loss("target_outside", {ramp(kF32, {2, 3}), i64({2}, {2, 3})},
                 "3 at element 1 of input 1 is outside [0, 2]"),
        bad_loss("negative_target", {ramp(kF32, {1, 3}), i64({1}, {-1})},
                 "-1 at element 0 of input 1 is outside [0, 2]"),
        bad_loss("ranks", {ramp(kF32, {2, 3}), i64({2, 3}, {0, 0, 0, 0, 0, 0})},
                 "scores [2, 3] and targets [2, 3], expected [N, C, d...] and [N, d...]"),
        bad_loss("sizes", {ramp(kF32, {2, 3, 4}), i64({2, 1}, {0, 0})}, "sizes 4 and 1 differ"),
        bad_loss("float_targets", {ramp(kF32, {1, 3}), f32({1}, {0})},
                 "the targets are f32, expected integers"),
        bad_loss("count_of_weights", {ramp(kF32, {1, 3}), i64({1}, {0}), f32({2}, {1, 1})},
                 "sizes 2 and 3 differ"),
        bad_loss("type_of_weights",
                 {ramp(kF32, {1, 3}), i64({1}, {0}), typed(kF64, {3}, {1, 1, 1})},
                 "input 2 has type f64, expected f32"),
        bad_loss("integer_scores", {i64({1, 3}, {0, 0, 0}), i64({1}, {0})}, "input 0 has type i64"),
    });

const ShapeCases kShapes("Quantise", {
                                         {.name = "scales_are_as_many_as_the_axis",
                                          .op = OpKind::kQuantizeLinear,
                                          .attrs = "{axis=1, dtype=i8}",
                                          .in = {"f32 [batch, hidden]", "f32 [h2]", "i8 [h3]"},
                                          .out = {"i8 [batch, hidden]"},
                                          .substitutions = {"h2 := hidden", "h3 := hidden"}},
                                         {.name = "dequantised_is_of_the_scales_type",
                                          .op = OpKind::kDequantizeLinear,
                                          .in = {"u8 [batch, 3]", "f16 []"},
                                          .out = {"f16 [batch, 3]"}},
                                         {.name = "targets_have_the_scores_sizes",
                                          .op = OpKind::kNegativeLogLikelihoodLoss,
                                          .attrs = "{reduction=0}",
                                          .in = {"f32 [batch, classes, seq]", "i64 [b2, seq]"},
                                          .out = {"f32 [batch, seq]"},
                                          .substitutions = {"b2 := batch"}},
                                     });

}  // namespace
}  // namespace vernier::test
