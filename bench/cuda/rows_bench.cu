// Times the norms of packed rows (src/backend/cuda/kernels/norm/norm_packed.h) against a copy of
// the same run, and what they add to a chain of products. Target bench_rows of the preset cuda:
//   bench_rows [OUT.json]
// Many rows: bytes read and written (of EmbedNorm: its output and as many rows of the one large
// table) per second, also as a share of the copy (cudaMemcpyAsync, 512 MiB to 512 MiB). Arrays
// rotate through more than the second-level cache. Chain: 24 products [rows, cols]·[cols, cols],
// each with a norm after it, less the products alone. Medians of CUDA graphs' times; what the rows
// compute is the business of tests/backend. C++17.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "backend/cuda/kernels/linear/gemm_sm90.h"
#include "backend/cuda/kernels/norm/norm_packed.h"
#include "backend/cuda/usable.h"

namespace {
using namespace vernier::backend::cuda;
using vernier::DType;

constexpr DType kF32 = DType::kF32, kF16 = DType::kF16, kBF16 = DType::kBF16;

void require(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  std::printf("FAILED: %s: %s\n", what, cudaGetErrorString(status));
  std::exit(3);
}
cudaStream_t stream() {
  static const cudaStream_t kStream = [] {
    cudaStream_t made = nullptr;
    require(cudaStreamCreate(&made), "a stream");
    return made;
  }();
  return kStream;
}
const char* name_of(DType t) { return t == kF32 ? "f32" : t == kF16 ? "f16" : "bf16"; }
int64_t bytes_of(DType t) { return t == kF32 ? 4 : 2; }

__device__ uint32_t mixed(uint64_t x) {
  x ^= x >> 33;
  x *= 0xff51afd7ed558ccdULL;
  x ^= x >> 33;
  x *= 0xc4ceb9fe1a85ec53ULL;
  return static_cast<uint32_t>(x >> 33);
}
// Numbers in (-2, 2), or ids below `ids`.
__global__ void fill_kernel(void* data, int64_t n, DType type, int64_t ids, uint64_t seed) {
  for (int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; i < n;
       i += int64_t{gridDim.x} * blockDim.x) {
    const uint32_t h = mixed(seed * 0x9e3779b97f4a7c15ULL + i);
    const float x = (h & 0xFFFFFF) * 0x1p-22f - 2;
    if (ids != 0)
      static_cast<int64_t*>(data)[i] = h % ids;
    else if (type == kF32)
      static_cast<float*>(data)[i] = x;
    else if (type == kF16)
      static_cast<__half*>(data)[i] = __float2half(x);
    else
      static_cast<__nv_bfloat16*>(data)[i] = __float2bfloat16(x);
  }
}

// Arrays of one measurement, freed with it.
class Arrays {
 public:
  Arrays() = default;
  ~Arrays() {
    for (void* array : all_) cudaFree(array);
  }
  Arrays(const Arrays&) = delete;
  void* random(DType type, int64_t n, int64_t ids = 0) {
    void* data = nullptr;
    require(cudaMalloc(&data, static_cast<size_t>(n * (ids != 0 ? 8 : bytes_of(type)))), "memory");
    all_.push_back(data);
    fill_kernel<<<1024, 256, 0, stream()>>>(data, n, type, ids, all_.size());
    require(cudaGetLastError(), "filling an array");
    return data;
  }

