// Products of matrices of doubles that lie on the GPU: see gemm.h.
#include "backend/cuda/fp64/gemm.h"

#include <string>

#include "backend/cuda/check.h"
#include "backend/cuda/fp64/array.h"

namespace vernier::backend::cuda::fp64 {
namespace {

using Layout = Handle<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>;
using Operation = Handle<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy>;
using Preference = Handle<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy>;

// A stored matrix [rows, cols] is its transpose in cuBLAS's order.
struct Stored {
  int64_t rows, cols, ld, stride;
};
void describe(Layout& layout, const Stored& stored, int64_t batch) {
  const char* what = "describing a matrix of doubles";
  check_cublas(
      cublasLtMatrixLayoutCreate(&layout.value, CUDA_R_64F, static_cast<uint64_t>(stored.cols),
                                 static_cast<uint64_t>(stored.rows), stored.ld),
      what);
  if (batch == 1) return;
  const auto count = static_cast<int32_t>(batch);
  check_cublas(cublasLtMatrixLayoutSetAttribute(layout.value, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT,
                                                &count, sizeof(count)),
               what);
  check_cublas(
      cublasLtMatrixLayoutSetAttribute(layout.value, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                       &stored.stride, sizeof(stored.stride)),
      what);
}

// The product and its matrices: cᵀ = bᵀ · aᵀ in cuBLAS's order.
struct Described {
  explicit Described(const Gemm& g) {
    check_cublas(cublasLtMatmulDescCreate(&operation.value, CUBLAS_COMPUTE_64F, CUDA_R_64F),
                 "describing a product of doubles");
    const auto set = [&](cublasLtMatmulDescAttributes_t attribute, bool transposed) {
      const cublasOperation_t op = transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
      check_cublas(cublasLtMatmulDescSetAttribute(operation.value, attribute, &op, sizeof(op)),
                   "describing a product of doubles");
    };
    set(CUBLASLT_MATMUL_DESC_TRANSA, g.trans_b);
    set(CUBLASLT_MATMUL_DESC_TRANSB, g.trans_a);
    describe(b,
             g.trans_b ? Stored{g.n, g.k, g.ldb, g.stride_b} : Stored{g.k, g.n, g.ldb, g.stride_b},
             g.batch);
    describe(a,
             g.trans_a ? Stored{g.k, g.m, g.lda, g.stride_a} : Stored{g.m, g.k, g.lda, g.stride_a},
             g.batch);
    describe(c, {g.m, g.n, g.ldc, g.stride_c}, g.batch);
  }
  Operation operation;
  Layout a, b, c;
};

bool splits_k(const cublasLtMatmulAlgo_t& algorithm) {
  int32_t parts = 0;
  size_t written = 0;
  cublasLtMatmulAlgoConfigGetAttribute(&algorithm, CUBLASLT_ALGO_CONFIG_SPLITK_NUM, &parts,
                                       sizeof(parts), &written);
  return parts > 1;
}

// What an algorithm is chosen for: the next power of two, from 128 on.
int64_t class_of(int64_t m) {
  constexpr int64_t kLeast = 128, kMost = int64_t{1} << 14;
  int64_t rows = kLeast;
  while (rows < m && rows < kMost) rows *= 2;
  return rows;
}

cublasLtMatmulAlgo_t choose(cublasLtHandle_t handle, Gemm gemm) {
  constexpr int kCandidates = 16;
  gemm.m = class_of(gemm.m);
  if (gemm.trans_a) gemm.lda = std::max(gemm.lda, gemm.m);
  const Described d(gemm);
  Preference preference;
  check_cublas(cublasLtMatmulPreferenceCreate(&preference.value), "choosing an algorithm");
  std::array<cublasLtMatmulHeuristicResult_t, kCandidates> found{};
  int count = 0;
  cublasLtMatmulAlgoGetHeuristic(handle, d.operation.value, d.b.value, d.a.value, d.c.value,
                                 d.c.value, preference.value, kCandidates, found.data(), &count);
  for (int i = 0; i < count; ++i) {
    if (found[i].state == CUBLAS_STATUS_SUCCESS && found[i].workspaceSize == 0 &&
        !splits_k(found[i].algo))
      return found[i].algo;
  }
  throw Error(ErrorCode::kMachine, "cuBLASLt has no algorithm for a product of doubles, K " +
                                       std::to_string(gemm.k) + ", N " + std::to_string(gemm.n) +
                                       "; evaluate on the CPU (--evaluate-on cpu)");
}

}  // namespace

Gemms::Gemms() { check_cublas(cublasLtCreate(&handle_.value), "opening cuBLASLt"); }

void Gemms::run(const Gemm& g, const double* a, const double* b, double* c) {
  const std::array<int64_t, 12> key{class_of(g.m), std::min<int64_t>(g.batch, 64),
                                    g.n,           g.k,
                                    g.trans_a,     g.trans_b,
                                    g.lda,         g.ldb,
                                    g.ldc,         g.stride_a,
                                    g.stride_b,    g.stride_c};
  cublasLtMatmulAlgo_t algorithm{};
  {
    const std::lock_guard lock(mutex_);
    auto found = algorithms_.find(key);
    if (found == algorithms_.end())
      found = algorithms_.emplace(key, choose(handle_.value, g)).first;
    algorithm = found->second;
  }
  const Described d(g);
  const double one = 1, zero = 0;
  check_cublas(cublasLtMatmul(handle_.value, d.operation.value, &one, b, d.b.value, a, d.a.value,
                              &zero, c, d.c.value, c, d.c.value, &algorithm, nullptr, 0, kStream),
               "multiplying doubles");
}

}  // namespace vernier::backend::cuda::fp64
