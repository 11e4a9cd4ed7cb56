// Another engine of the same model, run on the sweep's inputs beside the one that is verified.
// Contract: docs/certificates.md "Against another engine".
#pragma once
#include <memory>
#include <utility>
#include <vector>

#include "verify/check.h"
#include "verify/sweep/context.h"

namespace vernier::verify {

class OlderEngine {
 public:
  /// Opens Request::against. Throws Error(kInput) where it is not an engine, or its inputs or
  /// outputs are not those of the engine that is verified.
  explicit OlderEngine(const Context& context);
  /// Runs it on the inputs of the cell and adds how its answers differ.
  void compare(const Context& context, const std::string& label, const CellRun& run);
  /// Of all cells so far.
  AgainstOlder result() const;

  struct Sums {
    double error = 0, older = 0;  ///< squares
    int64_t elems = 0;
  };
  /// What the cells so far have shown.
  struct State {
    AgainstOlder all = {};
    std::vector<Sums> sums = {};  ///< by output
  };
  const State& state() const { return state_; }
  void restore(State state) { state_ = std::move(state); }

 private:
  State state_;
  std::unique_ptr<Runner> runs_;
};

}  // namespace vernier::verify
