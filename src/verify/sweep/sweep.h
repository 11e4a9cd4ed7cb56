// Sweep: the checks of verify over batches, lengths and the user's arrays, one finding at a time
// into a Report. Contract: docs/verification.md. Internal to verify/.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "evaluate/domain.h"
#include "evaluate/plan_evaluator.h"
#include "verify/metrics.h"
#include "verify/replay.h"
#include "verify/runner.h"
#include "verify/tolerance.h"
#include "verify/verify.h"

namespace vernier::verify {

using namespace evaluate;

/// Names of the checks, in the order of the report.
namespace check_names {
inline constexpr const char* kRewrite = "rewrite (F against R)";
inline constexpr const char* kKernels = "kernels (each step replayed)";
inline constexpr const char* kAnswers = "answers (E against R)";
inline constexpr const char* kMemory = "memory filled with other poison";
inline constexpr const char* kThreads = "threads and repetition";
inline constexpr const char* kUnwatched = "runs that nobody watches";
inline constexpr const char* kAlone = "rows alone";
inline constexpr const char* kDuplicated = "rows duplicated";
inline constexpr const char* kPermuted = "rows permuted";
inline constexpr const char* kPoisoned = "rows beside poison";
inline constexpr const char* kOwnLength = "rows at their own length";
inline constexpr const char* kExpected = "R against --expect";
}  // namespace check_names

/// Inputs of one cell with R on them: what a probe is judged on (sweep_trials.cpp).
struct Trial {
  std::string label;
  int64_t batch = 0;
  NamedTensors inputs;
  NamedValues reference;
};

/// One output of one batch, to be ranked: `axis` counts its rows.
struct RankedOutput {
  const EvalTensor &answer, &want;
  int axis = kNoAxis;
  int64_t batch = 0;
};
/// Adds what changes in its rankings to `result`.
void count_rankings(OutputResult& result, const RankedOutput& output);

/// 0, 1, … count − 1.
std::vector<int64_t> first_rows(int64_t count);

/// Does a step decide by floats (ArgMax, a comparison, a Cast to integers)?
bool decides(const plan::Plan& plan);
/// What step `step` decided in `leader` becomes what it decided in `follower`: two evaluations of
/// one plan, which both just evaluated it.
void follow_decisions(const plan::Plan& plan, size_t step, const PlanEvaluator& leader,
                      PlanEvaluator& follower);

class Sweep {
 public:
  Sweep(std::shared_ptr<const Engine> engine, const ir::Graph& model, const Request& request);
  Report run();
  /// The part between request.from and request.to.
  Report run_part();
  /// One run on the user's first arrays, or on seeded ones of the largest batch and length.
  Localisation run_localise();
  /// After run() that did not pass: the worst cell where it fails by itself, else every cell.
  std::vector<Trial> failing_trials();
  /// The failing cell of the fewest elements; the worst one where only all together fail.
  Trial smallest_failing_trial();
  /// Why `answers` (one set for each of `trials`) of an engine of the same model are outside the
  /// limits of this sweep; empty: they are not. After run(), which measured the noise.
  std::string complaint_about(const std::vector<Trial>& trials,
                              const std::vector<NamedTensors>& answers);

 private:
  /// Rows that go together: the same sizes but for the batch, and the arrays without a batch axis.
  struct Group {
    std::string label;                     ///< "length 16", "src 4, tgt 16", or the user's file
    std::string sizes_text;                ///< the label without a file
    int64_t length = 0;                    ///< of the first size that is no batch
    std::map<std::string, int64_t> sizes;  ///< of all symbols but the batch's
    bool seeded = false;
    std::vector<NamedTensors> rows;      ///< batch size 1 each
    std::vector<NamedValues> reference;  ///< R of each row alone, as far as computed
    std::vector<NamedTensors> alone;     ///< E of each row alone, as far as computed
  };

  struct Pool {  // squares over all cells
    double error = 0, reference = 0, noise = 0;
    double noise_max = 0;  ///< largest |I0 − R|
    int64_t elems = 0, noise_elems = 0;
  };
  struct ExactConstant {
    size_t step = 0, input = 0;
    Tensor contents;
  };

  // setting up (sweep_setup.cpp)
  void read_domains();
  void choose_axes();
  void make_groups();
  void add_seeded_group(size_t index, const std::vector<int64_t>& lengths, int64_t rows);
  void add_user_group(const UserInputs& inputs);
  std::vector<int64_t> lengths_in_range();
  std::vector<int64_t> batches_in_range() const;
  std::vector<int64_t> batches_of(const Group& group) const;
  std::map<std::string, int64_t> sizes_for(int64_t length) const;
  std::map<std::string, int64_t> different_sizes(size_t index,
                                                 const std::vector<int64_t>& lengths) const;
  bool runs_at(std::map<std::string, int64_t> sizes);
  std::string text_of(const std::map<std::string, int64_t>& sizes) const;
  bool mixes_rows(const BatchAxes& axes, NamedValues* whole, NamedValues* parts);
  NamedValues reference_of(const NamedTensors& inputs) const;
  /// R of these rows of a group, whose batch is `inputs`: of each row once, unless the model mixes.
  NamedValues reference_for(Group& group, const std::vector<int64_t>& rows,
                            const NamedTensors& inputs);
  void check_same_model() const;

