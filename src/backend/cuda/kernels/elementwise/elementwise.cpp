// cuda.<op>.loop for every elementwise operator, cuda.fused_elementwise.loop for chains. A node is
// translated to the steps of elementwise.h for its types; the f32 machine runs it where all its
// values are f32, f16, bf16 or bool, the wide one otherwise. Contract: FusedElementwiseAttrs in
// core/attrs.h.
//
// Inputs may have any strides and broadcast; the output is dense. f32, f16 and bf16 in any mix are
// computed in f32 and rounded once, to the type of the output. A Cast between floats inside a chain
// rounds nothing. Integer division by zero gives 0 (a device cannot throw).
// Cost: reads each input once per use in the chain, writes once.
#include "backend/cuda/kernels/elementwise/elementwise.h"

#include <algorithm>
#include <optional>

#include "backend/cuda/body.h"
#include "backend/cuda/check.h"
#include "backend/elementwise.h"

namespace vernier::backend::cuda {
namespace {

constexpr size_t kOps = static_cast<size_t>(ElementwiseOp::kLoad);

// The formulas of elementwise_formulas.def, by number of the operator.
struct Formulas {
  bool floats = false, integers = false, logic = false;
};
constexpr std::array<Formulas, kOps> kFormulas = [] {
  std::array<Formulas, kOps> formulas{};
#define COMMON_FLOAT(kind, expression) formulas[static_cast<size_t>(OpKind::k##kind)].floats = true;
#define RARE_FLOAT(kind, expression) COMMON_FLOAT(kind, expression)
#define LOGIC_FLOAT(kind, expression) formulas[static_cast<size_t>(OpKind::k##kind)].logic = true;
#define INTEGER(kind, expression) formulas[static_cast<size_t>(OpKind::k##kind)].integers = true;
#include "backend/cuda/kernels/elementwise/elementwise_formulas.def"
  return formulas;
}();
// Bools are integers here.
constexpr bool takes_integers(OpKind op) {
  return (elementwise_takes(op) & (kOnIntegers | kOnCudaIntegers | kOnBools)) != 0;
}
constexpr bool takes_floats(OpKind op) { return (elementwise_takes(op) & kOnFloats) != 0; }
constexpr bool has_formulas_for_all() {
  for (size_t i = 0; i < kOps; ++i) {
    const auto op = static_cast<OpKind>(i);
    const bool is_copied = op == OpKind::kCast || op == OpKind::kWhere;  // integers as they are
    if (kFormulas[i].floats != takes_floats(op)) return false;
    if (!is_copied && kFormulas[i].integers != takes_integers(op)) return false;
  }
  return true;
}
static_assert(has_formulas_for_all(),
              "elementwise_formulas.def is not backend/elementwise_ops.def");
// Does the operator give the right bools on bools that are held as 0.0 and 1.0?
bool takes_bools_as_floats(OpKind op) {
  return kFormulas[static_cast<size_t>(op)].logic || is_elementwise_move(op);
}

bool is_f32_or_bool(DType t) { return t == DType::kF32 || t == DType::kBool; }

// ---- instructions → steps

struct Steps {
  std::vector<ElementwiseStep> list;
  std::vector<DType> types;  // computed types of values: inputs, then results
  bool is_wide = false;
  std::string reason;  // why there are none
};

// Why `op` has no step on operands of these types; "" where it has.
std::string refusal(const Instruction& instruction, std::span<const DType> types) {
  const std::string who(name(instruction.op));
  if (instruction.op == OpKind::kCast || instruction.op == OpKind::kWhere) return "";
  const DType first = types[0];
  if (!(is_float(first) ? takes_floats(instruction.op) : takes_integers(instruction.op)))
    return "no loop for " + who + " on " + std::string(name(first));
  if (first == DType::kBool && (instruction.op == OpKind::kDiv || instruction.op == OpKind::kMod))
    return "no loop for " + who + " on bool";
  for (size_t i = 1; i < types.size(); ++i) {
    const bool exponent = instruction.op == OpKind::kPow && is_float(first);
    if (types[i] == first || types[i] == DType::kUndefined || exponent) continue;
    if (instruction.op == OpKind::kPow && is_integer(types[i])) continue;
    return "no loop for " + who + " on " + std::string(name(first)) + " and " +
           std::string(name(types[i]));
  }
  return "";
}

// Translates one program. Values are numbered as the instructions number them.
class Translator {
 public:
  Translator(std::vector<Instruction> program, std::span<const DType> inputs)
      : program_(std::move(program)), inputs_(inputs.size()) {
    for (DType input : inputs) {
      if (is_small_float(input)) steps_.reason = "an input of type " + std::string(name(input));
      steps_.types.push_back(computed_type(input));
    }
    if (inputs.size() > kMaxElementwiseInputs) steps_.reason = "more than 16 inputs";
    for (size_t k = 0; k < program_.size(); ++k) {
      for (int v : program_[k].operands) {
        if (v != kNoOperand && static_cast<size_t>(v) >= inputs_) last_use(v) = k;
      }
    }
  }

