// Products of doubles in host memory through cuBLASLt, on the tensor cores of FP64 where the chip
// has them. Contract: core/fp64_device.h.
//
// Rows go in chunks of kRows, whatever their number, so that every row meets the same algorithm,
// which does not split k. Each thread that multiplies has a lane: two chunks on their way at a
// time, so that while one is copied and multiplied the host copies the other to and from
// page-locked memory. Matrices b that stay are copied to the GPU once.
#include "backend/cuda/cublaslt/fp64_products.h"

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "backend/cuda/check.h"
#include "backend/cuda/handle.h"
#include "core/threads.h"

namespace vernier::backend::cuda {
namespace {

constexpr int64_t kRows = 512;
constexpr double kLeast = 5e7;  // multiplications: about 2 ms of a CPU core
constexpr size_t kLanes = 12;
constexpr size_t kWorkspaceBytes = size_t{32} << 20;
constexpr int kCandidates = 16;

using Layout = Handle<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>;
using Operation = Handle<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy>;
using Preference = Handle<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy>;

// Memory that only grows: of the device, or page-locked of the host.
template <auto Allocate, auto Free>
class Memory {
 public:
  Memory() = default;
  ~Memory() { Free(data_); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  double* of(int64_t doubles) {
    const size_t bytes = static_cast<size_t>(doubles) * sizeof(double);
    if (bytes > bytes_) {
      Free(data_);
      data_ = nullptr, bytes_ = 0;
      void* made = nullptr;
      check_cuda(Allocate(&made, bytes), "allocating " + std::to_string(bytes) + " bytes");
      data_ = static_cast<double*>(made), bytes_ = bytes;
    }
    return data_;
  }

 private:
  double* data_ = nullptr;
  size_t bytes_ = 0;
};
cudaError_t allocate(void** data, size_t bytes) { return cudaMalloc(data, bytes); }
cudaError_t allocate_locked(void** data, size_t bytes) { return cudaMallocHost(data, bytes); }
using DeviceMemory = Memory<&allocate, &cudaFree>;
using LockedMemory = Memory<&allocate_locked, &cudaFreeHost>;

void copy(const double* from, double* to, int64_t count) {
  constexpr int64_t kGrain = 1 << 16;
  in_parallel(count, kGrain,
              [=](int64_t begin, int64_t end) { std::copy(from + begin, from + end, to + begin); });
}
void add(const double* from, double* to, int64_t count) {
  constexpr int64_t kGrain = 1 << 16;
  in_parallel(count, kGrain, [=](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) to[i] += from[i];
  });
}

// y[kRows, n] = x[kRows, k] · w[k, n], all on the device; as column-major transposes yᵀ = wᵀ·xᵀ.
struct Product {
  int64_t n = 0, k = 0;
  Operation operation;
  Layout w, x, y;
  cublasLtMatmulAlgo_t algorithm{};
};

void make_layout(Layout& layout, int64_t rows, int64_t cols) {
  check_cublas(cublasLtMatrixLayoutCreate(&layout.value, CUDA_R_64F, static_cast<uint64_t>(rows),
                                          static_cast<uint64_t>(cols), rows),
               "describing a matrix of doubles");
}
bool splits_k(const cublasLtMatmulAlgo_t& algorithm) {
  int32_t parts = 0;
  uint32_t reduction = 0;
  size_t written = 0;
  cublasLtMatmulAlgoConfigGetAttribute(&algorithm, CUBLASLT_ALGO_CONFIG_SPLITK_NUM, &parts,
                                       sizeof(parts), &written);
  cublasLtMatmulAlgoConfigGetAttribute(&algorithm, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME,
                                       &reduction, sizeof(reduction), &written);
  return parts > 1 || reduction != CUBLASLT_REDUCTION_SCHEME_NONE;
}
std::unique_ptr<Product> make_product(cublasLtHandle_t handle, int64_t n, int64_t k) {
  auto product = std::make_unique<Product>();
  product->n = n, product->k = k;
  check_cublas(cublasLtMatmulDescCreate(&product->operation.value, CUBLAS_COMPUTE_64F, CUDA_R_64F),
               "describing a product of doubles");
  make_layout(product->w, n, k);
  make_layout(product->x, k, kRows);
  make_layout(product->y, n, kRows);
  Preference preference;
  check_cublas(cublasLtMatmulPreferenceCreate(&preference.value), "choosing an algorithm");
  check_cublas(cublasLtMatmulPreferenceSetAttribute(preference.value,
                                                    CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                                    &kWorkspaceBytes, sizeof(kWorkspaceBytes)),
               "choosing an algorithm");
  std::array<cublasLtMatmulHeuristicResult_t, kCandidates> found{};
  int count = 0;
  check_cublas(cublasLtMatmulAlgoGetHeuristic(handle, product->operation.value, product->w.value,
                                              product->x.value, product->y.value, product->y.value,
                                              preference.value, kCandidates, found.data(), &count),
               "choosing an algorithm for doubles");
  for (int i = 0; i < count; ++i) {
    const auto& candidate = found[i];
    if (candidate.state != CUBLAS_STATUS_SUCCESS || splits_k(candidate.algo)) continue;
    product->algorithm = candidate.algo;
    return product;
  }
  throw Error(ErrorCode::kMachine, "cuBLASLt has no algorithm for a product of doubles, K " +
                                       std::to_string(k) + ", N " + std::to_string(n) +
                                       "; evaluate on the CPU (--evaluate-on cpu)");
}

// A chunk on its way.
struct Slot {
  Handle<cudaStream_t, &cudaStreamDestroy> stream;
  DeviceMemory x, y, workspace;
  LockedMemory x_host, y_host, w_host;
  double* result = nullptr;  // where what is on its way belongs; null: nothing is
  int64_t rows = 0;
};

void make_stream(Handle<cudaStream_t, &cudaStreamDestroy>& stream) {
  check_cuda(cudaStreamCreateWithFlags(&stream.value, cudaStreamNonBlocking), "making a stream");
}

void copy_to_gpu(const double* from, double* to, int64_t count, cudaStream_t stream) {
  check_cuda(cudaMemcpyAsync(to, from, static_cast<size_t>(count) * sizeof(double),
                             cudaMemcpyHostToDevice, stream),
             "copying doubles to the GPU");
}

// What one thread multiplies with.
struct Lane {
  Lane() {
    for (Slot& slot : slots) make_stream(slot.stream);
  }
  // A copy of b, by way of page-locked memory: threads that copy from other memory wait for each
  // other.
  const double* copy_of(const double* b, int64_t elems) {
    constexpr int64_t kPart = int64_t{1} << 19;  // 4 MB
    double* there = w.of(elems);
    for (int64_t at = 0; at < elems; at += kPart) {
      Slot& slot = slots[at / kPart % 2];
      const int64_t count = std::min(kPart, elems - at);
      double* locked = slot.w_host.of(kPart);
      check_cuda(cudaStreamSynchronize(slot.stream.value), "copying doubles to the GPU");
      copy(b + at, locked, count);
      copy_to_gpu(locked, there + at, count, slot.stream.value);
    }
    for (Slot& slot : slots)
      check_cuda(cudaStreamSynchronize(slot.stream.value), "copying doubles to the GPU");
    return there;
  }
  DeviceMemory w;
  std::array<Slot, 2> slots;
};

// Lanes for threads, which wait while all are taken.
class Lanes {
 public:
  // A lane until the end of a scope. Nothing is under way in it then.
  class Taken {
   public:
    explicit Taken(Lanes& lanes) : lanes_(lanes), lane_(lanes.take()) {}
    ~Taken() {
      for (Slot& slot : lane_->slots) {
        if (std::exchange(slot.result, nullptr)) cudaStreamSynchronize(slot.stream.value);
      }
      lanes_.give_back(std::move(lane_));
    }
    Taken(const Taken&) = delete;
    Taken& operator=(const Taken&) = delete;
    Lane& lane() { return *lane_; }

