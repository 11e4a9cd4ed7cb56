// Device memory, stream and library handle of one GPU; the kernel list. See cuda.h.
#include "backend/cuda/cuda.h"

#include <array>

#include "backend/cuda/check.h"

namespace vernier::backend {

#define KERNEL(function) KernelDef function();
#include "backend/cuda/kernels.def"
#undef KERNEL

namespace {

class CudaDevice final : public Device {
 public:
  explicit CudaDevice(const DeviceOptions& options) : ordinal_(options.ordinal) {
    check_cuda(cudaSetDevice(ordinal_), "selecting GPU " + std::to_string(ordinal_));
    check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "creating a stream");
    check_cublas(cublasLtCreate(&handle_), "creating a handle");
  }
  ~CudaDevice() override {
    cublasLtDestroy(handle_);
    cudaStreamDestroy(stream_);
  }
  CudaDevice(const CudaDevice&) = delete;
  CudaDevice& operator=(const CudaDevice&) = delete;

  std::byte* allocate(size_t bytes) override {
    void* data = nullptr;
    const cudaError_t status = cudaMalloc(&data, bytes);
    if (status == cudaSuccess) return static_cast<std::byte*>(data);
    size_t free_bytes = 0, total_bytes = 0;
    cudaMemGetInfo(&free_bytes, &total_bytes);
    throw Error(ErrorCode::kMachine, "GPU memory: needed " + std::to_string(bytes) + " bytes, " +
                                         std::to_string(free_bytes) + " of " +
                                         std::to_string(total_bytes) + " are free (" +
                                         cudaGetErrorString(status) + ")");
  }
  void free(std::byte* data) override { cudaFree(data); }
  void copy_to_device(std::byte* dst, const std::byte* src, size_t bytes, void* stream) override {
    check_cuda(cudaMemcpyAsync(dst, src, bytes, cudaMemcpyHostToDevice, as_stream(stream)),
               "copying to the GPU");
  }
  void copy_to_host(std::byte* dst, const std::byte* src, size_t bytes, void* stream) override {
    check_cuda(cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDeviceToHost, as_stream(stream)),
               "copying from the GPU");
  }
  void synchronise(void* stream) override {
    check_cuda(cudaStreamSynchronize(as_stream(stream)), "waiting for the GPU");
  }
  bool host_memory() const override { return false; }
  size_t alignment() const override { return 256; }
  Execution execution() override {
    return {.threads = nullptr,
            .stream = stream_,
            .device_ordinal = ordinal_,
            .library_handle = handle_};
  }

 private:
  static cudaStream_t as_stream(void* stream) { return static_cast<cudaStream_t>(stream); }
  int ordinal_;
  cudaStream_t stream_ = nullptr;
  cublasLtHandle_t handle_ = nullptr;
};

std::string target() {
  cudaDeviceProp properties{};
  check_cuda(cudaGetDeviceProperties(&properties, 0), "reading the GPU's properties");
  return "cuda sm_" + std::to_string(properties.major) + std::to_string(properties.minor) +
         " cuBLASLt " + std::to_string(cublasLtGetVersion());
}

}  // namespace

Support cuda_available() {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess)
    return no(std::string("no CUDA device: ") + cudaGetErrorString(status));
  return count > 0 ? yes() : no("no CUDA device: the driver lists none");
}

const Backend& cuda_backend() {
  static const std::array kKernels{
#define KERNEL(function) function(),
#include "backend/cuda/kernels.def"
#undef KERNEL
  };
  static const Backend kBackend{
      .name = "cuda",
      .kernels = kKernels,
      .make_device = [](const DeviceOptions& options) -> std::unique_ptr<Device> {
        return std::make_unique<CudaDevice>(options);
      },
      .target = &target,
  };
  return kBackend;
}

}  // namespace vernier::backend
