// FP64 evaluators of MatMul, Gemm, Linear and LinearAddLayerNorm. Contract: core/evaluator.h;
// rounding points a, b, out, and before out the product and those of the norm.
#include "reference/matmul.h"

#include <algorithm>

#include "core/attrs.h"
#include "core/threads.h"
#include "reference/activations.h"
#include "reference/blocked_product.h"
#include "reference/elementwise.h"
#include "reference/normalize_rows.h"

namespace vernier::reference {
namespace {

// Below so many elements of b the loops below are as fast. By b alone: a row's sums must not depend
// on the number of rows.
constexpr int64_t kFewElements = 1 << 10;

// c[0, cols) += Σ_k a[k]·b[k][0, cols) for `depth` rows of b, four at a time.
void add_rows(int64_t depth, int64_t cols, const double* a, const double* b, int64_t stride,
              double* c) {
  int64_t k = 0;
  for (; k + 4 <= depth; k += 4) {
    const double a0 = a[k], a1 = a[k + 1], a2 = a[k + 2], a3 = a[k + 3];
    const double *b0 = b + k * stride, *b1 = b0 + stride, *b2 = b1 + stride, *b3 = b2 + stride;
    for (int64_t j = 0; j < cols; ++j)
      c[j] += (a0 * b0[j] + a1 * b1[j]) + (a2 * b2[j] + a3 * b3[j]);
  }
  for (; k < depth; ++k) {
    for (int64_t j = 0; j < cols; ++j) c[j] += a[k] * b[k * stride + j];
  }
}

// c[0, n) += Σ_k a[k]·b[k][0, n) with the given accumulator; the same as one Sum per column.
// `partial` is scratch of n elements.
template <PointRounding::Mode mode>
void carry_row(MatMulSizes sizes, const double* a, const double* b, double* c, double* partial,
               const PointRounding& accumulator) {
  const FloatRounder rounder(accumulator.type), single(DType::kF32);
  const bool promotes = accumulator.block > 0;
  std::fill_n(partial, sizes.n, 0.0);
  const auto promote = [&] {
    for (int64_t j = 0; j < sizes.n; ++j) {
      const double sum = c[j] + partial[j];
      c[j] = promotes ? single.nearest(sum) : sum;
      partial[j] = 0;
    }
  };
  for (int64_t k = 0; k < sizes.k; ++k) {
    const double* row = b + k * sizes.n;
    for (int64_t j = 0; j < sizes.n; ++j) {
      const double sum = partial[j] + a[k] * row[j];
      partial[j] =
          mode == PointRounding::Mode::kNearest ? rounder.nearest(sum) : rounder.truncated(sum);
    }
    if (promotes && (k + 1) % accumulator.block == 0) promote();
  }
  promote();
}

// A batch of matrices: element offset of matrix (batch index) in each operand.
struct MatMulLayout {
  MatMulSizes sizes;
  Shape batch;                 // broadcast batch sizes
  std::array<Shape, 2> steps;  // element strides of a and b over `batch`
};

// Splits shapes into batch and matrix axes as numpy.matmul does (a 1-D operand is a row or column).
MatMulLayout layout_of(Shape a, Shape b) {
  if (a.size() == 1) a.insert(a.begin(), 1);
  if (b.size() == 1) b.push_back(1);
  const MatMulSizes sizes{a[a.size() - 2], b.back(), a.back()};
  a.resize(a.size() - 2);
  b.resize(b.size() - 2);
  MatMulLayout layout{sizes, broadcast_shape(a, b), {}};
  layout.steps = {broadcast_strides(a, layout.batch), broadcast_strides(b, layout.batch)};
  for (int64_t& step : layout.steps[0]) step *= sizes.m * sizes.k;
  for (int64_t& step : layout.steps[1]) step *= sizes.k * sizes.n;
  return layout;
}

void multiply_integers(const EvalCall& call, const MatMulLayout& layout) {
  const std::vector<int64_t>&a = call.in[0]->i, &b = call.in[1]->i;
  EvalTensor& y = call.out[0];
  const int64_t m = layout.sizes.m, n = layout.sizes.n, k = layout.sizes.k;
  for_each_broadcast(layout.batch, layout.steps, [&](int64_t batch, const auto& offsets) {
    for (int64_t at = 0; at < m * n; ++at) {
      int64_t sum = 0;
      for (int64_t l = 0; l < k; ++l) {
        const auto i = static_cast<size_t>(offsets[0] + at / n * k + l);
        const auto j = static_cast<size_t>(offsets[1] + l * n + at % n);
        sum = wrapping_add(sum, wrapping_mul(a[i], b[j]));
      }
      y.i[batch * m * n + at] = wrap_integer(y.dtype, sum);
    }
  });
}

// y[i] = f(the part's rounding, y[i], i) for every element of the output, each of which may take a
// function.
template <class F>
void for_each_result(const EvalCall& call, const F& f) {
  std::vector<double>& y = call.out[0].f;
  for_each_rounded(call, std::ssize(y), kFunctionGrain,
                   [&](const Rounding& rounding, size_t i) { y[i] = f(rounding, y[i], i); });
}

void round_output(const EvalCall& call) {
  for_each_result(call, [](const Rounding& rounding, double v, size_t) { return rounding(2, v); });
}

// The matrix `x` [rows, cols], transposed into `storage` if asked.
const double* maybe_transposed(std::span<const double> x, const Shape& shape, bool transposed,
                               std::vector<double>& storage) {
  if (!transposed) return x.data();
  std::vector<double> copy(x.size());
  transpose(shape[0], shape[1], x.data(), copy.data());
  storage = std::move(copy);
  return storage.data();
}

// y = x·w + bias of inputs 0, 1 and 2; bias may be absent; w is [N, K] if transposed.
void multiply_linear(const EvalCall& call, bool trans_w) {
  const EvalTensor &x = *call.in[0], &w = *call.in[1], *bias = call.optional(2);
  EvalTensor& y = call.out[0];
  if (y.f.empty()) return;
  const int64_t n = y.shape.back();
  std::vector<double> storage_x, storage_w;
  const std::span<const double> left = at_point(call, 0, x, storage_x);
  const double* right =
      maybe_transposed(at_point(call, 1, w, storage_w), w.shape, trans_w, storage_w);
  multiply_add({static_cast<int64_t>(y.f.size()) / n, n, x.shape.back()}, left.data(), right,
               y.f.data(), call.rounding.accumulator());
  for_each_result(call, [&](const Rounding& rounding, double v, size_t i) {
    return rounding.inner(v + (bias ? bias->f[i % static_cast<size_t>(n)] : 0.0));
  });
}

}  // namespace

void multiply_plainly(MatMulSizes sizes, const double* a, const double* b, double* c) {
  for (int64_t i = 0; i < sizes.m; ++i)
    add_rows(sizes.k, sizes.n, a + i * sizes.k, b, sizes.n, c + i * sizes.n);
}

void multiply_add(MatMulSizes sizes, const double* a, const double* b, double* c) {
  if (sizes.k * sizes.n <= kFewElements) return multiply_plainly(sizes, a, b, c);
  multiply_in_blocks(sizes, a, b, c);
}

void multiply_add(MatMulSizes sizes, const double* a, const double* b, double* c,
                  const PointRounding& accumulator) {
  if (Sum::is_exact(accumulator)) return multiply_add(sizes, a, b, c);
  using Mode = PointRounding::Mode;
  std::vector<double> partial(static_cast<size_t>(sizes.n));
  for (int64_t i = 0; i < sizes.m; ++i) {
    const double* row = a + i * sizes.k;
    double* sums = c + i * sizes.n;
    if (accumulator.mode == Mode::kNearest)
      carry_row<Mode::kNearest>(sizes, row, b, sums, partial.data(), accumulator);
    else
      carry_row<Mode::kTruncate>(sizes, row, b, sums, partial.data(), accumulator);
  }
}

void transpose(int64_t rows, int64_t cols, const double* src, double* dst) {
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < cols; ++j) dst[j * rows + i] = src[i * cols + j];
  }
}

