// Cases of the broadcasting arithmetic, comparison, boolean and bitwise operators: values, integer
// wrap-around, NaN, empty tensors, errors, and contents of shape tensors.
#include <cmath>

#include "ops/case.h"

namespace vernier::test {
namespace {

constexpr double kNaN = NAN, kInf = HUGE_VAL;
constexpr DType kF32 = DType::kF32, kI8 = DType::kI8, kU8 = DType::kU8, kU64 = DType::kU64;
constexpr double k2to53 = 9007199254740992.0;

Arg list(DType dtype, std::vector<double> values) {
  const auto count = static_cast<int64_t>(values.size());
  return typed(dtype, {count}, std::move(values));
}

// clang-format off
const OpCases kArithmetic("Arithmetic", {
    {.name = "add_broadcasts_both_ways", .op = OpKind::kAdd,
     .in = {f32({3, 1}, {10, 20, 30}), f32({1, 2}, {1, 2})},
     .out = {f32({3, 2}, {11, 12, 21, 22, 31, 32})}},
    {.name = "add_a_scalar",                     .op = OpKind::kAdd,
     .in = {f32({}, {1}), f32({2, 1, 2}, {1, 2, 3, 4})}, .out = {f32({2, 1, 2}, {2, 3, 4, 5})}},
    {.name = "add_middle_axis", .op = OpKind::kAdd,
     .in = {f32({2, 3, 2}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}), f32({3, 1}, {100, 200, 300})},
     .out = {f32({2, 3, 2}, {100, 101, 202, 203, 304, 305, 106, 107, 208, 209, 310, 311})}},
    {.name = "add_empty",                        .op = OpKind::kAdd,
     .in = {f32({0, 3}, {}), f32({3}, {1, 2, 3})},       .out = {f32({0, 3}, {})}},
    {.name = "add_nan_and_inf", .op = OpKind::kAdd,
     .in = {list(kF32, {kNaN, kInf, 1}), list(kF32, {1, -kInf, kInf})},
     .out = {list(kF32, {kNaN, kNaN, kInf})}},
    {.name = "add_i8_wraps",                     .op = OpKind::kAdd,
     .in = {list(kI8, {100, -100}), list(kI8, {100, -100})}, .out = {list(kI8, {-56, 56})}},
    {.name = "sub_u8_wraps",                     .op = OpKind::kSub,
     .in = {list(kU8, {3}), list(kU8, {5})},             .out = {list(kU8, {254})}},
    {.name = "mul_i32_wraps",                    .op = OpKind::kMul,
     .in = {i32({1}, {65536}), i32({1}, {65537})},       .out = {i32({1}, {65536})}},
    {.name = "mul_zero_and_inf",                 .op = OpKind::kMul,
     .in = {list(kF32, {0, kNaN}), list(kF32, {kInf, 0})}, .out = {list(kF32, {kNaN, kNaN})}},
    {.name = "div_floats", .op = OpKind::kDiv,
     .in = {list(kF32, {1, -1, 0, 3}), list(kF32, {0, 0, 0, 4})},
     .out = {list(kF32, {kInf, -kInf, kNaN, 0.75})}},
    {.name = "div_integers_truncates",           .op = OpKind::kDiv,
     .in = {i64({4}, {7, -7, 7, -7}), i64({4}, {2, 2, -2, -2})}, .out = {i64({4}, {3, -3, -3, 3})}},
    {.name = "div_lowest_i8_by_minus_one_wraps", .op = OpKind::kDiv,
     .in = {list(kI8, {-128}), list(kI8, {-1})},         .out = {list(kI8, {-128})}},
    {.name = "div_u64_is_unsigned",              .op = OpKind::kDiv,
     .in = {list(kU64, {k2to53}), list(kU64, {8})},      .out = {list(kU64, {1125899906842624.0})}},
    {.name = "pow_floats", .op = OpKind::kPow,
     .in = {list(kF32, {2, 4, -8, 0, kNaN}), list(kF32, {3, 0.5, 2, 0, 0})},
     .out = {list(kF32, {8, 2, 64, 1, 1})}},
    {.name = "pow_float_by_integer",             .op = OpKind::kPow,
     .in = {list(kF32, {-2, 0.5}), i64({}, {3})},        .out = {list(kF32, {-8, 0.125})}},
    {.name = "pow_integers_exact", .op = OpKind::kPow,
     .in = {i64({4}, {3, -2, 2, 1}), i64({4}, {33, 3, -1, -1})},
     .out = {i64({4}, {5559060566555523.0, -8, 0, 1})}},
    {.name = "pow_integer_by_float",             .op = OpKind::kPow,
     .in = {i64({2}, {9, 2}), f32({}, {0.5})},           .out = {i64({2}, {3, 1})}},
    {.name = "prelu", .op = OpKind::kPRelu,
     .in = {f32({2, 2}, {-1, 2, -3, kNaN}), f32({2}, {0.5, 0.25})},
     .out = {f32({2, 2}, {-0.5, 2, -1.5, kNaN})}},
});

const OpCases kMod("Mod", OpKind::kMod, {
    {.name = "integers_follow_the_divisor",
     .in = {i64({4}, {7, -7, 7, -7}), i64({4}, {3, 3, -3, -3})}, .out = {i64({4}, {1, 2, -2, -1})}},
    {.name = "fmod_integers_follow_the_dividend", .attrs = "{fmod=true}",
     .in = {i64({4}, {7, -7, 7, -7}), i64({4}, {3, 3, -3, -3})}, .out = {i64({4}, {1, -1, 1, -1})}},
    {.name = "fmod_floats", .attrs = "{fmod=true}",
     .in = {list(kF32, {5.5, -5.5, 5.5, kNaN, 1}), list(kF32, {2, 2, -2, 1, kInf})},
     .out = {list(kF32, {1.5, -1.5, 1.5, kNaN, 1})}},
    {.name = "floats_follow_the_divisor",
     .in = {list(kF32, {5.5, -5.5}), list(kF32, {2, 2})},        .out = {list(kF32, {1.5, 0.5})}},
    {.name = "by_minus_one",
     .in = {list(kI8, {-128, 5}), list(kI8, {-1, -1})},          .out = {list(kI8, {0, 0})}},
});

const OpCases kVariadic("Variadic", {
    {.name = "min_of_three", .op = OpKind::kMin,
     .in = {list(kF32, {1, 5, 3}), f32({1}, {4}), list(kF32, {2, 2, 9})},
     .out = {list(kF32, {1, 2, 3})}},
    {.name = "min_of_one",               .op = OpKind::kMin,
     .in = {list(kF32, {1, kNaN})},                        .out = {list(kF32, {1, kNaN})}},
    {.name = "min_propagates_nan",       .op = OpKind::kMin,
     .in = {list(kF32, {kNaN, 1}), list(kF32, {1, kNaN})}, .out = {list(kF32, {kNaN, kNaN})}},
    {.name = "max_propagates_nan", .op = OpKind::kMax,
     .in = {list(kF32, {kNaN, 1, 2}), list(kF32, {1, kNaN, kInf})},
     .out = {list(kF32, {kNaN, kNaN, kInf})}},
    {.name = "max_u8",                   .op = OpKind::kMax,
     .in = {list(kU8, {200, 1}), list(kU8, {100, 2})},     .out = {list(kU8, {200, 2})}},
    {.name = "max_broadcasts_the_first", .op = OpKind::kMax,
     .in = {f32({1}, {2}), f32({2, 2}, {1, 2, 3, 4})},     .out = {f32({2, 2}, {2, 2, 3, 4})}},
    {.name = "sum_of_three",             .op = OpKind::kSum,
     .in = {f32({2}, {1, 2}), f32({}, {10}), f32({2}, {100, 200})}, .out = {f32({2}, {111, 212})}},
    {.name = "mean_of_three",            .op = OpKind::kMean,
     .in = {f32({2}, {1, 2}), f32({2}, {3, 5}), f32({2}, {5, 8})}, .out = {f32({2}, {3, 5})}},
});

const OpCases kComparison("Comparison", {
    {.name = "equal", .op = OpKind::kEqual,
     .in = {list(kF32, {1, kNaN, kInf, -0.0}), list(kF32, {1, kNaN, kInf, 0})},
     .out = {boolean({4}, {1, 0, 1, 1})}},
    {.name = "equal_integers_broadcast", .op = OpKind::kEqual,
     .in = {i64({2, 1}, {1, 2}), i64({2}, {1, 2})},        .out = {boolean({2, 2}, {1, 0, 0, 1})}},
    {.name = "equal_bool",               .op = OpKind::kEqual,
     .in = {boolean({2}, {1, 0}), boolean({2}, {1, 1})},   .out = {boolean({2}, {1, 0})}},
    {.name = "less",                     .op = OpKind::kLess,
     .in = {list(kF32, {1, 2, kNaN}), list(kF32, {2, 2, 1})}, .out = {boolean({3}, {1, 0, 0})}},
    {.name = "less_or_equal", .op = OpKind::kLessOrEqual,
     .in = {list(kF32, {1, 2, 3, kNaN}), list(kF32, {2, 2, 2, kNaN})},
     .out = {boolean({4}, {1, 1, 0, 0})}},
    {.name = "greater",                  .op = OpKind::kGreater,
     .in = {list(kF32, {1, 2, 3}), list(kF32, {2, 2, 2})}, .out = {boolean({3}, {0, 0, 1})}},
    {.name = "greater_or_equal",         .op = OpKind::kGreaterOrEqual,
     .in = {i32({3}, {1, 2, 3}), i32({}, {2})},            .out = {boolean({3}, {0, 1, 1})}},
    {.name = "less_u64_is_unsigned",     .op = OpKind::kLess,
     .in = {list(kU64, {-2, 1}), list(kU64, {-1, -1})},    .out = {boolean({2}, {1, 1})}},
});

const OpCases kBits("Boolean", {
    {.name = "and", .op = OpKind::kAnd,
     .in = {boolean({4}, {0, 0, 1, 1}), boolean({4}, {0, 1, 0, 1})},
     .out = {boolean({4}, {0, 0, 0, 1})}},
    {.name = "or_broadcasts",         .op = OpKind::kOr,
     .in = {boolean({2, 1}, {0, 1}), boolean({2}, {0, 1})}, .out = {boolean({2, 2}, {0, 1, 1, 1})}},
    {.name = "xor", .op = OpKind::kXor,
     .in = {boolean({4}, {0, 0, 1, 1}), boolean({4}, {0, 1, 0, 1})},
     .out = {boolean({4}, {0, 1, 1, 0})}},
    {.name = "bitwise_and",           .op = OpKind::kBitwiseAnd,
     .in = {list(kU8, {12, 255}), list(kU8, {10, 15})},     .out = {list(kU8, {8, 15})}},
    {.name = "bitwise_or",            .op = OpKind::kBitwiseOr,
     .in = {i32({1}, {12}), i32({1}, {-16})},               .out = {i32({1}, {-4})}},
    {.name = "bitwise_xor",           .op = OpKind::kBitwiseXor,
     .in = {i64({1}, {12}), i64({1}, {10})},                .out = {i64({1}, {6})}},
    {.name = "shift_left_drops_bits", .op = OpKind::kBitShift,
     .in = {list(kU8, {129, 1}), list(kU8, {1, 8})},        .out = {list(kU8, {2, 0})}},
    {.name = "shift_right",           .op = OpKind::kBitShift, .attrs = "{left=false}",
     .in = {list(kU8, {129, 255}), list(kU8, {4, 9})},      .out = {list(kU8, {8, 0})}},
});

const OpCases kWhere("Where", OpKind::kWhere, {
    {.name = "broadcasts_three_ways",
     .in = {boolean({2, 1}, {1, 0}), f32({3}, {1, 2, 3}), f32({}, {9})},
     .out = {f32({2, 3}, {1, 2, 3, 9, 9, 9})}},
    {.name = "nan_is_only_taken_where_chosen",
     .in = {boolean({2}, {1, 0}), f32({2}, {1, kNaN}), f32({2}, {kNaN, 2})},
     .out = {f32({2}, {1, 2})}},
    {.name = "integers",
     .in = {boolean({2}, {1, 0}), i64({2}, {1, 2}), i64({2}, {3, 4})}, .out = {i64({2}, {1, 4})}},
    {.name = "float_condition", .in = {f32({1}, {1}), f32({1}, {1}), f32({1}, {1})},
     .error = "the condition has type f32, expected bool"},
    {.name = "branches_of_two_types", .in = {boolean({1}, {1}), f32({1}, {1}), i64({1}, {1})},
     .error = "input 2 has type i64, expected f32 as input 1"},
});

const OpCases kErrors("ArithmeticErrors", {
    {.name = "div_by_zero", .op = OpKind::kDiv, .in = {i64({1}, {1}), i64({1}, {0})},
     .error = "(Div): integer division by zero; input 1 must not hold 0, but element 0 is"},
    {.name = "mod_by_zero", .op = OpKind::kMod, .in = {i64({1}, {1}), i64({1}, {0})},
     .error = "(Mod): integer division by zero; input 1 must not hold 0, but element 0 is"},
    {.name = "two_types", .op = OpKind::kAdd, .in = {i64({1}, {1}), f32({1}, {0})},
     .error = "input 1 has type f32, expected i64 as input 0"},
    {.name = "shapes_that_do_not_broadcast", .op = OpKind::kMul,
     .in = {f32({2}, {1, 2}), f32({3}, {1, 2, 3})}, .error = "shapes [2] and [3] do not broadcast"},
    {.name = "and_of_integers",              .op = OpKind::kAnd,
     .in = {i64({1}, {1}), i64({1}, {1})},          .error = "inputs have type i64, expected bool"},
    {.name = "bitwise_and_of_floats", .op = OpKind::kBitwiseAnd,
     .in = {f32({1}, {1}), f32({1}, {1})},
     .error = "input 0 has type f32, expected an integer type or bool"},
});

const ShapeCases kContents("Arithmetic", {
    {.name = "broadcast_unifies",                          .op = OpKind::kAdd,
     .in = {"f32 [batch, 1, 8]", "f32 [seq, 1]"},           .out = {"f32 [batch, seq, 8]"}},
    {.name = "add",                                        .op = OpKind::kAdd,
     .in = {"i64 [2] = (batch, 3)", "i64 [] = (1)"},        .out = {"i64 [2] = (batch + 1, 4)"}},
    {.name = "sub",                                        .op = OpKind::kSub,
     .in = {"i64 [1] = (seq)", "i64 [1] = (2)"},            .out = {"i64 [1] = (seq - 2)"}},
    {.name = "mul_by_a_scalar",                            .op = OpKind::kMul,
     .in = {"i64 [2] = (batch, seq)", "i64 [] = (-1)"},     .out = {"i64 [2] = (-batch, -seq)"}},
    {.name = "mul_two_sizes",                              .op = OpKind::kMul,
     .in = {"i64 [] = (batch)", "i64 [] = (seq)"},          .out = {"i64 [] = (batch*seq)"}},
    {.name = "div_cancels",                                .op = OpKind::kDiv,
     .in = {"i64 [] = (12*seq)", "i64 [] = (4)"},           .out = {"i64 [] = (3*seq)"}},
    {.name = "div_floors_sizes",                           .op = OpKind::kDiv,
     .in = {"i64 [] = (seq)", "i64 [] = (2)"},              .out = {"i64 [] = (floordiv(seq, 2))"}},
    {.name = "div_of_a_possibly_negative_size_is_unknown", .op = OpKind::kDiv,
     .in = {"i64 [] = (seq - 2)", "i64 [] = (2)"},          .out = {"i64 []"}},
    {.name = "div_constants_truncates",                    .op = OpKind::kDiv,
     .in = {"i64 [] = (-7)", "i64 [] = (2)"},               .out = {"i64 [] = (-3)"}},
    {.name = "div_by_zero_is_unknown",                     .op = OpKind::kDiv,
     .in = {"i64 [] = (seq)", "i64 [] = (0)"},              .out = {"i64 []"}},
    {.name = "mod",                                        .op = OpKind::kMod,
     .in = {"i64 [] = (seq)", "i64 [] = (4)"},              .out = {"i64 [] = (mod(seq, 4))"}},
    {.name = "min",                                        .op = OpKind::kMin,
     .in = {"i64 [] = (seq)", "i64 [] = (512)"},            .out = {"i64 [] = (min(512, seq))"}},
    {.name = "max_decides_where_it_can",                   .op = OpKind::kMax,
     .in = {"i64 [] = (seq)", "i64 [] = (1)"},              .out = {"i64 [] = (seq)"}},
    {.name = "sentinels_are_not_sizes",                    .op = OpKind::kAdd,
     .in = {"i64 [] = (9223372036854775)", "i64 [] = (1)"}, .out = {"i64 []"}},
    {.name = "i32_that_would_wrap_is_unknown",             .op = OpKind::kMul,
     .in = {"i32 [] = (65536)", "i32 [] = (65536)"},        .out = {"i32 []"}},
    {.name = "u8_is_not_tracked",                          .op = OpKind::kAdd,
     .in = {"u8 [] = (200)", "u8 [] = (100)"},              .out = {"u8 []"}},
    {.name = "unknown_stays_unknown",                      .op = OpKind::kAdd,
     .in = {"i64 [1]", "i64 [1] = (1)"},                    .out = {"i64 [1]"}},
    {.name = "equal_is_decided_for_a_size_and_minus_one",  .op = OpKind::kEqual,
     .in = {"i64 [3] = (batch, -1, 4)", "i64 [3] = (-1, -1, -1)"}, .out = {"bool [3] = (0, 1, 0)"}},
    {.name = "equal_of_two_sizes_is_unknown",              .op = OpKind::kEqual,
     .in = {"i64 [1] = (batch)", "i64 [1] = (seq)"},        .out = {"bool [1]"}},
    {.name = "equal_of_one_size",                          .op = OpKind::kEqual,
     .in = {"i64 [1] = (batch)", "i64 [1] = (batch)"},      .out = {"bool [1] = (1)"}},
    {.name = "less_is_decided",                            .op = OpKind::kLess,
     .in = {"i64 [2] = (0, batch)", "i64 [2] = (batch, 1)"}, .out = {"bool [2] = (1, 0)"}},
    {.name = "greater_or_equal_is_decided",                .op = OpKind::kGreaterOrEqual,
     .in = {"i64 [] = (seq)", "i64 [] = (1)"},              .out = {"bool [] = (1)"}},
    {.name = "greater_is_unknown",                         .op = OpKind::kGreater,
     .in = {"i64 [] = (seq)", "i64 [] = (1)"},              .out = {"bool []"}},
    {.name = "and",                                        .op = OpKind::kAnd,
     .in = {"bool [2] = (1, 1)", "bool [2] = (1, 0)"},      .out = {"bool [2] = (1, 0)"}},
    {.name = "where_picks_by_a_known_condition", .op = OpKind::kWhere,
     .in = {"bool [3] = (0, 1, 0)", "i64 [3] = (1, 1, 1)", "i64 [3] = (batch, -1, seq)"},
     .out = {"i64 [3] = (batch, 1, seq)"}},
    {.name = "where_needs_no_condition_if_branches_agree", .op = OpKind::kWhere,
     .in = {"bool [1]", "i64 [1] = (seq)", "i64 [1] = (seq)"}, .out = {"i64 [1] = (seq)"}},
    {.name = "where_is_unknown_without_its_condition",     .op = OpKind::kWhere,
     .in = {"bool [1]", "i64 [1] = (seq)", "i64 [1] = (batch)"}, .out = {"i64 [1]"}},
    {.name = "float_contents_are_not_tracked",             .op = OpKind::kAdd,
     .in = {"f32 [1] = (1)", "f32 [1] = (2)"},              .out = {"f32 [1]"}},
});

const ShapeCases kUnify("ArithmeticUnify", OpKind::kAdd, {
    {.name = "two_names_of_one_size", .in = {"f32 [b, s1, 8]", "f32 [b, s2, 8]"},
     .out = {"f32 [b, s1, 8]"}, .substitutions = {"s2 := s1"}},
});
// clang-format on

}  // namespace
}  // namespace vernier::test
