// Rules of `supports` that the kernels of all devices share: see supports.h.
#include "backend/supports.h"

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
  if (problem.outputs[0].dtype != DType::kQ8)
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

Numerics quantized_numerics(const Problem& problem) {
  Numerics numerics = f32_numerics(problem);
  // The model's own integers are not rounded.
  numerics.compute = problem.inputs[kQuantizedX].dtype == DType::kQ8 ? DType::kQ8 : DType::kF32;
  numerics.accumulate = DType::kI32;
  for (size_t i : {kQuantizedX, kQuantizedW}) {
    const bool rounds = problem.inputs[i].dtype == DType::kQ8;
    numerics.points[i].type = rounds ? DType::kQ8 : DType::kUndefined;
  }
  return numerics;
}

Support attention_operands(const Problem& problem) {
  Support floats = all_up_to_f32(problem);
  if (!floats) return floats;
  for (size_t i = kQ; i <= kV; ++i) {
    if (rank_of(problem.inputs[i]) != 4) return no("q, k and v must have four axes");
  }
  if (problem.has_input(kKeep) && problem.inputs[kKeep].dtype != DType::kBool)
    return no("keep is not bool");
  for (size_t i : {kBias, kKeep, kCos, kSin}) {
    if (problem.has_input(i) && rank_of(problem.inputs[i]) > 4)
      return no("a table has more than four axes");
  }
  if (problem.has_input(kStartsQ) != problem.has_input(kStartsK))
    return no("only one of the two cu_seqlens is given");
  if (problem.has_input(kCos) != problem.has_input(kSin))
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