std::span<const double> at_point(const EvalCall& call, size_t point, const EvalTensor& x,
                                 std::vector<double>& storage) {
  if (!call.rounding.changes(point)) {
    call.rounding.see(point, x.f);
    return x.f;
  }
  storage.resize(x.f.size());
  for_each_rounded(call, std::ssize(storage), kCopyGrain, [&](const Rounding& rounding, size_t i) {
    storage[i] = rounding(point, x.f[i]);
  });
  return storage;
}

void eval_matmul(const EvalCall& call) {
  const MatMulLayout layout = layout_of(call.in[0]->shape, call.in[1]->shape);
  if (!call.out[0].is_float()) return multiply_integers(call, layout);
  std::vector<double> storage_a, storage_b;
  const std::span<const double> a = at_point(call, 0, *call.in[0], storage_a);
  const std::span<const double> b = at_point(call, 1, *call.in[1], storage_b);
  const int64_t matrix = layout.sizes.m * layout.sizes.n;
  for_each_broadcast(layout.batch, layout.steps, [&](int64_t batch, const auto& offsets) {
    multiply_add(layout.sizes, a.data() + offsets[0], b.data() + offsets[1],
                 call.out[0].f.data() + batch * matrix, call.rounding.accumulator());
  });
  round_output(call);
}

