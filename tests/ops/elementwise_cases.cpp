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
// libm and numpy agree within a few units of the last place of a double.
OpCase unary(std::string name, OpKind op, std::string attrs, Values x, Values y) {
  return {std::move(name),
          op,
          std::move(attrs),
          {list(kF64, std::move(x))},
          {list(kF64, std::move(y))},
          1e-14};
}
OpCase exact(std::string name, OpKind op, std::string attrs, Arg x, Arg y) {
  return {std::move(name), op, std::move(attrs), {std::move(x)}, {std::move(y)}};
}

const OpCases kMath(
    "ElementwiseMath",
    {
        unary("sin", OpKind::kSin, "", kWide,
              {-0.5984721441039565, -0.6816387600233341, 0, 0.479425538604203, 0.1411200080598672,
               kNaN, kNaN, kNaN}),
        unary("cos", OpKind::kCos, "", kWide,
              {-0.8011436155469337, 0.7316888688738209, 1, 0.8775825618903728, -0.9899924966004454,
               kNaN, kNaN, kNaN}),
        unary("tan", OpKind::kTan, "", kWide,
              {0.7470222972386603, -0.9315964599440725, 0, 0.5463024898437905, -0.1425465430742778,
               kNaN, kNaN, kNaN}),
        unary("asin", OpKind::kAsin, "", kUnit,
              {-1.5707963267948966, -0.848062078981481, 0, 0.5235987755982989, 1.5707963267948966,
               kNaN, kNaN}),
        unary("acos", OpKind::kAcos, "", kUnit,
              {3.141592653589793, 2.4188584057763776, 1.5707963267948966, 1.0471975511965976, 0,
               kNaN, kNaN}),
        unary("atan", OpKind::kAtan, "", kWide,
              {-1.1902899496825317, -0.6435011087932844, 0, 0.4636476090008061, 1.2490457723982544,
               kNaN, 1.5707963267948966, -1.5707963267948966}),
        unary("sinh", OpKind::kSinh, "", kWide,
              {-6.0502044810397875, -0.82231673193583, 0, 0.5210953054937474, 10.017874927409903,
               kNaN, kInf, -kInf}),
        unary("cosh", OpKind::kCosh, "", kWide,
              {6.132289479663686, 1.2946832846768448, 1, 1.1276259652063807, 10.067661995777765,
               kNaN, kInf, kInf}),
        unary("tanh", OpKind::kTanh, "", kWide,
              {-0.9866142981514303, -0.6351489523872873, 0, 0.46211715726000974, 0.9950547536867305,
               kNaN, 1, -1}),
        unary("asinh", OpKind::kAsinh, "", kWide,
              {-1.6472311463710958, -0.6931471805599453, 0, 0.48121182505960347, 1.8184464592320668,
               kNaN, kInf, -kInf}),
        unary("acosh", OpKind::kAcosh, "", {1, 1.5, 4, kNaN, kInf, 0.5},
              {0, 0.9624236501192069, 2.0634370688955603, kNaN, kInf, kNaN}),
        unary("atanh", OpKind::kAtanh, "", kUnit,
              {-kInf, -0.9729550745276566, 0, 0.5493061443340549, kInf, kNaN, kNaN}),
        unary("exp", OpKind::kExp, "", kWide,
              {0.0820849986238988, 0.4723665527410147, 1, 1.6487212707001282, 20.085536923187668,
               kNaN, kInf, 0}),
        unary("log", OpKind::kLog, "", kPositive,
              {-kInf, -1.3862943611198906, 0, 0.9162907318741551, kNaN, kInf, kNaN}),
        unary("sqrt", OpKind::kSqrt, "", kPositive,
              {0, 0.5, 1, 1.5811388300841898, kNaN, kInf, kNaN}),
        unary("reciprocal", OpKind::kReciprocal, "", kWide,
              {-0.4, -1.3333333333333333, kInf, 2, 0.3333333333333333, kNaN, 0, -0}),
        unary("erf", OpKind::kErf, "", kWide,
              {-0.999593047982555, -0.7111556336535151, 0, 0.5204998778130465, 0.9999779095030014,
               kNaN, 1, -1}),
        unary("sigmoid", OpKind::kSigmoid, "", {-800, -2.5, 0, 0.5, 3, 800, kNaN},
              {0, 0.07585818002124355, 0.5, 0.6224593312018546, 0.9525741268224334, 1, kNaN}),
        unary("softplus", OpKind::kSoftplus, "", {-2.5, 0, 0.5, 3, kNaN, kInf, -kInf, 900},
              {0.07888973429254963, 0.6931471805599453, 0.9740769841801067, 3.048587351573742, kNaN,
               kInf, 0, 900}),
        unary("softsign", OpKind::kSoftsign, "", {-2.5, 0, 0.5, 3, kNaN},
              {-0.7142857142857143, 0, 0.3333333333333333, 0.75, kNaN}),
        unary("hard_swish", OpKind::kHardSwish, "", {-4, -2.5, 0, 0.5, 3, 4, kNaN},
              {-0, -0.2083333333333333, 0, 0.2916666666666667, 3, 4, kNaN}),
        unary("mish", OpKind::kMish, "", {-2.5, -0.75, 0, 0.5, 3, kNaN},
              {-0.19681620390653332, -0.2764947145054652, 0, 0.3752452113048951, 2.986535004967957,
               kNaN}),
        unary("leaky_relu", OpKind::kLeakyRelu, "{alpha=0.1}", kWide,
              {-0.25, -0.07500000000000001, 0, 0.5, 3, kNaN, kInf, -kInf}),
        unary("elu", OpKind::kElu, "{alpha=1.5}", kWide,
              {-1.3768725020641517, -0.791450170888478, 0, 0.5, 3, kNaN, kInf, -1.5}),
        unary("celu", OpKind::kCelu, "{alpha=2}", kWide,
              {-1.4269904062796197, -0.6254214424180556, 0, 0.5, 3, kNaN, kInf, -2}),
        unary("selu", OpKind::kSelu, "{alpha=1.67, beta=1.05}", kWide,
              {-1.6095639549129934, -0.9252052497686307, 0, 0.525, 3.1500000000000004, kNaN, kInf,
               -1.7535}),
        unary("hard_sigmoid", OpKind::kHardSigmoid, "{alpha=0.2, beta=0.5}", kWide,
              {0, 0.35, 0.5, 0.6, 1, kNaN, 1, 0}),
        unary("thresholded_relu", OpKind::kThresholdedRelu, "{alpha=1}",
              {-2.5, 0.5, 1, 1.5, kNaN, kInf, -kInf}, {0, 0, 0, 1.5, kNaN, kInf, 0}),
        unary("swish", OpKind::kSwish, "{alpha=1.5}", {-2.5, 0, 0.5, 3, kNaN},
              {-0.057443424775064034, 0, 0.3395893495876965, 2.9670391721082208, kNaN}),
        unary("gelu_erf", OpKind::kGelu, "{kind=0}", {-8, -2.5, -0.75, 0, 0.5, 3, kNaN},
              {-4.9767684594174555e-15, -0.015524163314440348, -0.16997051428265114, 0,
               0.34573123063700656, 2.99595030590511, kNaN}),
        unary("gelu_tanh", OpKind::kGelu, "{kind=1}", {-8, -2.5, -0.75, 0, 0.5, 3, kNaN},
              {-0, -0.015084266089998577, -0.17003944483437972, 0, 0.34571400982514394,
               2.996362607918227, kNaN}),
    });

