// What the benchmarks of matrix products share: arrays of random numbers made on the device, times
// of graphs of launches, options, and cuBLASLt on the same arrays. C++17.
#pragma once
#include <cublasLt.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "backend/cuda/kernels/linear/gemm_sm90.h"

namespace {
using namespace vernier::backend::cuda;

void require(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  std::printf("FAILED: %s: %s\n", what, cudaGetErrorString(status));
  std::exit(3);
}
void require(cublasStatus_t status, const char* what) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  std::printf("FAILED: %s: cuBLASLt %d\n", what, static_cast<int>(status));
  std::exit(3);
}
uint64_t seed() {
  static const uint64_t kSeed = std::random_device{}();
  return kSeed;
}
int processors() {
  int count = 0;
  require(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, 0), "device");
  return count;
}

size_t bytes_of(GemmType t) { return t == GemmType::kF32 ? 4 : 2; }
const char* name_of(GemmType t) {
  return t == GemmType::kF32 ? "f32" : t == GemmType::kF16 ? "f16" : "bf16";
}
// What products of f32 are taken in.
enum class F32Products { kF32, kTF32 };

struct Buffer {
  explicit Buffer(size_t bytes) : bytes(bytes) { require(cudaMalloc(&data_, bytes), "cudaMalloc"); }
  ~Buffer() { cudaFree(data_); }
  Buffer(const Buffer&) = delete;
  void* data() const { return data_; }
  const size_t bytes;

 private:
  void* data_ = nullptr;
};

__device__ uint64_t mixed(uint64_t x) {
  x += 0x9E3779B97F4A7C15ull;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}
// Normal numbers of this deviation.
__global__ void fill_kernel(void* data, int64_t count, GemmType type, float deviation,
                            uint64_t seed) {
  for (int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; i < count;
       i += int64_t{gridDim.x} * blockDim.x) {
    const uint64_t h = mixed(seed ^ mixed(i));
    const float u = ((h >> 40) + 1) * 0x1p-24f, v = (h & 0xFFFFFF) * 0x1p-24f;
    const float value = deviation * sqrtf(-2 * logf(u)) * cosf(6.2831853f * v);
    if (type == GemmType::kF32) static_cast<float*>(data)[i] = value;
    if (type == GemmType::kF16) static_cast<__half*>(data)[i] = __float2half(value);
    if (type == GemmType::kBF16) static_cast<__nv_bfloat16*>(data)[i] = __float2bfloat16(value);
  }
}
void fill(const Buffer& buffer, int64_t count, GemmType type, float deviation, uint64_t salt) {
  fill_kernel<<<1024, 256>>>(buffer.data(), count, type, deviation, seed() + salt * 7919);
  require(cudaGetLastError(), "fill");
}

// Milliseconds of rest before each timed graph: the option --rest.
inline int rest_ms = 0;

// Takes `name` and, where it has one, its value out of the arguments: the value, or the name
// itself; null where it is not given. Exits with 2 where the value is missing.
inline const char* take_option(int& argc, char** argv, const char* name, bool has_value) {
  for (int i = 1; i < argc; ++i) {
    if (std::string(argv[i]) != name) continue;
    const int taken = has_value ? 2 : 1;
    if (i + taken > argc) {
      std::printf("%s: expected a value\n", name);
      std::exit(2);
    }
    const char* result = argv[i + taken - 1];
    std::copy(argv + i + taken, argv + argc, argv + i);
    argc -= taken;
    return result;
  }
  return nullptr;
}
inline void take_rest(int& argc, char** argv) {
  if (const char* rest = take_option(argc, argv, "--rest", true)) rest_ms = std::atoi(rest);
}

// A number of rows among the arguments. Exits with 2 where it is none.
inline int64_t rows_of(const std::string& argument) {
  char* end = nullptr;
  const long long rows = std::strtoll(argument.c_str(), &end, 10);
  if (*end == 0 && rows > 0) return rows;
  std::printf("unexpected argument '%s'; expected a number of rows\n", argument.c_str());
  std::exit(2);
}

