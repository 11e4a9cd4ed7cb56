// How much of a plan's products is quantized, for its notes. Contract: docs/quantization.md.
#pragma once
#include <set>
#include <string>
#include <vector>

#include "plan/plan.h"

namespace vernier::compiler {

/// Empty if no product was asked for int8 operands and `mode_is_int8` is false. Else one note: how
/// many of the products that were asked for have them, and their share of the operations, at the
/// largest sizes of the plan. `fragile`: keys of ONNX nodes that were asked for, but kept in 16
/// bits.
std::vector<std::string> quantization_notes(const plan::Plan& plan, bool mode_is_int8,
                                            const std::set<std::string>& fragile);

}  // namespace vernier::compiler
