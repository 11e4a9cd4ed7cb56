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

/// Is the value in memory during the segment? Of values in the arena.
bool lives_in(const plan::PlanValue& value, const plan::Segment& segment);

/// Sizes, shape values, arguments, what kernels prepare, and places in the arena, of one segment.
/// `symbols`: by symbol of the plan; kUnknownSize for those that later segments find. Throws
/// Error(kInput) for sizes that the model refuses, Error(kMachine) where a run would take more
/// memory than the limits or the machine have.
std::unique_ptr<ShapeEntry> make_entry(const EntryParts& parts, std::span<const int64_t> symbols,
                                       size_t segment);

}  // namespace vernier::runtime
