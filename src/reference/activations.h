// The activation functions in double, shared by the elementwise evaluators and Linear.
// NaN gives NaN.
#pragma once
#include <cstdint>

#include "core/attrs.h"

namespace vernier::reference {

double sigmoid(double x);
/// max(x, 0) that keeps NaN.
inline double relu(double x) { return x < 0 ? 0.0 : x; }
/// log(1 + eˣ)
double softplus(double x);
/// x clamped to [low, high]; NaN stays NaN.
inline double clamp(double x, double low, double high) {
  return x < low ? low : (x > high ? high : x);
}
/// x·Φ(x), with Φ through erfc so that the negative tail keeps its relative accuracy.
double gelu_erf(double x);
/// x/2·(1 + tanh(√(2/π)·(x + 0.044715·x³)))
double gelu_tanh(double x);
double activate(Activation activation, double x);
/// values = activate(activation, values), by the functions of vector_math.h.
void activate_each(Activation activation, double* values, int64_t count);

}  // namespace vernier::reference
