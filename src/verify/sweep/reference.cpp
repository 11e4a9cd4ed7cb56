// R: see reference.h. Ties are found in decisions.cpp.
#include "verify/sweep/reference.h"

#include <algorithm>

#include "core/token_rows.h"
#include "ops/evaluate.h"
#include "verify/sweep/inputs.h"

namespace vernier::verify {

NamedValues reference_of(const Context& context, const NamedTensors& inputs) {
  ops::EvaluateOptions options;
  options.watch = context.watch;
  options.constants = context.in_fp64.get();
  return ops::evaluate(context.subject.model, {inputs.begin(), inputs.end()}, options).outputs;
}

Tensor with_zero_fill(const Context& context, const std::string& name, const NamedTensors& inputs,
                      const Tensor& value) {
  for (const auto& [output, mask_name, padding] : context.subject.plan.build.zero_filled) {
    const Tensor* mask = find(inputs, mask_name);
    const bool fits = output == name && mask != nullptr && value.rank() >= 2 &&
                      std::equal(mask->shape().begin(), mask->shape().end(), value.shape().begin(),
                                 value.shape().begin() + 2);
    if (fits) return zero_padding(value, *mask, padding);
  }
  return value;
}

NamedValues reference_for(const Context& context, Group& group, int64_t count,
                          const NamedTensors& inputs) {
  const BatchAxes& axes = context.inputs.axes;
  if (!axes.known() || axes.fixed_rows > 1 || !context.inputs.mixed.empty())
    return reference_of(context, inputs);
  const auto rows = static_cast<size_t>(count);
  while (group.reference.size() < rows) {
    const size_t row = group.reference.size();
    const bool repeats = group.far && row >= kDistinctFarRows;
    group.reference.push_back(repeats ? NamedValues(group.reference[row - kDistinctFarRows])
                                      : reference_of(context, group.rows[row]));
  }
  std::vector<const NamedValues*> parts;
  for (size_t row = 0; row < rows; ++row) parts.push_back(&group.reference[row]);
  return join_rows(parts, axes);
}

}  // namespace vernier::verify
