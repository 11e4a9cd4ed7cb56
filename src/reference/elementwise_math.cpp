// FP64 evaluators of the one-input arithmetic and trigonometric operators.
// Contract: core/evaluator.h; each function is one row of ops.def.
#include <algorithm>
#include <cmath>
#include <limits>

#include "reference/elementwise.h"
#include "reference/vector_math.h"

namespace vernier::reference {

int64_t double_to_integer(DType type, double v) {
  if (type == DType::kBool) return v != 0;  // NaN is true
  if (std::isnan(v)) return 0;
  const auto bits = static_cast<int>(element_bits(type));
  const bool is_signed = is_signed_integer(type);
  const double limit = std::ldexp(1.0, is_signed ? bits - 1 : bits);  // one past the largest value
  if (v >= limit) return is_signed ? INT64_MAX >> (64 - bits) : wrap_integer(type, -1);
  if (v < (is_signed ? -limit : 0.0)) return is_signed ? INT64_MIN >> (64 - bits) : 0;
  if (type == DType::kU64) return static_cast<int64_t>(static_cast<uint64_t>(v));
  return static_cast<int64_t>(v);
}

namespace {

// ONNX's table of Cast, "saturate + up"; without saturation what the type lacks is NaN.
double power_of_two_above(double v, bool saturates) {
  constexpr double kLeast = 0x1p-127, kMost = 0x1p127;
  const bool is_within = v >= kLeast && v <= kMost;
  if (std::isnan(v) || v < 0 || (!is_within && !saturates))
    return std::numeric_limits<double>::quiet_NaN();
  if (!is_within) return v < kLeast ? kLeast : kMost;
  int exponent = 0;
  return std::frexp(v, &exponent) == 0.5 ? v : std::ldexp(1.0, exponent);
}

// The largest finite value of a float type that saturates.
double saturation_limit(DType type) {
  switch (type) {
    case DType::kF8E4M3:
      return 448;
    case DType::kF8E5M2:
    case DType::kF8E5M2FNUZ:
      return 57344;
    case DType::kF8E4M3FNUZ:
      return 240;
    case DType::kF4E2M1:
      return 6;
    default:
      return HUGE_VAL;
  }
}

}  // namespace

double double_to_float(DType type, double v, bool saturates) {
  if (!is_small_float(type)) return v;
  if (type == DType::kF8E8M0) return power_of_two_above(v, saturates);
  if (type == DType::kF4E2M1 && std::isnan(v)) return 0;
  if (std::isnan(v) || !(saturates || type == DType::kF4E2M1)) return v;
  const double limit = saturation_limit(type);
  return std::clamp(v, -limit, limit);
}

void unsupported_type(const char* op, DType got) {
  throw Error(ErrorCode::kInput, std::string(op) + " is not defined for elements of type " +
                                     std::string(name(got)) + "; cast the input to a float type");
}

void eval_abs(const EvalCall& call) {
  const bool is_signed = is_signed_integer(call.in[0]->dtype);
  map_number(
      call, [](double x) { return std::abs(x); },
      [=](int64_t x) { return is_signed && x < 0 ? wrapping_sub(0, x) : x; });
}
void eval_neg(const EvalCall& call) {
  map_number(
      call, [](double x) { return -x; }, [](int64_t x) { return wrapping_sub(0, x); });
}
// sign(NaN) is NaN; sign(±0) is 0.
void eval_sign(const EvalCall& call) {
  const bool is_signed = is_signed_integer(call.in[0]->dtype);
  map_number(
      call, [](double x) { return std::isnan(x) ? x : static_cast<double>((x > 0) - (x < 0)); },
      [=](int64_t x) { return is_signed ? (x > 0) - (x < 0) : x != 0; });
}
void eval_ceil(const EvalCall& call) {
  map_float("Ceil", call, [](double x) { return std::ceil(x); });
}
void eval_floor(const EvalCall& call) {
  map_float("Floor", call, [](double x) { return std::floor(x); });
}
// Halves go to the even neighbor.
void eval_round(const EvalCall& call) {
  map_float("Round", call, [](double x) { return std::nearbyint(x); });
}
void eval_sqrt(const EvalCall& call) {
  map_float("Sqrt", call, [](double x) { return std::sqrt(x); });
}
void eval_reciprocal(const EvalCall& call) {
  map_float("Reciprocal", call, [](double x) { return 1.0 / x; });
}
void eval_exp(const EvalCall& call) { map_arrays("Exp", call, exp_each); }
void eval_log(const EvalCall& call) {
  map_float("Log", call, [](double x) { return std::log(x); });
}
void eval_sin(const EvalCall& call) {
  map_float("Sin", call, [](double x) { return std::sin(x); });
}
void eval_cos(const EvalCall& call) {
  map_float("Cos", call, [](double x) { return std::cos(x); });
}
void eval_tan(const EvalCall& call) {
  map_float("Tan", call, [](double x) { return std::tan(x); });
}
void eval_asin(const EvalCall& call) {
  map_float("Asin", call, [](double x) { return std::asin(x); });
}
void eval_acos(const EvalCall& call) {
  map_float("Acos", call, [](double x) { return std::acos(x); });
}
void eval_atan(const EvalCall& call) {
  map_float("Atan", call, [](double x) { return std::atan(x); });
}
void eval_sinh(const EvalCall& call) {
  map_float("Sinh", call, [](double x) { return std::sinh(x); });
}
void eval_cosh(const EvalCall& call) {
  map_float("Cosh", call, [](double x) { return std::cosh(x); });
}
void eval_tanh(const EvalCall& call) { map_arrays("Tanh", call, tanh_each); }
void eval_asinh(const EvalCall& call) {
  map_float("Asinh", call, [](double x) { return std::asinh(x); });
}
void eval_acosh(const EvalCall& call) {
  map_float("Acosh", call, [](double x) { return std::acosh(x); });
}
void eval_atanh(const EvalCall& call) {
  map_float("Atanh", call, [](double x) { return std::atanh(x); });
}
void eval_erf(const EvalCall& call) { map_arrays("Erf", call, erf_each); }

}  // namespace vernier::reference
