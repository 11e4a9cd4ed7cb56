// Measuring: an answer of the engine beside R, with ties of integers taken for equal. Nothing here
// decides.
#pragma once
#include <cstdint>
#include <vector>

#include "verify/evidence.h"
#include "verify/sweep/context.h"

namespace vernier::verify {

/// One output of a run.
struct Answer {
  const std::string& name;
  const EvalTensor& want;       ///< R
  const Tensor* got = nullptr;  ///< null: missing
  const NamedTensors& inputs;   ///< of the run
  int64_t batch = 0;
  std::vector<int64_t> unjudged = {};  ///< rows whose finite numbers are taken for R's
};

/// Measures an answer. Adds its squares to `pool` and what changes in its rankings to `rankings`.
MeasuredOutput measure_alone(const Context& context, const Answer& answer, Pool& pool,
                             OutputResult& rankings);
/// Also adds it to its pool of the sweep, its cell and its line of the report.
MeasuredOutput measure(Context& context, const Answer& answer, CellResult& cell,
                       OutputResult& line);

}  // namespace vernier::verify
