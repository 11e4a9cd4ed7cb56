// FP64 evaluators of MatMul, Gemm, Linear and LinearAddLayerNorm. Contract: core/evaluator.h;
// rounding points a, b, out, and before out the product and those of the norm.
#include "reference/matmul.h"

#include <algorithm>
#include <array>

#include "core/attrs.h"
#include "core/fp64_device.h"
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

// All matrices of a batch, small ones beside each other on the threads.
void multiply_matrices(const MatMulLayout& layout, const double* a, const double* b,
                       const EvalCall& call) {
  double* y = call.out[0].f.data();
  const PointRounding& accumulator = call.rounding.accumulator();
  const MatMulSizes sizes = layout.sizes;
  const int64_t matrix = sizes.m * sizes.n, matrices = num_elems(layout.batch);
  std::vector<std::array<int64_t, 2>> places;
  for_each_broadcast(layout.batch, layout.steps,
                     [&](int64_t, const auto& offsets) { places.push_back(offsets); });
  const auto in_order = [&](int64_t i) {
    return places[i][0] == i * sizes.m * sizes.k && places[i][1] == places[0][1];
  };
  bool one = true;  // all rows of a by one b: one product
  for (int64_t i = 0; one && i < matrices; ++i) one = in_order(i);
  if (one && matrices > 0) {
    multiply_add({matrices * sizes.m, sizes.n, sizes.k}, a + places[0][0], b + places[0][1], y,
                 accumulator);
    return;
  }
  constexpr int64_t kLeastProducts = int64_t{1} << 18;  // of a thread
  const int64_t products = std::max<int64_t>(1, matrix * sizes.k);
  in_parallel(matrices, std::max<int64_t>(1, kLeastProducts / products),
              [&](int64_t begin, int64_t end) {
                for (int64_t i = begin; i < end; ++i) {
                  const auto& [left, right] = places[i];
                  multiply_add(sizes, a + left, b + right, y + i * matrix, accumulator);
                }
              });
}

// finish(part, rows [begin, end) of `cols` elements of the output), each of which may take a
// function, on all threads.
template <class Finish>
void finish_rows(const EvalCall& call, const Finish& finish) {
  std::vector<double>& y = call.out[0].f;
  if (y.empty()) return;
  const int64_t cols = call.out[0].shape.empty() ? 1 : call.out[0].shape.back();
  in_rounded_parts(call, std::ssize(y) / cols, std::max<int64_t>(1, kFunctionGrain / cols),
                   [&](const EvalCall& part, int64_t begin, int64_t end) {
                     for (int64_t row = begin; row < end; ++row) {
                       finish(part.rounding, std::span(y).subspan(row * cols, cols),
                              static_cast<size_t>(row * cols));
                     }
                   });
}

void add(std::span<double> row, const double* other) {
  for (size_t j = 0; j < row.size(); ++j) row[j] += other[j];
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

// y = x·w of inputs 0 and 1; w is [N, K] if transposed.
void multiply_linear(const EvalCall& call, bool trans_w) {
  const EvalTensor &x = *call.in[0], &w = *call.in[1];
  EvalTensor& y = call.out[0];
  if (y.f.empty()) return;
  const int64_t n = y.shape.back();
  std::vector<double> storage_x, storage_w;
  const std::span<const double> left = at_point(call, 0, x, storage_x);
  const double* right =
      maybe_transposed(at_point(call, 1, w, storage_w), w.shape, trans_w, storage_w);
  multiply_add({static_cast<int64_t>(y.f.size()) / n, n, x.shape.back()}, left.data(), right,
               y.f.data(), call.rounding.accumulator());
}
// A row of it with the bias of input 2, which may be absent.
void add_bias(const EvalCall& call, const Rounding& rounding, std::span<double> row) {
  if (const EvalTensor* bias = call.optional(2)) {
    VERNIER_ASSERT(bias->f.size() == row.size(), "a bias of another size than its rows");
    add(row, bias->f.data());
  }
  round_inner_each(rounding, row);
}

}  // namespace

void multiply_plainly(MatMulSizes sizes, const double* a, const double* b, double* c) {
  for (int64_t i = 0; i < sizes.m; ++i)
    add_rows(sizes.k, sizes.n, a + i * sizes.k, b, sizes.n, c + i * sizes.n);
}

void multiply_add(MatMulSizes sizes, const double* a, const double* b, double* c) {
  if (sizes.k * sizes.n <= kFewElements) return multiply_plainly(sizes, a, b, c);
  if (multiply_on_device(sizes.m, sizes.n, sizes.k, a, b, c)) return;
  multiply_in_blocks(sizes, a, b, c);
}

