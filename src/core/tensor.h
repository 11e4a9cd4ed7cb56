// EvalTensor: a mutable array of double or int64 for the FP64 evaluators; includes Tensor.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "core/dtype.h"
#include "core/error.h"
#include "vernier/tensor.h"

namespace vernier {

/// Doubles in the memory of a device (core/fp64_device.h), or on their way. They never change.
class DeviceDoubles {
 public:
  virtual ~DeviceDoubles() = default;
  virtual int64_t elems() const = 0;
  /// Copies all of them to `host`. Throws Error(kMachine) if the device fails.
  virtual void copy_to(double* host) const = 0;
  /// Computes what waits until it is read, and lets go of its operands.
  virtual void compute() const = 0;
};

/// Elements [first, first + count) of an array of floats.
void read_floats(const Tensor& t, int64_t first, int64_t count, double* to);

/// The evaluators' array: floats of any dtype as double, integers and bool as int64 (u64 keeps its
/// bits). `dtype` remembers the logical type; exactly one of the vectors is used, and neither where
/// floats or booleans lie on a device: only what evaluates there makes such arrays, and takes them.
struct EvalTensor {
  DType dtype = DType::kUndefined;
  Shape shape;
  std::vector<double> f;
  std::vector<int64_t> i;
  std::shared_ptr<const DeviceDoubles> there;  ///< null: not on a device

  EvalTensor() = default;
  /// Zero-filled array of the given type and shape.
  EvalTensor(DType dtype, Shape shape);
  /// Reuses `memory` for the floats if it is large enough.
  static EvalTensor from(const Tensor& t, std::vector<double> memory = {});
  /// An array without memory, for numbers that will lie on a device.
  static EvalTensor shaped(DType dtype, Shape shape);
  /// Brings numbers that lie on a device into `f` or `i`.
  void to_host();
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
