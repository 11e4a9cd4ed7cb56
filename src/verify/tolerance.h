// The limits of E against R, applied. Contract: docs/verification.md "Limits".
#pragma once
#include <string>

#include "vernier/verify.h"

namespace vernier::verify {

/// "spearman of 'score' over 1379 rows: engine 0.8195, FP64 0.8203, loss 0.0008 …".
std::string task_text(const TaskResult& task);
/// Why an array at `distance` fails, or empty (all but rms and flips, which are pooled). `noise`:
/// an error that f32 itself is expected to make here; `worst` does not ask for less.
std::string complaint(const Distance& distance, const Tolerance& limit, double noise = 0);
/// How much of its limits an array at `distance` takes up: above 1 where complaint() complains, the
/// larger the worse; infinite for a wrong NaN or integer. Of rms where no element has a limit.
double share_of_limit(const Distance& distance, const Tolerance& limit, double noise = 0);

/// "each element 1e-05·(1+|reference|) or 3.2e-03, rms 1.1e-03 over all cells"; empty: no limits.
std::string limits_text(const AppliedLimits& held);

}  // namespace vernier::verify
