// What it costs that a row's bits do not depend on the number of rows: products of encoder layers
// by our own kernel (one class of bits), by cuBLASLt's algorithms of one class, and by any of them,
// split-K too, in one run on one device. docs/measuring.md "GPU" says how to read it.
//   build/cuda/bench/bench_invariance [out.json|sums] [f16|bf16] [ROWS…]
// sums: compares f32 sums only. ROWS: these numbers of rows, and what each tile shape takes.
// Each variant is timed in a graph of launches, ours overlapped as in an engine (the library's
// cannot be), the best of each kind again in turns; weights rotate through more than the
// second-level cache. All with a bias and no activation: what the library's epilogue can do too.
// C++17.
#include <cublasLt.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "backend/cuda/kernels/linear/gemm_sm90.h"

namespace {
using namespace vernier::backend::cuda;

const std::vector<int64_t> kUsualRows = {1, 32, 64, 128, 256, 512, 1024, 2048, 4096, 16384};
constexpr int64_t kMostRows = 16384;
constexpr size_t kElemBytes = 2;
constexpr size_t kWeightBytes = 160 << 20;  // of all copies: far more than the cache holds
constexpr size_t kWorkspaceBytes = 64 << 20;
constexpr int kRounds = 7;

struct Product {
  int k, n;
};
struct Model {
  const char* name;
  int layers;
  std::vector<Product> products;  // of one layer: q, k and v in one; context; feed-forward
};
const Model kModels[] = {
    {"base", 12, {{768, 2304}, {768, 768}, {768, 3072}, {3072, 768}}},
    {"large", 24, {{1024, 3072}, {1024, 1024}, {1024, 4096}, {4096, 1024}}},
};

void require(bool good, const std::string& what) {
  if (good) return;
  std::printf("FAILED: %s: %s\n", what.c_str(), cudaGetErrorString(cudaGetLastError()));
  std::exit(3);
}
void require(cudaError_t status, const char* what) { require(status == cudaSuccess, what); }
void require(cublasStatus_t status, const char* what) {
  require(status == CUBLAS_STATUS_SUCCESS, what);
}

struct Buffer {
  void* data = nullptr;
  explicit Buffer(size_t bytes) { require(cudaMalloc(&data, bytes), "cudaMalloc"); }
  ~Buffer() { cudaFree(data); }
  Buffer(const Buffer&) = delete;
};

// Uniform in ±size, by a counter.
__global__ void fill_kernel(void* data, int64_t count, GemmType type, float size, uint32_t salt) {
  for (int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; i < count;
       i += int64_t{gridDim.x} * blockDim.x) {
    uint32_t h = static_cast<uint32_t>(i) * 2654435761u + salt * 40503u + 1;
    h = (h ^ (h >> 16)) * 0x85EBCA6Bu;
    h = (h ^ (h >> 13)) * 0xC2B2AE35u;
    h ^= h >> 16;
    const float value = size * (static_cast<float>(h >> 8) * 0x1p-23f - 1);
    if (type == GemmType::kF32) static_cast<float*>(data)[i] = value;
    if (type == GemmType::kF16) static_cast<__half*>(data)[i] = __float2half(value);
    if (type == GemmType::kBF16) static_cast<__nv_bfloat16*>(data)[i] = __float2bfloat16(value);
  }
}
void fill(void* data, int64_t count, GemmType type, float size, uint32_t salt) {
  fill_kernel<<<1024, 256>>>(data, count, type, size, salt);
  require(cudaGetLastError(), "fill");
}

using Launch = std::function<void(cudaStream_t stream, int turn)>;

// A graph of launches, replayed: microseconds of one launch.
class Timed {
 public:
  Timed(const Launch& launch, int count) : count_(count) {
    require(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "stream");
    require(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), "capture");
    for (int i = 0; i < count; ++i) launch(stream_, i);
    cudaGraph_t graph;
    require(cudaStreamEndCapture(stream_, &graph), "end of capture");
    require(cudaGraphInstantiate(&graph_, graph, 0), "instantiate");
    cudaGraphDestroy(graph);
    cudaEventCreate(&begin_), cudaEventCreate(&end_);
    once();
  }
  ~Timed() {
    cudaEventDestroy(begin_), cudaEventDestroy(end_);
    cudaGraphExecDestroy(graph_), cudaStreamDestroy(stream_);
  }
  Timed(const Timed&) = delete;
  double once() {
    cudaEventRecord(begin_, stream_);
    require(cudaGraphLaunch(graph_, stream_), "graph");
    cudaEventRecord(end_, stream_);
    require(cudaEventSynchronize(end_), "graph run");
    float ms = 0;
    cudaEventElapsedTime(&ms, begin_, end_);
    return ms * 1000.0 / count_;
  }

