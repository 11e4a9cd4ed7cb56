// What an Engine holds: the file, its kernels by step, its shape program. Internal to runtime/ and
// verify/.
#pragma once
#include <memory>
#include <vector>

#include "backend/kernel.h"
#include "engine/reader.h"
#include "plan/plan.h"
#include "runtime/shape_program.h"
#include "vernier/engine.h"

namespace vernier {

struct Engine::Impl {
  explicit Impl(std::shared_ptr<const engine::EngineFile> engine_file);

  std::shared_ptr<const engine::EngineFile> file;
  const plan::Plan& plan;
  const backend::Backend* backend = nullptr;
  std::vector<const backend::KernelDef*> kernels;  ///< by step
  /// Packed constants of this machine, by step and packed input; layouts repacked where the file's
  /// were made for another machine.
  std::vector<std::vector<backend::PackedConstant>> repacked;  ///< by step; empty: as in the file
  std::vector<Port> inputs, outputs;

  runtime::ShapeProgram program;
  // Slots by plan value: shape, strides (aliases), offset (aliases), contents (shape values).
  struct ValueSlots {
    std::vector<int32_t> shape, strides, values;
    int32_t offset = -1;
  };
  std::vector<ValueSlots> slots;
  std::vector<std::pair<int32_t, int32_t>> guards;  ///< slots of lhs and rhs
};

}  // namespace vernier
