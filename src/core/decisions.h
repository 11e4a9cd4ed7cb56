// Decisions: results that a small change of a float can flip. Verify follows the engine's decisions
// (docs/verification_checks.md "Decisions"), so passes keep a deciding node as a step of its own.
#pragma once
#include <span>

#include "core/dtype.h"
#include "core/op_kind.h"

namespace vernier {

/// Is an output of type `out` a decision about floats? True for integers of a discrete operator or
/// a Cast, results of Round, Floor and Ceil, and TopK's indices (not its values). `in`: the types
/// of the present inputs.
bool is_decision(OpKind kind, std::span<const DType> in, DType out);

}  // namespace vernier
