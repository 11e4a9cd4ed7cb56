// Rules of `supports` that the kernels of all devices share: see supports.h.
#include "backend/supports.h"

namespace vernier::backend {

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
