// The adapter that runs f32 kernels on 16-bit operands: see widened.h.
#include "backend/cpu/widened.h"

#include <algorithm>

#include "backend/cpu/simd/convert.h"
#include "core/error.h"

namespace vernier::backend::cpu {
namespace {

constexpr std::string_view kAs = " as ";

// The problem of the inner kernel: f32 for every 16-bit type.
Problem in_f32(const Problem& problem) {
  Problem wide = problem;
  for (auto* operands : {&wide.inputs, &wide.outputs}) {
    for (Operand& operand : *operands) {
      if (is_16_bit_float(operand.dtype)) operand.dtype = DType::kF32;
    }
  }
  return wide;
}

std::string widened_layout(const Problem& problem, int input, const std::string& inner) {
  const DType stored = problem.inputs[input].dtype;
  return std::string(name(stored)) + std::string(kAs) + inner;
}

Error unknown_layout(std::string_view layout) {
  return {ErrorCode::kInput, "a step's weight has layout \"" + std::string(layout) +
                                 "\"; expected \"TYPE as LAYOUT\" with TYPE f32, f16 or bf16 and a "
                                 "LAYOUT for f32; rebuild the engine"};
}

bool has_16_bits(const std::vector<Operand>& operands) {
  return std::ranges::any_of(
      operands, [](const Operand& o) { return o.present && is_16_bit_float(o.dtype); });
}

struct WidenedState final : KernelState {
  const KernelBody* inner = nullptr;
  std::unique_ptr<KernelState> inner_state;
  std::vector<Tensor> constants;  ///< by input: 16-bit constants as f32, else undefined
  std::vector<bool> packed;       ///< by input: in inner_state
};

// A converted operand: its f32 array is at `offset` of the workspace.
struct Copy {
  size_t operand, offset;
};

struct WidenedShape final : ShapeState {
  std::unique_ptr<ShapeState> inner;
  std::vector<TensorArg> in, out;  ///< what the inner kernel gets; launch fills in the addresses
  std::vector<Copy> widen, narrow;
};

std::byte* constant_data(const WidenedState& state, size_t i) {
  if (!state.constants[i].defined()) return nullptr;
  return const_cast<std::byte*>(state.constants[i].data());  // kernels never write to an input
}

}  // namespace

Support supports_widened(const KernelBody& inner, const Problem& problem) {
  Support support = inner.supports(in_f32(problem));
  if (!support) return support;
  if (!has_16_bits(problem.inputs) && !has_16_bits(problem.outputs))
    return no("no operand is stored in f16 or bf16");
  if (inner.supports(problem)) return no("the kernel takes these types without widening");
  return yes();
}

Numerics widened_numerics(const KernelBody& inner, const Problem& problem) {
  Numerics numerics = inner.numerics(in_f32(problem));
  const auto stored = std::ranges::find_if(
      problem.outputs, [](const Operand& o) { return o.present && is_float(o.dtype); });
  if (stored == problem.outputs.end()) return numerics;
  numerics.store = stored->dtype;
  const size_t points = rounding_points(problem.op).size();
  if (points > 0) numerics.points[points - 1].type = stored->dtype;
  // A weight was rounded to its storage type, which is the type of the product's operands.
  const bool product = (flags(problem.op) & kProduct) != 0;
  for (size_t i = 0; product && i < std::min<size_t>(2, problem.inputs.size()); ++i) {
    const Operand& operand = problem.inputs[i];
    if (operand.is_constant() && is_float(operand.dtype) && operand.dtype != DType::kF32)
      numerics.compute = operand.dtype;
  }
  return numerics;
}

std::vector<PackedConstant> pack_widened(const KernelBody& inner, const Problem& problem) {
  Problem wide = in_f32(problem);
  std::vector<Tensor> contents(problem.inputs.size());
  for (size_t i = 0; i < contents.size(); ++i) {
    const Operand& stored = problem.inputs[i];
    if (stored.constant == nullptr || wide.inputs[i].dtype != DType::kF32) continue;
    contents[i] = widened_constant(*stored.constant, stored.dtype);
    wide.inputs[i].constant = &contents[i];
  }
  std::vector<PackedConstant> packed = inner.pack(wide);
  for (PackedConstant& constant : packed)
    constant.layout = widened_layout(problem, constant.input, constant.layout);
  return packed;
}

Tensor unpack_widened(const KernelBody& inner, const Problem& problem, const ConstantArg& packed) {
  const size_t end = packed.layout.find(kAs);
  const auto stored = parse_dtype(packed.layout.substr(0, end));
  if (end == std::string_view::npos || !stored ||
      !(*stored == DType::kF32 || is_16_bit_float(*stored)))
    throw unknown_layout(packed.layout);
  const Tensor wide =
      inner.unpack(in_f32(problem), {.input = packed.input,
                                     .layout = packed.layout.substr(end + kAs.size()),
                                     .bytes = packed.bytes});
  if (wide.dtype() != DType::kF32) throw unknown_layout(packed.layout);
  if (*stored == DType::kF32) return wide;
  std::vector<std::byte> bytes(static_cast<size_t>(wide.elems()) * size_bytes(*stored));
  narrow(*stored, reinterpret_cast<const float*>(wide.data()), bytes.data(), wide.elems());
  return Tensor::from_bytes(*stored, wide.shape(), bytes);
}

std::vector<PackedLayout> widened_layouts(const KernelBody& inner, const Problem& problem) {
  std::vector<PackedLayout> layouts = inner.packed_layouts(in_f32(problem));
  for (PackedLayout& packed : layouts)
    packed.layout = widened_layout(problem, packed.input, packed.layout);
  return layouts;
}

std::unique_ptr<KernelState> create_widened(const KernelBody& inner, const CreateCall& call) {
  auto state = std::make_unique<WidenedState>();
  state->inner = &inner;
  const size_t inputs = call.constant_inputs.size();
  state->constants.resize(inputs);
  state->packed.resize(inputs);
  std::vector<TensorArg> wide(call.constant_inputs.begin(), call.constant_inputs.end());
  std::vector<ConstantArg> constants(call.constants.begin(), call.constants.end());
  for (ConstantArg& constant : constants) {
    state->packed[constant.input] = true;
    const size_t end = constant.layout.find(kAs);
    if (end != std::string_view::npos) constant.layout.remove_prefix(end + kAs.size());
  }
  for (size_t i = 0; i < inputs; ++i) {
    TensorArg& arg = wide[i];
    if (!is_16_bit_float(arg.dtype)) continue;
    if (arg.data != nullptr) {
      std::vector<float> values(static_cast<size_t>(arg.elems()));
      widen_array(arg, values.data(), *call.execution.threads);
      state->constants[i] =
          Tensor::from_bytes(DType::kF32, Shape(arg.shape.begin(), arg.shape.begin() + arg.rank),
                             std::as_bytes(std::span(values)));
      arg = dense_f32(arg, nullptr);
      arg.data = constant_data(*state, i);
    } else {
      arg.dtype = DType::kF32;
    }
  }
  if (inner.create != nullptr) {
    state->inner_state = inner.create({call.attrs, call.numerics, constants, wide, call.execution});
  }
  return state;
}

std::unique_ptr<ShapeState> prepare_widened(const PrepareCall& call) {
  const auto& state = static_cast<const WidenedState&>(*call.state);
  auto shape = std::make_unique<WidenedShape>();
  shape->in.assign(call.in.begin(), call.in.end());
  shape->out.assign(call.out.begin(), call.out.end());
  for (auto* args : {&shape->in, &shape->out}) {
    for (TensorArg& arg : *args) {
      if (is_16_bit_float(arg.dtype)) arg = dense_f32(arg, nullptr);
    }
  }
  if (state.inner->prepare != nullptr) {
    shape->inner = state.inner->prepare(
        {call.attrs, state.inner_state.get(), shape->in, shape->out, call.execution});
  }
  size_t bytes = shape->inner == nullptr ? 0 : round_to_line(shape->inner->workspace_bytes);
  const auto place = [&bytes](std::vector<Copy>& copies, size_t operand, const TensorArg& arg) {
    copies.push_back({operand, bytes});
    bytes += round_to_line(static_cast<size_t>(arg.elems()) * sizeof(float));
  };
  for (size_t i = 0; i < call.in.size(); ++i) {
    const bool is_constant = i < state.constants.size() && state.constants[i].defined();
    const bool is_packed = i < state.packed.size() && state.packed[i];
    if (is_16_bit_float(call.in[i].dtype) && !is_constant && !is_packed)
      place(shape->widen, i, call.in[i]);
  }
  for (size_t i = 0; i < call.out.size(); ++i) {
    if (is_16_bit_float(call.out[i].dtype)) place(shape->narrow, i, call.out[i]);
  }
  shape->workspace_bytes = bytes;
  return shape;
}

void launch_widened(const LaunchCall& call) {
  const auto& state = static_cast<const WidenedState&>(*call.state);
  auto& shape = static_cast<WidenedShape&>(*call.shape_state);
  for (size_t i = 0; i < call.in.size(); ++i) {
    std::byte* constant = i < state.constants.size() ? constant_data(state, i) : nullptr;
    shape.in[i].data = constant != nullptr ? constant : call.in[i].data;
  }
  for (size_t i = 0; i < call.out.size(); ++i) shape.out[i].data = call.out[i].data;
  for (const Copy& copy : shape.widen) {
    TensorArg& wide = shape.in[copy.operand];
    wide.data = call.workspace + copy.offset;
    widen_array(call.in[copy.operand], wide.as<float>(), *call.execution.threads);
  }
  for (const Copy& copy : shape.narrow) shape.out[copy.operand].data = call.workspace + copy.offset;
  state.inner->launch({call.attrs, state.inner_state.get(), shape.inner.get(), shape.in, shape.out,
                       call.workspace, call.execution});
  for (const Copy& copy : shape.narrow) {
    narrow_array(shape.out[copy.operand].as<const float>(), call.out[copy.operand],
                 *call.execution.threads);
  }
}

}  // namespace vernier::backend::cpu
