// Context: what a sweep knows, for the sweep and for its checks. Plain data in parts, each filled
// by one file of this folder. The report is not in it: checks return findings.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "evaluate/domain.h"
#include "evaluate/plan_evaluator.h"
#include "evaluate/rows.h"
#include "verify/runner.h"
#include "verify/sweep/schedule.h"
#include "vernier/verify.h"

namespace vernier::verify {

using namespace evaluate;  // NOLINT(google-build-using-namespace): its words are ours

/// What is verified, as it was asked for. `model` and `request` must outlive it.
struct Subject {
  std::shared_ptr<const Engine> engine;
  const plan::Plan& plan;
  const backend::Backend& backend;
  const ir::Graph& model;
  const Request& request;
  const Limits limits;  ///< with a clock that has begun
};

/// Sessions of the engine, with all threads and with one.
struct Runs {
  Runner several, single;
};

/// Rows that go together: the same sizes but for the batch, and the arrays without a batch axis.
struct Group {
  std::string label;                     ///< "length 16", "src 4, tgt 16", or the user's file
  std::string sizes_text;                ///< the label without a file
  int64_t length = 0;                    ///< of the first size that is not the batch
  std::map<std::string, int64_t> sizes;  ///< of all symbols but the batch's
  bool seeded = false;
  bool far = false;                ///< beyond the grid: run as one batch, replayed only if it fails
  std::vector<NamedTensors> rows;  ///< batch size 1 each
  /// R and F of each row, as far as computed; not where the model or the axes mix rows.
  std::vector<NamedValues> reference, exact;
  std::vector<NamedTensors> alone;  ///< E of each row alone, as far as computed
  /// The last of the distinct rows, where it is nothing but padding: its answers are not held
  /// against R. -1: there is none.
  int64_t empty_row = -1;
  bool done = false;  ///< its cells are, since a checkpoint says so
  /// E by batch, on one thread and with other numbers in memory, as far as computed.
  std::map<int64_t, NamedTensors> on_one_thread = {};
};

/// What the engine is run on (inputs.h).
struct SweepInputs {
  Domains domains;
  BatchAxes axes;
  std::string length_symbol;    ///< the first size that is not the batch; empty: none
  std::set<std::string> mixed;  ///< outputs whose rows the model itself mixes
  std::vector<Group> groups;
};

/// Squares over all cells, of one output.
struct Pool {
  double error = 0, reference = 0;
  int64_t elems = 0;
  double noise = 0, exact = 0;  ///< of I0 − F0, and of F0 there
  double noise_max = 0;         ///< largest |I0 − F0|
  int64_t noise_elems = 0;
};

/// A constant input of a step as the model has it.
struct ExactConstant {
  size_t step = 0, input = 0;
  Tensor contents;
};

/// A constant of the engine beside the model's (constants.h).
struct HeldConstant {
  std::string name;     ///< in the ONNX file; empty: it has none there
  std::string where;    ///< "input 1 of step 0 (cpu.embed_norm.rows, 'node')"
  std::string made_of;  ///< "Transpose('fc.weight')"
  int64_t elems = 0;
  bool held = false;  ///< could it be made of the model's, as the engine says?
  std::string why;    ///< held: what is wrong, empty: nothing; not held: the reason
};

/// What the engine's types explain (noise.h).
struct Precision {
  DType narrowest = DType::kF32;           ///< type of fewest bits that a step rounds to
  double rewrite_limit = 0;                ///< of rms(F − R) / rms(R): what rewrites are granted
  std::vector<ExactConstant> exact;        ///< constants that the engine holds rounded
  std::optional<plan::Plan> usual_plan;    ///< of the mode without the user's rules
  std::vector<ExactConstant> usual_exact;  ///< that the usual plan holds rounded
  std::map<std::string, Pool> pools;       ///< by output
};

/// What the projection of products sees (projection.h), and what samples do (sampled_products.h).
struct ProjectionReach {
  int64_t products = 0, sampled = 0, left_out = 0;
  double element = 0, factor = 0;  ///< the smallest defects that show in every projected product
  double share = 1;                ///< of a sampled one's elements, in the cell that shows least
  double sampled_element = 0;      ///< the smallest defect that shows where a sample looks
};

struct Context {
  Context(std::shared_ptr<const Engine> engine, const ir::Graph& model, const Request& request);
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  Subject subject;
  Watch watch;
  Runs runs;
  SweepInputs inputs;
  std::vector<HeldConstant> constants;
  std::unique_ptr<ConstantCache> in_fp64;  ///< constants that evaluations share
  Precision precision;
  ProjectionReach reach;
  /// Operations that a budget leaves for cells beyond the grid: measured, or of a checkpoint.
  std::optional<double> far_work;
  int64_t ties = 0;                ///< decisions of the engine that were taken for R's
  int64_t ties_of_rewrites = 0;    ///< ties that F and R decide differently
  std::vector<std::string> notes;  ///< for the report
  Schedule schedule;
};

/// Says what is done now, and throws Error(kMachine) when a limit is reached.
void stage(const Context& context, const std::string& text);
/// The same of the next step of the schedule.
void scheduled_stage(Context& context, const std::string& text);
/// The options with the watch of the sweep.
EvaluatorOptions watched(const Context& context, EvaluatorOptions options = {});
/// F, on the constants as the model has them.
PlanEvaluator f_of(const Context& context);
/// The same of the plan whose noise is taken: the usual one where there is one.
const plan::Plan& noise_plan(const Context& context);
PlanEvaluator noise_f_of(const Context& context);
/// The arrays in the order of the plan's inputs.
std::vector<Tensor> in_plan_order(const Context& context, const NamedTensors& inputs);

/// 0, 1, … count − 1.
std::vector<int64_t> first_rows(int64_t count);
/// These rows of a group as one batch.
NamedTensors batch_of(const Context& context, const Group& group, const std::vector<int64_t>& rows);
/// Does the engine's range let one row run alone?
bool runs_alone(const Context& context);

}  // namespace vernier::verify
