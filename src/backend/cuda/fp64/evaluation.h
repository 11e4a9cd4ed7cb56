// One evaluation of an operator on the GPU: its operands, rounding points and peaks.
#pragma once
#include <memory>
#include <optional>
#include <vector>

#include "backend/cuda/fp64/operators.h"

namespace vernier::backend::cuda::fp64 {

using ArrayPtr = std::shared_ptr<Array>;
using Operand = std::shared_ptr<const Array>;

class Evaluation {
 public:
  Evaluation(Shared& shared, const EvalCall& call);
  const EvalCall& call() const { return call_; }
  Shared& shared() { return shared_; }
  const EvalTensor& in(size_t i) const { return *call_.in[i]; }
  bool has(size_t i) const { return call_.optional(i) != nullptr; }

  /// Input i on the GPU; null: absent.
  Operand operand(size_t i);
  /// The same after rounding point `point`. Only the peak of its first `seen` elements counts.
  Operand operand_at(size_t i, size_t point, int64_t seen = INT64_MAX);
  Point point(size_t index) const;
  /// Of inner results.
  Point inner() const { return {rounder_of(call_.rounding.inner()), nullptr}; }
  bool rounds_inner() const { return call_.rounding.inner().type != DType::kUndefined; }

  /// Normalization with the points x, mean, var and normalized from point `first` on.
  Norm norm_of(double epsilon, size_t first) const;

  /// Memory for output i, whose array it is from now on.
  ArrayPtr output(size_t i);
  bool wants(size_t i) const {
    return i < call_.out.size() && call_.out[i].dtype != DType::kUndefined;
  }
  /// y = f(y, other) with `other` broadcast to y's shape, rounded at `out`.
  void combine(Binary function, Array& y, const Shape& shape, size_t input, const Point& out);
  /// Rounds y at `out`.
  void round(Array& y, const Point& out);
  /// Rows of `cols` elements of y, which is output 0, normalized; then times in[scale] plus
  /// in[bias] (normalize_rows() and scale_and_shift() of reference/normalize_rows.h), rounded at
  /// `out`.
  void normalize(Norm norm, Array& y, int64_t cols, size_t scale, size_t bias, size_t out);

  /// Hands the peaks to the call's rounding.
  void finish();

 private:
  const EvalCall& call_;
  Shared& shared_;
  std::optional<DeviceMemory> peaks_;
};

/// Operators with files of their own. Each: does the GPU take the call (of operands that are not
/// empty, with exact sums), and its evaluation.
bool takes_attention(const EvalCall& call);
void run_attention(Evaluation& e);
bool takes_product(OpKind op, const EvalCall& call);
void run_product(OpKind op, Evaluation& e);

}  // namespace vernier::backend::cuda::fp64