const OpCases kExact(
    "ElementwiseExact",
    {
        exact("abs", OpKind::kAbs, "", list(kF32, {-2, 0, 3, kNaN, -kInf}),
              list(kF32, {2, 0, 3, kNaN, kInf})),
        exact("abs_of_the_lowest_i8_wraps", OpKind::kAbs, "", list(kI8, {-128, -5, 7}),
              list(kI8, {-128, 5, 7})),
        exact("abs_u8", OpKind::kAbs, "", list(kU8, {200, 0}), list(kU8, {200, 0})),
        exact("neg", OpKind::kNeg, "", list(kF32, {-2, 3, kNaN, kInf}),
              list(kF32, {2, -3, kNaN, -kInf})),
        exact("neg_i8_wraps", OpKind::kNeg, "", list(kI8, {-128, 5}), list(kI8, {-128, -5})),
        exact("sign", OpKind::kSign, "", list(kF32, {-2, 0, 3, kNaN, -kInf}),
              list(kF32, {-1, 0, 1, kNaN, -1})),
        exact("sign_i64", OpKind::kSign, "", i64({3}, {-7, 0, 9}), i64({3}, {-1, 0, 1})),
        exact("sign_u8", OpKind::kSign, "", list(kU8, {200, 0}), list(kU8, {1, 0})),
        exact("ceil", OpKind::kCeil, "", list(kF32, {-1.5, 1.25, kNaN, kInf}),
              list(kF32, {-1, 2, kNaN, kInf})),
        exact("floor", OpKind::kFloor, "", list(kF32, {-1.5, 1.25, kNaN}),
              list(kF32, {-2, 1, kNaN})),
        exact("round_half_to_even", OpKind::kRound, "",
              list(kF32, {0.5, 1.5, 2.5, -0.5, -1.5, 2.75, kNaN}),
              list(kF32, {0, 2, 2, 0, -2, 3, kNaN})),
        exact("relu", OpKind::kRelu, "", list(kF32, {-2, 0, 3, kNaN, -kInf, kInf}),
              list(kF32, {0, 0, 3, kNaN, 0, kInf})),
        exact("relu_i32", OpKind::kRelu, "", i32({3}, {-7, 0, 9}), i32({3}, {0, 0, 9})),
        exact("not", OpKind::kNot, "", boolean({3}, {1, 0, 1}), boolean({3}, {0, 1, 0})),
        exact("bitwise_not_i8", OpKind::kBitwiseNot, "", list(kI8, {0, -1, 5}),
              list(kI8, {-1, 0, -6})),
        exact("bitwise_not_u8", OpKind::kBitwiseNot, "", list(kU8, {0, 255, 5}),
              list(kU8, {255, 0, 250})),
        exact("is_nan", OpKind::kIsNaN, "", list(kF32, {1, kNaN, kInf}), boolean({3}, {0, 1, 0})),
        exact("is_inf", OpKind::kIsInf, "", list(kF32, {1, kNaN, kInf, -kInf}),
              boolean({4}, {0, 0, 1, 1})),
        exact("is_inf_positive", OpKind::kIsInf, "{detect_negative=false}",
              list(kF32, {kInf, -kInf}), boolean({2}, {1, 0})),
        exact("is_inf_negative", OpKind::kIsInf, "{detect_positive=false}",
              list(kF32, {kInf, -kInf}), boolean({2}, {0, 1})),
        exact("identity_of_a_scalar", OpKind::kIdentity, "", f32({}, {7}), f32({}, {7})),
        exact("exp_of_an_empty_tensor", OpKind::kExp, "", f32({0, 3}, {}), f32({0, 3}, {})),
    });

