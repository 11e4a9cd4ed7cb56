// Runs that are watched: the launches and addresses of any other run.
#pragma once
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "core/limits.h"
#include "runtime/growing_memory.h"
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

  using Carried = std::span<const std::unique_ptr<GrowingMemory>>;
  /// Stages the inputs and launches the steps of an entry that is resolved, one by one. `carried`:
  /// the memory of values that live beyond a segment.
  void run(const ShapeEntry& entry, std::span<const Input* const> inputs,
           const GrowingMemory& arena, Carried carried, RunObserver& observer, const Watch& watch);

 private:
  // A block of device memory and its copy in host memory.
  struct Mirror {
    const std::byte* device = nullptr;
    std::vector<std::byte> bytes;
  };
  void run_mirrored(const ShapeEntry& entry, std::span<const Input* const> inputs, std::byte* arena,
                    RunObserver& observer, const Watch& watch);
  void mirror(size_t block, const GrowingMemory& memory);
  std::byte* on_mirror(const std::byte* data);
  std::vector<backend::TensorArg> on_mirror(std::vector<backend::TensorArg> args);

  const Engine::Impl& engine_;
  const Arguments& arguments_;
  const StepLauncher& steps_;
  Transfer& transfer_;
  backend::Device& device_;
  const backend::Execution& execution_;
  std::vector<Mirror> mirrors_;  // of the arena, of what the shape keeps, then of what is carried
};

}  // namespace vernier::runtime
