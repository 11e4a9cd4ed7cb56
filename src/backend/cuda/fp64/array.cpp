// Doubles in the memory of the GPU: see array.h.
#include "backend/cuda/fp64/array.h"

#include <algorithm>
#include <mutex>
#include <string>
#include <utility>

#include "backend/cuda/body.h"
#include "backend/cuda/check.h"
#include "backend/cuda/fp64/chain.h"

namespace vernier::backend::cuda::fp64 {
namespace {

// An address that tells threads apart.
const void* this_thread() {
  static thread_local char mark = 0;
  return &mark;
}

// Freed memory stays with the process: to give it back at every wait takes longer than the work.
void keep_freed_memory() {
  static std::once_flag once;
  std::call_once(once, [] {
    cudaMemPool_t pool = nullptr;
    uint64_t most = UINT64_MAX;
    check_cuda(cudaDeviceGetDefaultMemPool(&pool, kGpu), "asking for the memory of the GPU");
    check_cuda(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &most),
               "setting up the memory of the GPU");
  });
}

void copy_to_gpu(const void* host, void* to, size_t bytes) {
  if (bytes == 0) return;
  check_cuda(cudaMemcpyAsync(to, host, bytes, cudaMemcpyHostToDevice, kStream),
             "copying " + std::to_string(bytes) + " bytes to the GPU");
}

}  // namespace

DeviceMemory::DeviceMemory(size_t bytes) : thread_(this_thread()) {
  keep_freed_memory();
  const cudaError_t status = cudaMallocAsync(&data_, std::max<size_t>(bytes, 1), kStream);
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();  // reported here
    throw Error(ErrorCode::kMachine,
                "the GPU has too little memory left for " + std::to_string(bytes) +
                    " bytes of the FP64 evaluation; evaluate on the CPU (--evaluate-on cpu), or "
                    "free memory of the GPU");
  }
  check_cuda(status, "allocating " + std::to_string(bytes) + " bytes for the FP64 evaluation");
}
DeviceMemory::~DeviceMemory() {
  if (thread_ == this_thread())
    cudaFreeAsync(data_, kStream);
  else
    cudaFree(data_);  // waits for all streams
}

Array::Array(int64_t elems)
    : elems_(elems), memory_(std::make_unique<DeviceMemory>(elems * sizeof(double))) {
  data_ = static_cast<double*>(memory_->data());
}
Array::~Array() = default;

Array::Array(const double* host, int64_t elems) : Array(elems) {
  copy_to_gpu(host, data_, static_cast<size_t>(elems) * sizeof(double));
}

std::shared_ptr<const Array> Array::view_of(std::shared_ptr<const double> data, int64_t elems) {
  std::shared_ptr<Array> view(new Array);
  view->elems_ = elems;
  view->data_ = const_cast<double*>(data.get());  // NOLINT: data() of a const Array is const
  view->shared_ = std::move(data);
  return view;
}

std::shared_ptr<const Array> Array::result_of(std::shared_ptr<const ChainStep> last,
                                              int64_t elems) {
  std::shared_ptr<Array> result(new Array);
  result->elems_ = elems;
  result->pending_ = std::move(last);
  return result;
}

void Array::compute() const {
  if (!pending_) return;
  auto memory = std::make_unique<DeviceMemory>(static_cast<size_t>(elems_) * sizeof(double));
  run_chain(*pending_, elems_, static_cast<double*>(memory->data()));
  memory_ = std::move(memory);
  data_ = static_cast<double*>(memory_->data());
  pending_ = nullptr;
}

void Array::copy_to(double* host) const {
  if (elems_ == 0) return;
  check_cuda(cudaMemcpyAsync(host, data(), static_cast<size_t>(elems_) * sizeof(double),
                             cudaMemcpyDeviceToHost, kStream),
             "copying doubles from the GPU");
  check_cuda(cudaStreamSynchronize(kStream), "evaluating in FP64");
}

Integers::Integers(const std::vector<int64_t>& host) : memory_(host.size() * sizeof(int64_t)) {
  copy_to_gpu(host.data(), memory_.data(), host.size() * sizeof(int64_t));
}

Integers::Integers(const EvalTensor& x)
    : memory_(static_cast<size_t>(x.elems()) * sizeof(int64_t)) {
  if (x.there) {
    const auto& there = static_cast<const Array&>(*x.there);
    to_integers(there.data(), static_cast<int64_t*>(memory_.data()), there.elems(), kStream);
  } else {
    copy_to_gpu(x.i.data(), memory_.data(), x.i.size() * sizeof(int64_t));
  }
}

}  // namespace vernier::backend::cuda::fp64
