// Localise: where the error of an engine's answers comes from, step by step. Contract:
// docs/diagnosis.md "Localise".
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "vernier/dtype.h"

namespace vernier::verify {

struct Request;

/// One rounding point of one step, or one constant that it multiplies: the largest magnitude there
/// in FP64, against what its type can hold.
struct RangeRow {
  int32_t step = -1;
  std::string name, op;            ///< the ONNX node that names the step, and the operator
  std::string point;               ///< "out", "q", "scores" …; "weight" for a constant operand
  double peak = 0;                 ///< largest |value| before it is rounded there
  DType type = DType::kUndefined;  ///< that it takes there
  double limit = 0;                ///< the largest finite number of `type`
  /// Twice the peak is within the limit; the peak alone in f32, the widest type.
  bool fits = true;
};

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
  /// (carried / reference) / the largest relative error of an input; 0: its inputs have no error.
  double amplification = 0;
  /// Of the error power at the engine's outputs, what this step adds. Errors of different steps
  /// are taken as independent; the shares of all steps add up to 1 (0 where nothing is wrong).
  double share = 0;
  int64_t non_finite = 0;      ///< elements that are NaN or infinite in E only, or in F only …
  int64_t own_non_finite = 0;  ///< … of these, the ones that this step produced from its own inputs
  /// True if the errors above cover all elements. Of what is left beside NaN and infinity they mean
  /// nothing: reports say "NaN".
  bool says_it_all() const { return non_finite == 0; }
};

struct Localisation {
  std::string inputs;            ///< "batch 4, length 16", or the user's file
  std::vector<StepError> steps;  ///< in order
  std::vector<RangeRow> ranges;  ///< of F: points that were passed, in step order
  /// The step that produces the first NaN or infinity that reaches the outputs.
  int32_t first_non_finite = -1;
  /// Do the shares mean anything? Not where NaN or infinity reaches the outputs.
  bool has_shares() const { return first_non_finite < 0; }
  /// Steps by the error that they add, the largest first; those that add at least `least`.
  std::vector<size_t> by_share(double least) const;
};

/// Where the error of one run comes from: of the request's first arrays, or of seeded ones with its
/// largest batch and length. Throws as verify().
Localisation localise(const Request& request);

/// A table with the steps that contribute most below it, and as JSON: docs/diagnosis.md.
std::string to_text(const Localisation& found);
std::string to_json(const Localisation& found);

}  // namespace vernier::verify
