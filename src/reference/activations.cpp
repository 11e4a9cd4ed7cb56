// FP64 evaluators of the activation functions; formulas as in the ONNX operator definitions.
// Contract: core/evaluator.h; each eval function is one row of ops.def.
#include "reference/activations.h"

#include <cmath>
#include <numbers>

#include "reference/elementwise.h"
#include "reference/vector_math.h"

namespace vernier::reference {

double sigmoid(double x) {
  // The branch avoids overflow of exp.
  if (x >= 0) return 1.0 / (1.0 + std::exp(-x));
  const double e = std::exp(x);
  return e / (1.0 + e);
}
double softplus(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); }
double gelu_erf(double x) { return 0.5 * x * std::erfc(-x / std::numbers::sqrt2); }
double gelu_tanh(double x) {
  const double inner = std::sqrt(2.0 / std::numbers::pi) * (x + 0.044715 * x * x * x);
  return x / (1.0 + std::exp(-2.0 * inner));  // (1 + tanh)/2 without its cancellation
}
double activate(Activation activation, double x) {
  switch (activation) {
    case Activation::kNone:
      return x;
    case Activation::kGeluErf:
      return gelu_erf(x);
    case Activation::kGeluTanh:
      return gelu_tanh(x);
    case Activation::kRelu:
      return relu(x);
    case Activation::kTanh:
      return std::tanh(x);
  }
  VERNIER_ASSERT(false, "unknown activation");
  return x;
}

void activate_each(Activation activation, double* values, int64_t count) {
  switch (activation) {
    case Activation::kNone:
      return;
    case Activation::kGeluErf:
      return gelu_erf_each(values, values, count);
    case Activation::kGeluTanh:
      return gelu_tanh_each(values, values, count);
    case Activation::kRelu:
      for (int64_t i = 0; i < count; ++i) values[i] = relu(values[i]);
      return;
    case Activation::kTanh:
      return tanh_each(values, values, count);
  }
  VERNIER_ASSERT(false, "unknown activation");
}

void eval_sigmoid(const EvalCall& call) { map_arrays("Sigmoid", call, sigmoid_each); }
void eval_relu(const EvalCall& call) {
  const bool is_signed = is_signed_integer(call.in[0]->dtype);
  map_number(call, relu, [=](int64_t x) { return is_signed && x < 0 ? 0 : x; });
}
void eval_softplus(const EvalCall& call) { map_float("Softplus", call, softplus); }
void eval_softsign(const EvalCall& call) {
  map_float("Softsign", call, [](double x) { return x / (1.0 + std::abs(x)); });
}
void eval_hard_swish(const EvalCall& call) {
  map_float("HardSwish", call, [](double x) { return x * clamp(x / 6.0 + 0.5, 0.0, 1.0); });
}
void eval_mish(const EvalCall& call) {
  map_float("Mish", call, [](double x) { return x * std::tanh(softplus(x)); });
}
void eval_leaky_relu(const EvalCall& call) {
  const auto attrs = decode<ActivationAttrs>(call.attrs);
  map_float("LeakyRelu", call, [=](double x) { return x < 0 ? attrs.alpha * x : x; });
}
void eval_elu(const EvalCall& call) {
  const auto attrs = decode<ActivationAttrs>(call.attrs);
  map_float("Elu", call, [=](double x) { return x < 0 ? attrs.alpha * std::expm1(x) : x; });
}
void eval_celu(const EvalCall& call) {
  const auto attrs = decode<ActivationAttrs>(call.attrs);
  map_float("Celu", call,
            [=](double x) { return x < 0 ? attrs.alpha * std::expm1(x / attrs.alpha) : x; });
}
// beta is ONNX's gamma.
void eval_selu(const EvalCall& call) {
  const auto attrs = decode<ActivationAttrs>(call.attrs);
  map_float("Selu", call,
            [=](double x) { return attrs.beta * (x <= 0 ? attrs.alpha * std::expm1(x) : x); });
}
void eval_hard_sigmoid(const EvalCall& call) {
  const auto attrs = decode<ActivationAttrs>(call.attrs);
  map_float("HardSigmoid", call,
            [=](double x) { return clamp(attrs.alpha * x + attrs.beta, 0.0, 1.0); });
}
void eval_thresholded_relu(const EvalCall& call) {
  const auto attrs = decode<ActivationAttrs>(call.attrs);
  map_float("ThresholdedRelu", call, [=](double x) { return x <= attrs.alpha ? 0.0 : x; });
}
void eval_swish(const EvalCall& call) {
  const auto attrs = decode<ActivationAttrs>(call.attrs);
  map_float("Swish", call, [=](double x) { return x * sigmoid(attrs.alpha * x); });
}
void eval_gelu(const EvalCall& call) {
  const auto attrs = decode<GeluAttrs>(call.attrs);
  map_arrays("Gelu", call, attrs.kind == GeluKind::kErf ? gelu_erf_each : gelu_tanh_each);
}

}  // namespace vernier::reference
