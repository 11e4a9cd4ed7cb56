// What attention costs inside a layer: a CUDA graph of 24 times (product of q, k and v, attention,
// product of the context), launches overlapped as in an engine, against the same graph without
// attention. Weights are distinct per layer. C++17. Target bench_attention_chain of the preset
// cuda.
#include <cuda_fp16.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <vector>

#include "backend/cuda/kernels/attention/attention.h"
#include "backend/cuda/kernels/linear/gemm_sm90.h"

namespace cuda = vernier::backend::cuda;

namespace {

constexpr int kLayers = 24;

void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  std::printf("FAILED %s: %s\n", what, cudaGetErrorString(status));
  std::exit(3);
}

__global__ void fill_kernel(__half* data, int64_t n, float scale) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += step) {
    const auto x = static_cast<uint32_t>(i) * 2654435761u;
    data[i] = __float2half_rn((static_cast<float>(x >> 8) * 0x1p-24f - 0.5f) * scale);
  }
}
__half* make(int64_t n, float scale) {
  __half* data = nullptr;
  check(cudaMalloc(&data, static_cast<size_t>(n) * sizeof(__half)), "memory");
  fill_kernel<<<512, 256>>>(data, n, scale);
  check(cudaGetLastError(), "fill");
  return data;
}

// Median time of one layer in microseconds, of 25 replays of the graph that `layer` fills.
double median_us(const std::function<void(int, cudaStream_t)>& layer) {
  constexpr int kRepeats = 25;
  cudaStream_t stream;
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  check(cudaStreamCreate(&stream), "stream");
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), "capture");
  for (int i = 0; i < kLayers; ++i) layer(i, stream);
  check(cudaStreamEndCapture(stream, &graph), "capture");
  check(cudaGraphInstantiate(&exec, graph, 0), "graph");
  cudaEvent_t begin, end;
  check(cudaEventCreate(&begin), "event");
  check(cudaEventCreate(&end), "event");
  std::vector<double> times;
  for (int i = 0; i < kRepeats + 3; ++i) {
    check(cudaEventRecord(begin, stream), "event");
    check(cudaGraphLaunch(exec, stream), "graph");
    check(cudaEventRecord(end, stream), "event");
    check(cudaEventSynchronize(end), "event");
    float ms = 0;
    check(cudaEventElapsedTime(&ms, begin, end), "event");
    if (i >= 3) times.push_back(ms * 1e3 / kLayers);
  }
  std::sort(times.begin(), times.end());
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  cudaGraphExecDestroy(exec);
  cudaGraphDestroy(graph);
  cudaStreamDestroy(stream);
  return times[times.size() / 2];
}

struct Size {
  int64_t batch, length;
  int heads, dim;
};

class Chain {
 public:
  explicit Chain(const Size& s) : size_(s), width_(s.heads * s.dim), rows_(s.batch * s.length) {
    x_ = make(rows_ * width_, 1);
    qkv_ = make(rows_ * 3 * width_, 1);
    context_ = make(rows_ * width_, 1);
    for (int i = 0; i < kLayers; ++i) {
      in_weights_.push_back(make(int64_t{3} * width_ * width_, 0.05f));
      out_weights_.push_back(make(int64_t{width_} * width_, 0.05f));
    }
    check(cudaMalloc(&keep_, static_cast<size_t>(rows_)), "memory");
    check(cudaMemset(keep_, 1, static_cast<size_t>(rows_)), "memory");
    check(cudaDeviceGetAttribute(&processors_, cudaDevAttrMultiProcessorCount, 0), "device");
  }
  ~Chain() {
    for (void* p : {static_cast<void*>(x_), static_cast<void*>(qkv_), static_cast<void*>(context_),
                    static_cast<void*>(keep_)})
      cudaFree(p);
    for (__half* w : in_weights_) cudaFree(w);
    for (__half* w : out_weights_) cudaFree(w);
  }
  Chain(const Chain&) = delete;
  Chain& operator=(const Chain&) = delete;

  void product(const __half* x, const __half* w, __half* y, int n, cudaStream_t stream) const {
    cuda::GemmSm90 call{};
    call.x = x, call.w = w, call.y = y;
    call.m = rows_, call.n = n, call.k = width_;
    call.operands = call.bias_type = call.residual_type = call.y_type = cuda::GemmType::kF16;
    call.processors = processors_, call.overlap = true;
    const int choice = cuda::gemm_sm90_choice(rows_, n, width_, cuda::GemmType::kF16, processors_);
    check(cuda::launch_gemm_sm90(call, choice, stream), "product");
  }
  void attention(bool keep, cudaStream_t stream) const {
    const int64_t row = int64_t{3} * width_;
    const auto part = [&](int i) {
      return cuda::AttentionRows{qkv_ + i * width_, size_.length * row, row, size_.dim,
                                 cuda::AttentionType::kF16};
    };
    cuda::AttentionLaunch args{};
    args.q = part(0), args.k = part(1), args.v = part(2);
    args.out = {context_, size_.length * width_, width_, size_.dim, cuda::AttentionType::kF16};
    args.batch = size_.batch, args.queries = args.keys = size_.length;
    args.heads = args.kv_heads = size_.heads;
    args.head_dim = args.value_dim = size_.dim;
    args.scale = 0.125f, args.fill = -__builtin_huge_valf();
    if (keep) args.keep = {keep_, size_.length, 0, 0, 1, cuda::AttentionType::kF32};
    check(cuda::launch_attention_sm90(args, stream), "attention");
  }
  // with: 0 products alone, 1 attention, 2 attention under a mask of ones.
  double time(int with) const {
    return median_us([&](int i, cudaStream_t stream) {
      const auto at = static_cast<size_t>(i);
      product(x_, in_weights_[at], qkv_, 3 * width_, stream);
      if (with > 0) attention(with == 2, stream);
      product(context_, out_weights_[at], x_, width_, stream);
    });
  }

 private:
  Size size_;
  int width_, processors_ = 0;
  int64_t rows_;
  __half *x_ = nullptr, *qkv_ = nullptr, *context_ = nullptr;
  uint8_t* keep_ = nullptr;
  std::vector<__half*> in_weights_, out_weights_;
};

}  // namespace

int main() {
  check(cuda::prepare_gemm_sm90(), "preparing products");
  const Size sizes[] = {{1, 128, 12, 64},   {1, 128, 16, 64},   {1, 128, 12, 32}, {8, 128, 12, 64},
                        {128, 128, 12, 64}, {128, 128, 12, 32}, {32, 512, 16, 64}};
  std::printf("%-16s %10s %10s %10s   us per layer; attention adds\n", "", "products", "none",
              "keep");
  for (const Size& s : sizes) {
    const Chain chain(s);
    chain.time(0);  // warms the chip
    const double alone = chain.time(0), plain = chain.time(1), kept = chain.time(2);
    char name[64];
    std::snprintf(name, sizeof(name), "%lldx%dx%lldx%d", static_cast<long long>(s.batch), s.heads,
                  static_cast<long long>(s.length), s.dim);
    std::printf("%-16s %10.2f %10.2f %10.2f   %6.2f %6.2f\n", name, alone, plain, kept,
                plain - alone, kept - alone);
  }
  return 0;
}
