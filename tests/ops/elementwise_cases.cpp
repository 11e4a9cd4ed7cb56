// Cases of the one-input elementwise operators: known answers in double, NaN, infinities, integer
// types, empty tensors. The numbers are numpy's.
#include <cmath>

#include "ops/case.h"

namespace vernier::test {
namespace {

constexpr double kNaN = NAN, kInf = HUGE_VAL;
constexpr DType kF32 = DType::kF32, kF64 = DType::kF64, kI8 = DType::kI8, kU8 = DType::kU8;
using Values = std::vector<double>;

const Values kWide{-2.5, -0.75, 0, 0.5, 3, kNaN, kInf, -kInf};
const Values kUnit{-1, -0.75, 0, 0.5, 1, kNaN, 2};
const Values kPositive{0, 0.25, 1, 2.5, kNaN, kInf, -1};

Arg list(DType dtype, Values values) {
  const auto count = static_cast<int64_t>(values.size());
  return typed(dtype, {count}, std::move(values));
}
Arg doubles(Values values) { return list(kF64, std::move(values)); }
// libm and numpy agree within a few units of the last place of a double.
constexpr double kUlps = 1e-14;

// clang-format off
const OpCases kMath("ElementwiseMath", {
    {.name = "sin", .op = OpKind::kSin, .in = {doubles(kWide)},
     .out = {doubles({-0.5984721441039565, -0.6816387600233341, 0, 0.479425538604203,
             0.1411200080598672, kNaN, kNaN, kNaN})}, .tolerance = kUlps},
    {.name = "cos", .op = OpKind::kCos, .in = {doubles(kWide)},
     .out = {doubles({-0.8011436155469337, 0.7316888688738209, 1, 0.8775825618903728,
             -0.9899924966004454, kNaN, kNaN, kNaN})}, .tolerance = kUlps},
    {.name = "tan", .op = OpKind::kTan, .in = {doubles(kWide)},
     .out = {doubles({0.7470222972386603, -0.9315964599440725, 0, 0.5463024898437905,
             -0.1425465430742778, kNaN, kNaN, kNaN})}, .tolerance = kUlps},
    {.name = "asin", .op = OpKind::kAsin, .in = {doubles(kUnit)},
     .out = {doubles({-1.5707963267948966, -0.848062078981481, 0, 0.5235987755982989,
             1.5707963267948966, kNaN, kNaN})}, .tolerance = kUlps},
    {.name = "acos", .op = OpKind::kAcos, .in = {doubles(kUnit)},
     .out = {doubles({3.141592653589793, 2.4188584057763776, 1.5707963267948966, 1.0471975511965976,
             0, kNaN, kNaN})}, .tolerance = kUlps},
    {.name = "atan", .op = OpKind::kAtan, .in = {doubles(kWide)},
     .out = {doubles({-1.1902899496825317, -0.6435011087932844, 0, 0.4636476090008061,
             1.2490457723982544, kNaN, 1.5707963267948966, -1.5707963267948966})},
     .tolerance = kUlps},
    {.name = "sinh", .op = OpKind::kSinh, .in = {doubles(kWide)},
     .out = {doubles({-6.0502044810397875, -0.82231673193583, 0, 0.5210953054937474,
             10.017874927409903, kNaN, kInf, -kInf})}, .tolerance = kUlps},
    {.name = "cosh", .op = OpKind::kCosh, .in = {doubles(kWide)},
     .out = {doubles({6.132289479663686, 1.2946832846768448, 1, 1.1276259652063807,
             10.067661995777765, kNaN, kInf, kInf})}, .tolerance = kUlps},
    {.name = "tanh", .op = OpKind::kTanh, .in = {doubles(kWide)},
     .out = {doubles({-0.9866142981514303, -0.6351489523872873, 0, 0.46211715726000974,
             0.9950547536867305, kNaN, 1, -1})}, .tolerance = kUlps},
    {.name = "asinh", .op = OpKind::kAsinh, .in = {doubles(kWide)},
     .out = {doubles({-1.6472311463710958, -0.6931471805599453, 0, 0.48121182505960347,
             1.8184464592320668, kNaN, kInf, -kInf})}, .tolerance = kUlps},
    {.name = "acosh", .op = OpKind::kAcosh, .in = {doubles({1, 1.5, 4, kNaN, kInf, 0.5})},
     .out = {doubles({0, 0.9624236501192069, 2.0634370688955603, kNaN, kInf, kNaN})},
     .tolerance = kUlps},
    {.name = "atanh", .op = OpKind::kAtanh, .in = {doubles(kUnit)},
     .out = {doubles({-kInf, -0.9729550745276566, 0, 0.5493061443340549, kInf, kNaN, kNaN})},
     .tolerance = kUlps},
    {.name = "exp", .op = OpKind::kExp, .in = {doubles(kWide)},
     .out = {doubles({0.0820849986238988, 0.4723665527410147, 1, 1.6487212707001282,
             20.085536923187668, kNaN, kInf, 0})}, .tolerance = kUlps},
    {.name = "log", .op = OpKind::kLog, .in = {doubles(kPositive)},
     .out = {doubles({-kInf, -1.3862943611198906, 0, 0.9162907318741551, kNaN, kInf, kNaN})},
     .tolerance = kUlps},
    {.name = "sqrt", .op = OpKind::kSqrt, .in = {doubles(kPositive)},
     .out = {doubles({0, 0.5, 1, 1.5811388300841898, kNaN, kInf, kNaN})}, .tolerance = kUlps},
    {.name = "reciprocal", .op = OpKind::kReciprocal, .in = {doubles(kWide)},
     .out = {doubles({-0.4, -1.3333333333333333, kInf, 2, 0.3333333333333333, kNaN, 0, -0})},
     .tolerance = kUlps},
    {.name = "erf", .op = OpKind::kErf, .in = {doubles(kWide)},
     .out = {doubles({-0.999593047982555, -0.7111556336535151, 0, 0.5204998778130465,
             0.9999779095030014, kNaN, 1, -1})}, .tolerance = kUlps},
    {.name = "sigmoid", .op = OpKind::kSigmoid, .in = {doubles({-800, -2.5, 0, 0.5, 3, 800, kNaN})},
     .out = {doubles({0, 0.07585818002124355, 0.5, 0.6224593312018546, 0.9525741268224334, 1,
             kNaN})}, .tolerance = kUlps},
    {.name = "softplus", .op = OpKind::kSoftplus,
     .in = {doubles({-2.5, 0, 0.5, 3, kNaN, kInf, -kInf, 900})},
     .out = {doubles({0.07888973429254963, 0.6931471805599453, 0.9740769841801067,
             3.048587351573742, kNaN, kInf, 0, 900})}, .tolerance = kUlps},
    {.name = "softsign", .op = OpKind::kSoftsign, .in = {doubles({-2.5, 0, 0.5, 3, kNaN})},
     .out = {doubles({-0.7142857142857143, 0, 0.3333333333333333, 0.75, kNaN})},
     .tolerance = kUlps},
    {.name = "hard_swish", .op = OpKind::kHardSwish,
     .in = {doubles({-4, -2.5, 0, 0.5, 3, 4, kNaN})},
     .out = {doubles({-0, -0.2083333333333333, 0, 0.2916666666666667, 3, 4, kNaN})},
     .tolerance = kUlps},
    {.name = "mish", .op = OpKind::kMish, .in = {doubles({-2.5, -0.75, 0, 0.5, 3, kNaN})},
     .out = {doubles({-0.19681620390653332, -0.2764947145054652, 0, 0.3752452113048951,
             2.986535004967957, kNaN})}, .tolerance = kUlps},
    {.name = "leaky_relu", .op = OpKind::kLeakyRelu, .attrs = "{alpha=0.1}", .in = {doubles(kWide)},
     .out = {doubles({-0.25, -0.07500000000000001, 0, 0.5, 3, kNaN, kInf, -kInf})},
     .tolerance = kUlps},
    {.name = "elu", .op = OpKind::kElu, .attrs = "{alpha=1.5}", .in = {doubles(kWide)},
     .out = {doubles({-1.3768725020641517, -0.791450170888478, 0, 0.5, 3, kNaN, kInf, -1.5})},
     .tolerance = kUlps},
    {.name = "celu", .op = OpKind::kCelu, .attrs = "{alpha=2}", .in = {doubles(kWide)},
     .out = {doubles({-1.4269904062796197, -0.6254214424180556, 0, 0.5, 3, kNaN, kInf, -2})},
     .tolerance = kUlps},
    {.name = "selu", .op = OpKind::kSelu, .attrs = "{alpha=1.67, beta=1.05}",
     .in = {doubles(kWide)},
     .out = {doubles({-1.6095639549129934, -0.9252052497686307, 0, 0.525, 3.1500000000000004, kNaN,
             kInf, -1.7535})}, .tolerance = kUlps},
    {.name = "hard_sigmoid", .op = OpKind::kHardSigmoid, .attrs = "{alpha=0.2, beta=0.5}",
     .in = {doubles(kWide)}, .out = {doubles({0, 0.35, 0.5, 0.6, 1, kNaN, 1, 0})},
     .tolerance = kUlps},
    {.name = "thresholded_relu", .op = OpKind::kThresholdedRelu, .attrs = "{alpha=1}",
     .in = {doubles({-2.5, 0.5, 1, 1.5, kNaN, kInf, -kInf})},
     .out = {doubles({0, 0, 0, 1.5, kNaN, kInf, 0})}, .tolerance = kUlps},
    {.name = "swish", .op = OpKind::kSwish, .attrs = "{alpha=1.5}",
     .in = {doubles({-2.5, 0, 0.5, 3, kNaN})},
     .out = {doubles({-0.057443424775064034, 0, 0.3395893495876965, 2.9670391721082208, kNaN})},
     .tolerance = kUlps},
    {.name = "gelu_erf", .op = OpKind::kGelu, .attrs = "{kind=0}",
     .in = {doubles({-8, -2.5, -0.75, 0, 0.5, 3, kNaN})},
     .out = {doubles({-4.9767684594174555e-15, -0.015524163314440348, -0.16997051428265114, 0,
             0.34573123063700656, 2.99595030590511, kNaN})}, .tolerance = kUlps},
    {.name = "gelu_tanh", .op = OpKind::kGelu, .attrs = "{kind=1}",
     .in = {doubles({-8, -2.5, -0.75, 0, 0.5, 3, kNaN})},
     .out = {doubles({-0, -0.015084266089998577, -0.17003944483437972, 0, 0.34571400982514394,
             2.996362607918227, kNaN})}, .tolerance = kUlps},
});

const OpCases kExact("ElementwiseExact", {
    {.name = "abs",                        .op = OpKind::kAbs,
     .in = {list(kF32, {-2, 0, 3, kNaN, -kInf})},  .out = {list(kF32, {2, 0, 3, kNaN, kInf})}},
    {.name = "abs_of_the_lowest_i8_wraps", .op = OpKind::kAbs,
     .in = {list(kI8, {-128, -5, 7})},             .out = {list(kI8, {-128, 5, 7})}},
    {.name = "abs_u8",                     .op = OpKind::kAbs,
     .in = {list(kU8, {200, 0})},                  .out = {list(kU8, {200, 0})}},
    {.name = "neg",                        .op = OpKind::kNeg,
     .in = {list(kF32, {-2, 3, kNaN, kInf})},      .out = {list(kF32, {2, -3, kNaN, -kInf})}},
    {.name = "neg_i8_wraps",               .op = OpKind::kNeg,
     .in = {list(kI8, {-128, 5})},                 .out = {list(kI8, {-128, -5})}},
    {.name = "sign",                       .op = OpKind::kSign,
     .in = {list(kF32, {-2, 0, 3, kNaN, -kInf})},  .out = {list(kF32, {-1, 0, 1, kNaN, -1})}},
    {.name = "sign_i64",                   .op = OpKind::kSign,
     .in = {i64({3}, {-7, 0, 9})},                 .out = {i64({3}, {-1, 0, 1})}},
    {.name = "sign_u8",                    .op = OpKind::kSign,
     .in = {list(kU8, {200, 0})},                  .out = {list(kU8, {1, 0})}},
    {.name = "ceil",                       .op = OpKind::kCeil,
     .in = {list(kF32, {-1.5, 1.25, kNaN, kInf})}, .out = {list(kF32, {-1, 2, kNaN, kInf})}},
    {.name = "floor",                      .op = OpKind::kFloor,
     .in = {list(kF32, {-1.5, 1.25, kNaN})},       .out = {list(kF32, {-2, 1, kNaN})}},
    {.name = "round_half_to_even", .op = OpKind::kRound,
     .in = {list(kF32, {0.5, 1.5, 2.5, -0.5, -1.5, 2.75, kNaN})},
     .out = {list(kF32, {0, 2, 2, 0, -2, 3, kNaN})}},
    {.name = "relu", .op = OpKind::kRelu, .in = {list(kF32, {-2, 0, 3, kNaN, -kInf, kInf})},
     .out = {list(kF32, {0, 0, 3, kNaN, 0, kInf})}},
    {.name = "relu_i32",                   .op = OpKind::kRelu,
     .in = {i32({3}, {-7, 0, 9})},                 .out = {i32({3}, {0, 0, 9})}},
    {.name = "not",                        .op = OpKind::kNot,
     .in = {boolean({3}, {1, 0, 1})},              .out = {boolean({3}, {0, 1, 0})}},
    {.name = "bitwise_not_i8",             .op = OpKind::kBitwiseNot,
     .in = {list(kI8, {0, -1, 5})},                .out = {list(kI8, {-1, 0, -6})}},
    {.name = "bitwise_not_u8",             .op = OpKind::kBitwiseNot,
     .in = {list(kU8, {0, 255, 5})},               .out = {list(kU8, {255, 0, 250})}},
    {.name = "is_nan",                     .op = OpKind::kIsNaN,
     .in = {list(kF32, {1, kNaN, kInf})},          .out = {boolean({3}, {0, 1, 0})}},
    {.name = "is_inf",                     .op = OpKind::kIsInf,
     .in = {list(kF32, {1, kNaN, kInf, -kInf})},   .out = {boolean({4}, {0, 0, 1, 1})}},
    {.name = "is_inf_positive",            .op = OpKind::kIsInf, .attrs = "{detect_negative=false}",
     .in = {list(kF32, {kInf, -kInf})},            .out = {boolean({2}, {1, 0})}},
    {.name = "is_inf_negative",            .op = OpKind::kIsInf, .attrs = "{detect_positive=false}",
     .in = {list(kF32, {kInf, -kInf})},            .out = {boolean({2}, {0, 1})}},
    {.name = "identity_of_a_scalar",       .op = OpKind::kIdentity,
     .in = {f32({}, {7})},                         .out = {f32({}, {7})}},
    {.name = "exp_of_an_empty_tensor",     .op = OpKind::kExp,
     .in = {f32({0, 3}, {})},                      .out = {f32({0, 3}, {})}},
});

const OpCases kErrors("ElementwiseErrors", {
    {.name = "sqrt_of_integers",   .op = OpKind::kSqrt,
     .in = {i64({1}, {4})}, .error = "input 0 has type i64, expected a float type"},
    {.name = "not_of_floats",      .op = OpKind::kNot,
     .in = {f32({1}, {4})}, .error = "input has type f32, expected bool"},
    {.name = "is_nan_of_integers", .op = OpKind::kIsNaN,
     .in = {i64({1}, {4})}, .error = "input 0 has type i64, expected a float type"},
});

const OpCases kCast("Cast", OpKind::kCast, {
    {.name = "float_truncates_toward_zero",  .attrs = "{to=i32}",
     .in = {list(kF32, {-1.75, 1.75, 0.5})},          .out = {list(DType::kI32, {-1, 1, 0})}},
    {.name = "float_saturates_and_nan_is_zero", .attrs = "{to=i8}",
     .in = {list(kF32, {300, -300, kNaN, kInf, -kInf})},
     .out = {list(kI8, {127, -128, 0, 127, -128})}},
    {.name = "float_to_unsigned",            .attrs = "{to=u8}",
     .in = {list(kF32, {255.9, -3, 256})},            .out = {list(kU8, {255, 0, 255})}},
    {.name = "float_to_i64_saturates", .attrs = "{to=i64}", .in = {list(kF64, {-9.3e18, -4e9})},
     .out = {list(DType::kI64, {-9223372036854775808.0, -4e9})}},
    {.name = "anything_but_zero_is_true",    .attrs = "{to=bool}",
     .in = {list(kF32, {0, -0.0, 0.25, kNaN, kInf})}, .out = {list(DType::kBool, {0, 0, 1, 1, 1})}},
    {.name = "integer_to_bool",              .attrs = "{to=bool}",
     .in = {i64({3}, {0, 256, -1})},                  .out = {typed(DType::kBool, {3}, {0, 1, 1})}},
    {.name = "bool_to_float",                .attrs = "{to=f32}",
     .in = {boolean({2}, {0, 1})},                    .out = {typed(kF32, {2}, {0, 1})}},
    {.name = "integers_wrap",                .attrs = "{to=i8}",
     .in = {i64({3}, {300, -129, 5})},                .out = {typed(kI8, {3}, {44, 127, 5})}},
    {.name = "negative_to_unsigned_wraps",   .attrs = "{to=u8}",
     .in = {i64({2}, {-1, -256})},                    .out = {typed(kU8, {2}, {255, 0})}},
    {.name = "f8_saturates", .attrs = "{to=f8e4m3}", .in = {list(kF32, {1000, -kInf, kNaN, 2})},
     .out = {list(DType::kF8E4M3, {448, -448, kNaN, 2})}},
    {.name = "i64_to_i32_of_a_small_number", .attrs = "{to=i32}",
     .in = {i64({1}, {77})},                          .out = {typed(DType::kI32, {1}, {77})}},
});
// clang-format on

// Casts between floats keep the double: only the storage of a tensor rounds.
// clang-format off
const OpCases kCastKeeps("CastKeeps", OpKind::kCast, {
    {.name = "float_to_float_is_the_identity", .attrs = "{to=f16}",
     .in = {typed(kF64, {2}, {0.1, 1e-30})}, .out = {typed(DType::kF16, {2}, {0.1, 1e-30})},
     .tolerance = 1e-17},
    {.name = "f8_without_saturation_keeps_the_double", .attrs = "{to=f8e4m3, saturate=false}",
     .in = {typed(kF64, {1}, {1000})}, .out = {typed(DType::kF8E4M3, {1}, {1000})},
     .tolerance = 1e-17},
});

const OpCases kClip("Clip", OpKind::kClip, {
    {.name = "both_bounds",
     .in = {list(kF32, {-3, 0.5, 7, kNaN, kInf}), f32({}, {-1}), f32({}, {2})},
     .out = {list(kF32, {-1, 0.5, 2, kNaN, 2})}},
    {.name = "no_bounds", .in = {list(kF32, {-3, kNaN})}, .out = {list(kF32, {-3, kNaN})}},
    {.name = "only_the_upper",
     .in = {list(kF32, {-3, 7}), none(), f32({}, {2})},          .out = {list(kF32, {-3, 2})}},
    {.name = "upper_wins_where_bounds_cross",
     .in = {list(kF32, {-3, 7}), f32({}, {5}), f32({}, {2})},    .out = {list(kF32, {2, 2})}},
    {.name = "integers",
     .in = {i64({3}, {-9, 0, 9}), i64({}, {-2}), i64({1}, {3})}, .out = {i64({3}, {-2, 0, 3})}},
    {.name = "bound_of_another_type", .in = {list(kF32, {1}), i64({}, {0})},
     .error = "input 1 has type i64, expected f32 as input 0"},
    {.name = "bound_of_two_numbers",
     .in = {list(kF32, {1}), f32({2}, {0, 1})},                  .error = "must be one number"},
});

const ShapeCases kContents("ElementwiseContents", {
    {.name = "neg",                   .op = OpKind::kNeg,
     .in = {"i64 [2] = (batch, -3)"}, .out = {"i64 [2] = (-batch, 3)"}},
    {.name = "cast_keeps_sizes",      .op = OpKind::kCast, .attrs = "{to=i32}",
     .in = {"i64 [2] = (batch, 7)"},  .out = {"i32 [2] = (batch, 7)"}},
    {.name = "cast_to_bool",          .op = OpKind::kCast, .attrs = "{to=bool}",
     .in = {"i64 [2] = (batch, 0)"},  .out = {"bool [2] = (1, 0)"}},
    {.name = "cast_to_float_forgets", .op = OpKind::kCast, .attrs = "{to=f32}",
     .in = {"i64 [1] = (batch)"},     .out = {"f32 [1]"}},
    {.name = "not", .op = OpKind::kNot, .in = {"bool [2] = (1, 0)"}, .out = {"bool [2] = (0, 1)"}},
});
// clang-format on

}  // namespace
}  // namespace vernier::test
