// Verify, first form: one input set, three evaluations (design "Verify").
//   R  FP64 evaluation of the original ONNX graph      F  FP64 evaluation of the engine's plan
//   E  the engine's own answer
// F against R tells whether the rewrite is right, E against R whether the engine is. No hole: NaN
// or Inf that R lacks, a missing or extra output, another type or shape: a failure, never a
// warning.
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "backend/kernel.h"
#include "core/tensor.h"
#include "io/npz.h"
#include "ir/graph.h"
#include "plan/plan.h"

namespace vernier::verify {

using NamedTensors = io::NamedTensors;

/// Limits of E against R. A missing limit is not checked, except that the worst element always is.
struct Tolerance {
  double worst = 1e-5;        ///< limit of |E − R| / (1 + |R|), every element
  std::optional<double> max;  ///< limit of |E − R|
  std::optional<double> rms;  ///< limit of rms(E − R) / rms(R)
  std::optional<double> cos;  ///< least cosine similarity
};
/// "rms=1e-3,max=1e-2,cos=0.9999" (worst= too). Throws Error(kInput) on anything else.
Tolerance parse_tolerance(const std::string& text);

/// How far `got` is from `want` (both float: got in its own type, want in FP64).
struct Distance {
  double max_abs = 0, rms = 0, rms_reference = 0, cosine = 1, worst = 0;
  int64_t worst_index = 0, worst_row = 0;   ///< of the largest |got − want| / (1 + |want|)
  int64_t elems = 0, wrong_non_finite = 0;  ///< NaN or Inf on one side only, or of another sign
  int64_t different_integers = 0;           ///< integer and bool arrays
};
Distance distance(const EvalTensor& got, const EvalTensor& want);

struct OutputResult {
  std::string name, verdict;  ///< "pass" or the reason in words
  Distance distance;
  bool passed = false;
};

/// One value that exists in both the original graph and the plan.
struct ValueResult {
  std::string name;   ///< ONNX value name
  int32_t step = -1;  ///< the step that made it
  std::string kernel, step_name;
  Distance distance;
  bool passed = false;
};

struct Report {
  std::string
      verdict;  ///< "pass", "bug (rewrite)", "precision", "nan", "overflow" or "expectation"
  std::string explanation;            ///< one or two sentences: what, where, which step, what to do
  std::vector<OutputResult> outputs;  ///< E against R
  std::vector<ValueResult> values;    ///< F against R, in step order
  std::vector<OutputResult> expected;  ///< R against the user's --expect arrays
  int64_t compared_values = 0;
  bool passed() const { return verdict == "pass"; }
};

struct Request {
  std::filesystem::path model, engine;
  NamedTensors inputs;
  NamedTensors expect;  ///< empty: none
  Tolerance tolerance;
  int threads = 0;
};

/// Compares the three evaluations of one input set, given the engine's answers. `model` is the
/// imported graph before any pass.
Report compare(const ir::Graph& model, const plan::Plan& plan, const backend::Backend& backend,
               const NamedTensors& inputs, const NamedTensors& answers, const Request& request);

/// Runs the three evaluations on `request.inputs`. Throws Error(kInput) when the engine does not
/// belong to the model (other inputs or outputs) or the inputs do not fit.
Report verify(const Request& request);

/// The report as a reader wants it on a terminal, and as JSON (design "The command line").
std::string to_text(const Report& report);
std::string to_json(const Report& report);

}  // namespace vernier::verify