const OpCases kErrors("ElementwiseErrors",
                      {
                          {.name = "sqrt_of_integers",
                           .op = OpKind::kSqrt,
                           .in = {i64({1}, {4})},
                           .error = "input 0 has type i64, expected a float type"},
                          {.name = "not_of_floats",
                           .op = OpKind::kNot,
                           .in = {f32({1}, {4})},
                           .error = "input has type f32, expected bool"},
                          {.name = "is_nan_of_integers",
                           .op = OpKind::kIsNaN,
                           .in = {i64({1}, {4})},
                           .error = "input 0 has type i64, expected a float type"},
                      });

OpCase cast(std::string name, DType to, Arg x, Values y) {
  Arg expected = typed(to, x.shape, std::move(y));
  return {std::move(name),
          OpKind::kCast,
          "{to=" + std::string(vernier::name(to)) + "}",
          {std::move(x)},
          {std::move(expected)}};
}

const OpCases kCast("Cast",
                    {
                        cast("float_truncates_toward_zero", DType::kI32,
                             list(kF32, {-1.75, 1.75, 0.5}), {-1, 1, 0}),
                        cast("float_saturates_and_nan_is_zero", kI8,
                             list(kF32, {300, -300, kNaN, kInf, -kInf}), {127, -128, 0, 127, -128}),
                        cast("float_to_unsigned", kU8, list(kF32, {255.9, -3, 256}), {255, 0, 255}),
                        cast("float_to_i64_saturates", DType::kI64, list(kF64, {-9.3e18, -4e9}),
                             {-9223372036854775808.0, -4e9}),
                        cast("anything_but_zero_is_true", DType::kBool,
                             list(kF32, {0, -0.0, 0.25, kNaN, kInf}), {0, 0, 1, 1, 1}),
                        cast("integer_to_bool", DType::kBool, i64({3}, {0, 256, -1}), {0, 1, 1}),
                        cast("bool_to_float", kF32, boolean({2}, {0, 1}), {0, 1}),
                        cast("integers_wrap", kI8, i64({3}, {300, -129, 5}), {44, 127, 5}),
                        cast("negative_to_unsigned_wraps", kU8, i64({2}, {-1, -256}), {255, 0}),
                        cast("f8_saturates", DType::kF8E4M3, list(kF32, {1000, -kInf, kNaN, 2}),
                             {448, -448, kNaN, 2}),
                        cast("i64_to_i32_of_a_small_number", DType::kI32, i64({1}, {77}), {77}),
                    });