// Median microseconds of one launch, out of graphs of `count` launches.
template <class Launch>
double time_us(const Launch& launch, int count, int rounds) {
  cudaStream_t stream;
  require(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  require(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capture");
  for (int i = 0; i < count; ++i) launch(stream, i);
  require(cudaStreamEndCapture(stream, &graph), "end of capture");
  require(cudaGraphInstantiate(&exec, graph, 0), "instantiate");
  cudaEvent_t begin, end;
  cudaEventCreate(&begin), cudaEventCreate(&end);
  std::vector<double> times;
  for (int r = -1; r < rounds; ++r) {
    if (rest_ms > 0) usleep(static_cast<useconds_t>(1000 * rest_ms));
    cudaEventRecord(begin, stream);
    require(cudaGraphLaunch(exec, stream), "graph");
    cudaEventRecord(end, stream);
    require(cudaEventSynchronize(end), "graph run");
    float ms = 0;
    cudaEventElapsedTime(&ms, begin, end);
    if (r >= 0) times.push_back(ms * 1000.0 / count);
  }
  std::sort(times.begin(), times.end());
  cudaEventDestroy(begin), cudaEventDestroy(end);
  cudaGraphExecDestroy(exec), cudaGraphDestroy(graph), cudaStreamDestroy(stream);
  return times[times.size() / 2];
}

struct Sizes {
  int64_t m;
  int n, k;
};

// cuBLASLt on the same arrays, f32 in TF32 where that is asked for: yᵀ = w·xᵀ (+ bias), w as [N, K]
// or as [K, N].
struct Library {
  cublasLtHandle_t handle;
  void* workspace;
  cublasComputeType_t compute;
  static constexpr size_t kWorkspace = 32 << 20;
  explicit Library(F32Products products)
      : compute(products == F32Products::kTF32 ? CUBLAS_COMPUTE_32F_FAST_TF32
                                               : CUBLAS_COMPUTE_32F) {
    require(cublasLtCreate(&handle), "handle");
    require(cudaMalloc(&workspace, kWorkspace), "workspace");
  }
  struct Plan {
    cublasLtMatmulDesc_t operation;
    cublasLtMatrixLayout_t w, x, y;
    std::vector<cublasLtMatmulHeuristicResult_t> found;
  };
  Plan plan(const Sizes& c, GemmType operands, const void* bias, bool trans_w) const {
    Plan plan;
    const cudaDataType_t type = operands == GemmType::kF32   ? CUDA_R_32F
                                : operands == GemmType::kF16 ? CUDA_R_16F
                                                             : CUDA_R_16BF;
    require(cublasLtMatmulDescCreate(&plan.operation, compute, CUDA_R_32F), "desc");
    const cublasOperation_t t = CUBLAS_OP_T;
    if (trans_w)
      cublasLtMatmulDescSetAttribute(plan.operation, CUBLASLT_MATMUL_DESC_TRANSA, &t, sizeof(t));
    const auto epilogue = CUBLASLT_EPILOGUE_BIAS;
    cublasLtMatmulDescSetAttribute(plan.operation, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue,
                                   sizeof(epilogue));
    cublasLtMatmulDescSetAttribute(plan.operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias,
                                   sizeof(bias));
    const uint64_t wr = trans_w ? c.k : c.n, wc = trans_w ? c.n : c.k;
    cublasLtMatrixLayoutCreate(&plan.w, type, wr, wc, static_cast<int64_t>(wr));
    cublasLtMatrixLayoutCreate(&plan.x, type, c.k, c.m, c.k);
    cublasLtMatrixLayoutCreate(&plan.y, type, c.n, c.m, c.n);
    cublasLtMatmulPreference_t preference;
    cublasLtMatmulPreferenceCreate(&preference);
    const size_t limit = kWorkspace;
    cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                         &limit, sizeof(limit));
    plan.found.resize(16);
    int count = 0;
    require(cublasLtMatmulAlgoGetHeuristic(handle, plan.operation, plan.w, plan.x, plan.y, plan.y,
                                           preference, 8, plan.found.data(), &count),
            "heuristic");
    plan.found.resize(count);
    cublasLtMatmulPreferenceDestroy(preference);
    return plan;
  }
  void run(const Plan& plan, size_t algorithm, const void* w, const void* x, void* y,
           cudaStream_t stream) const {
    const float one = 1, zero = 0;
    require(cublasLtMatmul(handle, plan.operation, &one, w, plan.w, x, plan.x, &zero, y, plan.y, y,
                           plan.y, &plan.found[algorithm].algo, workspace, kWorkspace, stream),
            "cublasLtMatmul");
  }
  // The fastest of its candidates; run(plan, algorithm) as a launch.
  struct Best {
    Plan plan;
    size_t algorithm = 0;
    bool splits_k() const {
      int32_t split = 1;
      size_t written = 0;
      cublasLtMatmulAlgoConfigGetAttribute(&plan.found[algorithm].algo,
                                           CUBLASLT_ALGO_CONFIG_SPLITK_NUM, &split, sizeof(split),
                                           &written);
      return split > 1;
    }
  };
  template <class Run>
  Best best(const Sizes& sizes, GemmType operands, const void* bias, int count,
            const Run& run) const {
    Best best;
    double least = 1e30;
    for (bool trans : {true, false}) {
      const Plan plan = this->plan(sizes, operands, bias, trans);
      for (size_t a = 0; a < plan.found.size(); ++a) {
        const double us = time_us(run(plan, a), count, 1);
        if (us < least) least = us, best = {plan, a};
      }
    }
    return best;
  }
};

}  // namespace
