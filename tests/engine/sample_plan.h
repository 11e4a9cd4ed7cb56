// A small plan by hand in which every field of plan.h says something, and comparison of plans.
#pragma once
#include "plan/plan.h"
#include "vernier/canary.h"
#include "vernier/certificate.h"

namespace vernier::engine {

/// Three steps (Gather, Linear with a packed weight, NonZero), two segments, five blobs.
plan::Plan sample_plan();

/// One input, one output, one Add; a constant of `weight_elems` f32 counting 0, 1, 2 …
plan::Plan weighty_plan(int64_t weight_elems);

/// A certificate in which every field says something, of the engine with this content hash.
Certificate sample_certificate(const std::string& content_hash);
/// A canary with a run, for any plan.
Canary sample_canary();

/// Every field of every struct is equal; weights are compared by their bytes.
bool same(const plan::Plan& a, const plan::Plan& b);

}  // namespace vernier::engine