// Casts between floats keep the double: only the storage of a tensor rounds.
const OpCases kCastKeeps("CastKeeps", {
                                          {.name = "float_to_float_is_the_identity",
                                           .op = OpKind::kCast,
                                           .attrs = "{to=f16}",
                                           .in = {typed(kF64, {2}, {0.1, 1e-30})},
                                           .out = {typed(DType::kF16, {2}, {0.1, 1e-30})},
                                           .tolerance = 1e-17},
                                          {.name = "f8_without_saturation_keeps_the_double",
                                           .op = OpKind::kCast,
                                           .attrs = "{to=f8e4m3, saturate=false}",
                                           .in = {typed(kF64, {1}, {1000})},
                                           .out = {typed(DType::kF8E4M3, {1}, {1000})},
                                           .tolerance = 1e-17},
                                      });

const OpCases kClip("Clip",
                    {
                        {.name = "both_bounds",
                         .op = OpKind::kClip,
                         .in = {list(kF32, {-3, 0.5, 7, kNaN, kInf}), f32({}, {-1}), f32({}, {2})},
                         .out = {list(kF32, {-1, 0.5, 2, kNaN, 2})}},
                        {.name = "no_bounds",
                         .op = OpKind::kClip,
                         .in = {list(kF32, {-3, kNaN})},
                         .out = {list(kF32, {-3, kNaN})}},
                        {.name = "only_the_upper",
                         .op = OpKind::kClip,
                         .in = {list(kF32, {-3, 7}), none(), f32({}, {2})},
                         .out = {list(kF32, {-3, 2})}},
                        {.name = "upper_wins_where_bounds_cross",
                         .op = OpKind::kClip,
                         .in = {list(kF32, {-3, 7}), f32({}, {5}), f32({}, {2})},
                         .out = {list(kF32, {2, 2})}},
                        {.name = "integers",
                         .op = OpKind::kClip,
                         .in = {i64({3}, {-9, 0, 9}), i64({}, {-2}), i64({1}, {3})},
                         .out = {i64({3}, {-2, 0, 3})}},
                        {.name = "bound_of_another_type",
                         .op = OpKind::kClip,
                         .in = {list(kF32, {1}), i64({}, {0})},
                         .error = "input 1 has type i64, expected f32 as input 0"},
                        {.name = "bound_of_two_numbers",
                         .op = OpKind::kClip,
                         .in = {list(kF32, {1}), f32({2}, {0, 1})},
                         .error = "must be one number"},
                    });

const ShapeCases kContents("ElementwiseContents", {
                                                      {.name = "neg",
                                                       .op = OpKind::kNeg,
                                                       .in = {"i64 [2] = (batch, -3)"},
                                                       .out = {"i64 [2] = (-batch, 3)"}},
                                                      {.name = "cast_keeps_sizes",
                                                       .op = OpKind::kCast,
                                                       .attrs = "{to=i32}",
                                                       .in = {"i64 [2] = (batch, 7)"},
                                                       .out = {"i32 [2] = (batch, 7)"}},
                                                      {.name = "cast_to_bool",
                                                       .op = OpKind::kCast,
                                                       .attrs = "{to=bool}",
                                                       .in = {"i64 [2] = (batch, 0)"},
                                                       .out = {"bool [2] = (1, 0)"}},
                                                      {.name = "cast_to_float_forgets",
                                                       .op = OpKind::kCast,
                                                       .attrs = "{to=f32}",
                                                       .in = {"i64 [1] = (batch)"},
                                                       .out = {"f32 [1]"}},
                                                      {.name = "not",
                                                       .op = OpKind::kNot,
                                                       .in = {"bool [2] = (1, 0)"},
                                                       .out = {"bool [2] = (0, 1)"}},
                                                  });

}  // namespace
}  // namespace vernier::test
