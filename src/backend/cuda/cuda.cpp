// Device memory, stream and library handle of one GPU; the kernel list. See cuda.h.
#include "backend/cuda/cuda.h"

#include <algorithm>
#include <fstream>
#include <vector>

#include "backend/cuda/body.h"
#include "backend/cuda/check.h"
#include "backend/cuda/fp64_device.h"
#include "backend/cuda/handle.h"
#include "backend/cuda/target.h"
#include "core/fork.h"

namespace vernier::backend {
namespace cuda {

#define KERNEL(op, strategy, body) extern const KernelBody body;
#define KERNEL_ELEMENTWISE(strategy, body) const KernelBody& body(OpKind op);
#include "backend/cuda/kernels.def"
#undef KERNEL
#undef KERNEL_ELEMENTWISE

namespace {

KernelTable make_table() {
  KernelTable table("cuda");
#define KERNEL(op, strategy, body) table.add(OpKind::k##op, strategy, body);
#define KERNEL_ELEMENTWISE(strategy, body) table.add_all(strategy, &body, kElementwise);
#include "backend/cuda/kernels.def"
#undef KERNEL
#undef KERNEL_ELEMENTWISE
  return table;
}

// A CUDA graph, ready to be launched.
class GraphRecording final : public Recording {
 public:
  explicit GraphRecording(cudaGraph_t graph) : num_kernels_(kernels_of(graph)) {
    const cudaError_t status = cudaGraphInstantiate(&graph_, graph, 0);
    cudaGraphDestroy(graph);
    check_cuda(status, "instantiating the graph of the steps");
  }
  ~GraphRecording() override { cudaGraphExecDestroy(graph_); }
  GraphRecording(const GraphRecording&) = delete;
  GraphRecording& operator=(const GraphRecording&) = delete;
  void replay(void* stream) override {
    check_cuda(cudaGraphLaunch(graph_, static_cast<cudaStream_t>(stream)), "launching the graph");
  }
  int64_t num_kernels() const override { return num_kernels_; }

 private:
  static int64_t kernels_of(cudaGraph_t graph) {
    size_t count = 0;
    if (cudaGraphGetNodes(graph, nullptr, &count) != cudaSuccess) return 0;
    std::vector<cudaGraphNode_t> nodes(count);
    if (cudaGraphGetNodes(graph, nodes.data(), &count) != cudaSuccess) return 0;
    return std::count_if(nodes.begin(), nodes.end(), [](cudaGraphNode_t node) {
      cudaGraphNodeType type = cudaGraphNodeTypeEmpty;
      return cudaGraphNodeGetType(node, &type) == cudaSuccess && type == cudaGraphNodeTypeKernel;
    });
  }
  int64_t num_kernels_;
  cudaGraphExec_t graph_ = nullptr;
};

// On a stream that is being recorded it becomes part of the graph.
class EventMark final : public Mark {
 public:
  explicit EventMark(cudaStream_t stream) {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    check_cuda(cudaStreamIsCapturing(stream, &status), "querying the state of a stream");
    const bool recorded = status != cudaStreamCaptureStatusNone;
    check_cuda(cudaEventCreate(&event_.value), "creating an event");
    check_cuda(
        cudaEventRecordWithFlags(event_.value, stream,
                                 recorded ? cudaEventRecordExternal : cudaEventRecordDefault),
        "recording an event");
  }
  cudaEvent_t event() const { return event_.value; }

 private:
  Handle<cudaEvent_t, &cudaEventDestroy> event_;
};

class CudaDevice final : public Device {
 public:
  explicit CudaDevice(const DeviceOptions& options)
      : stream_(static_cast<cudaStream_t>(options.stream)) {
    const OnDevice here(*this);
    if (stream_) {
      check_stream();
    } else {
      check_cuda(cudaStreamCreateWithFlags(&own_.value, cudaStreamNonBlocking),
                 "creating a stream");
      stream_ = own_.value;
    }
    check_cublas(cublasLtCreate(&handle_.value), "creating a handle");
  }
  CudaDevice(const CudaDevice&) = delete;
  CudaDevice& operator=(const CudaDevice&) = delete;