 private:
  int count_;
  cudaStream_t stream_ = nullptr;
  cudaGraphExec_t graph_ = nullptr;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
};

// A variant of a product.
struct Variant {
  Launch launch;
  std::string name;
  bool ours = false;
  bool same_bits = false;  // of its family: as the first of our tile shapes, or of the library's
};

// y = x·w + bias by cuBLASLt for one number of rows: yᵀ = w·xᵀ, w as [N, K].
struct LibraryProblem {
  cublasLtMatmulDesc_t operation = nullptr;
  cublasLtMatrixLayout_t w = nullptr, x = nullptr, y = nullptr;
  std::vector<cublasLtMatmulHeuristicResult_t> found;

  // `reductions`: 0, or all: may K be split? Without a bias y is f32: the sums themselves.
  LibraryProblem(cublasLtHandle_t handle, Product p, int64_t m, GemmType type, const void* bias,
                 uint32_t reductions) {
    const cudaDataType_t data = type == GemmType::kF16 ? CUDA_R_16F : CUDA_R_16BF;
    require(cublasLtMatmulDescCreate(&operation, CUBLAS_COMPUTE_32F, CUDA_R_32F), "description");
    const cublasOperation_t transposed = CUBLAS_OP_T;
    set(CUBLASLT_MATMUL_DESC_TRANSA, transposed);
    if (bias != nullptr) {
      set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
      set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
    }
    cublasLtMatrixLayoutCreate(&w, data, p.k, p.n, p.k);
    cublasLtMatrixLayoutCreate(&x, data, p.k, m, p.k);
    cublasLtMatrixLayoutCreate(&y, bias != nullptr ? data : CUDA_R_32F, p.n, m, p.n);
    cublasLtMatmulPreference_t preference;
    cublasLtMatmulPreferenceCreate(&preference);
    cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                         &kWorkspaceBytes, sizeof kWorkspaceBytes);
    cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                                         &reductions, sizeof reductions);
    constexpr int kMost = 16;
    found.resize(kMost);
    int count = 0;
    require(cublasLtMatmulAlgoGetHeuristic(handle, operation, w, x, y, y, preference, kMost,
                                           found.data(), &count),
            "heuristic");
    found.resize(count);
    cublasLtMatmulPreferenceDestroy(preference);
  }
  ~LibraryProblem() {
    for (auto layout : {w, x, y}) cublasLtMatrixLayoutDestroy(layout);
    cublasLtMatmulDescDestroy(operation);
  }
  LibraryProblem(const LibraryProblem&) = delete;
  template <class T>
  void set(cublasLtMatmulDescAttributes_t attribute, const T& value) {
    cublasLtMatmulDescSetAttribute(operation, attribute, &value, sizeof value);
  }
};

struct Times {
  double ours = 0, library = 0, free = 0;  // us: our tile shapes, its one class, any of all
  std::string ours_name, free_name;
  size_t library_variants = 0, library_same = 0;
};

