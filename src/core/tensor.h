// EvalTensor: a mutable array of double or int64 for the FP64 evaluators; includes Tensor.
#pragma once
#include <cstdint>
#include <vector>

#include "core/dtype.h"
#include "core/error.h"
#include "vernier/tensor.h"

namespace vernier {

/// The evaluators' array: floats of any dtype as double, integers and bool as int64 (u64 keeps its
/// bits). `dtype` remembers the logical type; exactly one of the vectors is used.
struct EvalTensor {
  DType dtype = DType::kUndefined;
  Shape shape;
  std::vector<double> f;
  std::vector<int64_t> i;

  EvalTensor() = default;
  /// Zero-filled array of the given type and shape.
  EvalTensor(DType dtype, Shape shape);
  /// Reuses `memory` for the floats if it is large enough.
  static EvalTensor from(const Tensor& t, std::vector<double> memory = {});
  /// As a Tensor of its logical dtype (floats round once to it).
  Tensor to_tensor() const;

  bool is_float() const { return vernier::is_float(dtype); }
  int64_t elems() const { return num_elems(shape); }
  size_t rank() const { return shape.size(); }
  /// An element of any type as double (exact for |integers| < 2^53).
  double value(int64_t index) const {
    const auto at = static_cast<size_t>(index);
    return is_float() ? f[at] : static_cast<double>(i[at]);
  }
};

}  // namespace vernier
