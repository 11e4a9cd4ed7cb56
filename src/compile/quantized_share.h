// How much of a plan's products is quantized, for its notes. Contract: docs/quantization.md.
#pragma once
#include <set>
#include <string>
#include <vector>

#include "plan/plan.h"

namespace vernier::compiler {

/// For each type that products are quantized to (q8, w8, w4) and that some were asked for, or that
/// the mode quantizes to (`of_mode`, kUndefined: none), one note: how many of the products that
/// were asked for have it, and their share of the operations, at the largest sizes of the plan.
/// `by_mode`: keys of ONNX nodes of products that the mode asks for, unless a rule asks for another
/// type; `fragile`: of those of them that were kept in a wider type.
std::vector<std::string> quantization_notes(const plan::Plan& plan, DType of_mode,
                                            const std::set<std::string>& by_mode,
                                            const std::set<std::string>& fragile);

}  // namespace vernier::compiler
