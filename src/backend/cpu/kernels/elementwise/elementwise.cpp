// cpu.<op>.loop for every elementwise operator, cpu.fused_elementwise.loop for chains: one loop
// over tiles of the output, each instruction a vector loop over the tile. Contract: elementwise.h.
//
// Inputs may have any strides and broadcast; the output is dense. f32, i32, i64, i8, u8, bool; f16
// and bf16 in any combination with f32: their tiles are widened, the whole program runs in f32, and
// its result is rounded once to the output's type. A Cast between floats inside a chain rounds
// nothing. An element's bits depend only on its own operands. Work is divided into whole tiles.
// Cost: reads each input once, writes once; intermediate results stay in the first-level cache.
#include "backend/cpu/kernels/elementwise/elementwise.h"

#include <algorithm>
#include <cstring>

#include "backend/cpu/per_op.h"
#include "backend/cpu/simd/convert.h"
#include "backend/elementwise.h"
#include "core/error.h"

namespace vernier::backend::cpu {
namespace {

// Per instruction: they are listed on the stack of run_tile().
constexpr size_t kMaxOperands = 64;

struct TypedInstruction {
  TileFunction function;
  std::vector<int> operands;  // value numbers: inputs, then results; kNoOperand
  double alpha, beta;
};

// Instructions with their tile functions, or the reason why one has none.
struct TypedProgram {
  std::vector<TypedInstruction> instructions;
  std::vector<DType> types;  // of values
  std::string reason;
};

TypedProgram type_program(OpKind op, AttrView attrs, std::span<const DType> inputs) {
  TypedProgram typed;
  for (DType input : inputs) typed.types.push_back(computed_type(input));
  for (const Instruction& instruction : program_of(op, attrs, inputs)) {
    if (instruction.operands.size() > kMaxOperands) {
      typed.reason = std::string(name(instruction.op)) + " has " +
                     std::to_string(instruction.operands.size()) + " operands, at most " +
                     std::to_string(kMaxOperands) + " are supported";
      return typed;
    }
    std::vector<DType> operand_types;
    for (int v : instruction.operands) {
      operand_types.push_back(v == kNoOperand ? DType::kUndefined
                                              : typed.types[static_cast<size_t>(v)]);
    }
    const DType result = computed_type(result_type(instruction, operand_types));
    const DType operand = instruction.op == OpKind::kWhere ? operand_types[1] : operand_types[0];
    const InstructionNumbers numbers = numbers_of(instruction);
    const bool mixed = std::any_of(operand_types.begin(), operand_types.end(), [&](DType t) {
      return t != operand && t != DType::kUndefined &&
             !(instruction.op == OpKind::kWhere && t == DType::kBool);
    });
    const TileFunction function =
        mixed ? nullptr : find_tile_function({instruction.op, operand, result, numbers.variant});
    if (function == nullptr) {
      typed.reason = "no loop for " + std::string(name(instruction.op)) + " on " +
                     std::string(name(operand)) + (mixed ? " and other types" : "");
      return typed;
    }
    typed.instructions.push_back({function, instruction.operands, numbers.alpha, numbers.beta});
    typed.types.push_back(result);
  }
  return typed;
}

Support supports(const Problem& problem) {
  const TypedProgram typed = type_program(problem.op, problem.attrs, types_of(problem.inputs));
  if (!typed.reason.empty()) return no(typed.reason);
  const DType result = typed.types.back(), out = problem.outputs[0].dtype;
  if (result == computed_type(out)) return yes();
  return no("returns " + std::string(name(result)) + ", not " + std::string(name(out)));
}

// ---- shape: the layout of inputs relative to the output

// How one input is read, tile by tile.
struct InputPlan {
  enum class Kind { kAbsent, kDense, kScalar, kStrided } kind = Kind::kAbsent;
  DType dtype = DType::kUndefined;
  int slot = -1;  // its tile buffer; -1: read in place (kDense, unless 16-bit floats)
  std::vector<int64_t> strides;
};

struct LoopState final : ShapeState {
  std::vector<int64_t> shape;  // the output's axes, without those of size 1, neighbors merged
  std::vector<InputPlan> inputs;
  TypedProgram program;
  std::vector<int> slots;  // tile buffer of each instruction's result; -1: the output
  int num_slots = 0;
  DType out_dtype = DType::kUndefined;
  int64_t count = 0;
  size_t part_bytes = 0;
  OpKind op{};
};

void merge_axes(const PrepareCall& call, LoopState& state) {
  const TensorArg& out = call.out[0];
  for (int axis = 0; axis < out.rank; ++axis) {
    const int64_t size = out.dim(axis);
    if (size == 1) continue;
    bool merge = !state.shape.empty();
    for (size_t i = 0; i < call.in.size() && merge; ++i) {
      if (state.inputs[i].kind == InputPlan::Kind::kAbsent) continue;
      merge = state.inputs[i].strides.back() == broadcast_stride(call.in[i], axis, out.rank) * size;
    }
    if (merge)
      state.shape.back() *= size;
    else
      state.shape.push_back(size);
    for (size_t i = 0; i < call.in.size(); ++i) {
      if (state.inputs[i].kind == InputPlan::Kind::kAbsent) continue;
      const int64_t stride = broadcast_stride(call.in[i], axis, out.rank);
      if (merge)
        state.inputs[i].strides.back() = stride;
      else
        state.inputs[i].strides.push_back(stride);
    }
  }
}

void classify(LoopState& state, InputPlan& input) {
  int64_t expected = 1;
  bool dense = true, scalar = true;
  for (size_t axis = state.shape.size(); axis-- > 0;) {
    dense = dense && input.strides[axis] == expected;
    scalar = scalar && input.strides[axis] == 0;
    expected *= state.shape[axis];
  }
  input.kind = dense && !state.shape.empty() ? InputPlan::Kind::kDense
               : scalar                      ? InputPlan::Kind::kScalar
                                             : InputPlan::Kind::kStrided;
  if (input.kind != InputPlan::Kind::kDense || is_16_bit_float(input.dtype))
    input.slot = state.num_slots++;
}

// Results get buffers that no later instruction reads; the last result is the output, or has a
// buffer of its own if it has to be rounded.
void assign_slots(LoopState& state) {
  const auto& instructions = state.program.instructions;
  const size_t inputs = state.inputs.size();
  std::vector<size_t> last_use(inputs + instructions.size(), 0);
  for (size_t k = 0; k < instructions.size(); ++k) {
    for (int v : instructions[k].operands) {
      if (v != kNoOperand) last_use[static_cast<size_t>(v)] = k;
    }
  }
  std::vector<int> free;
  for (size_t k = 0; k < instructions.size(); ++k) {
    int slot = is_16_bit_float(state.out_dtype) ? state.num_slots : -1;
    if (k + 1 < instructions.size()) {
      if (free.empty()) free.push_back(state.num_slots++);
      slot = free.back();
      free.pop_back();
    } else if (slot >= 0) {
      ++state.num_slots;
    }
    state.slots.push_back(slot);
    // Released after the result has its buffer: no instruction overwrites its operands.
    for (size_t v = inputs; v < inputs + k; ++v) {
      if (last_use[v] == k) free.push_back(state.slots[v - inputs]);
    }
  }
}

std::unique_ptr<ShapeState> prepare(OpKind op, const PrepareCall& call) {
  auto state = std::make_unique<LoopState>();
  std::vector<DType> types;
  for (const TensorArg& in : call.in) {
    types.push_back(in.dtype);
    state->inputs.push_back({.kind = given(in) ? InputPlan::Kind::kDense : InputPlan::Kind::kAbsent,
                             .dtype = in.dtype,
                             .slot = -1,
                             .strides = {}});
  }
  state->op = op;
  state->program = type_program(op, call.attrs, types);
  VERNIER_ASSERT(state->program.reason.empty(), state->program.reason);
  state->count = call.out[0].elems();
  state->out_dtype = call.out[0].dtype;
  merge_axes(call, *state);
  for (InputPlan& input : state->inputs) {
    if (input.kind != InputPlan::Kind::kAbsent) classify(*state, input);
  }
  assign_slots(*state);
  state->part_bytes = static_cast<size_t>(state->num_slots) * kTileBytes;
  state->workspace_bytes = state->part_bytes * static_cast<size_t>(call.execution.threads->size());
  return state;
}

// ---- run

template <class T>
void load_run(const T* src, int64_t stride, T* dst, int64_t n) {
  if (stride == 1) {
    std::memcpy(dst, src, static_cast<size_t>(n) * sizeof(T));
  } else if (stride == 0) {
    std::fill_n(dst, n, *src);
  } else {
    for (int64_t i = 0; i < n; ++i) dst[i] = src[i * stride];
  }
}

// Elements [begin, begin + n) in the output's order, from an input that repeats or has gaps.
template <class T>
void load_strided(const LoopState& state, const InputPlan& input, const T* src, int64_t begin,
                  int64_t n, T* dst) {
  const size_t axes = state.shape.size();
  const int64_t inner = axes == 0 ? 1 : state.shape.back();
  const int64_t inner_stride = axes == 0 ? 0 : input.strides.back();
  while (n > 0) {
    int64_t rest = begin / inner, at = begin % inner * inner_stride;
    for (size_t axis = axes > 0 ? axes - 1 : 0; axis-- > 0;) {
      at += rest % state.shape[axis] * input.strides[axis];
      rest /= state.shape[axis];
    }
    const int64_t run = std::min(n, inner - begin % inner);
    load_run(src + at, inner_stride, dst, run);
    begin += run;
    dst += run;
    n -= run;
  }
}

void load_tile(const LoopState& state, const InputPlan& input, const std::byte* src, int64_t begin,
               int64_t n, std::byte* dst) {
  const auto load = [&](auto element) {
    using T = decltype(element);
    load_strided(state, input, reinterpret_cast<const T*>(src), begin, n,
                 reinterpret_cast<T*>(dst));
  };
  switch (size_bytes(input.dtype)) {
    case 1:
      return load(uint8_t{});
    case 2:
      return load(uint16_t{});
    case 4:
      return load(uint32_t{});
    default:
      return load(uint64_t{});
  }
}

// The same into a tile buffer as f32.
void load_widened_tile(const LoopState& state, const InputPlan& input, const std::byte* src,
                       int64_t begin, int64_t n, std::byte* slot) {
  auto* tile = reinterpret_cast<float*>(slot);
  if (input.kind == InputPlan::Kind::kDense) return widen(input.dtype, src + begin * 2, tile, n);
  std::byte* bits = slot + kTileBytes / 2;  // behind the f32 tile
  load_tile(state, input, src, begin, n, bits);
  widen(input.dtype, bits, tile, n);
}

class TileLoop {
 public:
  TileLoop(const LaunchCall& call, std::byte* scratch, std::atomic<int>& error)
      : call_(call),
        state_(static_cast<const LoopState&>(*call.shape_state)),
        scratch_(scratch),
        error_(error) {}

