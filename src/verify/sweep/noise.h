// What the engine's types are expected to do to the answers, and the limits that follow. Contract:
// docs/verification.md "Limits".
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "verify/metrics.h"
#include "verify/sweep/context.h"

namespace vernier::verify {

/// Fills `context.precision` but for its pools and the engine's exact constants (constants.h).
/// Compiles the model again where the engine's policy has rules.
void read_precision(Context& context);

/// Rows whose noise is drawn so many times, and F0's outputs on them.
struct NoisyRows {
  NamedTensors inputs;
  NamedValues exact;
  int64_t draws = 0;
};
/// The first rows of a group: one draw, of the seed 0.
NoisyRows first_noisy_rows(const Context& context, const Group& group);
/// The rows that are judged, where the engine is in 16 bits: draws of the seeds 1, 2, … No draws
/// otherwise.
NoisyRows noisy_rows(const Context& context, const Group& group);

/// I0 − F0, by output. Both are evaluations of the plan of the mode's usual policy, on the same
/// decisions, so that neither a policy of the user's nor a wrong rewrite is measured by itself.
using NoiseDraw = std::vector<std::pair<std::string, Distance>>;
/// Several may be drawn at the same time.
NoiseDraw draw_noise(const Context& context, const NoisyRows& rows, uint64_t seed);
/// Adds a draw to the pools.
void add_noise(Context& context, const NoiseDraw& draw);
void add_to_noise(Context& context, const std::string& name, const Distance& d);

/// The largest error of one element of an output that the engine's types explain.
double noise_limit(const Context& context, const std::string& name);
/// rms of the noise of a pool; 0 where none was measured.
double noise_rms(const Pool& pool);
/// What the output is held to over all cells: `tolerance`, raised by `pool`'s noise and size.
AppliedLimits applied_limits(const Context& context, const std::string& name, const Pool& pool);
/// Why the error over all cells is too large, or empty. `noise`: rms of the sweep's own pool.
std::string pooled_complaint(const Context& context, const Pool& pool, double noise);
/// Why the rankings of an output are outside --tolerance flips, or empty.
std::string flips_complaint(const Tolerance& tolerance, const OutputResult& output);

}  // namespace vernier::verify
