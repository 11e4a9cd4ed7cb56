// The work that a session does once per shape.
#pragma once
#include <memory>
#include <span>

#include "core/limits.h"
#include "runtime/shape_entry.h"
#include "runtime/step_launcher.h"

namespace vernier::runtime {

/// What entries are made from; all must outlive the entries.
struct EntryParts {
  const Engine::Impl& engine;
  const Arguments& arguments;
  const StepLauncher& steps;
  const backend::Device& device;
  const Limits& limits;
};

/// Sizes, shape values, arguments, what kernels prepare, and places in the arena. `symbols`: by
/// symbol of the plan. Throws Error(kInput) for sizes that the model refuses, Error(kMachine) where
/// a run would take more memory than the limits or the machine have.
std::unique_ptr<ShapeEntry> make_entry(const EntryParts& parts, std::span<const int64_t> symbols);

}  // namespace vernier::runtime
