// A small plan by hand in which every field of plan.h says something, and comparison of plans.
#pragma once
#include "plan/plan.h"

namespace vernier::engine {

/// Three steps (Gather, Linear with a packed weight, NonZero), two segments, five blobs.
plan::Plan sample_plan();

/// One input, one output, one Add; a constant of `weight_elems` f32 counting 0, 1, 2 …
plan::Plan weighty_plan(int64_t weight_elems);

/// Every field of every struct is equal; weights are compared by their bytes.
bool same(const plan::Plan& a, const plan::Plan& b);

}  // namespace vernier::engine