  // checks (sweep.cpp)
  NamedTensors batch_of(const Group& group, const std::vector<int64_t>& rows) const;
  void run_cell(Group& group, int64_t batch);
  void same_in_every_run(const NamedTensors& inputs, const NamedTensors& answers, CellResult& cell);
  void same_unwatched(const NamedTensors& inputs, const NamedTensors& answers, CellResult& cell);
  void compare_with_reference(Group& group, const std::vector<int64_t>& rows,
                              const NamedTensors& inputs, const NamedTensors& answers,
                              CellResult& cell);
  void judge_output(const std::string& name, const EvalTensor& want, const Tensor* got,
                    const NamedTensors& inputs, CellResult& cell);
  void forgive_ties(const std::string& name, const EvalTensor& want, EvalTensor& got,
                    const NamedTensors& inputs);
  void replay(const NamedTensors& inputs, CellResult& cell);
  // NaN and infinity (sweep_non_finite.cpp). False if no step is to blame.
  bool blame_for_non_finite(const NamedTensors& inputs, const std::vector<StepResult>& steps,
                            CellResult& cell);
  // decisions (sweep_decisions.cpp)
  bool answers_agree(const NamedValues& reference, const NamedTensors& answers) const;
  NamedValues reference_on_ties(const NamedTensors& inputs, const NamedValues& reference);
  // the rewrite (sweep_rewrite.cpp)
  void rewrite(Group& group);
  void compare_value(int32_t step, size_t index, const EvalTensor& got,
                     const std::map<std::string, const EvalTensor*>& reference);

  void compare_expected(Group& group);
  void finish();

  // what its types allow (sweep_precision.cpp)
  void read_precision();
  void exact_constants(const plan::Plan& twin);
  void set_exact_constants(PlanEvaluator& f) const;
  void run_on_decisions_of_f(const plan::Plan& plan, const std::vector<Tensor>& inputs,
                             PlanEvaluator& ideal) const;
  void add_noise(const std::vector<Tensor>& inputs, const NamedValues& reference, uint64_t seed);
  void add_noise_rows(Group& group);
  void add_to_noise(const std::string& name, const Distance& d);
  double noise_limit(const std::string& name) const;
  std::string pooled_complaint(const Pool& pool, double noise_rms) const;
  std::string flips_complaint(const OutputResult& o) const;

  // rows (sweep_rows.cpp)
  struct RowRun {
    NamedTensors inputs, answers;
    int64_t rows = 1;
  };
  struct RowMove {
    int64_t from = 0, to = 0;
  };
  bool rows_agree(const char* check_name, const RowRun& base, const RowRun& other,
                  const std::vector<RowMove>& moves, CellResult& cell);
  bool runs_alone() const;
  void rows_alone(Group& group, const RowRun& batch, CellResult& cell);
  void mark_mixed(const RowRun& base, const RowRun& other, const std::vector<RowMove>& moves);
  void row_placements(Group& group, const RowRun& base, CellResult& cell);
  const InputDomain* padding_input() const;
  void own_length(Group& group, int64_t row);

  // a part (sweep_part.cpp)
  void check_part_names() const;
  void run_part_cell(Group& group, int64_t batch);
  void add_part_noise(const NamedTensors& inputs, const Recorder& run,
                      const NamedValues& reference);

  // where the error comes from (sweep_localise.cpp)
  struct CellOf {
    Group* group = nullptr;
    int64_t batch = 0;
  };
  Localisation localise_group(const Group& group, int64_t batch);
  CellOf worst_cell();
  void localise_worst();

  // judging other engines (sweep_trials.cpp)
  Trial trial_of(const CellOf& cell);
  std::string complaint_about_output(const std::string& name, const EvalTensor& want,
                                     const Tensor* got, const Trial& trial, OutputResult& rankings,
                                     Pool& pool);

  // books
  Check& check(const std::string& name);
  void passed(const std::string& name) { ++check(name).done; }
  void failed(const std::string& name, Verdict verdict, const std::string& why, CellResult* cell);
  void stage(const std::string& text) const;
  EvaluatorOptions watched(EvaluatorOptions options = {}) const;
  void check_memory();
  OutputResult& output(const std::string& name);

  std::shared_ptr<const Engine> engine_;
  const plan::Plan& plan_;
  const ir::Graph& model_;
  const Request& request_;
  const Limits limits_;  // with a clock that has begun
  const Watch watch_;
  Runner runner_, single_;
  Domains domains_;
  BatchAxes axes_;
  std::string length_symbol_;
  std::vector<Group> groups_;
  std::map<std::string, Pool> pools_;
  int64_t ties_ = 0;  // decisions of the engine that were taken for R's
  Report report_;
  double rewrite_limit_ = 0;              ///< of rms(F − R) / rms(R)
  DType narrowest_ = DType::kF32;         ///< type of fewest bits that a step rounds to
  std::optional<plan::Plan> usual_plan_;  ///< of the mode without the user's rules
  std::vector<ExactConstant> exact_;      ///< constants as the model has them
};

}  // namespace vernier::verify
