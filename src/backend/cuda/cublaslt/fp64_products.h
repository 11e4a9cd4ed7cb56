// Products of doubles in host memory on the GPU.
#pragma once
#include <cstdint>
#include <memory>

#include "backend/cuda/fp64/kept.h"

namespace vernier::backend::cuda {

/// Fp64Device::least() and multiply_add(). Cost: a and c once over the bus, b each time or, if it
/// is kept, once.
class HostProducts {
 public:
  /// `kept` must outlive this.
  explicit HostProducts(fp64::KeptArrays& kept);
  ~HostProducts();
  HostProducts(const HostProducts&) = delete;
  HostProducts& operator=(const HostProducts&) = delete;
  double least() const;
  void multiply_add(int64_t m, int64_t n, int64_t k, const double* a, const double* b, double* c);

 private:
  class Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace vernier::backend::cuda