 private:
  std::vector<void*> all_;
};

// Median microseconds of a replay of what `record` launches, over `launches`.
double graph_us(const std::function<void()>& record, int launches) {
  constexpr int kSamples = 9, kReplays = 3;
  cudaGraph_t graph{};
  cudaGraphExec_t replay{};
  require(cudaStreamBeginCapture(stream(), cudaStreamCaptureModeRelaxed), "capture");
  record();
  require(cudaStreamEndCapture(stream(), &graph), "capture");
  require(cudaGraphInstantiate(&replay, graph, 0), "a graph");
  cudaEvent_t begin{}, end{};
  require(cudaEventCreate(&begin), "an event");
  require(cudaEventCreate(&end), "an event");
  require(cudaGraphLaunch(replay, stream()), "a replay");
  std::vector<float> samples(kSamples);
  for (float& ms : samples) {
    require(cudaEventRecord(begin, stream()), "an event");
    for (int i = 0; i < kReplays; ++i) require(cudaGraphLaunch(replay, stream()), "a replay");
    require(cudaEventRecord(end, stream()), "an event");
    require(cudaEventSynchronize(end), "a replay");
    require(cudaEventElapsedTime(&ms, begin, end), "an event");
  }
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  cudaGraphExecDestroy(replay);
  cudaGraphDestroy(graph);
  std::nth_element(samples.begin(), samples.begin() + kSamples / 2, samples.end());
  return samples[kSamples / 2] * 1000.0 / kReplays / launches;
}

double copy_rate() {
  constexpr int64_t kBytes = int64_t{512} << 20;
  Arrays arrays;
  const void* from = arrays.random(kF32, kBytes / 4);
  void* to = arrays.random(kF32, kBytes / 4);
  cudaEvent_t begin{}, end{};
  require(cudaEventCreate(&begin), "an event");
  require(cudaEventCreate(&end), "an event");
  std::vector<float> samples(9);
  for (float& ms : samples) {
    require(cudaEventRecord(begin, stream()), "an event");
    require(cudaMemcpyAsync(to, from, kBytes, cudaMemcpyDeviceToDevice, stream()), "a copy");
    require(cudaEventRecord(end, stream()), "an event");
    require(cudaEventSynchronize(end), "a copy");
    require(cudaEventElapsedTime(&ms, begin, end), "an event");
  }
  std::nth_element(samples.begin(), samples.begin() + 4, samples.end());
  return 2.0 * kBytes / samples[4] * 1e-9;
}

enum class Op { kLayerNorm, kRMSNorm, kAddLayerNorm, kAddLayerNormSum, kEmbedNorm };
constexpr const char* kNames[] = {"LayerNorm", "RMSNorm", "AddLayerNorm", "AddLayerNorm+sum",
                                  "EmbedNorm"};

PackedEmbedNorm make(Arrays& arrays, Op op, DType type, int64_t rows, int cols) {
  PackedEmbedNorm args;
  PackedNorm& norm = args.norm;
  norm.type = type;
  norm.rows = rows;
  norm.cols = cols;
  norm.epsilon = 1e-5f;
  norm.is_aligned = true;
  norm.has_constants = true;
  norm.is_rms = op == Op::kRMSNorm;
  norm.y = arrays.random(type, rows * cols);
  norm.scale = static_cast<const float*>(arrays.random(kF32, cols));
  if (!norm.is_rms) norm.bias = static_cast<const float*>(arrays.random(kF32, cols));
  if (op != Op::kEmbedNorm) {
    norm.x = arrays.random(type, rows * cols);
    const bool has_sum = op == Op::kAddLayerNormSum;
    if (has_sum || op == Op::kAddLayerNorm) norm.addend = arrays.random(type, rows * cols);
    if (has_sum) norm.sum = arrays.random(type, rows * cols);
    return args;
  }
  // BERT's tables: words, places, types.
  for (int64_t size : {30522, 512, 2}) {
    PackedTable& table = args.tables[args.count++];
    table.data = arrays.random(type, size * cols);
    table.rows = size;
    table.ids = {arrays.random(DType::kI64, rows, size), DType::kI64};
    table.index.axes = 1;
    table.index.sizes[0] = rows;
    table.index.strides[0] = 1;
  }
  return args;
}
void launch(Op op, const PackedEmbedNorm& args) {
  require(op == Op::kEmbedNorm ? launch_packed_embed_norm(args, stream())
                               : launch_packed_norm(args.norm, stream()),
          kNames[static_cast<int>(op)]);
}

std::string json;
void line_of_json(const char* format, const char* op, const char* type, int64_t rows, int cols,
                  double a, double b) {
  char text[200];
  std::snprintf(text, sizeof text, format, op, type, static_cast<long long>(rows), cols, a, b);
  json += (json.empty() ? "  " : ",\n  ") + std::string(text);
}

void time_rows(Op op, DType type, int64_t rows, int cols, double copy) {
  constexpr int kArrays[] = {2, 2, 3, 4, 2};
  const double moved = 1.0 * rows * cols * bytes_of(type) * kArrays[static_cast<int>(op)];
  const int sets = static_cast<int>(std::min(6.0, 1 + 4e8 / moved)), launches = 2 * sets;
  Arrays arrays;
  std::vector<PackedEmbedNorm> args;
  for (int s = 0; s < sets; ++s) args.push_back(make(arrays, op, type, rows, cols));
  const double us = graph_us(
      [&] {
        for (int i = 0; i < launches; ++i) launch(op, args[static_cast<size_t>(i % sets)]);
      },
      launches);
  const double speed = moved / us * 1e-6;
  std::printf("%-17s %-4s %7lldx%-5d %8.1f us %5.2f TB/s %5.2f\n", kNames[static_cast<int>(op)],
              name_of(type), static_cast<long long>(rows), cols, us, speed, speed / copy);
  line_of_json(R"({"op": "%s", "type": "%s", "rows": %lld, "cols": %d, "us": %.2f, "copy": %.3f})",
               kNames[static_cast<int>(op)], name_of(type), rows, cols, us, speed / copy);
}

void time_chain(Op op, int64_t rows, int cols) {
  constexpr int kLength = 24;
  Arrays arrays;
  PackedEmbedNorm args = make(arrays, op, kF16, rows, cols);
  void* product = arrays.random(kF16, rows * cols);
  std::vector<void*> weights;
  for (int i = 0; i < kLength; ++i)
    weights.push_back(arrays.random(kF16, static_cast<int64_t>(cols) * cols));
  if (op != Op::kEmbedNorm) args.norm.x = product;
  int processors = 0;
  require(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, 0), "device");
  const int variant = gemm_sm90_choice(rows, cols, cols, GemmType::kF16, processors);
  const auto chain = [&](bool normed) {
    return graph_us(
        [&] {
          for (int i = 0; i < kLength; ++i) {
            GemmSm90 call{};
            call.x = normed || i % 2 == 1 ? args.norm.y : product;
            call.y = normed || i % 2 == 1 ? product : args.norm.y;
            call.w = weights[static_cast<size_t>(i)];
            call.bias = args.norm.bias;
            call.m = rows;
            call.n = call.k = cols;
            call.operands = call.y_type = call.residual_type = GemmType::kF16;
            call.bias_type = GemmType::kF32;
            call.processors = processors;
            call.overlap = true;
            require(launch_gemm_sm90(call, variant, stream()), "a product");
            if (normed) launch(op, args);
          }
        },
        kLength);
  };
  const double alone = chain(false), pair = chain(true);
  std::printf("%-17s f16  %7lldx%-5d product %6.2f us, norm %+6.2f us\n",
              kNames[static_cast<int>(op)], static_cast<long long>(rows), cols, alone,
              pair - alone);
  line_of_json(
      R"({"op": "%s in a chain", "type": "%s", "rows": %lld, "cols": %d, "product_us": %.2f, "us": %.2f})",
      kNames[static_cast<int>(op)], "f16", rows, cols, alone, pair - alone);
}

}  // namespace