class Bench {
 public:
  Bench(GemmType type, std::vector<int64_t> rows, bool lists_tiles)
      : type_(type),
        rows_(std::move(rows)),
        lists_tiles_(lists_tiles),
        weights_(kWeightBytes),
        bias_(4096 * 4),
        x_(kMostRows * 4096 * kElemBytes),
        y_(kMostRows * 4096 * sizeof(float)),
        workspace_(kWorkspaceBytes) {
    require(cublasLtCreate(&handle_), "handle");
    require(cudaDeviceGetAttribute(&processors_, cudaDevAttrMultiProcessorCount, 0), "device");
    fill(x_.data, kMostRows * 4096, type, 1, 1);
    fill(weights_.data, kWeightBytes / kElemBytes, type, 0.05f, 2);
    fill(bias_.data, 4096, type, 1, 3);
  }

  // Of all numbers of rows. The bits of a family are those of its first variant at the most rows.
  std::vector<Times> product(Product p) {
    std::vector<char> ours_bits, library_bits;
    std::vector<Times> all(rows_.size());
    for (size_t i = all.size(); i-- > 0;) all[i] = one(p, rows_[i], ours_bits, library_bits);
    return all;
  }

  // How many of the library's algorithms that do not split K give the f32 sums of our kernel, of
  // all rows, for a few numbers of rows.
  void compare_sums(Product p, size_t& same, size_t& all) {
    for (int64_t m : {1, 128, 1000, 4096}) {
      GemmSm90 call{};
      call.x = x_.data, call.y = y_.data, call.w = weight(p, 0);
      call.m = m, call.n = p.n, call.k = p.k;
      call.operands = call.bias_type = call.residual_type = type_, call.y_type = GemmType::kF32;
      call.processors = processors_;
      require(launch_gemm_sm90(call, gemm_sm90_choice(m, p.n, p.k, type_, processors_), nullptr),
              "ours");
      const auto fetched = [&] {
        std::vector<char> y(static_cast<size_t>(m) * p.n * sizeof(float));
        require(cudaMemcpy(y.data(), y_.data, y.size(), cudaMemcpyDeviceToHost), "sums");
        return y;
      };
      const std::vector<char> ours = fetched();
      const LibraryProblem whole(handle_, p, m, type_, nullptr, 0);
      std::vector<Variant> variants;
      library_variants(p, whole, variants);
      for (const Variant& variant : variants) {
        require(cudaMemset(y_.data, 0xFF, ours.size()), "poison");
        variant.launch(nullptr, 0);
        ++all;
        same += fetched() == ours;
      }
    }
  }

 private:
  const void* weight(Product p, int turn) const {
    const size_t bytes = static_cast<size_t>(p.k) * p.n * kElemBytes;
    return static_cast<const char*>(weights_.data) + turn % (kWeightBytes / bytes) * bytes;
  }

  std::vector<Variant> our_variants(Product p, int64_t m) const {
    std::vector<Variant> variants;
    for (int v = 0; v < gemm_sm90_variants(); ++v) {
      if (!gemm_sm90_has(v, type_)) continue;
      GemmSm90 call{};
      call.x = x_.data, call.y = y_.data, call.bias = bias_.data;
      call.m = m, call.n = p.n, call.k = p.k;
      call.operands = call.bias_type = call.residual_type = call.y_type = type_;
      call.processors = processors_, call.overlap = call.constant_bias = true;
      const auto launch = [=](cudaStream_t stream, int turn) {
        GemmSm90 turned = call;
        turned.w = weight(p, turn);
        require(launch_gemm_sm90(turned, v, stream), gemm_sm90_name(v));
      };
      variants.push_back({launch, gemm_sm90_name(v), true, false});
    }
    return variants;
  }

  void library_variants(Product p, const LibraryProblem& problem,
                        std::vector<Variant>& variants) const {
    for (const auto& found : problem.found) {
      const auto launch = [=, &problem](cudaStream_t stream, int turn) {
        const float one = 1, zero = 0;
        require(cublasLtMatmul(handle_, problem.operation, &one, weight(p, turn), problem.w,
                               x_.data, problem.x, &zero, y_.data, problem.y, y_.data, problem.y,
                               &found.algo, workspace_.data, kWorkspaceBytes, stream),
                "cublasLtMatmul");
      };
      variants.push_back({launch, name_of(found.algo), false, false});
    }
  }
  static std::string name_of(const cublasLtMatmulAlgo_t& algorithm) {
    int32_t split = 1;
    size_t written = 0;
    cublasLtMatmulAlgoConfigGetAttribute(&algorithm, CUBLASLT_ALGO_CONFIG_SPLITK_NUM, &split,
                                         sizeof split, &written);
    return split > 1 ? "cuBLASLt, K split in " + std::to_string(split) : "cuBLASLt";
  }

