// Copies on the GPU of constants in host memory, made when they are first read.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "backend/cuda/handle.h"

namespace vernier::backend::cuda::fp64 {

/// Several threads may use it at a time.
class KeptArrays {
 public:
  KeptArrays();
  /// `host` will not change or move before forget(host).
  void keep(const double* host, int64_t elems);
  void forget(const double* host);
  /// Its copy, complete; null: it is not kept, or the GPU has little memory left.
  std::shared_ptr<const double> find(const double* host, int64_t elems);

 private:
  struct Copy {
    int64_t elems = 0;
    std::shared_ptr<const double> there;
  };
  std::mutex mutex_;
  Handle<cudaStream_t, &cudaStreamDestroy> stream_;
  std::map<const double*, Copy> kept_;
};

}  // namespace vernier::backend::cuda::fp64
