// Inputs of a sweep: their domains, the axis that counts rows, sizes, rows. Contract:
// docs/verification.md "Inputs".
#pragma once
#include <vector>

#include "verify/sweep/context.h"

namespace vernier::verify {

/// Fills `context.inputs`, with notes. Throws Error(kInput) where the engine is not one of the
/// model, and for sizes and arrays that it does not take.
void make_inputs(Context& context);

/// The batches that a group is run at.
std::vector<int64_t> batches_of(const Context& context, const Group& group);

}  // namespace vernier::verify
