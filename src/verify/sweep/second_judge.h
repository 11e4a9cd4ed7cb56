// SecondJudge: ONNX Runtime's answers beside the engine's, both against R, on the sweep's inputs.
// It decides nothing. Contract: docs/verification.md "A second judge".
#pragma once
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "verify/also/process.h"
#include "verify/evidence.h"
#include "verify/sweep/context.h"

namespace vernier::verify {

class SecondJudge {
 public:
  /// Starts Request::also. Throws as OnnxRuntime does.
  explicit SecondJudge(const Context& context);
  /// Runs it on the inputs of a cell. `reference` is R there, `engine` how far the engine is off.
  void compare(const Context& context, const CellResult& cell, const CellRun& run,
               const NamedValues& reference, const std::vector<MeasuredOutput>& engine);
  /// Of all cells so far.
  AlsoJudged result() const;

  struct Sums {
    Pool engine = {}, other = {};
  };
  /// What the cells so far have shown.
  struct State {
    AlsoJudged all = {};
    std::vector<Sums> sums = {};  ///< by output
  };
  const State& state() const { return state_; }
  void restore(State state) { state_ = std::move(state); }

 private:
  void refuse(const CellResult& cell, const std::string& why);
  size_t place_of(const std::string& output);

  OnnxRuntime other_;
  State state_;
};

}  // namespace vernier::verify