  // The first row of y after one launch.
  std::vector<char> bits(const Variant& variant, Product p) const {
    variant.launch(nullptr, 0);
    std::vector<char> row(p.n * kElemBytes);
    require(cudaMemcpy(row.data(), y_.data, row.size(), cudaMemcpyDeviceToHost), "row");
    return row;
  }

  Times one(Product p, int64_t m, std::vector<char>& ours_bits, std::vector<char>& library_bits) {
    const LibraryProblem whole(handle_, p, m, type_, bias_.data, 0);
    const LibraryProblem any(handle_, p, m, type_, bias_.data, CUBLASLT_REDUCTION_SCHEME_MASK);
    std::vector<Variant> variants = our_variants(p, m);
    library_variants(p, whole, variants);
    library_variants(p, any, variants);
    const double floor_us = 2 + 2e-6 * static_cast<double>(m) * p.k * p.n / 700;
    const int count = std::clamp(static_cast<int>(600 / floor_us), 4, 120);
    std::vector<Variant*> best(3, nullptr);  // ours, the library's one class, any
    double least[3] = {1e30, 1e30, 1e30};
    Times times;
    for (Variant& variant : variants) {
      const std::vector<char> row = bits(variant, p);
      std::vector<char>& reference = variant.ours ? ours_bits : library_bits;
      if (reference.empty()) reference = row;
      variant.same_bits = row == reference;
      require(variant.same_bits || !variant.ours,
              variant.name + ": other bits than our first tile shape");
      times.library_variants += !variant.ours,
          times.library_same += !variant.ours && variant.same_bits;
      Timed timed(variant.launch, count);
      const double us = std::min(timed.once(), timed.once());
      if (lists_tiles_ && variant.ours) std::printf(" %s:%.2f", variant.name.c_str(), us);
      const auto take = [&](int kind) {
        if (us < least[kind]) least[kind] = us, best[kind] = &variant;
      };
      if (variant.ours) take(0);
      if (!variant.ours && variant.same_bits) take(1);
      take(2);
    }
    in_turns(best, count, times);
    if (lists_tiles_)
      std::printf(" | %lld %d->%d ours %.2f (%s), library %.2f, free %.2f\n",
                  static_cast<long long>(m), p.k, p.n, times.ours, times.ours_name.c_str(),
                  times.library, times.free);
    return times;
  }

  void in_turns(const std::vector<Variant*>& best, int count, Times& times) {
    std::vector<double> rounds[3];
    std::vector<std::unique_ptr<Timed>> timed;
    for (const Variant* variant : best)
      timed.push_back(variant ? std::make_unique<Timed>(variant->launch, count) : nullptr);
    for (int round = 0; round < kRounds; ++round) {
      for (int i = 0; i < 3; ++i) {
        if (best[i]) rounds[i].push_back(timed[i]->once());
      }
    }
    const auto median = [](std::vector<double>& v) {
      if (v.empty()) return 1e30;
      std::sort(v.begin(), v.end());
      return v[v.size() / 2];
    };
    times.ours = median(rounds[0]);
    times.library = median(rounds[1]);
    // The same variant in two places is no difference.
    times.free = best[2] == best[0]   ? times.ours
                 : best[2] == best[1] ? times.library
                                      : median(rounds[2]);
    times.free = std::min({times.free, times.ours, times.library});
    times.ours_name = best[0]->name;
    times.free_name = times.free == times.ours ? best[0]->name : best[2]->name;
  }

  GemmType type_;
  std::vector<int64_t> rows_;
  bool lists_tiles_;
  int processors_ = 0;
  cublasLtHandle_t handle_ = nullptr;
  Buffer weights_, bias_, x_, y_, workspace_;
};

