// What a session keeps of a combination of input sizes: everything that a run needs and that does
// not depend on the data.
#pragma once
#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backend/kernel.h"
#include "core/threads.h"
#include "plan/plan.h"
#include "runtime/growing_memory.h"
#include "runtime/run_recording.h"
#include "runtime/shape_program.h"

namespace vernier::runtime {

/// Where an argument's bytes are: `base` indexes the table of bases of a run (the arena, the shape
/// values, what the shape keeps, the inputs, then Engine::Impl::carried); kFixed: data is already
/// final (constants).
struct Source {
  static constexpr int32_t kFixed = -1, kArena = 0, kShapeValues = 1, kKept = 2, kFirstInput = 3;
  int32_t base = kFixed;
  size_t offset = 0;
};

struct StepRun {
  std::vector<backend::TensorArg> in, out;
  std::vector<Source> in_sources, out_sources;
  std::unique_ptr<backend::ShapeState> shape_state;
  size_t workspace_offset = 0;
  bool empty = false;  ///< nothing to write or to check: neither prepared nor launched
  bool found = false;  ///< the host has its results already: it is not launched either
  bool once = false;   ///< its results are kept: only the first run of the shape launches it
};

/// The values of a shape's steps that depend on sizes alone (sized_steps.h).
struct KeptValues {
  size_t bytes = 0;  ///< 0: there are none, or they are too large, and each run computes them
  std::vector<size_t> offsets;  ///< by SizedSteps::kept
  std::unique_ptr<GrowingMemory> memory;
  bool made = false;
};

/// Inputs and shape values as they lie together in the arena, and in the staging memory that they
/// are copied from. Only where the device's memory is not the host's.
struct StagedInputs {
  size_t offset = 0;  ///< in the arena
  size_t bytes = 0;
  std::vector<size_t> input_offsets, input_bytes;  ///< by input; offsets from `offset`
  size_t shape_values_offset = 0;                  ///< from `offset`
};

/// Of one segment of the plan; most plans have one. Of the next segment's first step, whose sizes
/// the host finds, it has the inputs.
struct ShapeEntry {
  size_t segment = 0;
  std::vector<int64_t> symbols, slots;  ///< kUnknownSize: a later segment finds it
  std::vector<StepRun> steps;           ///< of the plan; empty outside the segment
  std::vector<std::byte> shape_values;
  std::vector<std::vector<int64_t>> output_shapes;
  std::vector<backend::TensorArg> outputs;
  std::vector<Source> output_sources;
  size_t arena_bytes = 0;
  uint64_t last_used = 0;
  StagedInputs staged;
  KeptValues kept;
  ThreadTeam::Pace pace;  ///< the CPU's
  RunRecording recording;

  int64_t slot(int32_t index) const { return slots[index]; }
  bool knows(std::span<const int32_t> indices) const {
    return std::ranges::all_of(indices,
                               [this](int32_t index) { return slots[index] != kUnknownSize; });
  }
  /// Sets the address of every argument, from the bases of a run (Source::base).
  void resolve(std::span<std::byte* const> bases);
};

/// "batch=4, seq=128", or "fixed sizes": for messages. `symbols`: by symbol of the plan, or the
/// first of them.
std::string sizes_text(const plan::Plan& plan, std::span<const int64_t> symbols);

}  // namespace vernier::runtime
