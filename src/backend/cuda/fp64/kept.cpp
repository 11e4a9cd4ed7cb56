// Copies on the GPU of constants in host memory: see kept.h.
#include "backend/cuda/fp64/kept.h"

#include <string>

#include "backend/cuda/check.h"

namespace vernier::backend::cuda::fp64 {

KeptArrays::KeptArrays() {
  check_cuda(cudaStreamCreateWithFlags(&stream_.value, cudaStreamNonBlocking), "making a stream");
}

void KeptArrays::keep(const double* host, int64_t elems) {
  const std::lock_guard lock(mutex_);
  kept_[host].elems = elems;
}

void KeptArrays::forget(const double* host) {
  const std::lock_guard lock(mutex_);
  kept_.erase(host);
}

std::shared_ptr<const double> KeptArrays::find(const double* host, int64_t elems) {
  const std::lock_guard lock(mutex_);
  const auto found = kept_.find(host);
  if (found == kept_.end() || found->second.elems != elems) return nullptr;
  Copy& copy = found->second;
  if (copy.there) return copy.there;
  const size_t bytes = static_cast<size_t>(elems) * sizeof(double);
  size_t free = 0, total = 0;
  check_cuda(cudaMemGetInfo(&free, &total), "asking for the memory of the GPU");
  if (free / 4 < bytes) return nullptr;
  void* made = nullptr;
  check_cuda(cudaMalloc(&made, bytes), "allocating " + std::to_string(bytes) + " bytes");
  copy.there = {static_cast<const double*>(made), [made](const double*) { cudaFree(made); }};
  const std::string what = "copying doubles to the GPU";
  check_cuda(cudaMemcpyAsync(made, host, bytes, cudaMemcpyHostToDevice, stream_.value), what);
  check_cuda(cudaStreamSynchronize(stream_.value), what);
  return copy.there;
}

}  // namespace vernier::backend::cuda::fp64