  int enter() override {
    int before = 0;
    check_cuda(cudaGetDevice(&before), "querying the GPU of the thread");
    if (before != kGpu) check_cuda(cudaSetDevice(kGpu), "selecting GPU " + std::to_string(kGpu));
    return before;
  }
  void leave(int before) override {
    if (before != kGpu) cudaSetDevice(before);
  }
  std::byte* allocate(size_t bytes) override {
    void* data = nullptr;
    const cudaError_t status = cudaMalloc(&data, bytes);
    if (status == cudaSuccess) return static_cast<std::byte*>(data);
    cudaGetLastError();  // reported here, not at the next launch
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
    return {.threads = nullptr, .stream = stream_, .library_handle = handle_.value};
  }
  void copy_on_device(std::byte* dst, const std::byte* src, size_t bytes, void* stream) override {
    check_cuda(cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDefault, as_stream(stream)),
               "copying on the GPU");
  }
  std::byte* allocate_staging(size_t bytes) override {
    void* data = nullptr;
    check_cuda(cudaMallocHost(&data, bytes == 0 ? 1 : bytes),
               "allocating " + std::to_string(bytes) + " bytes of page-locked host memory");
    return static_cast<std::byte*>(data);
  }
  void free_staging(std::byte* data) override { cudaFreeHost(data); }
  // On a stream of its own: the caller's may be one that cannot be recorded.
  std::unique_ptr<Recording> record(const std::function<void(const Execution&)>& work) override {
    if (!recorded_.value)
      check_cuda(cudaStreamCreateWithFlags(&recorded_.value, cudaStreamNonBlocking),
                 "creating a stream");
    Execution recording = execution();
    recording.stream = recorded_.value;
    check_cuda(cudaStreamBeginCapture(recorded_.value, cudaStreamCaptureModeThreadLocal),
               "recording the steps");
    cudaGraph_t graph = nullptr;
    try {
      work(recording);
    } catch (...) {
      cudaStreamEndCapture(recorded_.value, &graph);
      if (graph) cudaGraphDestroy(graph);
      cudaGetLastError();
      throw;
    }
    check_cuda(cudaStreamEndCapture(recorded_.value, &graph), "recording the steps");
    return std::make_unique<GraphRecording>(graph);
  }
  std::unique_ptr<Mark> mark(void* stream) override {
    return std::make_unique<EventMark>(as_stream(stream));
  }
  double milliseconds_between(const Mark& first, const Mark& second) override {
    float ms = 0;
    check_cuda(cudaEventElapsedTime(&ms, static_cast<const EventMark&>(first).event(),
                                    static_cast<const EventMark&>(second).event()),
               "reading a time");
    return ms;
  }

 private:
  static cudaStream_t as_stream(void* stream) { return static_cast<cudaStream_t>(stream); }
  // The engine's weights are on this device: a stream of another cannot run its steps.
  void check_stream() const {
    int its = 0;
    check_cuda(cudaStreamGetDevice(stream_, &its), "querying the GPU of the caller's stream");
    if (its == kGpu) return;
    throw Error(ErrorCode::kInput,
                "the stream belongs to GPU " + std::to_string(its) + ", engines run on GPU " +
                    std::to_string(kGpu) +
                    "; make the stream there, or choose the GPU with CUDA_VISIBLE_DEVICES");
  }
  cudaStream_t stream_;
  Handle<cudaStream_t, &cudaStreamDestroy> own_, recorded_;
  Handle<cublasLtHandle_t, &cublasLtDestroy> handle_;
};

// Without a device: what the kernels were compiled for.
std::string target() {
  cudaDeviceProp properties{};
  std::string chip = VERNIER_CUDA_ARCH;
  if (cuda_available() && cudaGetDeviceProperties(&properties, kGpu) == cudaSuccess)
    chip = std::to_string(properties.major) + std::to_string(properties.minor);
  return "cuda sm_" + std::string(digits_of(chip)) + " cuBLASLt " +
         std::to_string(cublasLtGetVersion());
}

// "580.65.06": of the kernel's driver; empty where it does not say.
std::string driver_version() {
  std::ifstream file("/proc/driver/nvidia/version");
  for (std::string word; file >> word;) {
    const bool number = word.find('.') != std::string::npos &&
                        word.find_first_not_of("0123456789.") == std::string::npos;
    if (number) return word;
  }
  return {};
}

std::vector<NamedVersion> environment() {
  std::vector<NamedVersion> versions;
  cudaDeviceProp properties{};
  if (cuda_available() && cudaGetDeviceProperties(&properties, kGpu) == cudaSuccess)
    versions.push_back({"gpu", properties.name});
  int number = 0;
  if (cudaDriverGetVersion(&number) == cudaSuccess && number > 0)
    versions.push_back({"cuda driver", std::to_string(number)});
  if (cudaRuntimeGetVersion(&number) == cudaSuccess)
    versions.push_back({"cuda runtime", std::to_string(number)});
  if (const std::string driver = driver_version(); !driver.empty())
    versions.push_back({"driver", driver});
  return versions;
}

}  // namespace
}  // namespace cuda

Support cuda_available() {
  static const uint32_t first_forks = forks();
  if (forks() != first_forks) {
    return no(
        "no CUDA device: this process was forked from one that had used CUDA, which CUDA does not "
        "allow; start it again (multiprocessing: 'spawn')");
  }
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess)
    return no(std::string("no CUDA device: ") + cudaGetErrorString(status));
  if (count == 0) return no("no CUDA device: the driver lists none");
  int major = 0, minor = 0;
  if (cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, cuda::kGpu) !=
          cudaSuccess ||
      cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, cuda::kGpu) != cudaSuccess)
    return no("GPU " + std::to_string(cuda::kGpu) + ": could not query the compute capability");
  return cuda::has_code_for(VERNIER_CUDA_ARCH, major, minor);
}

const Backend& cuda_backend() {
  static const KernelTable table = cuda::make_table();
  static const Backend kBackend{
      .name = "cuda",
      .kernels = table.kernels(),
      .make_device = [](const DeviceOptions& options) -> std::unique_ptr<Device> {
        return std::make_unique<cuda::CudaDevice>(options);
      },
      .target = &cuda::target,
      .environment = &cuda::environment,
      .available = &cuda_available,
      .runs_engine_of =
          [](std::string_view built_for) { return cuda::runs_on(built_for, cuda::target()); },
      .fp64_device = &cuda::make_fp64_device,
  };
  return kBackend;
}

}  // namespace vernier::backend
