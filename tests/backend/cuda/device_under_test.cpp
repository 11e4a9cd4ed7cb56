// One NVIDIA GPU for the harness: a launch once more, and inside a CUDA graph. See
// device_under_test.h.
#include "backend/cuda/device_under_test.h"

#include <gtest/gtest.h>

#include <cmath>

#include "backend/cuda/check.h"
#include "backend/cuda/cuda.h"

namespace vernier::backend::test {
namespace {

// What was captured may only work: no allocation, no call of the host.
void check_nodes(cudaGraph_t graph) {
  size_t count = 0;
  check_cuda(cudaGraphGetNodes(graph, nullptr, &count), "counting a graph's nodes");
  std::vector<cudaGraphNode_t> nodes(count);
  check_cuda(cudaGraphGetNodes(graph, nodes.data(), &count), "reading a graph's nodes");
  for (cudaGraphNode_t node : nodes) {
    cudaGraphNodeType type{};
    check_cuda(cudaGraphNodeGetType(node, &type), "reading a graph's node");
    EXPECT_TRUE(type == cudaGraphNodeTypeKernel || type == cudaGraphNodeTypeMemcpy ||
                type == cudaGraphNodeTypeMemset || type == cudaGraphNodeTypeEmpty)
        << "launch put a node of type " << type << " into the graph";
  }
}

// The capture ends whatever happens: a stream left capturing would fail every later test.
cudaGraph_t capture(cudaStream_t stream, const std::function<void()>& launch) {
  check_cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), "beginning a capture");
  cudaGraph_t graph = nullptr;
  try {
    launch();
  } catch (...) {
    cudaStreamEndCapture(stream, &graph);
    if (graph != nullptr) cudaGraphDestroy(graph);
    cudaGetLastError();
    throw;
  }
  const cudaError_t status = cudaStreamEndCapture(stream, &graph);
  if (status != cudaSuccess) cudaGetLastError();  // reported here, not at the next launch
  check_cuda(status, "capturing a launch (does it allocate or synchronize?)");
  return graph;
}

class Cuda final : public DeviceUnderTest {
 public:
  const Backend& backend() const override { return cuda_backend(); }
  Support available() const override {
    static const Support kHere = cuda_available();
    return kHere;
  }
  Device& device(int) override {
    if (device_ == nullptr) device_ = cuda_backend().make_device({});
    return *device_;
  }
  // What the copy engine of sm_90 reads in; rows that use it fall back to others elsewhere, whose
  // bits may differ: at other addresses the harness compares values, not bits.
  size_t address_unit() const override { return 16; }
  // Tensor cores cut the terms of a sum off at about the last bit of its largest, here |value| · 4,
  // once per 16 of up to 128 products; the scale is 1/4 or less. 8 · 4 / 4 · 2^-23 = 16 · 2^-24.
  double attention_slack(double value) const override { return 16 * std::abs(value); }
  std::span<const RunOptions> other_ways() const override {
    static constexpr RunOptions kWays[]{
        {.way = Way::kTwice}, {.way = Way::kGraph}, {.backwards = true}};
    return kWays;
  }
  void launch(Way way, const Execution& execution, const std::function<void()>& launch,
              const std::function<void()>& restore) override {
    if (way == Way::kGraph) {
      replay(static_cast<cudaStream_t>(execution.stream), launch);
      return;
    }
    launch();
    if (way == Way::kOnce) return;
    restore();
    launch();
  }
  void for_each_target(const std::function<void(const std::string&, bool)>& body) override {
    body("the GPU", true);
  }
  std::span<const Request> requests() const override {
    static const std::array kRequests{at_least(DType::kF32), at_least(DType::kTF32),
                                      at_least(DType::kF16), at_least(DType::kBF16)};
    return kRequests;
  }
  /// None: a case without a row here is a SKIP line.
  void expect_rows(const OpCase&, size_t) const override {}
  bool one_allocation() const override { return !bare_; }
  bool bare() const override { return bare_; }
  bool takes(const OpCase& c) const override { return !c.cpu_only; }

  void make_bare() { bare_ = true; }

 private:
  static Request at_least(DType type) {
    Request request;
    request.compute.type = type;
    request.by = "a test";
    return request;
  }
  static void replay(cudaStream_t stream, const std::function<void()>& launch) {
    cudaGraph_t graph = capture(stream, launch);
    check_nodes(graph);
    cudaGraphExec_t executable = nullptr;
    check_cuda(cudaGraphInstantiate(&executable, graph, 0), "instantiating a graph");
    check_cuda(cudaGraphLaunch(executable, stream), "launching a graph");
    check_cuda(cudaStreamSynchronize(stream), "waiting for a graph");
    cudaGraphExecDestroy(executable);
    cudaGraphDestroy(graph);
  }

  std::unique_ptr<Device> device_;
  bool bare_ = false;
};

Cuda& cuda() {
  static Cuda device;
  return device;
}

}  // namespace

DeviceUnderTest& device_under_test() { return cuda(); }
void make_bare() { cuda().make_bare(); }

}  // namespace vernier::backend::test