  Steps translate() {
    for (size_t k = 0; k < program_.size() && steps_.reason.empty(); ++k) translate(k);
    if (steps_.list.size() > kMaxElementwiseSteps) steps_.reason = "more than 64 steps";
    for (DType t : steps_.types)
      steps_.is_wide = steps_.is_wide || (t != DType::kUndefined && !is_f32_or_bool(t));
    return std::move(steps_);
  }

 private:
  size_t& last_use(int value) {
    const size_t index = static_cast<size_t>(value) - inputs_;
    if (last_use_.size() <= index) last_use_.resize(index + 1, 0);
    return last_use_[index];
  }
  DType type_of(int value) const {
    return value == kNoOperand ? DType::kUndefined : steps_.types[value];
  }

  struct From {
    OperandFrom from;
    uint8_t index;
  };
  From from(int value) {
    if (value == kNoOperand) return {OperandFrom::kNowhere, 0};
    if (static_cast<size_t>(value) < inputs_)
      return {OperandFrom::kInput, static_cast<uint8_t>(value)};
    const auto slot = std::ranges::find(saved_, value) - saved_.begin();
    VERNIER_ASSERT(static_cast<size_t>(slot) < saved_.size(), "a value was not saved");
    return {OperandFrom::kSaved, static_cast<uint8_t>(slot)};
  }

  void translate(size_t k) {
    Instruction& instruction = program_[k];
    std::vector<int>& operands = instruction.operands;
    if ((flags(instruction.op) & kCommutative) && operands[1] == accumulator_)
      std::swap(operands[0], operands[1]);
    std::vector<DType> types;
    for (int v : operands) types.push_back(type_of(v));
    steps_.reason = refusal(instruction, types);
    if (!steps_.reason.empty()) return;
    const DType result = computed_type(result_type(instruction, types));
    if (is_small_float(result)) {
      steps_.reason = "a result of type " + std::string(name(result));
      return;
    }
    // The f32 machine holds bools as 0 and 1, which is enough for some operators.
    if (types[0] == DType::kBool && !takes_bools_as_floats(instruction.op)) steps_.is_wide = true;
    if (accumulator_ != operands[0]) {
      ElementwiseStep load{.op = ElementwiseOp::kLoad};
      std::tie(load.b, load.b_index) = pair(from(operands[0]));
      steps_.list.push_back(load);
    }
    append(instruction, types, result);
    const int value = static_cast<int>(inputs_ + k);
    steps_.types.push_back(result);
    accumulator_ = value;
    for (int& slot : saved_) {
      if (slot != kNoOperand && last_use(slot) <= k) slot = kNoOperand;
    }
    if (is_needed_later(k, value)) save(value);
  }
  static std::pair<OperandFrom, uint8_t> pair(From f) { return {f.from, f.index}; }

  // The step of an instruction whose first operand is in the accumulator; several for a fold.
  void append(const Instruction& instruction, std::span<const DType> types, DType result) {
    const InstructionNumbers numbers = numbers_of(instruction);
    const std::vector<int>& operands = instruction.operands;
    ElementwiseStep step{.op = static_cast<ElementwiseOp>(instruction.op),
                         .variant = static_cast<uint8_t>(numbers.variant),
                         .type = types[0],
                         .b_type = types.size() > 1 ? types[1] : types[0],
                         .result = result,
                         .alpha = numbers.alpha,
                         .beta = numbers.beta};
    const bool folds = arity(instruction.op).max_in < 0;
    if (folds) {
      for (size_t i = 1; i < operands.size(); ++i) {
        std::tie(step.b, step.b_index) = pair(from(operands[i]));
        steps_.list.push_back(step);
      }
      if (instruction.op != OpKind::kMean || operands.size() < 2) return;
      step.op = ElementwiseOp::kDiv;
      step.b = OperandFrom::kBeta;
      step.beta = static_cast<double>(operands.size());
    } else {
      if (operands.size() > 1) std::tie(step.b, step.b_index) = pair(from(operands[1]));
      if (operands.size() > 2) std::tie(step.c, step.c_index) = pair(from(operands[2]));
    }
    steps_.list.push_back(step);
  }

