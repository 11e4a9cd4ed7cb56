// What a sweep has done so far, in a file, so that another one can go on. Contract:
// docs/verification.md "Stopped, and going on".
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
  int64_t ties = 0;
  std::set<std::string> mixed = {}, seen_alone = {};
  std::vector<std::string> notes = {};
  std::optional<OlderEngine::State> older = {};
  std::optional<SecondJudge::State> second = {};
  std::optional<TaskScores::State> task = {};
};

/// The file of Request::checkpoint; without one nothing is kept.
class Checkpoint {
 public:
  explicit Checkpoint(const Context& context) : context_(context) {}

  /// What the file holds of the same engine, model, machine and request, where the request asks to
  /// go on; nullopt otherwise, and `said` tells why.
  std::optional<SweepState> read(std::string& said);
  /// Fills R and F of the groups, which are those of the state that was read, as far as the file
  /// has them.
  void fill(std::vector<Group>& groups);

  /// After a unit. Writes the file where the last time is long ago; what cannot be written is no
  /// error.
  void keep(const SweepState& state);
  /// After work that was stopped: writes what keep() was given last. What a user is told, empty:
  /// there is nothing to go on from.
  std::string write_last();
  /// After the last unit.
  void remove();

 private:
  using Clock = std::chrono::steady_clock;
  const std::string& about();
  void write();

  const Context& context_;
  std::string about_;
  NamedTensors arrays_;         // of the file that was read
  std::vector<uint8_t> state_;  // CBOR of the last state
  int64_t units_ = 0, of_ = 0;  // of it
  bool written_ = false;        // is there a file of this sweep's?
  Clock::time_point last_ = Clock::now();
  Clock::duration write_time_{};
};

}  // namespace vernier::verify
