// Verify: the saved engine against the FP64 evaluation of its model. Contract:
// docs/verification.md.
//   R  FP64 evaluation of the original ONNX graph      F  FP64 evaluation of the engine's plan
//   E  the engine's own answer                         I_s  one step in FP64 on E's own inputs
// Four questions, none skipped: is the rewrite right (F against R), is every kernel right (E_s
// against I_s), is the answer right (E against R), are rows independent (bits). NaN or
// Inf that R lacks, a missing or extra output, another type or shape is a failure.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "vernier/dtype.h"
#include "vernier/engine.h"
#include "vernier/limits.h"
#include "vernier/localise.h"
#include "vernier/session.h"
#include "vernier/tensor.h"
#include "vernier/verdict.h"

namespace vernier::verify {

/// Limits; infinity or empty: not checked. NaN, infinities and integers are always checked.
struct Tolerance {
  double worst = 1e-5;          ///< of |E − R| / (1 + |R|), every element
  double rms = 1e-5;            ///< of rms(E − R) / rms(R), over all cells; never below the noise
  bool above_noise = true;      ///< worst and rms ask for no less error than f32 has here
  std::optional<double> max;    ///< of |E − R|, every element
  std::optional<double> cos;    ///< minimum cosine similarity of a cell
  std::optional<double> flips;  ///< maximum share of rankings whose first place changes
  /// Of what Request::task loses: the metric of FP64 minus the engine's.
  std::optional<double> metric;
  bool operator==(const Tolerance&) const = default;
};
/// Are these limits a choice of the user's, other than the usual ones?
inline bool is_own(const Tolerance& tolerance) { return tolerance != Tolerance{}; }
/// "rms=1e-3,max=1e-2,cos=0.9999,flips=0" (worst= and metric= too): exactly these limits; empty:
/// the usual ones. Throws Error(kInput) on anything else.
Tolerance parse_tolerance(const std::string& text);
/// "worst=1e-05,rms=1e-05": what parse_tolerance reads back.
std::string to_text(const Tolerance& tolerance);

enum class Depth : uint8_t {
  kDefault,
  kThorough,
  kQuick,  ///< batches 1 and 4, lengths 4 and 48, no cells beyond them
};

/// The user's arrays, and where they come from.
struct UserInputs {
  std::string label;
  NamedTensors arrays;
};

/// What the answers are for: one number over all rows of Request::inputs, of the engine's answers
/// and of FP64's. Rows are counted through all inputs, in their order.
struct Task {
  /// "accuracy": labels [rows] are the classes of scores [rows, classes] (or [rows, 1]: a positive
  ///   score is class 1), or [rows, n] of scores [rows, n, classes]; a negative label is left out.
  /// "spearman": rank correlation (ties have their mean rank) of scores [rows] or [rows, 1] with
  ///   labels [rows]; of embeddings [rows, d] that of the cosines of rows 2i and 2i + 1 with labels
  ///   [rows / 2].
  /// "mrr", "ndcg": scores [rows] or [rows, 1] order the rows of one group (groups [rows]); labels
  ///   [rows] are relevances >= 0. Mean over groups of 1 / the place of the first relevant row; of
  ///   the discounted gain of the first ten beside the best order (gain 2^relevance − 1, discount
  ///   log2(place + 1): Burges et al., ICML 2005). Equal scores keep the order of rows. A group
  ///   without a relevant row is left out.
  /// "cosine": mean cosine of the engine's rows with FP64's; no labels.
  /// Empty: no task.
  std::string metric;
  std::string output;   ///< the output that is scored; empty: the model's only output of floats
  NamedTensors labels;  ///< "labels" and "groups", in any type of numbers
};

struct Request {
  std::filesystem::path model, engine;
  /// Kernels in place of the device's own (load_plugins()), for `engine`; null: its own.
  const KernelSet* kernels = nullptr;
  bool read_into_memory = false;   ///< as EngineOptions has it
  std::vector<UserInputs> inputs;  ///< empty: a sweep of seeded inputs inside their domains
  NamedTensors expect;             ///< outputs of the first of `inputs`; empty: none
  Task task;                       ///< measured on all of `inputs` (Report::task)
  Tolerance tolerance;
  /// Errors that kernels declare above the cap (docs/verification_checks.md "Declared errors") are
  /// no finding; the report and the certificate say that they were accepted.
  bool accept_declared = false;
  std::vector<int64_t> batches, lengths;  ///< of the sweep; empty: those of `depth`
  Depth depth = Depth::kDefault;
  /// Cells beyond the grid are visited as far as all work takes about so long; 0: as `depth` says.
  double budget_seconds = 0;
  /// Only the part between these named values of the model, on the engine's own values at `from`
  /// (empty: the inputs); `to` empty: the outputs. Both empty: everything.
  std::vector<std::string> from, to;
  std::string batch_axis;  ///< the size that counts rows; empty: found on R
  uint64_t seed = 1;
  int threads = 0;
  /// Where the FP64 evaluation runs: "cpu", "cuda" (on the GPU what that takes), or empty: on the
  /// GPU for an engine that runs there.
  std::string evaluate_on;
  /// Another engine of the same model, whose answers are compared with this one's
  /// (Report::against); empty: none.
  std::filesystem::path against;
  /// "onnxruntime": its answers are compared with FP64 beside the engine's (Report::also). Empty:
  /// nobody's.
  std::string also;
  std::string also_python;  ///< the Python that has it; empty: "python3"
  bool localise = false;    ///< fill Report::localisation: some more FP64 evaluations of one cell
  bool time = false;        ///< fill Report::times
  bool resume = false;      ///< go on from `checkpoint`, if it is of an equal request
  std::filesystem::path html;  ///< where verify() writes its page; empty: nowhere
  /// Where verify() keeps what is done (.npz), every ten seconds or more, and where it is stopped;
  /// removed at its end. Empty: nowhere. Not for a part (from, to).
  std::filesystem::path checkpoint;
  std::function<void(const std::string& stage)> progress;
  /// Of verify(), localise(), bisect() and reduce(), from their beginning to their end.
  Limits limits;
};

/// How far `got` is from `want` (got in its own type, want in FP64). Relative errors are to |want|.
struct Distance {
  double max_abs = 0, mean_abs = 0, p99_abs = 0;
  double max_rel = 0;
  double rms = 0, rms_reference = 0;
  double max_ulp = 0;  ///< units in the last place of got's type at want
  double cosine = 1;
  double snr_db = 0;                        ///< 20·log10(rms_reference / rms); 400 where equal
  double worst = 0;                         ///< largest |got − want| / (1 + |want|)
  int64_t worst_index = 0, worst_row = 0;   ///< of `worst`
  int64_t elems = 0, wrong_non_finite = 0;  ///< NaN or Inf on one side only, or of another sign
  int64_t different_integers = 0;           ///< integer and bool arrays
  /// True if the errors above cover all elements. False: NaN or infinities of one side only are
  /// left out, so the rest means nothing; reports do not show it.
  bool says_it_all() const { return wrong_non_finite == 0; }
};

/// One row of one output.
struct RowMetrics {
  int64_t row = 0;
  Distance distance;
  int64_t rankings = 0, top1_changes = 0, top5_changes = 0;  ///< over its last axes
  double least_correlation = 1;
};

/// What one step did, judged by its worst element.
struct StepResult {
  int32_t step = -1;
  std::string kernel, name;  ///< name: the ONNX node that names the composite
  bool passed = true;
  std::string why;   ///< empty, or what is wrong with the worst element
  double error = 0;  ///< |E_s − I_s| of the element that comes closest to its limit
  double limit = 0;  ///< of that element
  double ratio = 0;  ///< error / limit; infinite for a wrong NaN or integer
  /// Of an output in 16 bits: the root mean square of all its errors beside its limit.
  double rms_ratio = 0;
  double inside_factor = 0;  ///< of T: the largest that any element needs
  int64_t elems = 0;
  /// A result that its type cannot hold: FP64 has a finite one. What the element was, and the type.
  bool overflowed = false;
  double overflow_value = 0;
  DType overflow_type = DType::kUndefined;
  bool non_finite = false;  ///< NaN or infinite where FP64 is finite
  /// The error that the kernel declares, at the rms of the step's output, and the most that it may
  /// declare there: of the cell where it exceeds this most. 0: it declares none.
  double declared = 0, declared_limit = 0;
  bool declares_too_much() const { return declared > declared_limit; }
};

/// One kind of check over all cells.
struct CheckResult {
  std::string name;
  int64_t done = 0, failed = 0;
  std::string note;  ///< the first failure, or why there was nothing to do
};

/// One batch of inputs.
struct CellResult {
  std::string label;  ///< "batch 4, length 16", or the user's file
  int64_t batch = 0, length = 0;
  std::string sizes;                 ///< "length 16"; "src 4, tgt 16" where they differ
  Verdict verdict = Verdict::kPass;  ///< of this cell alone
  std::string why;
  double worst = 0;                            ///< largest |E − R| / (1 + |R|)
  double share_of_limit = 0;                   ///< of the output that comes closest to its limit
  bool far = false;                            ///< beyond the grid of batches and lengths
  bool given = false;                          ///< the user's arrays, which are no part of the grid
  std::map<std::string, int64_t> named_sizes;  ///< of the run: each named size of the engine
};

/// What an output was really held to: the tolerance, raised by the noise.
struct AppliedLimits {
  /// Of |E − R| / (1 + |R|) of each element; infinite: none.
  double worst = std::numeric_limits<double>::infinity();
  double element = 0;  ///< |E − R| of an element may be this in any case: what the types explain
  double rms = std::numeric_limits<double>::infinity();  ///< of rms(E − R) over all cells
  std::optional<double> max, cos, flips;                 ///< as of Tolerance
};

/// One output over all cells.
struct OutputResult {
  std::string name, why;
  Verdict verdict = Verdict::kPass;
  Distance worst;                ///< of the cell with the largest |E − R| / (1 + |R|)
  std::string worst_cell;        ///< its label
  double noise_rms = 0;          ///< rms(I − F), the error expected from rounding, over all cells
  double all_rms = 0;            ///< rms(E − R) over all cells, compared with the noise
  double all_rms_reference = 0;  ///< rms(R) over all cells
  double largest_abs = 0;        ///< |E − R| over all cells
  double least_cosine = 1;       ///< of a cell
  AppliedLimits limits;
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

/// What a verdict comes from and what is to be done, in parts: of the finding that gave the
/// verdict.
struct Cause {
  std::string cell = {};               ///< "batch 4, length 16"; empty: of no single one
  int32_t step = -1;                   ///< that is to blame; -1: not one step
  std::string kernel = {}, node = {};  ///< of it: the ONNX node that names the composite
  std::string value = {};   ///< "94371.2, and f16 holds at most 65504"; empty: no single value
  std::string reason = {};  ///< the explanation without cell and rules
  std::vector<std::string> rules = {};  ///< for --rule: what mends it
  std::string command = {};  ///< the next one to run: a build with the rules, bisect, verify …
};

/// How the answers differ from those of Request::against, over all cells. It decides no verdict.
struct AgainstOlder {
  struct OutputChange {
    std::string name = {};
    int64_t equal_cells = 0;      ///< with equal bits
    std::string first_cell = {};  ///< that has other bits
    double rms = 0;               ///< of the difference, as a part of the older engine's rms
    double worst = 0;             ///< largest |new − old| / (1 + |old|)
    int64_t wrong_non_finite = 0, different_integers = 0;
    int64_t rankings = 0, top1_changes = 0, top5_changes = 0;
    double least_correlation = 1;
  };
  std::string file, engine_hash;
  int64_t cells = 0;
  std::vector<OutputChange> outputs = {};
  bool equal() const;  ///< all bits
};

/// How far ONNX Runtime's answers are from FP64, beside the engine's, over all cells that it
/// answered (Request::also). It decides no verdict.
struct AlsoJudged {
  struct Error {
    double rms = 0;    ///< of the answer minus R
    double worst = 0;  ///< largest |answer - R| / (1 + |R|)
    int64_t wrong_non_finite = 0, different_integers = 0;
  };
  struct Output {
    std::string name = {};
    double rms_reference = 0;  ///< of R
    Error engine = {}, other = {};
    /// The other's rms as a multiple of the engine's; empty where the engine's is 0, or one of them
    /// has NaN or infinity of its own.
    std::optional<double> ratio() const;
    /// "vernier", "other" or "equal": by NaN and infinities, then integers, then rms.
    std::string_view nearer() const;
  };
  std::string name, version;  ///< "onnxruntime", "1.31.1"
  int64_t cells = 0, answered = 0;
  std::string refused = {};  ///< why it did not answer the first of the others
  std::vector<Output> outputs = {};
};

/// What Request::task measured. NaN scores rank last.
struct TaskResult {
  std::string metric, output;
  std::string unit;            ///< what it is a mean over: "rows", "pairs of rows", "groups" …
  int64_t count = 0;           ///< of them
  double engine = 0;           ///< of the engine's answers
  double reference = 0;        ///< of FP64's; 1 with "cosine"
  int64_t changed = 0;         ///< rows whose class changes, groups whose first row changes
  double largest_shift = 0;    ///< |engine − FP64| of a score; of pairs: of their cosine
  std::optional<double> most;  ///< the loss that Tolerance::metric allows
  double loss() const { return reference - engine; }
};

/// What a part of the work took.
struct Cost {
  std::string what;
  double seconds = 0;
};

struct Report {
  Verdict verdict = Verdict::kPass;
  std::string explanation;         ///< what, where, which step, what to do
  Cause cause;                     ///< the same in parts
  std::vector<std::string> notes;  ///< domains and what else the reader should know
  std::string resumed;  ///< with Request::resume: what was taken from the checkpoint, or why not
  std::vector<CellResult> cells;
  std::vector<OutputResult> outputs;
  std::vector<CheckResult> checks;
  std::vector<ValueResult> rewrites;  ///< F against R: values that differ
  std::vector<StepResult> steps;      ///< replay: the worst of every step
  int64_t compared_values = 0;
  std::optional<Localisation> localisation;  ///< of the worst cell, where it was asked for
  std::optional<StepTimes> times;            ///< where they were asked for
  std::optional<AgainstOlder> against;       ///< where another engine was given
  std::optional<AlsoJudged> also;            ///< where another implementation was asked too
  std::optional<TaskResult> task;            ///< where a task was given
  std::string engine_hash, data_hash;        ///< what was verified, on which arrays
  Tolerance tolerance;
  double ms = 0;
  std::vector<Cost> costs;  ///< parts of `ms`, in the order in which they first began
  bool passed() const { return verdict == Verdict::kPass; }
  /// Does it pass although kernels declare errors above the cap? (Request::accept_declared)
  bool accepted_declared() const;
};

/// Verifies the files of `request` and writes its HTML page, whatever the verdict. Throws
/// Error(kInput) when the engine does not belong to the model (other inputs or outputs), the inputs
/// do not fit or no cell is left in the engine's range.
Report verify(const Request& request);
/// As verify(), and writes the certificate, whatever the verdict, into the engine file.
Report verify_and_stamp(const Request& request);

/// The report for a terminal, and as JSON: docs/verification.md.
std::string to_text(const Report& report);
/// Report::costs, a line each.
std::string costs_text(const Report& report);
std::string to_json(const Report& report);

/// A report that was stored as JSON, judged by other limits.
struct StoredJudgement {
  Verdict verdict = Verdict::kPass;
  std::string explanation;
  struct Output {
    std::string name, why;  ///< why: empty where it is inside the limits
  };
  std::vector<Output> outputs;
};
/// What to_json() gave of a report under `tolerance`, whose limits are the user's own. A verdict
/// that no tolerance changes stays. Nothing is run or evaluated. Throws Error(kInput) where the
/// text is no such report, or `tolerance` is the usual one.
StoredJudgement judge_stored(const std::string& json, const Tolerance& tolerance);
std::string to_text(const StoredJudgement& judgement);
std::string to_json(const StoredJudgement& judgement);

/// Does a dense float array hold NaN or infinity? False for other types. Reads `bytes` once.
bool is_non_finite(DType dtype, std::span<const std::byte> bytes);
/// What a user should know about outputs of session.run(inputs) that hold NaN or infinity, which
/// `names` are: which node makes it of finite inputs. Runs `inputs` once more, watched: outputs of
/// the run before are gone.
std::string explain_non_finite(Session& session, std::span<const Input> inputs,
                               std::span<const std::string> names);

}  // namespace vernier::verify