// y = alpha·A'·B' + beta·C, with C broadcast to [M, N].
void eval_gemm(const EvalCall& call) {
  const auto attrs = decode<GemmAttrs>(call.attrs);
  const EvalTensor &a = *call.in[0], &b = *call.in[1];
  require_float("Gemm", a);
  EvalTensor& y = call.out[0];
  std::vector<double> storage_a, storage_b;
  const double* left =
      maybe_transposed(at_point(call, 0, a, storage_a), a.shape, attrs.trans_a, storage_a);
  const double* right =
      maybe_transposed(at_point(call, 1, b, storage_b), b.shape, attrs.trans_b, storage_b);
  multiply_add({y.shape[0], y.shape[1], a.shape[attrs.trans_a ? 0 : 1]}, left, right, y.f.data(),
               call.rounding.accumulator());
  for (double& v : y.f) v = call.rounding.inner(v * attrs.alpha);
  if (call.in.size() > 2 && call.in[2]) {
    const EvalTensor& c = *call.in[2];
    for_each_pair(c, c, y.shape, [&](size_t at, size_t i, size_t) {
      y.f[at] = call.rounding.inner(y.f[at] + attrs.beta * c.f[i]);
    });
  }
  round_output(call);
}

// y = act(x·w + bias) + residual.
void eval_linear(const EvalCall& call) {
  const auto attrs = decode<LinearAttrs>(call.attrs);
  require_float("Linear", *call.in[0]);
  multiply_linear(call, attrs.trans_w);
  const EvalTensor* residual = call.optional(3);
  for_each_result(call, [&](const Rounding& rounding, double v, size_t i) {
    const double active = rounding.inner(activate(attrs.activation, v));
    return rounding(2, rounding.inner(active + (residual ? residual->f[i] : 0.0)));
  });
}

// y = LayerNorm(x·w + bias + residual)·scale + norm_bias over the last axis.
void eval_linear_add_layer_norm(const EvalCall& call) {
  const auto attrs = decode<LinearNormAttrs>(call.attrs);
  require_float("LinearAddLayerNorm", *call.in[0]);
  multiply_linear(call, attrs.trans_w);
  const EvalTensor& residual = *call.in[3];
  EvalTensor& y = call.out[0];
  const auto columns = static_cast<size_t>(y.shape.back());
  constexpr size_t kProduct = 2;  // with the bias
  for_each_result(call, [&](const Rounding& rounding, double v, size_t i) {
    return rounding(kProduct, v) + residual.f[i];
  });
  normalize_rows(call, columns, attrs.epsilon, kLinearNormIndex);
  scale_and_shift(y, *call.in[4], call.optional(5), call.rounding, kLinearNormIndex.out);
}

}  // namespace vernier::reference
