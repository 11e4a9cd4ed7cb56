// MatMul, Gemm, Linear, LinearAddLayerNorm and QuantizedLinear of the FP64 evaluation on the GPU.
// The meaning: reference/matmul.cpp and quantized_linear.cpp.
#include <algorithm>
#include <array>

#include "backend/cuda/fp64/evaluation.h"
#include "core/attrs.h"
#include "core/broadcast.h"

namespace vernier::backend::cuda::fp64 {
namespace {

// A batch of matrices as numpy.matmul has them: the first elements of each in a and b.
struct Matrices {
  int64_t m = 0, n = 0, k = 0;
  std::vector<std::array<int64_t, 2>> places;
};
Matrices matrices_of(Shape a, Shape b) {
  if (a.size() == 1) a.insert(a.begin(), 1);
  if (b.size() == 1) b.push_back(1);
  Matrices matrices{a[a.size() - 2], b.back(), a.back(), {}};
  a.resize(a.size() - 2);
  b.resize(b.size() - 2);
  const Shape batch = broadcast_shape(a, b);
  std::array strides{broadcast_strides(a, batch), broadcast_strides(b, batch)};
  for (int64_t& step : strides[0]) step *= matrices.m * matrices.k;
  for (int64_t& step : strides[1]) step *= matrices.k * matrices.n;
  for_each_broadcast(batch, strides,
                     [&](int64_t, const auto& at) { matrices.places.push_back(at); });
  return matrices;
}

// How many matrices from `first` on lie at equal distances.
size_t run_of(const Matrices& matrices, size_t first, std::array<int64_t, 2>& steps) {
  const auto& places = matrices.places;
  steps = {0, 0};
  if (first + 1 == places.size()) return 1;
  const auto step = [&](size_t i) {
    return std::array{places[i + 1][0] - places[i][0], places[i + 1][1] - places[i][1]};
  };
  steps = step(first);
  size_t count = 2;
  while (first + count < places.size() && step(first + count - 1) == steps) ++count;
  return count;
}

void run_matmul(Evaluation& e) {
  const Operand a = e.operand_at(0, 0), b = e.operand_at(1, 1);
  const Matrices s = matrices_of(e.in(0).shape, e.in(1).shape);
  const ArrayPtr y = e.output(0);
  const int64_t matrix = s.m * s.n;
  std::array<int64_t, 2> steps{};
  for (size_t first = 0, count = 0; first < s.places.size(); first += count) {
    count = run_of(s, first, steps);
    Gemm gemm{.m = s.m,
              .n = s.n,
              .k = s.k,
              .lda = s.k,
              .ldb = s.n,
              .ldc = s.n,
              .batch = static_cast<int64_t>(count),
              .stride_a = steps[0],
              .stride_b = steps[1],
              .stride_c = matrix};
    if (steps == std::array{s.m * s.k, int64_t{0}}) {  // all rows of a by one b
      gemm.m *= gemm.batch;
      gemm.batch = 1;
    }
    e.shared().gemms.run(gemm, a->data() + s.places[first][0], b->data() + s.places[first][1],
                         y->data() + static_cast<int64_t>(first) * matrix);
  }
  e.round(*y, e.point(2));
}

void run_gemm(Evaluation& e) {
  const auto attrs = decode<GemmAttrs>(e.call().attrs);
  const Operand a = e.operand_at(0, 0), b = e.operand_at(1, 1);
  const Shape &shape = e.call().out[0].shape, &left = e.in(0).shape, &right = e.in(1).shape;
  const ArrayPtr y = e.output(0);
  e.shared().gemms.run({.m = shape[0],
                        .n = shape[1],
                        .k = left[attrs.trans_a ? 0 : 1],
                        .trans_a = attrs.trans_a,
                        .trans_b = attrs.trans_b,
                        .lda = left[1],
                        .ldb = right[1],
                        .ldc = shape[1]},
                       a->data(), b->data(), y->data());
  if (attrs.alpha != 1)
    unary(Unary::kScale, y->data(), y->data(), y->elems(), attrs.alpha, {}, kStream);
  e.round(*y, e.inner());
  if (e.has(2)) e.combine(Binary::kAdd, *y, shape, 2, e.inner());
  e.round(*y, e.point(2));
}

Unary activation_of(Activation activation) {
  switch (activation) {
    case Activation::kNone:
      return Unary::kCopy;
    case Activation::kGeluErf:
      return Unary::kGeluErf;
    case Activation::kGeluTanh:
      return Unary::kGeluTanh;
    case Activation::kRelu:
      return Unary::kRelu;
    case Activation::kTanh:
      return Unary::kTanh;
  }
  VERNIER_ASSERT(false, "unknown activation");
  return Unary::kCopy;
}

// Output 0 = x·w of inputs 0 and 1; w is [N, K] if transposed.
ArrayPtr multiply(Evaluation& e, bool trans_w) {
  const Operand x = e.operand_at(0, 0), w = e.operand_at(1, 1);
  const ArrayPtr y = e.output(0);
  const int64_t n = e.call().out[0].shape.back(), k = e.in(0).shape.back();
  e.shared().gemms.run({.m = y->elems() / n,
                        .n = n,
                        .k = k,
                        .trans_b = trans_w,
                        .lda = k,
                        .ldb = trans_w ? k : n,
                        .ldc = n},
                       x->data(), w->data(), y->data());
  return y;
}

void run_linear(Evaluation& e) {
  const auto attrs = decode<LinearAttrs>(e.call().attrs);
  const ArrayPtr y = multiply(e, attrs.trans_w);
  const Operand bias = e.operand(2), residual = e.operand(3);
  Finish finish;
  if (bias) finish.bias = bias->data();
  if (residual) finish.residual = residual->data();
  finish.activation = activation_of(attrs.activation);
  finish.biased = finish.activated = finish.added = e.inner();
  finish.out = e.point(2);
  const int64_t n = e.call().out[0].shape.back();
  finish_product(finish, y->data(), y->elems() / n, n, kStream);
}

void run_linear_norm(Evaluation& e) {
  const auto attrs = decode<LinearNormAttrs>(e.call().attrs);
  const ArrayPtr y = multiply(e, attrs.trans_w);
  const Operand bias = e.operand(2), residual = e.operand(3);
  constexpr size_t kProduct = 2, kSum = 3, kOut = 7;
  const int64_t n = e.call().out[0].shape.back();
  Finish finish;
  if (bias) finish.bias = bias->data();
  finish.residual = residual->data();
  finish.biased = e.inner();
  finish.activated = e.point(kProduct);
  finish_product(finish, y->data(), y->elems() / n, n, kStream);
  e.normalize(e.norm_of(attrs.epsilon, kSum), *y, n, 4, 5, kOut);
}

// One number, or one for each row or column.
bool is_one_or(const EvalTensor* t, int64_t count) {
  return t == nullptr || t->elems() == 1 || t->elems() == count;
}

void run_quantized(Evaluation& e) {
  const auto attrs = decode<QuantizedLinearAttrs>(e.call().attrs);
  const Operand x = e.operand(0), w = e.operand(1), x_scale = e.operand(2), w_scale = e.operand(3);
  const Operand x_zero = e.operand(4), w_zero = e.operand(5);
  const ArrayPtr y = e.output(0);
  const int64_t n = e.call().out[0].shape.back(), k = e.in(0).shape.back(), m = y->elems() / n;
  Array left(x->elems()), right(w->elems());
  const auto step = [](const Operand& t) { return int64_t{t && t->elems() > 1 ? 1 : 0}; };
  subtract_zeros({x_zero ? x_zero->data() : nullptr, step(x_zero), 0}, x->data(), left.data(), m, k,
                 e.point(0), kStream);
  const Zeros of_w{w_zero ? w_zero->data() : nullptr, attrs.trans_w ? step(w_zero) : 0,
                   attrs.trans_w ? 0 : step(w_zero)};
  subtract_zeros(of_w, w->data(), right.data(), attrs.trans_w ? n : k, attrs.trans_w ? k : n,
                 e.point(1), kStream);
  e.shared().gemms.run({.m = m,
                        .n = n,
                        .k = k,
                        .trans_b = attrs.trans_w,
                        .lda = k,
                        .ldb = attrs.trans_w ? k : n,
                        .ldc = n},
                       left.data(), right.data(), y->data());
  const Operand bias = e.operand(6), residual = e.operand(7);
  Finish finish;
  finish.row_scale = x_scale->data();
  finish.row_scale_step = step(x_scale);
  finish.col_scale = w_scale->data();
  finish.col_scale_step = step(w_scale);
  if (bias) finish.bias = bias->data();
  if (residual) finish.residual = residual->data();
  finish.activation = activation_of(attrs.activation);
  finish.biased = finish.activated = finish.added = e.inner();
  finish.out = e.point(2);
  finish_product(finish, y->data(), m, n, kStream);
}

bool takes_quantized(const EvalCall& call) {
  const int64_t n = call.out[0].shape.back(), m = call.out[0].elems() / n;
  const EvalTensor *bias = call.optional(6), *residual = call.optional(7);
  return is_one_or(call.in[2], m) && is_one_or(call.in[3], n) && is_one_or(call.optional(4), m) &&
         is_one_or(call.optional(5), n) && (bias == nullptr || bias->elems() == n) &&
         (residual == nullptr || residual->elems() == call.out[0].elems());
}

// From how many multiplications a product is worth the copies of what is not on the GPU yet.
constexpr double kLeast = 5e5;

double multiplications(const EvalCall& call) {
  const Shape& a = call.in[0]->shape;
  return static_cast<double>(call.out[0].elems()) * static_cast<double>(a.empty() ? 1 : a.back());
}

}  // namespace

bool takes_product(OpKind op, const EvalCall& call) {
  const bool is_there = call.in[0]->there != nullptr;
  if (!is_there && multiplications(call) < kLeast) return false;
  if (op == OpKind::kMatMul) return call.in[0]->rank() > 0 && call.in[1]->rank() > 0;
  if (op == OpKind::kQuantizedLinear) return takes_quantized(call);
  if (op == OpKind::kGemm) return decode<GemmAttrs>(call.attrs).beta == 1;
  const EvalTensor *bias = call.optional(2), *residual = call.optional(3);
  return (bias == nullptr || bias->elems() == call.out[0].shape.back()) &&
         (residual == nullptr || residual->elems() == call.out[0].elems());
}

void run_product(OpKind op, Evaluation& e) {
  switch (op) {
    case OpKind::kMatMul:
      return run_matmul(e);
    case OpKind::kGemm:
      return run_gemm(e);
    case OpKind::kLinear:
      return run_linear(e);
    case OpKind::kQuantizedLinear:
      return run_quantized(e);
    default:
      return run_linear_norm(e);
  }
}

}  // namespace vernier::backend::cuda::fp64
