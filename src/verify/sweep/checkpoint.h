// Saves the progress of a sweep to a file, so that a later run can resume it. Contract:
// docs/verification.md "Resume a stopped verification".
#pragma once
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "verify/sweep/context.h"
#include "verify/sweep/older_engine.h"
#include "verify/sweep/second_judge.h"
#include "verify/sweep/task.h"
#include "vernier/verify.h"

namespace vernier::verify {

/// A sweep between two of its units: the evaluations of all groups, each cell, each group's end.
struct SweepState {
  int64_t units = 0, of = 0;            ///< done, and all there are
  double far_work = 0;                  ///< what a budget left for cells beyond the grid
  std::vector<std::string> cells = {};  ///< of all groups, done or not
  Report report = {};  ///< verdict, cause, cells, outputs, checks, rewrites, steps, costs
  std::map<std::string, Pool> pools = {};
  ProjectionReach reach = {};
  int64_t ties = 0, ties_of_rewrites = 0;
  std::set<std::string> mixed = {}, seen_alone = {};
  std::vector<std::string> notes = {};
  std::optional<OlderEngine::State> older = {};
  std::optional<SecondJudge::State> second = {};
  std::optional<TaskScores::State> task = {};
};

/// The file named by Request::checkpoint. Used only if one is named.
class Checkpoint {
 public:
  explicit Checkpoint(const Context& context) : context_(context) {}

  /// Returns the saved state if the request asks to resume and the file is of the same engine,
  /// model, machine and request. Otherwise returns nullopt, and `said` gives the reason.
  std::optional<SweepState> read(std::string& said);
  /// Fills the groups' R and F outputs from the file that read() loaded, where it has them.
  void fill(std::vector<Group>& groups);

  /// Whether the request names a file; keep() needs one.
  bool is_wanted() const { return !context_.subject.request.checkpoint.empty(); }
  /// Call after each unit. Writes the file if the last write was long enough ago. A failed write
  /// is not an error.
  void keep(const SweepState& state);
  /// Call after the work was stopped: writes the state last passed to keep(). Returns the message
  /// for the user, or an empty string if there is nothing to resume from.
  std::string write_last();
  /// Call after the last unit: deletes the file.
  void remove();

 private:
  using Clock = std::chrono::steady_clock;
  const std::string& about();
  void write();

  const Context& context_;
  std::string about_;
  NamedTensors arrays_;         // of the file that was read
  std::vector<uint8_t> state_;  // CBOR of the last state
  int64_t units_ = 0, of_ = 0;  // units done and in total in that state
  bool written_ = false;        // whether this sweep wrote the file
  Clock::time_point last_ = Clock::now();
  Clock::duration write_time_{};
};

}  // namespace vernier::verify
