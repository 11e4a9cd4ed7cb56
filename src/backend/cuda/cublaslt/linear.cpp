// Linear through cuBLASLt: y[M,N] = x[M,K]·w[K,N] + bias[N], f32 operands and accumulation (never
// TF32). One algorithm per (K, N), without split-K, for every M: a row's bits do not depend on M.
// Row-major arrays are handed over as their column-major transposes: yᵀ = wᵀ·xᵀ.
#include <cublasLt.h>

#include "backend/cuda/body.h"
#include "backend/cuda/check.h"

namespace vernier::backend::cuda {
namespace {

constexpr size_t kMaxWorkspaceBytes = size_t{4} << 20;
constexpr int kCandidates = 16;
constexpr int64_t kTunedRows = 4096;  // heuristics are asked for this M; the choice serves all

template <class T, cublasStatus_t (*Destroy)(T)>
struct Handle {
  T value = nullptr;
  Handle() = default;
  ~Handle() {
    if (value) Destroy(value);
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
};
using Layout = Handle<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>;
using Operation = Handle<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy>;
using Preference = Handle<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy>;

// Column-major [rows, cols] with leading dimension rows.
void make_layout(Layout& layout, int64_t rows, int64_t cols) {
  check_cublas(cublasLtMatrixLayoutCreate(&layout.value, CUDA_R_32F, static_cast<uint64_t>(rows),
                                          static_cast<uint64_t>(cols), rows),
               "describing a matrix");
}

struct LinearState final : KernelState {
  Operation operation;
  Layout weights;  // (N, K)
  int64_t n = 0, k = 0;
  const float* w = nullptr;
  cublasLtMatmulAlgo_t algorithm{};
};

struct LinearShape final : ShapeState {
  Layout x, y;  // (K, M), (N, M)
};

// The first candidate that does not split K.
void choose_algorithm(LinearState& state, cublasLtHandle_t handle) {
  Layout x, y;
  make_layout(x, state.k, kTunedRows);
  make_layout(y, state.n, kTunedRows);
  Preference preference;
  check_cublas(cublasLtMatmulPreferenceCreate(&preference.value), "creating a preference");
  const size_t limit = kMaxWorkspaceBytes;
  check_cublas(
      cublasLtMatmulPreferenceSetAttribute(
          preference.value, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &limit, sizeof(limit)),
      "setting a preference");
  std::array<cublasLtMatmulHeuristicResult_t, kCandidates> found{};
  int count = 0;
  check_cublas(cublasLtMatmulAlgoGetHeuristic(handle, state.operation.value, state.weights.value,
                                              x.value, y.value, y.value, preference.value,
                                              kCandidates, found.data(), &count),
               "looking for an algorithm");
  for (int i = 0; i < count; ++i) {
    const cublasLtMatmulAlgo_t& algorithm = found[static_cast<size_t>(i)].algo;
    int32_t split_k = 1;
    size_t written = 0;
    cublasLtMatmulAlgoConfigGetAttribute(&algorithm, CUBLASLT_ALGO_CONFIG_SPLITK_NUM, &split_k,
                                         sizeof(split_k), &written);
    if (split_k > 1) continue;
    state.algorithm = algorithm;
    return;
  }
  throw Error(ErrorCode::kMachine, "cuBLASLt offers no algorithm without split-K for K=" +
                                       std::to_string(state.k) + " N=" + std::to_string(state.n));
}

std::unique_ptr<KernelState> create(const CreateCall& call) {
  auto state = std::make_unique<LinearState>();
  const TensorArg& w = call.constant_inputs[1];
  state->k = w.shape[0];
  state->n = w.shape[1];
  state->w = w.as<const float>();
  check_cublas(cublasLtMatmulDescCreate(&state->operation.value, CUBLAS_COMPUTE_32F, CUDA_R_32F),
               "describing a product");
  if (call.constant_inputs.size() > 2 && call.constant_inputs[2].data) {
    const auto epilogue = CUBLASLT_EPILOGUE_BIAS;
    const void* bias = call.constant_inputs[2].data;
    check_cublas(
        cublasLtMatmulDescSetAttribute(state->operation.value, CUBLASLT_MATMUL_DESC_EPILOGUE,
                                       &epilogue, sizeof(epilogue)),
        "setting the bias epilogue");
    check_cublas(
        cublasLtMatmulDescSetAttribute(state->operation.value, CUBLASLT_MATMUL_DESC_BIAS_POINTER,
                                       &bias, sizeof(bias)),
        "setting the bias");
  }
  make_layout(state->weights, state->n, state->k);
  choose_algorithm(*state, static_cast<cublasLtHandle_t>(call.execution.library_handle));
  return state;
}

std::unique_ptr<ShapeState> prepare(const PrepareCall& call) {
  const auto& state = static_cast<const LinearState&>(*call.state);
  auto shape = std::make_unique<LinearShape>();
  const int64_t m = call.in[0].elems() / state.k;
  make_layout(shape->x, state.k, m);
  make_layout(shape->y, state.n, m);
  cublasLtMatmulHeuristicResult_t result{};
  check_cublas(cublasLtMatmulAlgoCheck(static_cast<cublasLtHandle_t>(call.execution.library_handle),
                                       state.operation.value, state.weights.value, shape->x.value,
                                       shape->y.value, shape->y.value, &state.algorithm, &result),
               "checking the algorithm for M=" + std::to_string(m));
  shape->workspace_bytes = result.workspaceSize;
  return shape;
}

void launch(const LaunchCall& call) {
  const auto& state = static_cast<const LinearState&>(*call.state);
  const auto& shape = static_cast<const LinearShape&>(*call.shape_state);
  const float one = 1, zero = 0;
  check_cublas(
      cublasLtMatmul(static_cast<cublasLtHandle_t>(call.execution.library_handle),
                     state.operation.value, &one, state.w, state.weights.value, call.in[0].data,
                     shape.x.value, &zero, call.out[0].data, shape.y.value, call.out[0].data,
                     shape.y.value, &state.algorithm, call.workspace, shape.workspace_bytes,
                     static_cast<cudaStream_t>(call.execution.stream)),
      "Linear");
}

Support supports(const Problem& problem) {
  const auto attrs = problem.attrs_as<LinearAttrs>();
  const auto is_f32 = [](const Operand& o) { return !o.present || o.dtype == DType::kF32; };
  if (!is_f32(problem.inputs[0]) || !is_f32(problem.inputs[1])) return no("operands are not f32");
  if (!problem.inputs[1].constant) return no("the weight is not a constant");
  if (attrs.trans_w) return no("the weight is [N, K]");
  if (attrs.activation != Activation::kNone) return no("no activation in its epilogue");
  if (problem.inputs.size() > 2 && problem.inputs[2].present && !problem.inputs[2].constant)
    return no("the bias is not a constant");
  if (problem.inputs.size() > 3 && problem.inputs[3].present)
    return no("no residual in its epilogue");
  return yes();
}

}  // namespace

extern const KernelBody linear_cublaslt;
constexpr KernelBody linear_cublaslt{
    .supports = &supports,
    .numerics = [](const Problem&) { return Numerics{}; },
    .bit_class = "cublaslt f32, one algorithm per (K, N), no split-K",
    .create = &create,
    .prepare = &prepare,
    .launch = &launch,
};

}  // namespace vernier::backend::cuda
