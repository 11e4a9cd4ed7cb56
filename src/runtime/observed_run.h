// Runs that are watched: the launches and addresses of any other run.
#pragma once
#include <cstddef>
#include <span>
#include <vector>

#include "core/limits.h"
#include "runtime/run_observer.h"
#include "runtime/step_launcher.h"
#include "runtime/transfer.h"

namespace vernier::runtime {

/// Where device memory is not the host's, it keeps a mirror of the arena in host memory, which is
/// what observers see.
class ObservedRuns {
 public:
  /// All must outlive it.
  ObservedRuns(const Engine::Impl& engine, const Arguments& arguments, const StepLauncher& steps,
               Transfer& transfer, backend::Device& device, const backend::Execution& execution)
      : engine_(engine),
        arguments_(arguments),
        steps_(steps),
        transfer_(transfer),
        device_(device),
        execution_(execution) {}

  /// Stages the inputs and launches the steps of an entry that is resolved, one by one.
  void run(const ShapeEntry& entry, std::span<const Input* const> inputs,
           std::span<std::byte> arena, RunObserver& observer, const Watch& watch);

 private:
  void run_mirrored(const ShapeEntry& entry, std::span<const Input* const> inputs,
                    std::span<std::byte> arena, RunObserver& observer, const Watch& watch);
  std::vector<backend::TensorArg> on_mirror(std::vector<backend::TensorArg> args,
                                            const std::byte* arena);

  const Engine::Impl& engine_;
  const Arguments& arguments_;
  const StepLauncher& steps_;
  Transfer& transfer_;
  backend::Device& device_;
  const backend::Execution& execution_;
  std::vector<std::byte> mirror_;
};

}  // namespace vernier::runtime
