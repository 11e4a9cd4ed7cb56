// cuda.linear.cublaslt: Linear through cuBLASLt, y = act(x·w + bias) + residual, with what its
// epilogue can do: bias, tanh GELU (in 16 bits), or (without activation) the residual as C with
// beta
// 1. Not its ReLU, which turns NaN into 0.
// Row-major arrays are handed over as their column-major transposes: yᵀ = wᵀ·xᵀ.
//
// Types: f16, bf16 (exact products, f32 sums), f32 (never TF32), or f32 with TF32 operands where
// the request allows tf32. Bits of a row: no algorithm that splits K or reduces between blocks is
// taken. For 16-bit operands all the others were found to give the same bits (46–48 algorithms per
// size, M from 1 to 16384; later 248 of 254), so where tune() has compared their bits each bucket
// of rows has its own; untuned, and for f32 and TF32, where nothing of the kind was shown, one
// algorithm per (K, N) serves every M.
#include "backend/cuda/kernels/linear/linear.h"

#include <cublasLt.h>

#include <charconv>
#include <cstring>
#include <optional>
#include <random>

#include "backend/cuda/check.h"
#include "backend/cuda/handle.h"
#include "backend/cuda/kernels/linear/row_buckets.h"
#include "backend/cuda/product_numerics.h"
#include "backend/device_memory.h"

namespace vernier::backend::cuda {
namespace {

constexpr size_t kMaxWorkspaceBytes = size_t{4} << 20;
constexpr int kCandidates = 16;
// What algorithms on tensor cores are asked to make do with. Arrays at other addresses are copied.
constexpr uint32_t kAlignment = 16;
constexpr size_t kOneForAll = 7;  // the bucket (4096 rows) whose algorithm serves f32 at every M

using Layout = Handle<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>;
using Operation = Handle<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy>;
using Preference = Handle<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy>;

cublasLtHandle_t handle_of(const Execution& execution) {
  return static_cast<cublasLtHandle_t>(execution.library_handle);
}
cudaDataType_t data_type(DType type) {
  if (type == DType::kF32) return CUDA_R_32F;
  return type == DType::kF16 ? CUDA_R_16F : CUDA_R_16BF;
}

// Column-major [rows, cols] with leading dimension rows.
void make_layout(Layout& layout, DType type, int64_t rows, int64_t cols) {
  check_cublas(
      cublasLtMatrixLayoutCreate(&layout.value, data_type(type), static_cast<uint64_t>(rows),
                                 static_cast<uint64_t>(cols), rows),
      "describing a matrix");
}
template <class T>
void set(const Operation& operation, cublasLtMatmulDescAttributes_t attribute, const T& value) {
  check_cublas(cublasLtMatmulDescSetAttribute(operation.value, attribute, &value, sizeof(value)),
               "describing a product");
}

// A constant at an address that algorithms can take: where it is, or a copy.
class AlignedConstant {
 public:
  AlignedConstant() = default;
  ~AlignedConstant() { cudaFree(copy_); }
  AlignedConstant(const AlignedConstant&) = delete;
  AlignedConstant& operator=(const AlignedConstant&) = delete;
  void set(const TensorArg& t, const Execution& execution) {
    data_ = t.data;
    if (reinterpret_cast<uintptr_t>(data_) % kAlignment == 0) return;
    const size_t bytes = static_cast<size_t>(t.elems()) * size_bytes(t.dtype);
    check_cuda(cudaMalloc(&copy_, bytes),
               "allocating a weight of " + std::to_string(bytes) + " bytes");
    check_cuda(cudaMemcpyAsync(copy_, data_, bytes, cudaMemcpyDeviceToDevice, stream_of(execution)),
               "copying a weight");
    check_cuda(cudaStreamSynchronize(stream_of(execution)), "copying a weight");
    data_ = static_cast<const std::byte*>(copy_);
  }
  const std::byte* data() const { return data_; }