void print_product(FILE* out, const Model& model, Product p, const std::vector<int64_t>& rows,
                   const std::vector<Times>& all, const char*& comma) {
  for (size_t i = 0; out && i < all.size(); ++i) {
    const Times& t = all[i];
    std::fprintf(out,
                 "%s{\"model\":\"%s\",\"m\":%lld,\"k\":%d,\"n\":%d,\"ours_us\":%.3f,"
                 "\"library_one_class_us\":%.3f,\"free_us\":%.3f,\"tile\":\"%s\",\"free\":\"%s\","
                 "\"library_algorithms\":%zu,\"of_one_class\":%zu}",
                 comma, model.name, static_cast<long long>(rows[i]), p.k, p.n, t.ours, t.library,
                 t.free, t.ours_name.c_str(), t.free_name.c_str(), t.library_variants,
                 t.library_same);
    comma = ",\n";
  }
}

// Products of all layers at each number of rows; a line of each product that another variant does
// faster.
void print_model(const Model& model, const std::vector<int64_t>& rows,
                 const std::vector<std::vector<Times>>& products) {
  std::printf(
      "%-6s rows      ours   library    free | ours/free  library/free  (us, products of "
      "%d layers)\n",
      model.name, model.layers);
  for (size_t i = 0; i < rows.size(); ++i) {
    double ours = 0, library = 0, free = 0;
    std::string faster;
    for (size_t p = 0; p < products.size(); ++p) {
      const Times& t = products[p][i];
      ours += t.ours, library += t.library, free += t.free;
      if (t.free >= t.ours) continue;
      char text[96];
      std::snprintf(text, sizeof text, "  %d->%d %+.0f%%", model.products[p].k, model.products[p].n,
                    100 * (t.ours / t.free - 1));
      faster += text;
    }
    std::printf("%10lld %9.1f %9.1f %9.1f | %+8.1f %% %+11.1f %% %s\n",
                static_cast<long long>(rows[i]), ours * model.layers, library * model.layers,
                free * model.layers, 100 * (ours / free - 1), 100 * (library / free - 1),
                faster.c_str());
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  require(prepare_gemm_sm90(), "preparing the kernels");
  const bool bf16 = argc > 2 && std::string(argv[2]) == "bf16";
  const bool only_sums = argc > 1 && std::string(argv[1]) == "sums";
  FILE* out = argc > 1 && !only_sums ? std::fopen(argv[1], "w") : nullptr;
  if (out) std::fprintf(out, "[\n");
  std::vector<int64_t> rows;
  for (int i = 3; i < argc; ++i) rows.push_back(std::clamp(std::atoll(argv[i]), 1ll, 16384ll));
  const bool lists_tiles = !rows.empty();
  if (rows.empty()) rows = kUsualRows;
  Bench bench(bf16 ? GemmType::kBF16 : GemmType::kF16, rows, lists_tiles);
  const char* comma = "";
  size_t variants = 0, same = 0;
  size_t equal = 0, compared = 0;
  for (const Model& model : kModels) {
    for (const Product& p : model.products) bench.compare_sums(p, equal, compared);
  }
  std::printf(
      "f32 sums of all rows: %zu of cuBLASLt's %zu (algorithm, rows) without split K give ours\n",
      equal, compared);
  if (only_sums) return 0;
  for (const Model& model : kModels) {
    std::vector<std::vector<Times>> products;
    for (const Product& p : model.products) {
      products.push_back(bench.product(p));
      print_product(out, model, p, rows, products.back(), comma);
      for (const Times& t : products.back()) variants += t.library_variants, same += t.library_same;
    }
    print_model(model, rows, products);
  }
  std::printf(
      "all our tile shapes gave a row the same bits at every number of rows; of cuBLASLt's "
      "%zu (algorithm, rows) %zu did\n",
      variants, same);
  if (out) std::fprintf(out, "\n]\n"), std::fclose(out);
  return 0;
}
