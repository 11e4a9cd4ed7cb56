// FP64 evaluator of Det. Contract: core/evaluator.h.
#include <algorithm>
#include <cmath>

#include "reference/layout.h"

namespace vernier::reference {
namespace {

// The determinant of a [n, n] matrix, which is eliminated in place: the product of the pivots, each
// the largest number left in its column.
double determinant(std::span<double> a, int64_t n) {
  double product = 1;
  for (int64_t k = 0; k < n; ++k) {
    int64_t pivot = k;
    for (int64_t row = k + 1; row < n; ++row)
      if (std::abs(a[row * n + k]) > std::abs(a[pivot * n + k])) pivot = row;
    if (pivot != k) {
      std::swap_ranges(&a[k * n], &a[k * n] + n, &a[pivot * n]);
      product = -product;
    }
    const double top = a[k * n + k];
    product *= top;
    for (int64_t row = k + 1; row < n && top != 0; ++row) {
      const double factor = a[row * n + k] / top;
      for (int64_t col = k; col < n; ++col) a[row * n + col] -= factor * a[k * n + col];
    }
  }
  return product;
}

}  // namespace

void eval_det(const EvalCall& call) {
  std::vector<double> work = call.in[0]->f;
  const int64_t n = call.in[0]->shape.back();
  std::vector<double>& y = call.out[0].f;
  for (size_t i = 0; i < y.size(); ++i) {
    const auto elems = static_cast<size_t>(n * n);
    y[i] = call.rounding(0, determinant(std::span(work).subspan(i * elems, elems), n));
  }
}

}  // namespace vernier::reference