  void run(int64_t begin, int64_t end) {
    for (size_t i = 0; i < state_.inputs.size(); ++i) {
      if (state_.inputs[i].kind == InputPlan::Kind::kScalar)
        load(i, begin, std::min(kTileElems, end - begin));
    }
    for (; begin < end; begin += kTileElems) run_tile(begin, std::min(kTileElems, end - begin));
  }

 private:
  std::byte* slot(int index) const { return scratch_ + static_cast<size_t>(index) * kTileBytes; }

  void load(size_t i, int64_t begin, int64_t n) const {
    const InputPlan& input = state_.inputs[i];
    const auto read = is_16_bit_float(input.dtype) ? &load_widened_tile : &load_tile;
    read(state_, input, call_.in[i].data, begin, n, slot(input.slot));
  }

  const void* operand(int value, int64_t begin) const {
    if (value == kNoOperand) return nullptr;
    const auto v = static_cast<size_t>(value);
    if (v >= state_.inputs.size()) return slot(state_.slots[v - state_.inputs.size()]);
    const InputPlan& input = state_.inputs[v];
    return input.slot < 0 ? element(call_.in[v], begin) : slot(input.slot);
  }

  void run_tile(int64_t begin, int64_t n) const {
    for (size_t i = 0; i < state_.inputs.size(); ++i) {
      const InputPlan& input = state_.inputs[i];
      if (input.kind != InputPlan::Kind::kScalar && input.slot >= 0) load(i, begin, n);
    }
    std::byte* result = element(call_.out[0], begin);
    for (size_t k = 0; k < state_.program.instructions.size(); ++k) {
      const TypedInstruction& instruction = state_.program.instructions[k];
      std::array<const void*, kMaxOperands> operands;
      for (size_t o = 0; o < instruction.operands.size(); ++o)
        operands[o] = operand(instruction.operands[o], begin);
      instruction.function({.in = operands.data(),
                            .num_in = instruction.operands.size(),
                            .out = state_.slots[k] < 0 ? result : slot(state_.slots[k]),
                            .n = n,
                            .alpha = instruction.alpha,
                            .beta = instruction.beta,
                            .error = &error_});
    }
    const int last = state_.slots.back();
    if (last >= 0) narrow(state_.out_dtype, reinterpret_cast<const float*>(slot(last)), result, n);
  }