void multiply_add(MatMulSizes sizes, const double* a, const double* b, double* c,
                  const PointRounding& accumulator) {
  if (Sum::is_exact(accumulator)) return multiply_add(sizes, a, b, c);
  using Mode = PointRounding::Mode;
  in_parallel(sizes.m, 1, [&](int64_t begin, int64_t end) {
    std::vector<double> partial(static_cast<size_t>(sizes.n));
    for (int64_t i = begin; i < end; ++i) {
      const double* row = a + i * sizes.k;
      double* sums = c + i * sizes.n;
      if (accumulator.mode == Mode::kNearest)
        carry_row<Mode::kNearest>(sizes, row, b, sums, partial.data(), accumulator);
      else
        carry_row<Mode::kTruncate>(sizes, row, b, sums, partial.data(), accumulator);
    }
  });
}

void transpose(int64_t rows, int64_t cols, const double* src, double* dst) {
  constexpr int64_t kBlock = 16;  // columns whose lines of the cache are written together
  in_parallel(rows, std::max<int64_t>(1, kCopyGrain / std::max<int64_t>(1, cols)),
              [=](int64_t begin, int64_t end) {
                for (int64_t i0 = begin; i0 < end; i0 += kBlock) {
                  const int64_t i1 = std::min(end, i0 + kBlock);
                  for (int64_t j = 0; j < cols; ++j) {
                    for (int64_t i = i0; i < i1; ++i) dst[j * rows + i] = src[i * cols + j];
                  }
                }
              });
}

std::span<const double> at_point(const EvalCall& call, size_t point, const EvalTensor& x,
                                 std::vector<double>& storage) {
  if (!call.rounding.changes(point)) {
    call.rounding.see(point, x.f);
    return x.f;
  }
  storage.resize(x.f.size());
  in_rounded_parts(call, std::ssize(storage), kCopyGrain,
                   [&](const EvalCall& part, int64_t begin, int64_t end) {
                     std::copy(x.f.begin() + begin, x.f.begin() + end, storage.begin() + begin);
                     round_each(part.rounding, point,
                                {storage.data() + begin, static_cast<size_t>(end - begin)});
                   });
  return storage;
}

void eval_matmul(const EvalCall& call) {
  const MatMulLayout layout = layout_of(call.in[0]->shape, call.in[1]->shape);
  if (!call.out[0].is_float()) return multiply_integers(call, layout);
  std::vector<double> storage_a, storage_b;
  const std::span<const double> a = at_point(call, 0, *call.in[0], storage_a);
  const std::span<const double> b = at_point(call, 1, *call.in[1], storage_b);
  multiply_matrices(layout, a.data(), b.data(), call);
  round_out_each(call, 2);
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
  if (attrs.alpha != 1) {
    for (double& v : y.f) v *= attrs.alpha;
  }
  round_inner_parts(call, y.f);
  if (call.in.size() > 2 && call.in[2]) {
    const double beta = attrs.beta;
    combine_floats(y, *call.in[2], y, [beta](double v, double c) { return v + beta * c; });
    round_inner_parts(call, y.f);
  }
  round_out_each(call, 2);
}

void add_linear_products(const EvalCall& call) {
  require_float("Linear", *call.in[0]);
  multiply_linear(call, decode<LinearAttrs>(call.attrs).trans_w);
}

void finish_linear(const EvalCall& call) {
  const auto attrs = decode<LinearAttrs>(call.attrs);
  const EvalTensor* residual = call.optional(3);
  finish_rows(call, [&](const Rounding& rounding, std::span<double> row, size_t at) {
    add_bias(call, rounding, row);
    activate_each(attrs.activation, row.data(), std::ssize(row));
    round_inner_each(rounding, row);
    if (residual) add(row, residual->f.data() + at);
    round_inner_each(rounding, row);
    round_each(rounding, 2, row);
  });
}

// y = act(x·w + bias) + residual.
void eval_linear(const EvalCall& call) {
  add_linear_products(call);
  finish_linear(call);
}

// y = LayerNorm(x·w + bias + residual)·scale + norm_bias over the last axis.
void eval_linear_add_layer_norm(const EvalCall& call) {
  const auto attrs = decode<LinearNormAttrs>(call.attrs);
  require_float("LinearAddLayerNorm", *call.in[0]);
  multiply_linear(call, attrs.trans_w);
  const EvalTensor& residual = *call.in[3];
  const auto columns = static_cast<size_t>(call.out[0].shape.back());
  constexpr size_t kProduct = 2;  // with the bias
  finish_rows(call, [&](const Rounding& rounding, std::span<double> row, size_t at) {
    add_bias(call, rounding, row);
    round_each(rounding, kProduct, row);
    add(row, residual.f.data() + at);
  });
  normalize_rows(call, columns, attrs.epsilon, kLinearNormIndex);
  scale_and_shift(call, *call.in[4], call.optional(5), kLinearNormIndex.out);
}

}  // namespace vernier::reference