   private:
    Lanes& lanes_;
    std::unique_ptr<Lane> lane_;
  };

 private:
  std::unique_ptr<Lane> take() {
    std::unique_lock lock(mutex_);
    given_back_.wait(lock, [&] { return !free_.empty() || made_ < kLanes; });
    if (free_.empty()) {
      auto lane = std::make_unique<Lane>();
      ++made_;
      return lane;
    }
    std::unique_ptr<Lane> lane = std::move(free_.back());
    free_.pop_back();
    return lane;
  }
  void give_back(std::unique_ptr<Lane> lane) {
    {
      const std::lock_guard lock(mutex_);
      free_.push_back(std::move(lane));
    }
    given_back_.notify_one();
  }

  std::mutex mutex_;
  std::condition_variable given_back_;
  size_t made_ = 0;
  std::vector<std::unique_ptr<Lane>> free_;
};

}  // namespace

class HostProducts::Parts {
 public:
  explicit Parts(fp64::KeptArrays& kept) : kept_(kept) {
    check_cublas(cublasLtCreate(&handle_.value), "opening cuBLASLt");
  }
  void multiply_add(int64_t m, int64_t n, int64_t k, const double* a, const double* b, double* c) {
    const Product& product = product_of(n, k);
    Lanes::Taken taken(lanes_);
    auto& slots = taken.lane().slots;
    const std::shared_ptr<const double> kept = kept_.find(b, k * n);
    const double* w = kept ? kept.get() : taken.lane().copy_of(b, k * n);
    size_t turn = 0;
    for (int64_t row = 0; row < m; row += kRows, turn = 1 - turn) {
      Slot& slot = slots[turn];
      take_result(slot, n);
      slot.result = c + row * n;
      begin(product, slot, w, a + row * k, std::min(kRows, m - row));
    }
    for (size_t i = 0; i < slots.size(); ++i, turn = 1 - turn) take_result(slots[turn], n);
  }

