// What decides: results that a small change of a float flips. Verify follows the engine's decisions
// (docs/verification.md "Decisions"), so passes leave a node that decides a step of its own.
#pragma once
#include <span>

#include "core/dtype.h"
#include "core/op_kind.h"

namespace vernier {

/// Does an output of type `out` decide about floats? Integers of a discrete operator or a Cast do,
/// and what Round and its like give; TopK's values do not, its places do. `in`: the types of the
/// inputs that are there.
bool is_decision(OpKind kind, std::span<const DType> in, DType out);

}  // namespace vernier
