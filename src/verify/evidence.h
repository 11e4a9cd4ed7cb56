// What checks are asked about: the evidence that a sweep makes, one type for each kind. The type of
// a check's argument says what it needs and how often it is asked. References are valid during the
// call.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "evaluate/rows.h"
#include "verify/metrics.h"
#include "verify/sweep/context.h"
#include "vernier/verify.h"

namespace vernier::verify {

/// Once, before everything else; not for a part: the engine's constants beside the model's.
struct EngineConstants {
  const std::vector<HeldConstant>& constants;
};

/// A value that the model and the engine's plan both name, on some rows of a group: F beside R.
struct ComparedValue {
  size_t step = 0, index = 0;  ///< of the plan: which step makes it, which value it is
  bool fits = true;            ///< of R's shape and kind; no distance if not
  Distance distance = {};
};

/// A group before its cells are run: R and F of each of its rows, some rows at a time.
struct GroupValues {
  Group& group;
  const std::vector<ComparedValue>& compared;
};

/// One run of the engine.
struct CellRun {
  int64_t rows = 1;
  NamedTensors inputs, answers;
};

/// Each cell: the same inputs run again, and the outputs whose bits differ from the first run's.
struct RepeatedRuns {
  const Group& group;
  const CellRun& run;
  std::vector<std::string> other_memory = {};  ///< with other numbers in memory before the run
  std::vector<std::string> again = {};         ///< the same run
  std::vector<std::string> one_thread = {};
  std::vector<std::string> unwatched = {};  ///< without an observer, for the first time
  /// Without an observer, after other inputs of these sizes, or other inputs after this run.
  std::vector<std::string> after_others = {};
  std::string after_what = {};  ///< of a difference: "in run 3 of 5, …"
  bool has_others = false;      ///< there are other inputs of these sizes that the engine takes
  bool repeats() const { return again.empty() && one_thread.empty(); }
};

/// A product of one run, projected (projection.h).
struct ProjectedProduct {
  int32_t step = -1;
  std::string why = {};  ///< empty, or the first row that is wrong
  int64_t elems = 0;
  double worst = 0;  ///< error of the row that comes nearest its limit, as a part of it
  /// The smallest defects that cannot be missed: of one element, as a part of its row's rms (of the
  /// row that hides most); of all elements, as a factor beside 1 (in the row that shows most).
  double element = 0, factor = 1;
};
/// A product of one run that cannot be projected, judged at drawn places (sampled_products.h).
struct SampledProduct {
  int32_t step = -1;
  std::string why = {};  ///< empty, or the first place that is wrong
  double share = 0;      ///< of its elements that were looked at
  /// The smallest defect of one of them that cannot be missed, as a part of the result's rms. 0:
  /// not known.
  double element = 0;
};
/// Each cell: the products of a run.
struct ProjectedProducts {
  std::vector<ProjectedProduct> products;
  std::vector<SampledProduct> sampled;
  int64_t left_out = 0;  ///< neither: sums in 16 bits, integers, a large Einsum
};

/// An output of the engine beside R.
struct MeasuredOutput {
  std::string name;
  std::string misfit;  ///< empty, or: it is missing, or of another type or shape; no distance then
  Distance distance;   ///< integers that differ in a tie count as equal
};

/// Each cell, and each cell of a part (--from, --to): the answers measured against R.
struct MeasuredAnswers {
  std::vector<MeasuredOutput> outputs;  ///< of the model, by name
  std::vector<std::string> strangers;   ///< answers that are no values of the model
};

/// Each cell of several rows, where the engine can run one row: its rows alone.
struct RowsAlone {
  const CellRun& batch;
  const std::vector<NamedTensors>& inputs;   ///< by row; may have more rows than the batch
  const std::vector<NamedTensors>& answers;  ///< by row
};

/// A row of one run and where it stands in another.
struct RowMove {
  int64_t from = 0, to = 0;
};

/// Each cell of several rows (of a batch that the model fixes, or whose rows it mixes, the largest
/// of each group): the same rows placed otherwise. `moves` are the rows that have the same inputs
/// in both runs.
struct PlacedRows {
  const CellRun& base;
  const CellRun& other;
  const std::vector<RowMove>& moves;
};
struct ReversedRows : PlacedRows {};  ///< in reverse order
struct CopiedRows : PlacedRows {};    ///< the first row in every place
struct PoisonedRows : PlacedRows {};  ///< the first row beside rows of NaN and infinities

/// The largest cell of each group, and each cell that fails: every step in FP64 on the inputs that
/// it had in a run. Asked after all other checks of the cell.
struct ReplayedSteps {
  const CellRun& run;
  const std::vector<StepResult>& steps;
  Verdict so_far = Verdict::kPass;  ///< of the cell
};

/// Each group of the grid, after its cells: steps that ran alone on extreme operands, those that
/// other groups or steps have shown left out.
struct ExtremeSteps {
  std::vector<StepResult> steps;
  std::vector<std::string> operands = {};  ///< by step, in words
  std::vector<std::string> refused = {};   ///< steps that cannot run alone, and why
};

/// A group after its cells.
struct FinishedGroup {
  Group& group;
};

/// Once, after all cells, also of a part: the outputs over all of them.
struct FinishedSweep {
  const std::vector<OutputResult>& outputs;
  const TaskResult* task = nullptr;  ///< null: no task was given
};

}  // namespace vernier::verify
