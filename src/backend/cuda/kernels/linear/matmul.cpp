// The MatMul and Gemm rows of kernels.def; kernels in matmul.cu. Contract: MatMul as in ONNX (any
// rank, broadcast batch axes, one-axis operands), GemmAttrs. Operands with any outer strides.
#include "backend/cuda/kernels/linear/matmul.h"

#include <algorithm>

#include "backend/cuda/body.h"
#include "backend/cuda/check.h"
#include "backend/cuda/product_numerics.h"

namespace vernier::backend::cuda {
namespace {

// ---- shapes

// One-axis operands as a row (a: axis 1) or a column (b: axis 0).
TensorArg as_matrix(TensorArg t, size_t axis) {
  if (t.rank > 1) return t;
  const size_t other = 1 - axis;
  const int64_t size = t.shape[0], stride = t.strides[0];
  t.rank = 2;
  t.shape[axis] = size;
  t.strides[axis] = stride;
  t.shape[other] = 1;
  t.strides[other] = 0;
  return t;
}

Matrices matrices_of(const TensorArg& t) {
  return {.data = t.data,
          .type = t.dtype,
          .row_step = t.stride(-2),
          .col_step = t.stride(-1),
          .batch_step = {}};
}

// Size of batch axis `axis` of `axes` in t, whose last two axes are the matrix; stride 0 where it
// repeats.
struct BatchAxis {
  int64_t size, step;
};
BatchAxis batch_axis(const TensorArg& t, int axis, int axes) {
  const int own = axis - (axes - (t.rank - 2));
  if (own < 0 || t.dim(own) == 1) return {1, 0};
  return {t.dim(own), t.stride(own)};
}

ProductLaunch product_of(const TensorArg& in_a, const TensorArg& in_b, const TensorArg& y) {
  const TensorArg a = as_matrix(in_a, 1), b = as_matrix(in_b, 0);
  ProductLaunch p{};
  p.a = matrices_of(a);
  p.b = matrices_of(b);
  p.rows = a.dim(-2);
  p.k = static_cast<int>(a.dim(-1));
  p.cols = b.dim(-1);
  p.c = {.data = y.data, .type = y.dtype, .row_step = p.cols, .col_step = 1, .batch_step = {}};
  p.alpha = 1;
  p.batches = 1;
  p.batch_axes = std::max(a.rank, b.rank) - 2;
  for (int i = p.batch_axes - 1; i >= 0; --i) {
    const BatchAxis of_a = batch_axis(a, i, p.batch_axes), of_b = batch_axis(b, i, p.batch_axes);
    p.batch[i] = of_a.size == 1 ? of_b.size : of_a.size;
    p.a.batch_step[i] = of_a.step;
    p.b.batch_step[i] = of_b.step;
    p.c.batch_step[i] = p.batches * p.rows * p.cols;
    p.batches *= p.batch[i];
  }
  return p;
}

// a [rows, k] against every batch of a shared b is one tall product.
void fold_batches(ProductLaunch& p) {
  while (p.batch_axes > 0) {
    const int last = p.batch_axes - 1;
    const bool even = p.rows == 1 || p.a.batch_step[last] == p.a.row_step * p.rows;
    if (p.b.batch_step[last] != 0 || !even || p.a.batch_step[last] == 0) return;
    if (p.rows == 1) p.a.row_step = p.a.batch_step[last];
    p.rows *= p.batch[last];
    p.batches = p.batch[last] == 0 ? 0 : p.batches / p.batch[last];
    --p.batch_axes;
  }
}

// ---- MatMul

Support supports_integers(const Problem& problem) {
  const DType type = problem.outputs[0].dtype;
  if (!is_integer(type))
    return no("the result is " + std::string(name(type)) + ", not an integer type");
  return yes();
}

// Sums are counted in 32 bits, and their last step may begin slightly after K.
std::unique_ptr<ShapeState> check_terms(int64_t terms) {
  constexpr int64_t kMost = (int64_t{1} << 31) - 64;
  if (terms > kMost)
    throw Error(ErrorCode::kInput, "the product sums " + std::to_string(terms) +
                                       " terms; the CUDA kernel takes up to " +
                                       std::to_string(kMost));
  return workspace_only(0);
}
std::unique_ptr<ShapeState> prepare_matmul(const PrepareCall& call) {
  return check_terms(as_matrix(call.in[0], 1).dim(-1));
}

template <bool kTensorCores>
void launch_matmul(const LaunchCall& call) {
  ProductLaunch p = product_of(call.in[0], call.in[1], call.out[0]);
  fold_batches(p);
  check_cuda(multiply(p, kTensorCores, stream_of(call.execution)), "MatMul");
}
void launch_integers(const LaunchCall& call) {
  const ProductLaunch p = product_of(call.in[0], call.in[1], call.out[0]);
  check_cuda(multiply_integers(p, stream_of(call.execution)), "MatMul");
}

// ---- Gemm: alpha · a(ᵀ) · b(ᵀ) + beta · c

std::unique_ptr<ShapeState> prepare_gemm(const PrepareCall& call) {
  return check_terms(call.in[0].dim(decode<GemmAttrs>(call.attrs).trans_a ? 0 : 1));
}

TensorArg transposed(TensorArg t) {
  std::swap(t.shape[0], t.shape[1]);
  std::swap(t.strides[0], t.strides[1]);
  return t;
}

template <bool kTensorCores>
void launch_gemm(const LaunchCall& call) {
  const auto attrs = decode<GemmAttrs>(call.attrs);
  ProductLaunch p = product_of(attrs.trans_a ? transposed(call.in[0]) : call.in[0],
                               attrs.trans_b ? transposed(call.in[1]) : call.in[1], call.out[0]);
  p.alpha = static_cast<float>(attrs.alpha);
  p.beta = static_cast<float>(attrs.beta);
  if (given(call.in, 2)) {
    const TensorArg& c = call.in[2];
    p.addend = {.data = c.data,
                .type = c.dtype,
                .row_step = c.rank > 1 && c.dim(-2) != 1 ? c.stride(-2) : 0,
                .col_step = c.rank > 0 && c.dim(-1) != 1 ? c.stride(-1) : 0,
                .batch_step = {}};
  }
  check_cuda(multiply(p, kTensorCores, stream_of(call.execution)), "Gemm");
}

}  // namespace

extern const KernelBody matmul_tensor_cores, matmul_tiles, matmul_integers, gemm_tensor_cores,
    gemm_tiles;
constexpr KernelBody matmul_tensor_cores{
    .supports = &supports_tensor_cores,
    .numerics = &tensor_core_numerics,
    .strided_inputs = 3,
    .prepare = &prepare_matmul,
    .launch = &launch_matmul<true>,
};
constexpr KernelBody matmul_tiles{
    .supports = &supports_float_product,
    .numerics = &float_product_numerics,
    .strided_inputs = 3,
    .prepare = &prepare_matmul,
    .launch = &launch_matmul<false>,
};
constexpr KernelBody matmul_integers{
    .supports = &supports_integers,
    .numerics = &exact_numerics,
    .strided_inputs = 3,
    .prepare = &prepare_matmul,
    .launch = &launch_integers,
};
constexpr KernelBody gemm_tensor_cores{
    .supports = &supports_tensor_cores,
    .numerics = &tensor_core_numerics,
    .strided_inputs = 3,
    .prepare = &prepare_gemm,
    .launch = &launch_gemm<true>,
};
constexpr KernelBody gemm_tiles{
    .supports = &supports_float_product,
    .numerics = &float_product_numerics,
    .strided_inputs = 3,
    .prepare = &prepare_gemm,
    .launch = &launch_gemm<false>,
};

}  // namespace vernier::backend::cuda