  const LaunchCall& call_;
  const LoopState& state_;
  std::byte* scratch_;
  std::atomic<int>& error_;
};

void launch(const LaunchCall& call) {
  const auto& state = static_cast<const LoopState&>(*call.shape_state);
  std::atomic<int> error{0};
  // At least four tiles per part: below that, another thread costs more than the loop.
  const int64_t grain = kTileElems * (state.count >= 8 * kTileElems ? 1 : 8);
  call.execution.threads->parallel_for(
      state.count, grain, [&](int64_t begin, int64_t end, int part) {
        TileLoop loop(call, call.workspace + static_cast<size_t>(part) * state.part_bytes, error);
        loop.run(begin, end);
      });
  if (error.load() != 0) {
    throw Error(ErrorCode::kInput, std::string(name(state.op)) +
                                       ": integer division by zero; the second input must not "
                                       "hold 0");
  }
}

Support supports_operands(const Problem& problem) {
  if (problem.outputs[0].shape.size() > kMaxRank) return no("more than 10 axes");
  return supports(problem);
}

// Error of a chain: each instruction within a few ulp (math-inl.h); moves are exact.
Numerics numerics(const Problem& problem) {
  return rounding_points(problem.op).empty() ? exact_numerics(problem) : f32_numerics(problem);
}

template <OpKind kOp>
constexpr KernelBody kBody{
    .supports = &supports_operands,
    .numerics = &numerics,
    .strided_inputs = kAllStrided,
    .prepare = [](const PrepareCall& call) { return prepare(kOp, call); },
    .launch = &launch,
};
constexpr std::array<const KernelBody*, 256> kBodies{
#define OP(kind, ...) &kBody<OpKind::k##kind>,
#include "ops/ops.def"
#undef OP
};

}  // namespace

const KernelBody& elementwise_body(OpKind op) { return *kBodies[static_cast<size_t>(op)]; }

}  // namespace vernier::backend::cpu
