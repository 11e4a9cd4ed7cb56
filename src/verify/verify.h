// Verify: the saved engine against the FP64 evaluation of its model (design "Verify"). Contract:
// docs/verification.md.
//   R  FP64 evaluation of the original ONNX graph      F  FP64 evaluation of the engine's plan
//   E  the engine's own answer                         I_s  one step in FP64 on E's own inputs
// Four questions, none skipped: is the rewrite right (F against R), is every kernel right (E_s
// against I_s), is the answer right (E against R), are rows independent (bits). No hole: NaN or
// Inf that R lacks, a missing or extra output, another type or shape is a failure.
#pragma once
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "evaluate/domain.h"
#include "evaluate/rows.h"
#include "ir/graph.h"
#include "verify/localise.h"
#include "verify/metrics.h"
#include "verify/replay.h"
#include "verify/tolerance.h"
#include "vernier/engine.h"

namespace vernier::verify {

using namespace evaluate;

enum class Depth : uint8_t { kDefault, kThorough };

/// Arrays of the user's, and where they come from.
struct UserInputs {
  std::string label;
  NamedTensors arrays;
};

struct Request {
  std::filesystem::path model, engine;
  /// Kernels in place of the device's own (load_plugins()), for `engine`; null: its own.
  const backend::Backend* backend = nullptr;
  bool read_into_memory = false;   ///< as EngineOptions has it
  std::vector<UserInputs> inputs;  ///< empty: a sweep of seeded inputs inside their domains
  NamedTensors expect;             ///< outputs of the first of `inputs`; empty: none
  Tolerance tolerance;
  std::vector<int64_t> batches, lengths;  ///< of the sweep; empty: those of `depth`
  Depth depth = Depth::kDefault;
  /// Only the part between these named values of the model, on the engine's own values at `from`
  /// (empty: the inputs); `to` empty: the outputs. Both empty: everything.
  std::vector<std::string> from, to;
  std::string batch_axis;  ///< the size that counts rows; empty: found on R
  uint64_t seed = 1;
  int threads = 0;
  bool localise = false;  ///< fill Report::localisation: some more FP64 evaluations of one cell
  bool time = false;      ///< fill Report::times
  std::filesystem::path html;  ///< where verify() writes its page (html_report.h); empty: nowhere
  std::function<void(const std::string& stage)> progress;
  /// Of verify(), localise(), bisect() and reduce(), from their beginning to their end.
  Limits limits;
};

/// One kind of check over all cells.
struct Check {
  std::string name;
  int64_t done = 0, failed = 0;
  std::string note;  ///< the first failure, or why there was nothing to do
};

/// One batch of inputs.
struct CellResult {
  std::string label;  ///< "batch 4, length 16", or the user's file
  int64_t batch = 0, length = 0;
  std::string sizes;             ///< "length 16"; "src 4, tgt 16" where they differ
  std::string verdict = "pass";  ///< of this cell alone
  std::string why;
  double worst = 0;           ///< largest |E − R| / (1 + |R|)
  double share_of_limit = 0;  ///< of the output that comes closest to its limit (tolerance.h)
};

/// One output over all cells.
struct OutputResult {
  std::string name, verdict = "pass", why;
  Distance worst;          ///< of the cell with the largest |E − R| / (1 + |R|)
  std::string worst_cell;  ///< its label
  double noise_rms = 0;    ///< rms(I − R): what rounding is expected to do here, over all cells
  double all_rms = 0;      ///< rms(E − R) over all cells: what is held against the noise
  double all_rms_reference = 0;  ///< rms(R) over all cells
  bool mixed_by_model = false;
  std::vector<RowMetrics> rows;  ///< of the worst cell
  int64_t rankings = 0, top1_changes = 0, top5_changes = 0;
  double least_correlation = 1;
};

/// F against R at one value that exists in both the original graph and the plan.
struct ValueResult {
  std::string name;   ///< ONNX value name
  int32_t step = -1;  ///< the step that made it
  std::string kernel, step_name;
  Distance distance;
  bool passed = false;
};

/// The median time of every step at the profile's optimum. No two runs give the same.
struct StepTimes {
  std::string inputs;  ///< "input_ids [4, 128], …"
  std::vector<double> ms;
};

struct Report {
  /// "pass", "bug (rewrite)", "bug (uninitialised read)", "bug (race)", "bug", "overflow", "nan",
  /// "neighbours", "precision" or "reference".
  std::string verdict = "pass";
  std::string explanation;         ///< what, where, which step, what to do
  std::vector<std::string> notes;  ///< domains and what else the reader should know
  std::vector<CellResult> cells;
  std::vector<OutputResult> outputs;
  std::vector<Check> checks;
  std::vector<ValueResult> rewrites;  ///< F against R: values that differ
  std::vector<StepResult> steps;      ///< replay: the worst of every step
  int64_t compared_values = 0;
  std::optional<Localisation> localisation;  ///< of the worst cell, where it was asked for
  std::optional<StepTimes> times;            ///< where they were asked for
  std::string engine_hash, data_hash;        ///< what was verified, on which arrays
  Tolerance tolerance;
  double ms = 0;
  bool passed() const { return verdict == "pass"; }
};

/// Verifies the files of `request` and writes its HTML page, whatever the verdict. Throws
/// Error(kInput) when the engine does not belong to the model (other inputs or outputs), the inputs
/// do not fit or no cell is left in the engine's range.
Report verify(const Request& request);
/// As above for an engine and its imported model at hand.
Report verify_engine(const std::shared_ptr<const Engine>& engine, const ir::Graph& model,
                     const Request& request);

/// The engine of `request`, with its backend, and its weights checked. Throws Error as
/// Engine::open.
std::shared_ptr<const Engine> open_checked(const Request& request);

/// Where the error of one run comes from: of request.inputs' first arrays, or of seeded ones with
/// the largest batch and length of the request. Throws as verify().
Localisation localise_model(const std::shared_ptr<const Engine>& engine, const ir::Graph& model,
                            const Request& request);

/// As above for the files of `request`.
Localisation localise_files(const Request& request);

/// What the report says, for the engine file. `model_hash`: of the model's file.
Certificate certificate_of(const Report& report, const std::string& model_hash);
/// Verifies and writes the certificate, whatever its verdict, into the engine file.
Report verify_and_stamp(const Request& request);

/// The report as a reader wants it on a terminal, and as JSON (design "The command line").
std::string to_text(const Report& report);
std::string to_json(const Report& report);

}  // namespace vernier::verify
