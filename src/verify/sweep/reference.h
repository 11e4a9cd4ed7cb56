// R, the FP64 evaluation of the model, on the arrays of a sweep. See context.h.
#pragma once
#include <string>
#include <vector>

#include "verify/sweep/context.h"

namespace vernier::verify {

/// R's outputs.
NamedValues reference_of(const Context& context, const NamedTensors& inputs);
/// R of the first `count` rows of a group, whose batch is `inputs`: of each row once, unless the
/// model mixes rows.
NamedValues reference_for(const Context& context, Group& group, int64_t count,
                          const NamedTensors& inputs);
/// What another tool says that the model's output `name` is on these inputs, as the engine means
/// it: 0 at padding, where the engine fills it so.
Tensor with_zero_fill(const Context& context, const std::string& name, const NamedTensors& inputs,
                      const Tensor& value);
/// R that `answers` are judged by: R, or, where they are outside the limits and the plan decides,
/// R on the path of the engine's decisions, as far as they are ties. Counts ties.
NamedValues reference_beside(Context& context, NamedValues reference, const NamedTensors& inputs,
                             const NamedTensors& answers);

}  // namespace vernier::verify
