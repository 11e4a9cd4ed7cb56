// Sweep: makes the inputs of a verification, runs the engine on them, evaluates R, F and I, asks
// every check of the table about what came of it, and puts the findings into a Report. Contract:
// docs/verification.md; the checks: check.h. Internal to verify/.
#pragma once
#include <chrono>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "core/fp64_device.h"
#include "verify/check.h"
#include "verify/evidence.h"
#include "verify/projection.h"
#include "verify/sweep/again.h"
#include "verify/sweep/checkpoint.h"
#include "verify/sweep/context.h"
#include "verify/sweep/older_engine.h"
#include "verify/sweep/report_builder.h"
#include "verify/sweep/second_judge.h"
#include "verify/sweep/task.h"
#include "verify/verify.h"

namespace vernier::verify {

/// Inputs of one cell with R on them: what a probe is judged on (trials.cpp).
struct Trial {
  std::string label;
  int64_t batch = 0;
  NamedTensors inputs;
  NamedValues reference;
};

/// Adds the time of its life to a part of Report::costs.
class CostClock {
 public:
  CostClock(Report& report, const char* what);
  ~CostClock();
  CostClock(const CostClock&) = delete;
  CostClock& operator=(const CostClock&) = delete;

 private:
  Report& report_;
  size_t place_;
  std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
};

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
  struct CellOf {
    Group* group = nullptr;
    int64_t batch = 0;
  };
  /// Asks the checks of this kind of evidence, in the order of the table.
  template <class Evidence>
  void ask(const Evidence& evidence, CellResult* cell = nullptr) {
    for (const CheckRow& row : check_table()) {
      const auto* check = std::get_if<AskedAbout<Evidence>>(&row.check->ask);
      if (!check || !applies(*row.check)) continue;
      report_.add(row, (*check)(context_, evidence), cell);
    }
  }
  /// What the checks of this kind of evidence found, for add(): several threads may ask.
  using Found = std::vector<std::pair<const CheckRow*, Findings>>;
  template <class Evidence>
  Found found_about(const Evidence& evidence) {
    Found found;
    for (const CheckRow& row : check_table()) {
      const auto* check = std::get_if<AskedAbout<Evidence>>(&row.check->ask);
      if (check && applies(*row.check)) found.emplace_back(&row, (*check)(context_, evidence));
    }
    return found;
  }
  /// work(), whose time is a part of Report::costs.
  template <class Work>
  auto timed(const char* what, const Work& work) {
    const CostClock clock(report_.report, what);
    return work();
  }
  bool applies(const Check& check) const;
  void list_checks();
  void check_memory() const;
  void make_schedule();
  void evaluate_groups();  // evaluations.cpp
  /// All that run() does until the report is finished, in units that a checkpoint may have.
  void run_units();
  /// work(), unless the checkpoint has its results.
  template <class Work>
  void unit(const Work& work) {
    if (units_++ < taken_over_) return;
    work();
    if (checkpoint_.is_wanted()) checkpoint_.keep(state());
  }
  SweepState state() const;
  void take_over(SweepState state);
  std::vector<std::string> cell_labels() const;
  CellResult cell_of(const Group& group, int64_t batch) const;
  void run_cell(Group& group, int64_t batch);
  /// R of a cell, and how far the engine's answers are from it.
  struct Measurement {
    NamedValues reference;
    MeasuredAnswers answers;
  };
  Measurement ask_about_answers(Group& group, const CellRun& run, CellResult& cell);
  void list_outputs_with_rows(const CellRun& run);
  void ask_about_rows_alone(Group& group, const CellRun& run, CellResult& cell);
  void ask_about_placed_rows(const CellRun& base, const Placements& placed, CellResult& cell);
  void mark_mixed(const PlacedRows& rows);
  std::vector<StepResult> replayed(const CellRun& run, const ProjectedProducts& products,
                                   const CellResult& cell);
  void replay(const CellRun& run, const ProjectedProducts& products, CellResult& cell);
  void run_steps_alone(const Group& group);
  void finish();

  void run_part_cell(Group& group, int64_t batch);  // part.cpp

  Localisation localise_group(const Group& group, int64_t batch);  // localise.cpp
  CellOf worst_cell();
  Trial trial_of(const CellOf& cell);  // trials.cpp

  Context context_;
  WithFp64Device fp64_device_;
  ReportBuilder report_;
  Checkpoint checkpoint_;
  int64_t units_ = 0, taken_over_ = 0;            // begun, and of the checkpoint
  std::set<std::string> seen_alone_;              // of run_steps_alone()
  std::map<int32_t, ProjectedWeight> projected_;  // by step
  std::unique_ptr<OlderEngine> older_;            // where another engine is given
  std::unique_ptr<SecondJudge> second_;           // where another implementation is asked
  std::unique_ptr<TaskScores> task_;              // where the answers have a task
};

}  // namespace vernier::verify
