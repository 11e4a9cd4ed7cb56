// TaskScores: the output that a task scores, of the engine and in FP64, over all of the user's
// inputs. Contract: docs/verification.md "A metric of your task".
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "verify/evidence.h"
#include "verify/sweep/context.h"
#include "verify/task_metric.h"

namespace vernier::verify {

class TaskScores {
 public:
  /// Of Request::task, after the user's inputs were read. Throws Error(kInput) where the task has
  /// no inputs, output or labels, or other metrics and arrays than it may.
  explicit TaskScores(const Context& context);
  /// The rows of one of the user's inputs.
  void add(const CellRun& run, const NamedValues& reference);
  /// Throws Error(kInput) where the labels do not belong to the scores.
  TaskResult result(const Tolerance& tolerance) const;

  /// The scores so far.
  struct State {
    Scores engine = {}, reference = {};
  };
  const State& state() const { return state_; }
  void restore(State state) { state_ = std::move(state); }

 private:
  void add(const EvalTensor& value, Scores& scores) const;

  const Task& task_;
  std::string output_;
  int axis_ = 0;  // of rows
  std::vector<double> labels_, groups_;
  State state_;
};

}  // namespace vernier::verify