 private:
  const std::byte* data_ = nullptr;
  void* copy_ = nullptr;
};

struct State final : KernelState {
  AlignedConstant w, bias;
  Operation operation;
  Layout weights;
  DType x_type{}, y_type{};
  int64_t n = 0, k = 0;
  bool on_tensor_cores = false;
  std::array<std::optional<cublasLtMatmulAlgo_t>, kRowBuckets.size()> algorithms;
};

struct Sizes final : ShapeState {
  Layout x, y;  // (K, M), (N, M)
  cublasLtMatmulAlgo_t algorithm{};
  // Of workspace_bytes: the algorithm's own, then room for x and the residual, should they lie at
  // addresses that it cannot take.
  size_t algorithm_bytes = 0, x_bytes = 0, residual_bytes = 0;
};

// ---- algorithms

template <class T>
T config(const cublasLtMatmulAlgo_t& algorithm, cublasLtMatmulAlgoConfigAttributes_t attribute) {
  T value{};
  size_t written = 0;
  cublasLtMatmulAlgoConfigGetAttribute(&algorithm, attribute, &value, sizeof(value), &written);
  return value;
}
bool splits_k(const cublasLtMatmulAlgo_t& algorithm) {
  return config<int32_t>(algorithm, CUBLASLT_ALGO_CONFIG_SPLITK_NUM) > 1 ||
         config<uint32_t>(algorithm, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME) !=
             CUBLASLT_REDUCTION_SCHEME_NONE;
}

// What the library proposes for `rows` rows, best first, without those that split K.
std::vector<cublasLtMatmulAlgo_t> candidates(const State& state, cublasLtHandle_t handle,
                                             int64_t rows) {
  Layout x, y;
  make_layout(x, state.x_type, state.k, rows);
  make_layout(y, state.y_type, state.n, rows);
  Preference preference;
  check_cublas(cublasLtMatmulPreferenceCreate(&preference.value), "creating a preference");
  const size_t limit = kMaxWorkspaceBytes;
  check_cublas(
      cublasLtMatmulPreferenceSetAttribute(
          preference.value, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &limit, sizeof(limit)),
      "setting a preference");
  if (state.on_tensor_cores) {
    for (const auto attribute :
         {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
          CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
      check_cublas(cublasLtMatmulPreferenceSetAttribute(preference.value, attribute, &kAlignment,
                                                        sizeof(kAlignment)),
                   "setting a preference");
  }
  std::array<cublasLtMatmulHeuristicResult_t, kCandidates> found{};
  int count = 0;
  cublasLtMatmulAlgoGetHeuristic(handle, state.operation.value, state.weights.value, x.value,
                                 y.value, y.value, preference.value, kCandidates, found.data(),
                                 &count);
  std::vector<cublasLtMatmulAlgo_t> algorithms;
  for (int i = 0; i < count; ++i) {
    const auto& algorithm = found[i].algo;
    if (!splits_k(algorithm)) algorithms.push_back(algorithm);
  }
  return algorithms;
}

// An algorithm as text and back: 16 hexadecimal digits per word. Good for one library version.
std::string algorithm_text(const cublasLtMatmulAlgo_t& algorithm) {
  std::string text;
  for (const uint64_t word : algorithm.data) {
    for (int shift = 60; shift >= 0; shift -= 4) text += "0123456789abcdef"[word >> shift & 15];
  }
  return text;
}
std::optional<cublasLtMatmulAlgo_t> algorithm_of(std::string_view text) {
  cublasLtMatmulAlgo_t algorithm{};
  if (text.size() != std::size(algorithm.data) * 16) return std::nullopt;
  for (uint64_t& word : algorithm.data) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + 16, word, 16);
    if (error != std::errc{} || end != text.data() + 16) return std::nullopt;
    text.remove_prefix(16);
  }
  return algorithm;
}

bool one_algorithm(DType operands) { return operands == DType::kF32; }

// The recorded algorithm of each bucket; where there is none, that of the one before. The
// heuristic's choice for all buckets where nothing is recorded: bits were not compared.
void choose_algorithms(State& state, cublasLtHandle_t handle, std::string_view tuning) {
  const auto choices = record_of(tuning);
  const bool one = one_algorithm(state.x_type) || tuning.empty();
  for (size_t i = 0; i < kRowBuckets.size(); ++i) {
    const size_t bucket = one ? kOneForAll : i;
    if (!one || i == 0) state.algorithms[i] = algorithm_of(choices[bucket]);
    if (!state.algorithms[i] && i > 0) state.algorithms[i] = state.algorithms[i - 1];
    if (state.algorithms[i]) continue;
    const auto found = candidates(state, handle, kRowBuckets[bucket]);
    if (!found.empty()) state.algorithms[i] = found.front();
  }
  for (const auto& algorithm : state.algorithms) {
    if (algorithm) return;
  }
  throw Error(ErrorCode::kMachine, "cuBLASLt offers no algorithm without split-K for K=" +
                                       std::to_string(state.k) + " N=" + std::to_string(state.n));
}

// ---- the life of a step

cublasLtEpilogue_t epilogue(Activation activation, bool bias) {
  if (activation == Activation::kGeluTanh)
    return bias ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_GELU;
  return bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
}

std::unique_ptr<State> describe(const CreateCall& call) {
  auto state = std::make_unique<State>();
  const auto attrs = decode<LinearAttrs>(call.attrs);
  const TensorArg& w = call.constant_inputs[1];
  state->k = w.shape[attrs.trans_w ? 1 : 0];
  state->n = w.shape[attrs.trans_w ? 0 : 1];
  state->w.set(w, call.execution);
  state->x_type = w.dtype;
  state->y_type = call.numerics->store;
  const bool tf32 = call.numerics->compute == DType::kTF32;
  state->on_tensor_cores = tf32 || is_16_bit_float(w.dtype);
  check_cublas(cublasLtMatmulDescCreate(&state->operation.value,
                                        tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F,
                                        CUDA_R_32F),
               "describing a product");
  if (attrs.trans_w) set(state->operation, CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T);
  const bool bias = given(call.constant_inputs, 2);
  set(state->operation, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue(attrs.activation, bias));
  if (bias) {
    state->bias.set(call.constant_inputs[2], call.execution);
    const void* data = state->bias.data();
    set(state->operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, data);
    set(state->operation, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE,
        data_type(call.constant_inputs[2].dtype));
  }
  if (attrs.trans_w)
    make_layout(state->weights, w.dtype, state->k, state->n);
  else
    make_layout(state->weights, w.dtype, state->n, state->k);
  return state;
}

std::unique_ptr<KernelState> create(const CreateCall& call) {
  auto state = describe(call);
  choose_algorithms(*state, handle_of(call.execution), call.tuning);
  return state;
}

// Workspace the algorithm needs for these sizes; empty if it cannot do them.
std::optional<size_t> workspace_of(const State& state, const Sizes& sizes, cublasLtHandle_t handle,
                                   const cublasLtMatmulAlgo_t& algorithm) {
  cublasLtMatmulHeuristicResult_t result{};
  const cublasStatus_t status =
      cublasLtMatmulAlgoCheck(handle, state.operation.value, state.weights.value, sizes.x.value,
                              sizes.y.value, sizes.y.value, &algorithm, &result);
  if (status != CUBLAS_STATUS_SUCCESS || result.workspaceSize > kMaxWorkspaceBytes)
    return std::nullopt;
  return result.workspaceSize;
}

void make_layouts(const State& state, Sizes& sizes, int64_t rows) {
  make_layout(sizes.x, state.x_type, state.k, rows);
  make_layout(sizes.y, state.y_type, state.n, rows);
}

size_t bytes_of(const TensorArg& t) { return static_cast<size_t>(t.elems()) * size_bytes(t.dtype); }
constexpr size_t padded(size_t bytes) { return (bytes + 255) / 256 * 256; }

// The bucket's algorithm, or the nearest larger, then smaller bucket's that can do these rows.
std::unique_ptr<ShapeState> prepare(const PrepareCall& call) {
  const auto& state = static_cast<const State&>(*call.state);
  auto sizes = std::make_unique<Sizes>();
  const int64_t rows = rows_of(call.in[0]);
  if (rows == 0) return sizes;
  make_layouts(state, *sizes, rows);
  const size_t first = bucket_of(rows), count = kRowBuckets.size();
  for (size_t i = 0; i < count; ++i) {
    const size_t bucket = first + i < count ? first + i : count - 1 - i;
    const auto& algorithm = state.algorithms[bucket];
    if (!algorithm) continue;
    const auto bytes = workspace_of(state, *sizes, handle_of(call.execution), *algorithm);
    if (!bytes) continue;
    sizes->algorithm = *algorithm;
    sizes->algorithm_bytes = *bytes;
    if (state.on_tensor_cores) {
      sizes->x_bytes = bytes_of(call.in[0]);
      if (given(call.in, 3)) sizes->residual_bytes = bytes_of(call.in[3]);
    }
    sizes->workspace_bytes =
        padded(*bytes) + padded(sizes->x_bytes) + padded(sizes->residual_bytes);
    return sizes;
  }
  throw Error(ErrorCode::kMachine,
              "cuBLASLt has no algorithm for Linear with M=" + std::to_string(rows) +
                  " K=" + std::to_string(state.k) + " N=" + std::to_string(state.n));
}

struct Arrays {
  const std::byte *x, *residual;
  std::byte *y, *workspace;
};
cublasStatus_t multiply(const State& state, const Sizes& sizes, const Arrays& arrays,
                        const Execution& execution) {
  const float one = 1, beta = arrays.residual ? 1.0f : 0.0f;
  const void* c = arrays.residual ? arrays.residual : arrays.y;
  return cublasLtMatmul(handle_of(execution), state.operation.value, &one, state.w.data(),
                        state.weights.value, arrays.x, sizes.x.value, &beta, c, sizes.y.value,
                        arrays.y, sizes.y.value, &sizes.algorithm, arrays.workspace,
                        sizes.algorithm_bytes, stream_of(execution));
}

// `data`, or a copy of it at `room` where it lies at an address that algorithms cannot take.
const std::byte* aligned(const std::byte* data, size_t bytes, std::byte* room,
                         const Execution& execution) {
  if (bytes == 0 || reinterpret_cast<uintptr_t>(data) % kAlignment == 0) return data;
  check_cuda(cudaMemcpyAsync(room, data, bytes, cudaMemcpyDeviceToDevice, stream_of(execution)),
             "copying an operand of Linear");
  return room;
}

void launch(const LaunchCall& call) {
  const auto& sizes = static_cast<const Sizes&>(*call.shape_state);
  if (sizes.x.value == nullptr) return;  // no rows
  std::byte* x_room = call.workspace + padded(sizes.algorithm_bytes);
  std::byte* residual_room = x_room + padded(sizes.x_bytes);
  const std::byte* residual = given(call.in, 3) ? call.in[3].data : nullptr;
  check_cublas(
      multiply(static_cast<const State&>(*call.state), sizes,
               {.x = aligned(call.in[0].data, sizes.x_bytes, x_room, call.execution),
                .residual = aligned(residual, sizes.residual_bytes, residual_room, call.execution),
                .y = call.out[0].data,
                .workspace = call.workspace},
               call.execution),
      "Linear");
}

// ---- tuning

// Arrays for the largest number of rows, x random.
struct TuneArrays {
  TuneArrays(const TuneCall& call, const State& state, int64_t rows)
      : device(call.device),
        elem_bytes(size_bytes(state.y_type)),
        x_bytes(static_cast<size_t>(rows * state.k) * size_bytes(state.x_type)),
        y_bytes(static_cast<size_t>(rows * state.n) * elem_bytes),
        x(device, x_bytes),
        y(device, y_bytes),
        residual(device, y_bytes),
        workspace(device, kMaxWorkspaceBytes) {
    constexpr int64_t kRandomElems = int64_t{1} << 18;  // more than a row: the rest repeats them
    repeat(x.data(), x_bytes, random_bytes(state.x_type, std::min(kRandomElems, rows * state.k)));
    repeat(residual.data(), y_bytes, std::vector<std::byte>(elem_bytes));
  }
  // dst = block, again and again. Values that are made on the host take longer than their products.
  void repeat(std::byte* dst, size_t bytes, const std::vector<std::byte>& block) const {
    void* stream = device.execution().stream;
    device.copy_to_device(dst, block.data(), block.size(), stream);
    for (size_t filled = block.size(), next = 0; filled < bytes; filled += next) {
      next = std::min(filled, bytes - filled);
      device.copy_on_device(dst + filled, dst, next, stream);
    }
    device.synchronise(stream);
  }
  static std::vector<std::byte> random_bytes(DType type, int64_t count) {
    std::mt19937 random(1);  // a fixed seed: builds are deterministic but for the times
    std::uniform_real_distribution<float> uniform(-1, 1);
    std::vector<double> values(static_cast<size_t>(count));
    for (double& v : values) v = uniform(random);
    const Tensor t = Tensor::from(type, {count}, std::span<const double>(values));
    return {t.data(), t.data() + t.bytes()};
  }
  // The first row of y as it is now.
  std::vector<std::byte> first_row(int64_t n) {
    std::vector<std::byte> row(static_cast<size_t>(n) * elem_bytes);
    device.copy_to_host(row.data(), y.data(), row.size(), device.execution().stream);
    device.synchronise(device.execution().stream);
    return row;
  }
  Device& device;
  size_t elem_bytes, x_bytes, y_bytes;
  DeviceMemory x, y, residual, workspace;
};

// The fastest algorithm for each bucket among those that give the first row of x the bits that the
// reference gives it: the heuristic's first choice for one row (f32: for 4096).
std::string tune(const TuneCall& call) {
  const auto state = describe(call.create);
  const cublasLtHandle_t handle = handle_of(call.device.execution());
  const bool one = one_algorithm(state->x_type);
  const size_t last = one ? kOneForAll : bucket_of(rows_of(call.in[0]));
  TuneArrays arrays(call, *state, kRowBuckets[last]);
  const Arrays data{.x = arrays.x.data(),
                    .residual = given(call.in, 3) ? arrays.residual.data() : nullptr,
                    .y = arrays.y.data(),
                    .workspace = arrays.workspace.data()};
  std::vector<std::byte> reference;
  std::array<std::string, kRowBuckets.size()> choices;
  for (size_t bucket = one ? kOneForAll : 0; bucket <= last; ++bucket) {
    Sizes sizes;
    make_layouts(*state, sizes, kRowBuckets[bucket]);
    std::vector<cublasLtMatmulAlgo_t> same;
    for (const auto& algorithm : candidates(*state, handle, kRowBuckets[bucket])) {
      const auto bytes = workspace_of(*state, sizes, handle, algorithm);
      if (!bytes) continue;
      sizes.algorithm = algorithm;
      sizes.algorithm_bytes = *bytes;
      if (multiply(*state, sizes, data, call.device.execution()) != CUBLAS_STATUS_SUCCESS) continue;
      const auto row = arrays.first_row(state->n);
      if (reference.empty()) reference = row;
      if (row == reference) same.push_back(algorithm);
    }
    const size_t variant =
        fastest_variant(call.device, same.size(), [&](size_t i, const Execution& execution) {
          sizes.algorithm = same[i];
          sizes.algorithm_bytes = workspace_of(*state, sizes, handle, same[i]).value_or(0);
          check_cublas(multiply(*state, sizes, data, execution), "timing Linear");
        });
    if (variant < same.size()) choices[bucket] = algorithm_text(same[variant]);
  }
  return record_text(choices);
}

// ---- supported problems

Support supports(const Problem& problem) {
  const auto attrs = problem.attrs_as<LinearAttrs>();
  const DType type = problem.inputs[0].dtype, out = problem.outputs[0].dtype;
  if (type != DType::kF32 && !is_16_bit_float(type)) return no("operands are not f32, f16 or bf16");
  if (problem.inputs[1].dtype != type) return no("x and the weight have different types");
  Support support = supports_constant_weight(problem);
  if (!support) return support;
  if (out != type && out != DType::kF32)
    return no("the output is neither of the type of x nor f32");
  if (problem.has_input(2) && !problem.inputs[2].is_constant())
    return no("the bias is not a constant");
  if (problem.has_input(2) && problem.inputs[2].dtype != out)
    return no("the bias has another type than the output");
  const bool residual = problem.has_input(3);
  if (residual && problem.inputs[3].dtype != out)
    return no("the residual has another type than the output");
  if (residual && attrs.activation != Activation::kNone)
    return no("its epilogue adds no residual after an activation");
  if (attrs.activation != Activation::kNone && attrs.activation != Activation::kGeluTanh)
    return no("GELU with tanh is the only activation of its epilogue");
  if (attrs.activation == Activation::kGeluTanh && out == DType::kF32)
    return no("the GELU of its epilogue is off by 2e-6, which shows in f32");
  const WeightShape w = weight_shape(problem);
  const int64_t multiple = type == DType::kF32 && !takes_tf32(problem) ? 1 : 8;
  if (w.k % multiple != 0 || w.n % multiple != 0)
    return no("K = " + std::to_string(w.k) + " or N = " + std::to_string(w.n) +
              " is not a multiple of 8");
  return yes();
}

Numerics numerics(const Problem& problem) {
  Numerics numerics = f32_numerics(problem);
  const DType type = problem.inputs[0].dtype;
  if (is_16_bit_float(type) || takes_tf32(problem)) {
    numerics.compute = is_16_bit_float(type) ? type : DType::kTF32;
    numerics.points[0].type = numerics.points[1].type = numerics.compute;
  }
  return numerics;
}

}  // namespace

extern const KernelBody linear_cublaslt;
constexpr KernelBody linear_cublaslt{
    .supports = &supports,
    .numerics = &numerics,
    .bit_class = "cublaslt, K not split",
    .create = &create,
    .prepare = &prepare,
    .launch = &launch,
    .tune = &tune,
};

}  // namespace vernier::backend::cuda