 private:
  const Product& product_of(int64_t n, int64_t k) {
    const std::lock_guard lock(mutex_);
    std::unique_ptr<Product>& product = products_[{n, k}];
    if (!product) product = make_product(handle_.value, n, k);
    return *product;
  }
  void begin(const Product& product, Slot& slot, const double* w, const double* a, int64_t rows) {
    const int64_t n = product.n, k = product.k;
    double *x = slot.x.of(kRows * k), *y = slot.y.of(kRows * n);
    double *x_host = slot.x_host.of(kRows * k), *y_host = slot.y_host.of(kRows * n);
    double* workspace = slot.workspace.of(static_cast<int64_t>(kWorkspaceBytes / sizeof(double)));
    const cudaStream_t stream = slot.stream.value;
    slot.rows = rows;
    copy(a, x_host, rows * k);
    copy_to_gpu(x_host, x, rows * k, stream);
    // Rows of the chunk that do not exist hold anything: no other row depends on them.
    const double one = 1, zero = 0;
    check_cublas(cublasLtMatmul(handle_.value, product.operation.value, &one, w, product.w.value, x,
                                product.x.value, &zero, y, product.y.value, y, product.y.value,
                                &product.algorithm, workspace, kWorkspaceBytes, stream),
                 "multiplying doubles");
    check_cuda(cudaMemcpyAsync(y_host, y, static_cast<size_t>(rows * n) * sizeof(double),
                               cudaMemcpyDeviceToHost, stream),
               "copying a product of doubles from the GPU");
  }
  static void take_result(Slot& slot, int64_t n) {
    if (slot.result == nullptr) return;
    check_cuda(cudaStreamSynchronize(slot.stream.value), "multiplying doubles");
    add(slot.y_host.of(slot.rows * n), std::exchange(slot.result, nullptr), slot.rows * n);
  }

  Handle<cublasLtHandle_t, &cublasLtDestroy> handle_;
  fp64::KeptArrays& kept_;
  Lanes lanes_;
  std::mutex mutex_;
  std::map<std::pair<int64_t, int64_t>, std::unique_ptr<Product>> products_;
};

HostProducts::HostProducts(fp64::KeptArrays& kept) : parts_(std::make_unique<Parts>(kept)) {}
HostProducts::~HostProducts() = default;
double HostProducts::least() const { return kLeast; }
void HostProducts::multiply_add(int64_t m, int64_t n, int64_t k, const double* a, const double* b,
                                double* c) {
  parts_->multiply_add(m, n, k, a, b, c);
}

}  // namespace vernier::backend::cuda
