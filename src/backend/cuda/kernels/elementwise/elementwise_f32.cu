// Elementwise programs in f32 registers: inputs are staged in shared memory as they are stored,
// then each thread runs the steps on 16 elements. Contract in elementwise.h. C++17.
#include <algorithm>
#include <array>

#include "backend/cuda/device/array.h"
#include "backend/cuda/device/elementwise_math.cuh"
#include "backend/cuda/device/elementwise_staging.cuh"
#include "backend/cuda/device/overlap.cuh"

namespace vernier::backend::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kMinBlocks = 4;  // per multiprocessor: 64 registers

/// The operators without gaps, so that a step is one jump.
enum class Code : uint8_t {
  kLoad,
  kSave,
  kRare,
#define COMMON_FLOAT(kind, expression) k##kind,
#define LOGIC_FLOAT(kind, expression) k##kind,
#define RARE_FLOAT(kind, expression)
#define INTEGER(kind, expression)
#include "backend/cuda/kernels/elementwise/elementwise_formulas.def"
};
constexpr auto kCodes = [] {
  std::array<Code, static_cast<size_t>(ElementwiseOp::kSave) + 1> codes{};
  for (size_t i = 0; i < codes.size(); ++i) codes[i] = Code::kRare;
#define COMMON_FLOAT(kind, expression) \
  codes[static_cast<size_t>(ElementwiseOp::k##kind)] = Code::k##kind;
#define LOGIC_FLOAT(kind, expression) COMMON_FLOAT(kind, expression)
#define RARE_FLOAT(kind, expression)
#define INTEGER(kind, expression)
#include "backend/cuda/kernels/elementwise/elementwise_formulas.def"
  codes[static_cast<size_t>(ElementwiseOp::kLoad)] = Code::kLoad;
  codes[static_cast<size_t>(ElementwiseOp::kSave)] = Code::kSave;
  return codes;
}();

/// Where an operand is: in a slot of the warp's memory as this type; one element of an input, as
/// f32 in the warp's memory; a number of the step.
enum class Source : uint8_t { kNone, kScalar, kBeta, kF32, kF16, kBF16, kBool };

struct Operand {
  Source source = Source::kNone;
  uint16_t at = 0;  ///< bytes into the warp's memory
};
struct Step {
  Code code = Code::kLoad;
  uint8_t variant = 0;
  uint16_t slot = 0;  // of kSave
  ElementwiseOp op{};
  Operand b, c;
  float alpha = 0, beta = 0;
};
struct Program {
  Step steps[kMaxElementwiseSteps];
  StagedInput inputs[kMaxElementwiseInputs];
  AnyArray scalars[kMaxElementwiseInputs];
  StridedIndex shape;
  AnyArray out;
  int64_t count = 0;
  int step_count = 0, input_count = 0;
  int warp_bytes = 0;        // shared memory of a warp; it begins with the scalars
  uint16_t scratch[2] = {};  // slots that kRare uses
  bool out_is_aligned = false, has_scalars = false;
};

__device__ float to_value(float x) { return x; }
__device__ float to_value(__half x) { return to_f32(x); }
__device__ float to_value(__nv_bfloat16 x) { return to_f32(x); }
__device__ float to_value(uint8_t x) { return x != 0 ? 1.0f : 0.0f; }
template <class E>
__device__ E to_stored(float x) {
  if constexpr (std::is_same_v<E, uint8_t>) {
    return x != 0 ? 1 : 0;
  } else {
    return from_f32<E>(x);
  }
}
// body(E{}) for the element type of an array; uint8_t: bool.
template <class Body>
__device__ void with_stored(DType type, const Body& body) {
  if (type == DType::kF32) return body(float{});
  if (type == DType::kF16) return body(__half{});
  if (type == DType::kBF16) return body(__nv_bfloat16{});
  body(uint8_t{});
}

using Values = float[kThreadElements];
constexpr int kScalarBytes = kMaxElementwiseInputs * sizeof(float);

// A thread's part of the slot at `slot` of its warp's memory.
template <class E>
__device__ Pack<E, kUnit>* units_of(std::byte* memory, int slot) {
  return reinterpret_cast<Pack<E, kUnit>*>(memory + slot) + threadIdx.x % 32;
}
template <class E>
__device__ void read_units(std::byte* memory, int slot, int first, int count, float* values) {
#pragma unroll
  for (int u = 0; u < count; ++u) {
    const Pack<E, kUnit> unit = units_of<E>(memory, slot)[(first + u) * 32];
#pragma unroll
    for (int i = 0; i < kUnit; ++i) values[u * kUnit + i] = to_value(unit.element[i]);
  }
}
__device__ __forceinline__ bool is_number(const Operand& operand) {
  return operand.source <= Source::kBeta;
}
__device__ __forceinline__ float number(const Operand& from, float beta, std::byte* memory) {
  return from.source == Source::kScalar ? *reinterpret_cast<const float*>(memory + from.at) : beta;
}
// Units [first, first + kCount) of an operand that is in a slot.
template <int kCount>
__device__ __forceinline__ void read(const Operand& from, std::byte* memory, int first,
                                     float (&values)[kCount * kUnit]) {
  switch (from.source) {
    case Source::kF32:
      return read_units<float>(memory, from.at, first, kCount, values);
    case Source::kF16:
      return read_units<__half>(memory, from.at, first, kCount, values);
    case Source::kBF16:
      return read_units<__nv_bfloat16>(memory, from.at, first, kCount, values);
    default:
      return read_units<uint8_t>(memory, from.at, first, kCount, values);
  }
}
__device__ __forceinline__ void save(std::byte* memory, int slot, const Values& values) {
#pragma unroll
  for (int u = 0; u < kUnits; ++u) {
    const float* v = values + u * kUnit;
    units_of<float>(memory, slot)[u * 32] = {{v[0], v[1], v[2], v[3]}};
  }
}

__device__ __forceinline__ void load(const Step& step, std::byte* memory, Values& values) {
  if (is_number(step.b))
    fill_vector(number(step.b, step.beta, memory), values);
  else
    read<kUnits>(step.b, memory, 0, values);
}

// Operators with long code, element by element through memory: little is held in registers there.
__device__ __forceinline__ void apply_rare(const Step& step, std::byte* memory,
                                           const uint16_t (&scratch)[2], Values& values) {
  using T = float;
  const T alpha = step.alpha, beta = step.beta;
  const int variant = step.variant;
  save(memory, scratch[0], values);
  load(step, memory, values);
  save(memory, scratch[1], values);
#pragma unroll 1
  for (int i = 0; i < kThreadElements; ++i) {
    T& a = units_of<float>(memory, scratch[0])[i / kUnit * 32].element[i % kUnit];
    const T b = units_of<float>(memory, scratch[1])[i / kUnit * 32].element[i % kUnit];
    switch (step.op) {
#define COMMON_FLOAT(kind, expression)
#define LOGIC_FLOAT(kind, expression)
#define RARE_FLOAT(kind, expression) \
  case ElementwiseOp::k##kind:       \
    a = expression;                  \
    break;
#define INTEGER(kind, expression)
#include "backend/cuda/kernels/elementwise/elementwise_formulas.def"
      default:
        a += b + alpha + beta + static_cast<T>(variant);
    }
  }
  read_units<float>(memory, scratch[0], 0, kUnits, values);
}

// Whether an operator has a second operand.
#define OP(kind, min_in, max_in, ...) \
  [[maybe_unused]] constexpr bool kHasSecond##kind = (max_in) != 1;
#include "ops/ops.def"
#undef OP

// a = op(a, b) for all elements of a thread. kSecond: b is an array of values, and only operators
// that have a second operand are asked for; else it is one number for all.
template <bool kSecond, class B>
__device__ __forceinline__ void apply(const Step& step, Values& va, const B& vb) {
  using T = float;
  const T alpha = step.alpha, beta = step.beta, c = 0;
  constexpr bool has_b = false, has_c = false;  // asked by Clip only, which is elsewhere
  const int variant = step.variant;
  const auto each = [&](const auto& f) {
#pragma unroll
    for (int i = 0; i < kThreadElements; ++i) {
      if constexpr (kSecond) {
        va[i] = f(va[i], vb[i]);
      } else {
        va[i] = f(va[i], vb);
      }
    }
  };
  switch (step.code) {
#define COMMON_FLOAT(kind, expression)            \
  case Code::k##kind:                             \
    if constexpr (!kSecond || kHasSecond##kind) { \
      each([=](T a, T b) -> T {                   \
        static_cast<void>(b);                     \
        return expression;                        \
      });                                         \
    }                                             \
    break;
#define LOGIC_FLOAT(kind, expression) COMMON_FLOAT(kind, expression)
#define RARE_FLOAT(kind, expression)
#define INTEGER(kind, expression)
#include "backend/cuda/kernels/elementwise/elementwise_formulas.def"
    default:
      break;
  }
  static_cast<void>(has_b), static_cast<void>(has_c), static_cast<void>(c);
  static_cast<void>(alpha), static_cast<void>(beta), static_cast<void>(variant);
}

// Where and Clip: operands b and c unit by unit.
__device__ __forceinline__ void read_unit(const Operand& from, std::byte* memory, int u,
                                          float (&values)[kUnit]) {
  if (is_number(from))
    fill_vector(number(from, 0, memory), values);
  else
    read<1>(from, memory, u, values);
}
__device__ __forceinline__ void apply_three(const Step& step, std::byte* memory, Values& a) {
  const bool has_b = step.b.source != Source::kNone, has_c = step.c.source != Source::kNone;
  const bool is_where = step.code == Code::kWhere;
#pragma unroll
  for (int u = 0; u < kUnits; ++u) {
    float b[kUnit], c[kUnit];
    read_unit(step.b, memory, u, b);
    read_unit(step.c, memory, u, c);
#pragma unroll
    for (int i = 0; i < kUnit; ++i) {
      float& x = a[u * kUnit + i];
      x = is_where ? (x != 0 ? b[i] : c[i]) : clip(x, b[i], c[i], has_b, has_c);
    }
  }
}

// The scalars, converted, at the beginning of the warp's memory.
__device__ void stage_scalars(const Program& args, std::byte* memory) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if (lane >= kMaxElementwiseInputs || args.scalars[lane].data == nullptr) return;
  with_stored(args.scalars[lane].type, [&](auto element) {
    const auto* from = static_cast<const decltype(element)*>(args.scalars[lane].data);
    reinterpret_cast<float*>(memory)[lane] = to_value(*from);
  });
}

__device__ void store(const Program& args, int64_t first, bool is_whole, const Values& values) {
  with_stored(args.out.type, [&](auto element) {
    using E = decltype(element);
    E* const dst = static_cast<E*>(args.out.data) + first;
#pragma unroll
    for (int u = 0; u < kUnits; ++u) {
      Pack<E, kUnit> unit;
#pragma unroll
      for (int i = 0; i < kUnit; ++i) unit.element[i] = to_stored<E>(values[u * kUnit + i]);
      if (is_whole) {
        *reinterpret_cast<Pack<E, kUnit>*>(dst + u * kUnitStep) = unit;
        continue;
      }
#pragma unroll
      for (int i = 0; i < kUnit; ++i) {
        if (first + u * kUnitStep + i < args.count) dst[u * kUnitStep + i] = unit.element[i];
      }
    }
  });
}

__global__ void __launch_bounds__(kThreads, kMinBlocks)
    program_kernel(const __grid_constant__ Program args) {
  extern __shared__ __align__(16) std::byte shared[];
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  std::byte* const memory = shared + warp * args.warp_bytes;
  const int64_t block = static_cast<int64_t>(blockIdx.x) * blockDim.x * kThreadElements;
  const bool is_whole_block = block + blockDim.x * kThreadElements <= args.count;
  allow_next_kernel();
  // Few blocks: a dry run beyond the last element, which reads and writes nothing, while the
  // kernel before still runs. What a small program waits for is its arguments and its code.
  constexpr unsigned kFewBlocks = 64;
#pragma unroll 1
  for (int pass = gridDim.x <= kFewBlocks ? 0 : 1; pass < 2; ++pass) {
    const bool is_real = pass == 1, is_whole = is_real && is_whole_block;
    const int64_t first = is_real ? block + warp * kWarpElements + lane * kUnit : args.count;
    if (is_real) wait_for_previous_kernel();
    for (int i = 0; i < args.input_count; ++i)
      stage_input(args.inputs[i], args.shape, memory, first, args.count, is_whole);
    if (args.has_scalars && is_real) stage_scalars(args, memory);
    wait_for_staging();
    __syncwarp();
    Values a;
    fill_vector(0.0f, a);
    for (int s = 0; s < args.step_count; ++s) {
      const Step& step = args.steps[s];
      if (step.code == Code::kLoad) {
        load(step, memory, a);
      } else if (step.code == Code::kSave) {
        save(memory, step.slot, a);
      } else if (step.code == Code::kWhere || step.code == Code::kClip) {
        apply_three(step, memory, a);
      } else if (step.code == Code::kRare) {
        apply_rare(step, memory, args.scratch, a);
      } else if (is_number(step.b)) {
        apply<false>(step, a, number(step.b, step.beta, memory));
      } else {
        Values b;
        read<kUnits>(step.b, memory, 0, b);
        apply<true>(step, a, b);
      }
    }
    store(args, first, is_whole && args.out_is_aligned, a);
    __syncwarp();
  }
}

// ---- host side: ElementwiseLaunch → Program

Source source_of(DType type) {
  if (type == DType::kF32) return Source::kF32;
  if (type == DType::kF16) return Source::kF16;
  return type == DType::kBF16 ? Source::kBF16 : Source::kBool;
}

class Layout {
 public:
  explicit Layout(const ElementwiseLaunch& launch) : launch_(launch) {
    program_.shape = launch.shape;
    program_.out = launch.out;
    program_.count = launch.count;
    program_.out_is_aligned = launch.out_is_aligned;
    program_.warp_bytes = kScalarBytes;
    for (int i = 0; i < launch.input_count; ++i) place_input(i);
    saved_.fill(-1);
    const auto is_rare = [](const ElementwiseStep& step) {
      return kCodes[static_cast<size_t>(step.op)] == Code::kRare;
    };
    if (std::any_of(launch.steps, launch.steps + launch.step_count, is_rare)) {
      for (uint16_t& slot : program_.scratch) slot = take_slot(sizeof(float));
    }
    for (int s = 0; s < launch.step_count; ++s) program_.steps[s] = step_of(launch.steps[s]);
    program_.step_count = launch.step_count;
  }
  const Program& program() const { return program_; }

 private:
  uint16_t take_slot(int width) {
    const int slot = program_.warp_bytes;
    program_.warp_bytes += kWarpElements * width;
    return static_cast<uint16_t>(slot);
  }
  void place_input(int i) {
    const ElementwiseInput& input = launch_.inputs[i];
    if (input.array.data == nullptr) return;
    if (input.access == Access::kScalar) {
      program_.scalars[i] = input.array;
      program_.has_scalars = true;
      operands_[i] = {Source::kScalar, static_cast<uint16_t>(i * sizeof(float))};
      return;
    }
    StagedInput& staged = program_.inputs[program_.input_count++];
    staged.data = input.array.data;
    staged.access = input.access;
    staged.width = static_cast<uint8_t>(width_of(input.array.type));
    staged.slot = take_slot(staged.width);
    std::copy(input.strides, input.strides + kMaxAxes, staged.strides);
    operands_[i] = {source_of(input.array.type), staged.slot};
  }
  Operand operand(OperandFrom from, uint8_t index) {
    if (from == OperandFrom::kNowhere) return {};
    if (from == OperandFrom::kInput) return operands_[index];
    if (from == OperandFrom::kBeta) return {Source::kBeta, 0};
    if (saved_[index] < 0) saved_[index] = take_slot(sizeof(float));
    return {Source::kF32, static_cast<uint16_t>(saved_[index])};
  }
  Step step_of(const ElementwiseStep& from) {
    Step step;
    step.op = from.op;
    step.code = kCodes[static_cast<size_t>(from.op)];
    step.variant = from.variant;
    if (step.code == Code::kSave) step.slot = operand(OperandFrom::kSaved, from.b_index).at;
    step.b = operand(from.b, from.b_index);
    step.c = operand(from.c, from.c_index);
    step.alpha = static_cast<float>(from.alpha);
    step.beta = static_cast<float>(from.beta);
    return step;
  }

  const ElementwiseLaunch& launch_;
  Program program_;
  std::array<Operand, kMaxElementwiseInputs> operands_{};
  std::array<int, kMaxSaved> saved_{};
};

}  // namespace

cudaError_t launch_elementwise_f32(const ElementwiseLaunch& args, cudaStream_t stream) {
  if (args.count == 0) return cudaSuccess;
  // The most that every device from sm_80 on gives a block; 26 slots of
  // a warp are within it.
  constexpr int kMaxShared = 96 * 1024, kWithoutAsking = 48 * 1024;
  const Layout layout(args);
  const Program& program = layout.program();
  int threads = kThreads;
  while (threads > 32 && threads / 32 * program.warp_bytes > kMaxShared) threads /= 2;
  const int shared_bytes = threads / 32 * program.warp_bytes;
  if (shared_bytes > kWithoutAsking) {
    // The limit is the kernel's, for all sessions and threads: never less than another launch
    // needs.
    const cudaError_t status = cudaFuncSetAttribute(
        program_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kMaxShared);
    if (status != cudaSuccess) return status;
  }
  const int64_t per_block = int64_t{threads} * kThreadElements;
  const auto blocks = static_cast<unsigned>((args.count + per_block - 1) / per_block);
  return launch_overlapped(program_kernel, dim3(blocks), dim3(static_cast<unsigned>(threads)),
                           static_cast<size_t>(shared_bytes), stream, program);
}

}  // namespace vernier::backend::cuda