  // Any use but as the first operand of the next instruction, where it is in the accumulator.
  bool is_needed_later(size_t k, int value) {
    if (k + 1 == program_.size() || last_use(value) <= k) return false;
    if (last_use(value) > k + 1) return true;
    Instruction& next = program_[k + 1];
    const auto uses = std::ranges::count(next.operands, value);
    if (uses > 1) return true;
    return next.operands[0] != value &&
           !((flags(next.op) & kCommutative) && next.operands[1] == value);
  }
  void save(int value) {
    const auto slot = std::ranges::find(saved_, kNoOperand) - saved_.begin();
    if (static_cast<size_t>(slot) == saved_.size()) {
      steps_.reason = "more than 8 values of the chain wait for their use";
      return;
    }
    saved_[slot] = value;
    steps_.list.push_back({.op = ElementwiseOp::kSave, .b_index = static_cast<uint8_t>(slot)});
  }

  std::vector<Instruction> program_;
  size_t inputs_;
  Steps steps_;
  std::vector<size_t> last_use_;
  int accumulator_ = kNoOperand;
  std::array<int, kMaxSaved> saved_ = [] {
    std::array<int, kMaxSaved> slots{};
    slots.fill(kNoOperand);
    return slots;
  }();
};

Steps steps_of(OpKind op, AttrView attrs, std::span<const DType> inputs) {
  return Translator(program_of(op, attrs, inputs), inputs).translate();
}

// ---- build time

Support supports(const Problem& problem) {
  if (problem.outputs[0].shape.size() > kMaxRank) return no("more than 10 axes");
  const Steps steps = steps_of(problem.op, problem.attrs, types_of(problem.inputs));
  if (!steps.reason.empty()) return no(steps.reason);
  const DType result = steps.types.back(), out = problem.outputs[0].dtype;
  if (result == computed_type(out)) return yes();
  return no("gives " + std::string(name(result)) + ", not " + std::string(name(out)));
}

Numerics numerics(const Problem& problem) {
  if (rounding_points(problem.op).empty()) return exact_numerics(problem);
  Numerics result = f32_numerics(problem);
  // Only the wide machine has f64, and computes in it.
  for (const auto* operands : {&problem.inputs, &problem.outputs}) {
    for (const Operand& o : *operands) {
      if (o.present && o.dtype == DType::kF64)
        result.compute = result.accumulate = result.inner = DType::kF64;
    }
  }
  return result;
}

// ---- shape: how inputs lie under the output

struct LoopState final : ShapeState {
  ElementwiseLaunch launch;
  bool is_wide = false;
  int lanes = 1;
};

// Axes of the output outermost first; those along which every input steps evenly are one.
void merge_axes(const PrepareCall& call, ElementwiseLaunch& launch) {
  const TensorArg& out = call.out[0];
  StridedIndex& shape = launch.shape;
  for (int axis = 0; axis < out.rank; ++axis) {
    const int64_t size = out.dim(axis);
    if (size == 1) continue;
    const int last = shape.axes - 1;
    bool merge = last >= 0;
    for (size_t i = 0; i < call.in.size() && merge; ++i) {
      if (!given(call.in, i)) continue;
      merge = launch.inputs[i].strides[last] == broadcast_stride(call.in[i], axis, out.rank) * size;
    }
    const int target = merge ? last : shape.axes++;
    shape.sizes[target] = merge ? shape.sizes[target] * size : size;
    for (size_t i = 0; i < call.in.size(); ++i) {
      if (given(call.in, i))
        launch.inputs[i].strides[target] = broadcast_stride(call.in[i], axis, out.rank);
    }
  }
  shape.is_small = launch.count < int64_t{1} << 31;
  for (int i = 0; i < shape.axes && shape.is_small && launch.count > 0; ++i)
    shape.divisors[i] = divisor_of(shape.sizes[i]);
}

bool is_dense(std::span<const int64_t> strides, const StridedIndex& shape) {
  int64_t step = 1;
  for (size_t axis = strides.size(); axis-- > 0; step *= shape.sizes[axis]) {
    if (strides[axis] != step) return false;
  }
  return true;
}

// How vectors of `lanes` read an input, but for the alignment of its address. The tail of a dense
// one is read element by element.
Access access_of(const ElementwiseInput& input, const StridedIndex& shape, int lanes) {
  const std::span strides(input.strides, static_cast<size_t>(shape.axes));
  if (std::ranges::all_of(strides, [](int64_t s) { return s == 0; })) return Access::kScalar;
  if (is_dense(strides, shape)) return Access::kDense;
  if (shape.sizes[shape.axes - 1] % lanes != 0) return Access::kElements;
  if (strides.back() == 0) return Access::kSplat;
  const bool aligned = std::ranges::all_of(strides.first(strides.size() - 1),
                                           [&](int64_t s) { return s % lanes == 0; });
  return strides.back() == 1 && aligned ? Access::kVector : Access::kElements;
}

std::unique_ptr<ShapeState> prepare(OpKind op, const PrepareCall& call) {
  auto state = std::make_unique<LoopState>();
  ElementwiseLaunch& launch = state->launch;
  std::vector<DType> types;
  for (const TensorArg& in : call.in) types.push_back(in.dtype);
  const Steps steps = steps_of(op, call.attrs, types);
  VERNIER_ASSERT(steps.reason.empty(), steps.reason);
  std::ranges::copy(steps.list, launch.steps);
  launch.step_count = static_cast<int>(steps.list.size());
  launch.input_count = static_cast<int>(call.in.size());
  launch.count = call.out[0].elems();
  state->is_wide = steps.is_wide;
  state->lanes = steps.is_wide ? 1 : kElementwiseLanes;
  merge_axes(call, launch);
  for (size_t i = 0; i < call.in.size(); ++i) {
    if (given(call.in, i))
      launch.inputs[i].access = access_of(launch.inputs[i], launch.shape, state->lanes);
  }
  return state;
}

// ---- run

bool is_aligned(const AnyArray& array, size_t bytes) {
  return reinterpret_cast<uintptr_t>(array.data) % bytes == 0;
}

// How vectors of 16 bytes read `b`; nothing where the common kernels cannot.
std::optional<Access> second_access(const ElementwiseInput& b, const StridedIndex& shape) {
  const auto lanes = static_cast<int>(16 / size_bytes(b.array.type));
  Access access = access_of(b, shape, lanes);
  const bool in_vectors = access == Access::kVector || access == Access::kDense;
  if (in_vectors && !is_aligned(b.array, 16)) access = Access::kElements;
  if (access == Access::kScalar || access == Access::kDense) return access;
  const bool fits = access != Access::kElements || shape.sizes[shape.axes - 1] >= lanes;
  return shape.is_small && fits ? std::optional(access) : std::nullopt;
}

// The launch by a kernel of the operator's own, where the program is one step that has it and its
// operands have the layout that it needs.
std::optional<CommonElementwiseLaunch> common_launch(const ElementwiseLaunch& launch) {
  const ElementwiseStep &load = launch.steps[0], &step = launch.steps[1];
  const bool is_unary = step.b == OperandFrom::kNowhere;
  const bool is_one_step = launch.step_count == 2 && load.b == OperandFrom::kInput &&
                           (is_unary || step.b == OperandFrom::kInput) &&
                           step.c == OperandFrom::kNowhere;
  if (!is_one_step || !is_aligned(launch.out, 16)) return std::nullopt;
  const ElementwiseInput* a = &launch.inputs[load.b_index];
  const ElementwiseInput* b = is_unary ? nullptr : &launch.inputs[step.b_index];
  const bool commutes = (flags(static_cast<OpKind>(step.op)) & kCommutative) != 0;
  if (commutes && a->access != Access::kDense) std::swap(a, b);
  if (a->access != Access::kDense || !is_aligned(a->array, 16) ||
      !is_common_elementwise(step.op, a->array.type, launch.out.type))
    return std::nullopt;
  CommonElementwiseLaunch common{.op = step.op,
                                 .a_type = a->array.type,
                                 .y_type = launch.out.type,
                                 .variant = step.variant,
                                 .alpha = static_cast<float>(step.alpha),
                                 .a = a->array.data,
                                 .y = launch.out.data,
                                 .count = launch.count,
                                 .b_index = {}};
  if (b == nullptr) return common;
  if (b->array.type != common.a_type) return std::nullopt;
  const auto second = second_access(*b, launch.shape);
  if (!second.has_value()) return std::nullopt;
  common.second = *second;
  common.b = b->array.data;
  if (*second == Access::kScalar) return common;
  common.b_index = launch.shape;
  std::ranges::copy(b->strides, common.b_index.strides);
  return common;
}

// The launch by the kernel of short programs on integers, where the program is one.
std::optional<IntegerLaunch> integer_launch(const ElementwiseLaunch& launch) {
  const auto takes = [](DType type) {
    return type == DType::kBool || (is_integer(type) && type != DType::kU64);
  };
  if (launch.step_count > kMaxIntegerSteps || launch.input_count > kMaxIntegerInputs)
    return std::nullopt;
  IntegerLaunch integers;
  integers.count = launch.count;
  integers.y = launch.out.data;
  integers.y_type = launch.out.type;
  for (int i = 0; i < launch.input_count; ++i) {
    const ElementwiseInput& input = launch.inputs[i];
    const bool is_scalar = input.access == Access::kScalar;
    if (!takes(input.array.type) || (!is_scalar && input.access != Access::kDense))
      return std::nullopt;
    integers.inputs[i] = {input.array.data, input.array.type, is_scalar};
  }
  for (int s = 0; s < launch.step_count; ++s) {
    const ElementwiseStep& step = launch.steps[s];
    const bool is_load = step.op == ElementwiseOp::kLoad;
    if (!is_integer_step_op(step.op) || is_load != (s == 0) || step.c != OperandFrom::kNowhere ||
        step.b == OperandFrom::kSaved || step.b == OperandFrom::kBeta)
      return std::nullopt;
    const bool is_last_cast = s + 1 == launch.step_count && step.op == ElementwiseOp::kCast;
    if (!is_load && (!takes(step.type) || (!takes(step.result) && !is_last_cast)))
      return std::nullopt;
    integers.steps[s] = {
        .op = step.op,
        .result = is_load ? launch.inputs[step.b_index].array.type : step.result,
        .input = static_cast<int8_t>(step.b == OperandFrom::kInput ? step.b_index : -1)};
  }
  integers.step_count = static_cast<uint8_t>(launch.step_count);
  return integers;
}

void launch_loop(const LaunchCall& call) {
  const auto& state = static_cast<const LoopState&>(*call.shape_state);
  if (state.launch.count == 0) return;
  ElementwiseLaunch launch = state.launch;
  const auto aligned = [&](const AnyArray& array) {
    return is_aligned(array, static_cast<size_t>(state.lanes) * size_bytes(array.type));
  };
  for (size_t i = 0; i < call.in.size(); ++i) {
    ElementwiseInput& input = launch.inputs[i];
    input.array = any_array(call.in, i);
    const bool in_vectors = input.access == Access::kVector || input.access == Access::kDense;
    if (in_vectors && !aligned(input.array)) input.access = Access::kElements;
  }
  launch.out = any_array(call.out, 0);
  launch.out_is_aligned = aligned(launch.out);
  const cudaStream_t stream = stream_of(call.execution);
  const auto common = state.is_wide ? std::nullopt : common_launch(launch);
  if (common.has_value())
    return check_cuda(launch_elementwise_common(*common, stream), "an elementwise operator");
  const auto integers = state.is_wide ? integer_launch(launch) : std::nullopt;
  if (integers.has_value())
    return check_cuda(launch_elementwise_integers(*integers, stream), "an elementwise operator");
  check_cuda(state.is_wide ? launch_elementwise_wide(launch, stream)
                           : launch_elementwise_f32(launch, stream),
             "an elementwise loop");
}

template <OpKind kOp>
constexpr KernelBody kBody{
    .supports = &supports,
    .numerics = &numerics,
    .strided_inputs = kAllStrided,
    .prepare = [](const PrepareCall& call) { return prepare(kOp, call); },
    .launch = &launch_loop,
};
constexpr std::array<const KernelBody*, 256> kBodies{
#define OP(kind, ...) &kBody<OpKind::k##kind>,
#include "ops/ops.def"
#undef OP
};

}  // namespace

const KernelBody& elementwise_body(OpKind op);
const KernelBody& elementwise_body(OpKind op) { return *kBodies[static_cast<size_t>(op)]; }

}  // namespace vernier::backend::cuda
