// Cases of the operators in src/rules/shapes.cpp. Row fields: case.h.
#include "ops/case.h"

namespace vernier::test {
namespace {

constexpr DType kF32 = DType::kF32;
constexpr DType kI64 = DType::kI64;

// clang-format off
const OpCases kShape("Shape", {
    {.name = "whole",              .op = OpKind::kShape,
     .in = {ramp(kF32, {2, 3, 5})}, .out = {i64({3}, {2, 3, 5})}},
    {.name = "start",              .op = OpKind::kShape,       .attrs = "{start=-2}",
     .in = {ramp(kF32, {2, 3, 5})}, .out = {i64({2}, {3, 5})}},
    {.name = "start_and_end",      .op = OpKind::kShape,       .attrs = "{start=1, end=-1}",
     .in = {ramp(kF32, {2, 3, 5})}, .out = {i64({1}, {3})}},
    {.name = "end_before_start",   .op = OpKind::kShape,       .attrs = "{start=2, end=1}",
     .in = {ramp(kF32, {2, 3, 5})}, .out = {i64({0}, {})}},
    {.name = "of_a_scalar", .op = OpKind::kShape, .in = {f32({}, {1})}, .out = {i64({0}, {})}},
    {.name = "of_an_empty_tensor", .op = OpKind::kShape,
     .in = {f32({0, 3}, {})},       .out = {i64({2}, {0, 3})}},
    {.name = "size", .op = OpKind::kSize,  .in = {ramp(kF32, {2, 3, 5})}, .out = {i64({}, {30})}},
    {.name = "size_of_an_empty_tensor", .op = OpKind::kSize,
     .in = {f32({0, 3}, {})},       .out = {i64({}, {0})}},
    {.name = "values",             .op = OpKind::kShapeValues, .attrs = "{values=(3, 4)}",
     .out = {i64({2}, {3, 4})}},
    {.name = "scalar_value",       .op = OpKind::kShapeValues, .attrs = "{values=(3), scalar=true}",
     .out = {i64({}, {3})}},
});

const ShapeCases kShapeShapes("Shape", {
    {.name = "sizes_become_values",   .op = OpKind::kShape,
     .in = {"f32 [batch, seq, 8]"},  .out = {"i64 [3] = (batch, seq, 8)"}},
    {.name = "size_is_the_product",   .op = OpKind::kSize,
     .in = {"f32 [batch, seq, 8]"},  .out = {"i64 [] = (8*batch*seq)"}},
    {.name = "values_are_expressions", .op = OpKind::kShapeValues,
     .attrs = "{values=(2*batch, seq + 1)}", .out = {"i64 [2] = (2*batch, seq + 1)"}},
    {.name = "identity_keeps_values", .op = OpKind::kIdentity,
     .in = {"i64 [2] = (batch, 3)"}, .out = {"i64 [2] = (batch, 3)"}},
});

const OpCases kReshape("Reshape", OpKind::kReshape, {
    {.name = "with_minus_one",
     .in = {ramp(kF32, {2, 6}), i64({2}, {3, -1})},    .out = {ramp(kF32, {3, 4})}},
    {.name = "with_zero",
     .in = {ramp(kF32, {2, 6}), i64({3}, {0, 3, -1})}, .out = {ramp(kF32, {2, 3, 2})}},
    {.name = "zero_is_a_size_with_allowzero", .attrs = "{allowzero=true}",
     .in = {f32({0, 3}, {}), i64({3}, {3, 0, 5})},     .out = {f32({3, 0, 5}, {})}},
    {.name = "to_a_scalar", .in = {f32({1, 1}, {7}), i64({0}, {})},     .out = {f32({}, {7})}},
    {.name = "of_integers", .in = {ramp(kI64, {2, 2}), i64({1}, {-1})}, .out = {ramp(kI64, {4})}},
    {.name = "shape_as_attribute",            .attrs = "{shape=(3, -1), has_shape=true}",
     .in = {ramp(kF32, {2, 6})},                       .out = {ramp(kF32, {3, 4})}},
    {.name = "counts_differ", .in = {ramp(kF32, {2, 6}), i64({2}, {5, 2})},
     .error = "shape [2, 6] cannot become [5, 2]: the counts 12 and 10 differ"},
    {.name = "minus_one_does_not_divide", .in = {ramp(kF32, {2, 6}), i64({2}, {5, -1})},
     .error = "shape [2, 6] is not divisible into [5, -1]"},
    {.name = "two_minus_ones",
     .in = {ramp(kF32, {2, 6}), i64({2}, {-1, -1})},   .error = "more than one -1"},
    {.name = "zero_beyond_the_input", .in = {ramp(kF32, {6}), i64({2}, {6, 0})},
     .error = "copies an axis that input [6] does not have"},
});

const ShapeCases kReshapeShapes("Reshape", OpKind::kReshape, {
    {.name = "minus_one_cancels_symbols",
     .in = {"f32 [batch, seq, 768]", "i64 [4] = (batch, -1, 12, 64)"},
     .out = {"f32 [batch, seq, 12, 64]"}},
    {.name = "minus_one_takes_the_product",
     .in = {"f32 [batch, seq, 768]", "i64 [2] = (-1, 768)"},  .out = {"f32 [batch*seq, 768]"}},
    {.name = "zero_copies_the_axis",
     .in = {"f32 [batch, seq, 768]", "i64 [3] = (0, 0, -1)"}, .out = {"f32 [batch, seq, 768]"}},
    {.name = "two_names_of_one_size_are_unified",
     .in = {"f32 [batch, seq, 768]", "i64 [4] = (batch, s2, 12, 64)"},
     .out = {"f32 [batch, seq, 12, 64]"}, .substitutions = {"s2 := seq"}},
    {.name = "a_size_that_may_not_divide_is_guarded",
     .in = {"f32 [batch, seq]", "i64 [2] = (other, -1)"},
     .out = {"f32 [other, floordiv(batch*seq, other)]"}, .guards = {"mod(batch*seq, other) == 0"}},
    {.name = "values_pass_through",
     .in = {"i64 [1] = (seq)", "i64 [0] = ()"},               .out = {"i64 [] = (seq)"}},
    {.name = "shape_attribute_with_symbols", .attrs = "{shape=(batch*seq, 768), has_shape=true}",
     .in = {"f32 [batch, seq, 768]"},                         .out = {"f32 [batch*seq, 768]"}},
    {.name = "a_shape_of_data", .in = {"f32 [batch, 4]", "i64 [2]"},
     .out = {"f32 [Reshape_0.0 - 1, Reshape_1.0 - 1]"}},
    {.name = "a_shape_of_data_with_one_size", .in = {"f32 [batch, 4]", "i64 [1]"},
     .out = {"f32 [4*batch]"}},
    {.name = "a_rank_of_data", .in = {"f32 [batch, 4]", "i64 [seq]"},
     .error = "node 'case' (Reshape): input 1 has seq elements, one for each axis, and how many is "
              "not known when the engine is built"},
    {.name = "provably_different_counts",
     .in = {"f32 [batch, 4]", "i64 [2] = (batch, 5)"},        .error = "cannot become"},
});

const OpCases kSqueeze("Squeeze", {
    {.name = "negative_axis",      .op = OpKind::kSqueeze,   .attrs = "{axes=[-2]}",
     .in = {ramp(kF32, {2, 1, 3})},                   .out = {ramp(kF32, {2, 3})}},
    {.name = "axes_input",         .op = OpKind::kSqueeze,
     .in = {ramp(kF32, {1, 2, 1}), i64({2}, {0, 2})}, .out = {ramp(kF32, {2})}},
    {.name = "every_one",          .op = OpKind::kSqueeze,   .attrs = "{given=false}",
     .in = {ramp(kF32, {1, 2, 1, 3})},                .out = {ramp(kF32, {2, 3})}},
    {.name = "not_one",            .op = OpKind::kSqueeze,   .attrs = "{axes=[0]}",
     .in = {ramp(kF32, {2, 1})},                      .error = "axis 0 of [2, 1] is not 1"},
    {.name = "outside",            .op = OpKind::kSqueeze,   .attrs = "{axes=[2]}",
     .in = {ramp(kF32, {2, 1})},                      .error = "axis 2 is outside [-2, 2)"},
    {.name = "unsqueeze",          .op = OpKind::kUnsqueeze, .attrs = "{axes=[0, -1]}",
     .in = {ramp(kF32, {2, 3})},                      .out = {ramp(kF32, {1, 2, 3, 1})}},
    {.name = "unsqueeze_a_scalar", .op = OpKind::kUnsqueeze,
     .in = {f32({}, {4}), i64({1}, {0})},             .out = {f32({1}, {4})}},
    {.name = "unsqueeze_twice",    .op = OpKind::kUnsqueeze, .attrs = "{axes=[0, -3]}",
     .in = {ramp(kF32, {2})},                         .error = "axis -3 is given twice"},
    {.name = "flatten",            .op = OpKind::kFlatten,   .attrs = "{axis=2}",
     .in = {ramp(kF32, {2, 3, 5, 1})},                .out = {ramp(kF32, {6, 5})}},
    {.name = "flatten_at_zero",    .op = OpKind::kFlatten,   .attrs = "{axis=0}",
     .in = {ramp(kF32, {2, 3})},                      .out = {ramp(kF32, {1, 6})}},
    {.name = "flatten_at_the_end", .op = OpKind::kFlatten,   .attrs = "{axis=2}",
     .in = {ramp(kF32, {2, 3})},                      .out = {ramp(kF32, {6, 1})}},
});

const ShapeCases kSqueezeShapes("Squeeze", {
    {.name = "values_survive",   .op = OpKind::kSqueeze,   .attrs = "{axes=[0]}",
     .in = {"i64 [1] = (seq)"},     .out = {"i64 [] = (seq)"}},
    {.name = "unsqueeze_values", .op = OpKind::kUnsqueeze, .attrs = "{axes=[0]}",
     .in = {"i64 [] = (seq)"},      .out = {"i64 [1] = (seq)"}},
    {.name = "flatten_symbols",  .op = OpKind::kFlatten,   .attrs = "{axis=1}",
     .in = {"f32 [batch, seq, 8]"}, .out = {"f32 [batch, 8*seq]"}},
});

const OpCases kExpand("Expand", OpKind::kExpand, {
    {.name = "column",
     .in = {f32({2, 1}, {1, 2}), i64({2}, {2, 3})}, .out = {f32({2, 3}, {1, 1, 1, 2, 2, 2})}},
    {.name = "more_axes",
     .in = {f32({2}, {1, 2}), i64({3}, {2, 1, 1})}, .out = {f32({2, 1, 2}, {1, 2, 1, 2})}},
    {.name = "a_scalar", .attrs = "{shape=(3), has_shape=true}",
     .in = {f32({}, {5})},                          .out = {f32({3}, {5, 5, 5})}},
    {.name = "to_empty", .in = {f32({1, 2}, {1, 2}), i64({2}, {0, 2})}, .out = {f32({0, 2}, {})}},
    {.name = "does_not_fit", .in = {f32({3}, {1, 2, 3}), i64({1}, {4})},
     .error = "shapes [3] and [4] do not broadcast: sizes 3 and 4 differ"},
    {.name = "negative_size", .in = {f32({1}, {1}), i64({1}, {-2})},
     .error = "cannot expand: shape [-2] has a negative size"},
});

const ShapeCases kExpandShapes("Expand", OpKind::kExpand, {
    {.name = "to_symbols", .in = {"f32 [1, 1, seq, seq]", "i64 [4] = (batch, 1, seq, seq)"},
     .out = {"f32 [batch, 1, seq, seq]"}},
    {.name = "a_value",
     .in = {"i64 [1] = (seq)", "i64 [1] = (2)"}, .out = {"i64 [2] = (seq, seq)"}},
    {.name = "a_shape_of_data", .in = {"f32 [batch, 4, 1]", "i64 [3]"},
     .out = {"f32 [Expand_0.0 - 1, 4, Expand_2.0 - 1]"}},
    {.name = "a_shorter_shape_of_data", .in = {"f32 [batch, 4, 1]", "i64 [1]"},
     .out = {"f32 [batch, 4, Expand_2.0 - 1]"}},
    {.name = "a_longer_shape_of_data", .in = {"f32 [1]", "i64 [2]"},
     .out = {"f32 [Expand_0.0 - 1, Expand_1.0 - 1]"}},
});

const OpCases kTranspose("Transpose", OpKind::kTranspose, {
    {.name = "matrix",     .attrs = "{perm=[1, 0]}",
     .in = {ramp(kF32, {2, 3})}, .out = {f32({3, 2}, {0, 3, 1, 4, 2, 5})}},
    {.name = "three_axes", .attrs = "{perm=[2, 0, 1]}", .in = {ramp(kF32, {2, 2, 3})},
     .out = {f32({3, 2, 2}, {0, 3, 6, 9, 1, 4, 7, 10, 2, 5, 8, 11})}},
    {.name = "empty",  .attrs = "{perm=[1, 0]}", .in = {f32({0, 3}, {})}, .out = {f32({3, 0}, {})}},
    {.name = "scalar",                           .in = {f32({}, {4})},    .out = {f32({}, {4})}},
    {.name = "axis_twice", .attrs = "{perm=[0, 0]}",
     .in = {ramp(kF32, {2, 3})}, .error = "perm names axis 0 twice"},
    {.name = "too_short",  .attrs = "{perm=[0]}",
     .in = {ramp(kF32, {2, 3})}, .error = "perm has 1 axes, the input [2, 3] has 2"},
});

const OpCases kConstantOfShape("ConstantOfShape", {
    {.name = "zeros",           .op = OpKind::kConstantOfShape,
     .in = {i64({2}, {2, 3})},   .out = {f32({2, 3}, {0, 0, 0, 0, 0, 0})}},
    {.name = "integers",        .op = OpKind::kConstantOfShape, .attrs = "{dtype=i64, value=-1}",
     .in = {i64({1}, {2})},      .out = {i64({2}, {-1, -1})}},
    {.name = "scalar",          .op = OpKind::kConstantOfShape, .attrs = "{value=2.5}",
     .in = {i64({0}, {})},       .out = {f32({}, {2.5})}},
    {.name = "empty", .op = OpKind::kConstantOfShape, .in = {i64({1}, {0})}, .out = {f32({0}, {})}},
    {.name = "negative",        .op = OpKind::kConstantOfShape,
     .in = {i64({1}, {-3})},     .error = "shape [-3] has a negative size"},
    {.name = "eye",             .op = OpKind::kEyeLike,         .attrs = "{k=1}",
     .in = {ramp(kF32, {2, 3})}, .out = {f32({2, 3}, {0, 1, 0, 0, 0, 1})}},
    {.name = "eye_below",       .op = OpKind::kEyeLike,         .attrs = "{k=-1, dtype=i64}",
     .in = {ramp(kF32, {3, 2})}, .out = {i64({3, 2}, {0, 0, 1, 0, 0, 1})}},
    {.name = "eye_of_a_vector", .op = OpKind::kEyeLike,
     .in = {ramp(kF32, {3})},    .error = "input [3] is not a matrix"},
});

const OpCases kRange("Range", OpKind::kRange, {
    {.name = "integers",
     .in = {i64({}, {2}), i64({}, {9}), i64({}, {3})},    .out = {i64({3}, {2, 5, 8})}},
    {.name = "down",
     .in = {i64({}, {5}), i64({}, {0}), i64({}, {-2})},   .out = {i64({3}, {5, 3, 1})}},
    {.name = "empty",     .in = {i64({}, {5}), i64({}, {2}), i64({}, {1})}, .out = {i64({0}, {})}},
    {.name = "floats",
     .in = {f32({}, {1}), f32({}, {2}), f32({}, {0.25})}, .out = {f32({4}, {1, 1.25, 1.5, 1.75})}},
    {.name = "zero_step", .in = {i64({}, {5}), i64({}, {2}), i64({}, {0})}, .error = "delta is 0"},
    {.name = "mixed_types",
     .in = {i64({}, {5}), f32({}, {2}), i64({}, {1})},    .error = "differ in type"},
});

const ShapeCases kRangeShapes("Range", {
    {.name = "to_a_symbol",      .op = OpKind::kRange,
     .in = {"i64 [] = (0)", "i64 [] = (seq)", "i64 [] = (1)"},           .out = {"i64 [seq]"}},
    {.name = "past_and_present", .op = OpKind::kRange,
     .in = {"i64 [] = (past)", "i64 [] = (past + seq)", "i64 [] = (1)"}, .out = {"i64 [seq]"}},
    {.name = "few_values_are_known", .op = OpKind::kRange,
     .in = {"i64 [] = (seq)", "i64 [] = (seq + 2)", "i64 [] = (1)"},
     .out = {"i64 [2] = (seq, seq + 1)"}},
    {.name = "a_limit_of_data", .op = OpKind::kRange,
     .in = {"i64 [] = (0)", "i64 []", "i64 [] = (1)"},      .out = {"i64 [Range_0.0 - 1]"}},
    {.name = "a_delta_of_data", .op = OpKind::kRange,
     .in = {"f32 [] = (0)", "f32 [] = (1)", "f32 []"},      .out = {"f32 [Range_0.0 - 1]"}},
    {.name = "no_delta", .op = OpKind::kRange,
     .in = {"f32 []", "f32 []", "f32 [] = (0)"},                         .error = "delta is 0"},
    {.name = "constant_of_a_shape_of_data", .op = OpKind::kConstantOfShape, .in = {"i64 [2]"},
     .out = {"f32 [ConstantOfShape_0.0 - 1, ConstantOfShape_1.0 - 1]"}},
    {.name = "constant_of_shape_knows_its_fill", .op = OpKind::kConstantOfShape,
     .attrs = "{dtype=i64, value=3}", .in = {"i64 [1] = (2)"}, .out = {"i64 [2] = (3, 3)"}},
    {.name = "constant_of_symbolic_shape", .op = OpKind::kConstantOfShape,
     .attrs = "{dtype=bool, value=1}", .in = {"i64 [2] = (batch, seq)"},
     .out = {"bool [batch, seq]"}},
});
// clang-format on

}  // namespace
}  // namespace vernier::test