int main(int argc, char** argv) {
  const double copy = copy_rate();
  std::printf("copy %.2f TB/s\n", copy);
  for (Op op : {Op::kLayerNorm, Op::kAddLayerNorm, Op::kAddLayerNormSum, Op::kEmbedNorm})
    for (DType type : {kF16, kBF16, kF32})
      for (int cols : {384, 768, 1024}) {
        if (type == kBF16 && cols != 768) continue;
        time_rows(op, type, 16384, cols, copy);
        time_rows(op, type, (int64_t{1} << 27) / cols, cols, copy);
      }
  time_rows(Op::kRMSNorm, kF16, (int64_t{1} << 27) / 1024, 1024, copy);
  if (hopper_kernels_usable()) {
    require(prepare_gemm_sm90(), "products");
    for (int64_t rows : {1, 128, 512, 2048}) time_chain(Op::kAddLayerNorm, rows, 768);
    time_chain(Op::kAddLayerNorm, 128, 1024);
    for (int64_t rows : {1, 128}) time_chain(Op::kEmbedNorm, rows, 768);
  }
  if (argc < 2) return 0;
  std::FILE* out = std::fopen(argv[1], "w");
  if (out == nullptr) return 2;
  std::fprintf(out, "[\n%s\n]\n", json.c_str());
  return std::fclose(out) == 0 ? 0 : 2;
}
