// The steps of an engine in one session: what their kernels keep, and their launches.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/limits.h"
#include "runtime/arguments.h"
#include "runtime/shape_entry.h"

namespace vernier::runtime {

class StepLauncher {
 public:
  /// All must outlive it. The states are made by create(), on the device.
  StepLauncher(const Engine::Impl& engine, const backend::Execution& execution)
      : engine_(engine), execution_(execution) {}
  /// Asks every kernel for what it keeps.
  void create(const Arguments& arguments);
  /// Gives the states up without ending them: in a child by fork() they are the parent's.
  void abandon();

  /// What a new shape needs of the step's kernel.
  void prepare(size_t step, StepRun& run) const;
  /// A step's call with the arguments of `entry` as they are resolved. `arena`: of this run.
  backend::LaunchCall call_of(const ShapeEntry& entry, size_t step, const backend::Execution& on,
                              std::byte* arena) const;
  void launch(const ShapeEntry& entry, size_t step, const backend::Execution& on,
              std::byte* arena) const;
  /// The steps whose results the shape keeps.
  void launch_once(const ShapeEntry& entry, const backend::Execution& on, std::byte* arena,
                   const Watch& watch) const;
  /// All others.
  void launch_all(const ShapeEntry& entry, const backend::Execution& on, std::byte* arena,
                  const Watch& watch) const;
  /// Throws Error(kMachine) naming the step where the watch's time is over.
  void check_time(const Watch& watch, const ShapeEntry& entry, size_t step) const;
  backend::KernelState* state(size_t step) const { return states_[step].get(); }

 private:
  /// One launch for the steps s and s + 1 (joined_steps.h).
  void launch_both(const ShapeEntry& entry, size_t s, const backend::Execution& on,
                   std::byte* arena) const;
  /// Does `work`; errors name the step's node: a kernel does not know which one it works for.
  template <class Work>
  void at_step(size_t s, const Work& work) const {
    try {
      work();
    } catch (const Error& error) {
      const plan::Step& step = engine_.plan.steps[s];
      throw Error(error.code(), "node '" + step.name + "' (step " + std::to_string(s) + ", " +
                                    step.kernel + "): " + error.what());
    }
  }

  const Engine::Impl& engine_;
  const backend::Execution& execution_;
  std::vector<std::unique_ptr<backend::KernelState>> states_;  // by step
};

}  // namespace vernier::runtime
