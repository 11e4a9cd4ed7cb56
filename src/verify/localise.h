// Localise: where the error of an engine's answers comes from. One run on one set of inputs, step
// by step beside F, the FP64 evaluation of the plan. Contract: docs/verification.md "Localise".
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "evaluate/plan_evaluator.h"
#include "evaluate/ranges.h"
#include "evaluate/rows.h"
#include "plan/plan.h"
#include "verify/runner.h"

namespace vernier::verify {

using namespace evaluate;

/// The errors at one step's outputs, as root mean squares over all elements that are finite on both
/// sides. Integers count as numbers.
struct StepError {
  int32_t step = -1;
  std::string name, kernel;  ///< name: the ONNX node that names the composite
  DType store = DType::kUndefined;
  double reference_rms = 0;  ///< of F itself
  double total_rms = 0;      ///< E − F
  double local_rms = 0;      ///< E − the step in FP64 on E's own inputs and weights
  double weights_rms = 0;  ///< the step in FP64 with E's weights − with the model's: their rounding
  double carried_rms = 0;  ///< the step in FP64 on E's inputs − on F's: what its inputs bring in
  /// (carried / reference) over the largest relative error of an input; 0: its inputs have none.
  double amplification = 0;
  /// Of the error power at the engine's outputs, what this step adds. Errors of different steps
  /// are taken as independent; the shares of all steps add up to 1 (0 where nothing is wrong).
  double share = 0;
  int64_t non_finite = 0;      ///< elements NaN or infinite in E only, or in F only …
  int64_t own_non_finite = 0;  ///< … of which this step made so on its own inputs
};

struct Localisation {
  std::string inputs;            ///< "batch 4, length 16", or the user's file
  std::vector<StepError> steps;  ///< in order
  std::vector<RangeRow> ranges;  ///< of F: points that were passed, in step order
  /// The step that makes the first NaN or infinity on the way to the outputs (non_finite.h).
  int32_t first_non_finite = -1;
  /// Steps by what they add, the largest first; those that add at least `least`.
  std::vector<size_t> by_share(double least) const;
};

/// Follows one run of `runner`'s engine beside `f`, which evaluates its plan without rounding.
/// Memory: the engine's own, F's live values, and one step's arrays in FP64.
Localisation localise(const Engine& engine, PlanEvaluator& f, Runner& runner,
                      const NamedTensors& inputs);

/// A table with the steps that contribute most below it, and as JSON: docs/verification.md.
std::string to_text(const Localisation& found);
std::string to_json(const Localisation& found);

}  // namespace vernier::verify
