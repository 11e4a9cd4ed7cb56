// Products of matrices of doubles that lie on the GPU, by cuBLASLt.
#pragma once
#include <cublasLt.h>

#include <array>
#include <map>
#include <mutex>

#include "backend/cuda/handle.h"

namespace vernier::backend::cuda::fp64 {

/// c[m, n] = a[m, k] · b[k, n], row-major with `ld…` elements from row to row; a is stored as
/// [k, m] or b as [n, k] if transposed. `batch` products at these distances.
struct Gemm {
  int64_t m = 0, n = 0, k = 0;
  bool trans_a = false, trans_b = false;
  int64_t lda = 0, ldb = 0, ldc = 0;
  int64_t batch = 1, stride_a = 0, stride_b = 0, stride_c = 0;
};

/// Several threads may use it at a time.
class Gemms {
 public:
  Gemms();
  /// In the stream of this thread. Throws Error(kMachine). k is never split.
  void run(const Gemm& gemm, const double* a, const double* b, double* c);

 private:
  Handle<cublasLtHandle_t, &cublasLtDestroy> handle_;
  std::mutex mutex_;
  std::map<std::array<int64_t, 12>, cublasLtMatmulAlgo_t> algorithms_;
};

}  // namespace vernier::backend::cuda::fp64
