// Rules of `supports` that the kernels of all devices share: see supports.h.
#include "backend/supports.h"

#include <array>
#include <span>

namespace vernier::backend {

Support quantize_rows_operands(const Problem& problem) {
  const DType type = problem.inputs[0].dtype;
  if (type != DType::kF32 && !is_16_bit_float(type))
    return no("input 0 is " + std::string(name(type)) + ", this kernel takes f32, f16 and bf16");
  for (size_t i = 1; i < problem.inputs.size(); ++i) {
    if (problem.has_input(i) && problem.inputs[i].dtype != DType::kF32)
      return no("input " + std::to_string(i) + " is " + std::string(name(problem.inputs[i].dtype)) +
                ", this kernel takes f32");
  }
  if (!is_quantized_operand(problem.outputs[0].dtype))
    return no("output 0 is " + std::string(name(problem.outputs[0].dtype)));
  for (size_t i = 1; i < problem.outputs.size(); ++i) {
    const Operand& out = problem.outputs[i];
    if (out.present && out.dtype != DType::kF32)
      return no("output " + std::to_string(i) + " is " + std::string(name(out.dtype)) +
                ", this kernel gives f32");
  }
  return yes();
}

bool quantizes_result_of(const Problem& own, const Problem& next) {
  return next.op == OpKind::kQuantizeRows && next.inputs[0].dtype == own.outputs[0].dtype &&
         str(next.inputs[0].shape) == str(own.outputs[0].shape);
}

bool quantizes_heads_of(const Problem& own, const Problem& next) {
  const SymShape &out = own.outputs[0].shape, &x = next.inputs[0].shape;
  return next.op == OpKind::kQuantizeRows && next.has_input(2) &&
         next.inputs[0].dtype == own.outputs[0].dtype && x.size() == 3 && x[2] == out[2] * out[3];
}

namespace {

// The result and these inputs, where they are there, are f32, f16 or bf16.
Support up_to_f32(const Problem& problem, std::span<const size_t> inputs) {
  const auto fits = [](DType type) { return type == DType::kF32 || is_16_bit_float(type); };
  for (const size_t i : inputs) {
    if (problem.has_input(i) && !fits(problem.inputs[i].dtype))
      return no("input " + std::to_string(i) + " is " + std::string(name(problem.inputs[i].dtype)));
  }
  const DType result = problem.outputs[0].dtype;
  return fits(result) ? yes() : no("the output is " + std::string(name(result)));
}

}  // namespace

Support quantized_operands(const Problem& problem) {
  for (const size_t i : {kXScale, kWScale}) {
    if (problem.inputs[i].dtype != DType::kF32) return no("a scale is not f32");
  }
  for (const size_t i : {kWScale, kWZero}) {
    if (problem.has_input(i) && !problem.inputs[i].is_constant())
      return no("scales or zero points of the weight are not constants");
  }
  return up_to_f32(problem, std::array<size_t, 2>{kQuantizedBias, kQuantizedResidual});
}

Numerics quantized_numerics(const Problem& problem) {
  Numerics numerics = f32_numerics(problem);
  // The model's own integers and numbers of f8e4m3 are not rounded.
  const DType type = problem.inputs[kQuantizedX].dtype;
  const auto is_rounded = [&problem](DType held) {
    return held == DType::kF8E4M3 ? problem.asked.compute.type == held : is_quantized_operand(held);
  };
  numerics.compute = is_rounded(type) ? type : DType::kF32;
  if (is_8_bits(type)) numerics.accumulate = DType::kI32;
  for (size_t i : {kQuantizedX, kQuantizedW}) {
    const DType held = problem.inputs[i].dtype;
    numerics.points[i].type = is_rounded(held) ? held : DType::kUndefined;
  }
  return numerics;
}

Numerics weight_only_numerics(const Problem& problem) {
  Numerics numerics = f32_numerics(problem);
  const DType weight = problem.inputs[1].dtype;
  // The model's own integers are not rounded.
  if (weight == DType::kQ8) numerics.compute = DType::kW8;
  if (weight == DType::kQ4) numerics.compute = DType::kW4;
  numerics.points[1].type = is_quantized(numerics.compute) ? weight : DType::kUndefined;
  return numerics;
}

namespace {

// Are the numbers, where they are known, those that 4 bits can hold?
bool fits_4_bits(const Operand& operand) {
  if (operand.constant == nullptr || is_float(operand.dtype)) return true;
  const int64_t low = operand.dtype == DType::kI8 ? -8 : 0;
  for (int64_t i = 0; i < operand.constant->elems(); ++i) {
    const int64_t number = operand.constant->integer_at(i);
    if (number < low || number > low + 15) return false;
  }
  return true;
}

}  // namespace

Support weight_only_operands(const Problem& problem) {
  const auto attrs = problem.attrs_as<WeightOnlyLinearAttrs>();
  const DType type = problem.inputs[kWeightOnlyW].dtype;
  const DType rounded = attrs.bits == 4 ? DType::kQ4 : DType::kQ8;
  if (type != rounded && type != DType::kI8 && type != DType::kU8)
    return no("the weight is " + std::string(name(type)) + ", this kernel takes " +
              std::string(name(rounded)) + ", i8 and u8 of " + std::to_string(attrs.bits) +
              " bits");
  if (problem.inputs[kWeightOnlyScale].dtype != DType::kF32) return no("the scale is not f32");
  for (const size_t i : {kWeightOnlyScale, kWeightOnlyZero}) {
    if (problem.has_input(i) && !problem.inputs[i].is_constant())
      return no("scales or zero points of the weight are not constants");
  }
  for (const size_t i : {kWeightOnlyW, kWeightOnlyZero}) {
    if (attrs.bits == 4 && problem.has_input(i) && !fits_4_bits(problem.inputs[i]))
      return no("input " + std::to_string(i) + " has numbers of more than 4 bits");
  }
  if (attrs.block_size % 8 != 0)
    return no("blocks of " + std::to_string(attrs.block_size) +
              " rows, this kernel takes multiples of 8");
  return up_to_f32(problem,
                   std::array<size_t, 3>{kWeightOnlyX, kWeightOnlyBias, kWeightOnlyResidual});
}

WeightBits::WeightBits(const Problem& problem)
    : type(problem.inputs[kWeightOnlyW].dtype),
      bits(problem.attrs_as<WeightOnlyLinearAttrs>().bits) {}

int64_t WeightBits::offset() const {
  if (bits == 8) return type == DType::kU8 ? -128 : 0;
  return type == DType::kU8 ? 0 : 8;
}

uint8_t WeightBits::held(const Tensor& weight, int64_t i) const {
  const int64_t number = is_float(weight.dtype())
                             ? static_cast<int64_t>(round_to(type, weight.float_at(i)))
                             : weight.integer_at(i);
  const int64_t held = number + offset();
  VERNIER_ASSERT(bits == 8 || (held >= 0 && held < 16),
                 std::to_string(number) + " in a weight of 4 bits");
  return static_cast<uint8_t>(held);
}

std::byte WeightBits::number(uint8_t held) const {
  return static_cast<std::byte>(held - offset());  // modulo 256
}

std::string WeightBits::text() const {
  return std::string(name(type)) + " of " + std::to_string(bits) + " bits";
}

Support attention_operands(const Problem& problem) {
  Support floats = all_up_to_f32(problem);
  if (!floats) return floats;
  for (size_t i = kQ; i <= kV; ++i) {
    if (rank_of(problem.inputs[i]) != 4) return no("q, k and v must have four axes");
  }
  if (problem.has_input(kKeep) && problem.inputs[kKeep].dtype != DType::kBool)
    return no("keep is not bool");
  for (size_t i : {kQueryPositions, kKeyPositions}) {
    if (problem.has_input(i) && rank_of(problem.inputs[i]) != 4)
      return no("scores by relative position must have four axes");
  }
  for (size_t i : {kQueryBuckets, kKeyBuckets}) {
    if (!problem.has_input(i)) continue;
    const DType type = problem.inputs[i].dtype;
    if (type != DType::kI32 && type != DType::kI64) return no("buckets are not i32 or i64");
  }
  if (problem.has_input(kKeepQueries) && problem.inputs[kKeepQueries].dtype != DType::kBool)
    return no("keep_queries is not bool");
  for (size_t i : {kBias, kKeep, kCosines, kSines, kKeepQueries}) {
    if (problem.has_input(i) && rank_of(problem.inputs[i]) > 4)
      return no("a table has more than four axes");
  }
  if (problem.has_input(kStartsQ) != problem.has_input(kStartsK))
    return no("only one of the two cu_seqlens is given");
  if (problem.has_input(kCosines) != problem.has_input(kSines))
    return no("only one of the rotary tables is given");
  return yes();
}

Support resize_operands(const Problem& problem) {
  if (problem.inputs[kResizeX].shape.empty()) return no("input is a scalar");
  const bool sizes = problem.has_input(kResizeSizes);
  if (sizes && problem.attrs_as<ResizeAttrs>().aspect_policy != "stretch")
    return no("keeps the aspect ratio of its input");
  if (!sizes &&
      (!problem.has_input(kResizeScales) || problem.inputs[kResizeScales].constant == nullptr))
    return no("its scales are not constant");
  return yes();
}

int resized_axes(const Problem& problem) {
  const auto attrs = problem.attrs_as<ResizeAttrs>();
  const SymShape &x = problem.inputs[kResizeX].shape, &y = problem.outputs[0].shape;
  const size_t count = attrs.axes.empty() ? x.size() : attrs.axes.size();
  const auto rank = static_cast<int64_t>(x.size());
  int changing = 0;
  for (size_t i = 0; i < count; ++i) {
    const auto axis = static_cast<size_t>(attrs.axes.empty() ? static_cast<int64_t>(i)
                                                             : positive_axis(attrs.axes[i], rank));
    const bool scaled =
        !problem.has_input(kResizeSizes) &&
        problem.inputs[kResizeScales].constant->float_at(static_cast<int64_t>(i)) != 1;
    changing += scaled || x[axis] != y[axis] ? 1 : 0;
  }
  return changing;
}

}  // namespace vernier::backend
