// Doubles in the memory of the GPU that the FP64 evaluation uses, and their stream: each thread has
// one, and an array is for the thread that made it, until it has waited.
#pragma once
#include <cuda_runtime_api.h>

#include <memory>
#include <vector>

#include "core/tensor.h"

namespace vernier::backend::cuda::fp64 {

inline const cudaStream_t kStream = cudaStreamPerThread;  // NOLINT: the macro is a cast

/// Memory of the GPU. Freed after what its thread has launched; freed by another thread, it waits.
class DeviceMemory {
 public:
  /// Throws Error(kMachine) if there is not enough.
  explicit DeviceMemory(size_t bytes);
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  void* data() const { return data_; }

 private:
  void* data_ = nullptr;
  const void* thread_;
};

struct ChainStep;  // chain.h

class Array final : public DeviceDoubles {
 public:
  /// Of any contents.
  explicit Array(int64_t elems);
  /// A copy of host memory.
  Array(const double* host, int64_t elems);
  /// Memory that others share, which is not written to.
  static std::shared_ptr<const Array> view_of(std::shared_ptr<const double> data, int64_t elems);
  /// The result of elementwise operators, computed when it is first read.
  static std::shared_ptr<const Array> result_of(std::shared_ptr<const ChainStep> last,
                                                int64_t elems);
  ~Array() override;

  int64_t elems() const override { return elems_; }
  void copy_to(double* host) const override;
  void compute() const override;
  double* data() { return data_; }
  const double* data() const {
    if (pending_) compute();
    return data_;
  }
  /// The last operator of what is not computed yet; null: it is computed.
  const std::shared_ptr<const ChainStep>& pending() const { return pending_; }

 private:
  Array() = default;
  int64_t elems_ = 0;
  mutable double* data_ = nullptr;
  mutable std::unique_ptr<DeviceMemory> memory_;
  std::shared_ptr<const double> shared_;
  mutable std::shared_ptr<const ChainStep> pending_;
};

/// Integers, copied from host memory.
class Integers {
 public:
  explicit Integers(const std::vector<int64_t>& host);
  /// Of integers in host memory, or of booleans on the GPU.
  explicit Integers(const EvalTensor& x);
  const int64_t* data() const { return static_cast<const int64_t*>(memory_.data()); }

 private:
  DeviceMemory memory_;
};

}  // namespace vernier::backend::cuda::fp64
