// The FP64 matrix product that MatMul, Gemm, Linear, Conv and Attention evaluators share.
#pragma once
#include "core/evaluator.h"

namespace vernier::reference {

struct MatMulSizes {
  int64_t m, n, k;
};
/// c[m, n] += a[m, k] · b[k, n], dense row-major doubles that do not overlap. The order of the sum
/// over k depends on k alone, so a row of c does not depend on m or on other rows.
void multiply_add(MatMulSizes sizes, const double* a, const double* b, double* c);

/// The same in plain loops, which are its definition: multiply_add() differs by roundings of
/// doubles.
void multiply_plainly(MatMulSizes sizes, const double* a, const double* b, double* c);

/// The same with the given accumulator (Sum in core/rounding.h), in order of k.
void multiply_add(MatMulSizes sizes, const double* a, const double* b, double* c,
                  const PointRounding& accumulator);

/// dst[cols, rows] = transpose of src[rows, cols].
void transpose(int64_t rows, int64_t cols, const double* src, double* dst);

/// The floats of `x` after rounding point `point`: x's own if nothing is rounded, else a copy in
/// `storage`, which must outlive the result.
std::span<const double> at_point(const EvalCall& call, size_t point, const EvalTensor& x,
                                 std::vector<double>& storage);

/// The two halves of Linear: out[0] += x·w of inputs 0 and 1, rounded at points a and b; and what
/// follows for the sums that stand in out[0]. The second half reads inputs 2 and 3 alone.
void add_linear_products(const EvalCall& call);
void finish_linear(const EvalCall& call);

}  // namespace vernier::reference
