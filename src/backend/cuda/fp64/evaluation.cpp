// One evaluation of an operator on the GPU: see evaluation.h.
#include "backend/cuda/fp64/evaluation.h"

#include <algorithm>
#include <array>
#include <bit>

#include "backend/cuda/check.h"
#include "core/broadcast.h"

namespace vernier::backend::cuda::fp64 {

Rounder rounder_of(const PointRounding& rounding) {
  if (rounding.type == DType::kUndefined || rounding.type == DType::kF64) return {};
  const FloatRounder::Grid grid = FloatRounder(rounding.type).grid();
  const bool nearest = rounding.mode == PointRounding::Mode::kNearest;
  return {
      grid.min_normal, grid.spacing, grid.shift, grid.max_finite,
      grid.overflow,   grid.least,   grid.zero,  nearest ? Rounder::kNearest : Rounder::kTruncate};
}

Layout layout_of(const Shape& sizes, std::span<const Shape> strides) {
  Layout layout;
  layout.elems = num_elems(sizes);
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] == 1) continue;
    const int32_t last = layout.rank - 1;
    bool merges = last >= 0;
    for (size_t n = 0; merges && n < strides.size(); ++n)
      merges = layout.strides[n][last] == strides[n][d] * sizes[d];
    if (!merges) ++layout.rank;
    VERNIER_ASSERT(layout.rank <= kMaxAxes, str(sizes));
    const int32_t axis = layout.rank - 1;
    layout.sizes[axis] = merges ? layout.sizes[axis] * sizes[d] : sizes[d];
    for (size_t n = 0; n < strides.size(); ++n) layout.strides[n][axis] = strides[n][d];
  }
  return layout;
}

std::shared_ptr<const Array> on_gpu(Shared& shared, const EvalTensor& x) {
  if (x.there) return std::static_pointer_cast<const Array>(x.there);
  if (!x.is_float()) {
    const std::vector<double> numbers(x.i.begin(), x.i.end());
    return std::make_shared<const Array>(numbers.data(), std::ssize(numbers));
  }
  const auto elems = std::ssize(x.f);
  if (auto kept = shared.kept.find(x.f.data(), elems))
    return Array::view_of(std::move(kept), elems);
  return std::make_shared<const Array>(x.f.data(), elems);
}

Evaluation::Evaluation(Shared& shared, const EvalCall& call) : call_(call), shared_(shared) {
  if (!call.rounding.records()) return;
  constexpr size_t kBytes = kMaxPoints * sizeof(uint64_t);
  peaks_.emplace(kBytes);
  check_cuda(cudaMemsetAsync(peaks_->data(), 0, kBytes, kStream), "clearing peaks");
}

Operand Evaluation::operand(size_t i) {
  const EvalTensor* x = call_.optional(i);
  return x == nullptr ? nullptr : on_gpu(shared_, *x);
}

Operand Evaluation::operand_at(size_t i, size_t index, int64_t seen) {
  Operand x = operand(i);
  const Point at = point(index);
  if (at.is_empty()) return x;
  auto y = std::make_shared<Array>(x->elems());
  const int64_t first = std::min(seen, x->elems()), rest = x->elems() - first;
  unary(Unary::kCopy, x->data(), y->data(), first, 1, at, kStream);
  if (rest > 0)
    unary(Unary::kCopy, x->data() + first, y->data() + first, rest, 1, {at.rounder, nullptr},
          kStream);
  return y;
}

Point Evaluation::point(size_t index) const {
  Point point{rounder_of(call_.rounding.at(index)), nullptr};
  if (peaks_) point.peak = static_cast<unsigned long long*>(peaks_->data()) + index;
  return point;
}

Norm Evaluation::norm_of(double epsilon, size_t first) const {
  Norm norm;
  norm.epsilon = epsilon;
  norm.x = point(first);
  norm.mean_point = point(first + 1);
  norm.var = point(first + 2);
  norm.normalized = point(first + 3);
  norm.inner = inner().rounder;
  return norm;
}

ArrayPtr Evaluation::output(size_t i) {
  auto y = std::make_shared<Array>(call_.out[i].elems());
  call_.out[i].there = y;
  return y;
}

void Evaluation::round(Array& y, const Point& out) {
  if (out.is_empty()) return;
  unary(Unary::kCopy, y.data(), y.data(), y.elems(), 1, out, kStream);
}

void Evaluation::combine(Binary function, Array& y, const Shape& shape, size_t input,
                         const Point& out) {
  const Operand other = operand(input);
  const std::array strides{row_major_strides(shape), broadcast_strides(in(input).shape, shape)};
  binary(function, layout_of(shape, strides), y.data(), other->data(), y.data(), out, kStream);
}

void Evaluation::normalize(Norm norm, Array& y, int64_t cols, size_t scale, size_t bias,
                           size_t out) {
  const Shape& shape = call_.out[0].shape;
  const bool by_column =
      in(scale).elems() == cols && shape.back() == cols && (!has(bias) || in(bias).elems() == cols);
  const Operand factors = by_column ? operand(scale) : nullptr,
                added = by_column ? operand(bias) : nullptr;
  if (factors) norm.scale = factors->data(), norm.out = point(out);
  if (added) norm.bias = added->data();
  normalize_rows(norm, y.data(), y.elems() / cols, cols, kStream);
  if (by_column) return;
  combine(Binary::kMul, y, shape, scale, inner());
  if (has(bias))
    combine(Binary::kAdd, y, shape, bias, point(out));
  else
    round(y, point(out));
}

void Evaluation::finish() {
  check_cuda(cudaGetLastError(), "launching an FP64 kernel");
  if (!peaks_) return;
  std::array<uint64_t, kMaxPoints> peaks{};
  check_cuda(
      cudaMemcpyAsync(peaks.data(), peaks_->data(), sizeof(peaks), cudaMemcpyDeviceToHost, kStream),
      "copying peaks from the GPU");
  check_cuda(cudaStreamSynchronize(kStream), "evaluating in FP64");
  for (size_t i = 0; i < peaks.size(); ++i) {
    const auto peak = std::bit_cast<double>(peaks[i]);
    call_.rounding.see(i, std::span(&peak, 1));
  }
}

}  // namespace vernier::backend::cuda::fp64
