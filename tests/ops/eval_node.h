// Evaluates one operator on given tensors: shapes from inference, values from the FP64 evaluator.
// For tests that compose operators or look at rounding points.
#pragma once
#include <vector>

#include "core/evaluator.h"

namespace vernier::test {

/// An input that is absent is an EvalTensor of kUndefined. `attrs`: text form, "" for defaults.
EvalTensor eval_node(OpKind op, const std::string& attrs, std::vector<EvalTensor> inputs,
                     const Rounding& rounding = {});

/// A float tensor (f64) of the given values, or of values in [-1, 1) drawn from `seed`.
EvalTensor tensor(Shape shape, std::vector<double> values);
EvalTensor random_tensor(Shape shape, uint64_t seed);
EvalTensor integers(DType dtype, Shape shape, std::vector<int64_t> values);

}  // namespace vernier::test
