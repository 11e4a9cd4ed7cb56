// The functions of activations and softmaxes on arrays of doubles, in vectors. The functions of
// <cmath> are their definition: each result is within 8 units in the last place of it.
#pragma once
#include <cstdint>

namespace vernier::reference {

/// y[0, count) = f(x[0, count)). y may be x; else they do not overlap. An element's bits do not
/// depend on its place. NaN gives NaN; infinities and results outside the range of double as in
/// <cmath>.
using ArrayFn = void (*)(const double* x, double* y, int64_t count);

void exp_each(const double* x, double* y, int64_t count);
void tanh_each(const double* x, double* y, int64_t count);
void erf_each(const double* x, double* y, int64_t count);
/// As sigmoid(), gelu_erf() and gelu_tanh() of activations.h.
void sigmoid_each(const double* x, double* y, int64_t count);
void gelu_erf_each(const double* x, double* y, int64_t count);
void gelu_tanh_each(const double* x, double* y, int64_t count);

}  // namespace vernier::reference
