// What an Engine holds: the file, its kernels by step, its shape program. Internal to runtime/ and
// verify/.
#pragma once
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "backend/kernel.h"
#include "engine/reader.h"
#include "plan/plan.h"
#include "runtime/device_weights.h"
#include "runtime/id_rules.h"
#include "runtime/joined_steps.h"
#include "runtime/repack.h"
#include "runtime/shape_program.h"
#include "runtime/sized_steps.h"
#include "vernier/engine.h"

namespace vernier {

struct Engine::Impl {
  /// Of `options`, the backend and the limits.
  explicit Impl(std::shared_ptr<const engine::EngineFile> engine_file,
                const EngineOptions& options = {});
  /// An engine that was never a file: it runs as the engine that would be written from the plan,
  /// and shares the plan's weights. It has no content hash. `backend` must outlive it.
  static std::shared_ptr<const Engine> engine_of(plan::Plan plan, const backend::Backend& backend);

  std::shared_ptr<const engine::EngineFile> file;
  const plan::Plan& plan;
  const backend::Backend* backend = nullptr;
  std::vector<const backend::KernelDef*> kernels;  ///< by step
  std::vector<runtime::Joins> joins;               ///< by step
  std::map<int32_t, runtime::Repacked> repacked;   ///< by step; absent: as in the file
  uint64_t bytes_held = 0;  ///< of the file, where it was read into memory, and of `repacked`
  std::vector<runtime::IdRule> id_rules;
  std::vector<Port> inputs, outputs;

  runtime::ShapeProgram program;
  // Slots by plan value: shape, strides (aliases), offset (aliases), contents (shape values).
  struct ValueSlots {
    std::vector<int32_t> shape, strides, values;
    int32_t offset = -1;
  };
  std::vector<ValueSlots> slots;
  const ValueSlots& slots_of(int32_t value) const { return slots[value]; }
  /// Values in memory of their own: they live beyond the segment that makes them, or the host
  /// writes them (runtime/data_sizes.h).
  std::vector<int32_t> carried;
  std::vector<int32_t> carried_at;                  ///< by value: its index in `carried`, or kNone
  runtime::SizedSteps sized;                        ///< what a shape computes once
  std::vector<plan::Guard> guards_to_hold;          ///< the plan's, and what could not be proven
  std::vector<std::pair<int32_t, int32_t>> guards;  ///< slots of lhs and rhs of those

  /// The tuning result of a step if it was found on this machine, else empty: a library's
  /// algorithms belong to one device and version.
  std::string_view tuning_of(const plan::Step& step) const {
    return built_here ? std::string_view(step.tuning) : std::string_view();
  }
  bool built_here = false;  ///< for this machine, or one like it: the targets are equal

  /// The weights in the device's memory, uploaded by the first session that asks. Only for devices
  /// whose memory is not the host's.
  const runtime::DeviceWeights& device_weights() const;
  /// Throws Error(kInput) where they lie in the memory of a process that this one was forked from.
  void check_not_forked() const;

 private:
  mutable std::mutex uploading_;
  mutable std::unique_ptr<runtime::DeviceWeights> uploaded_;
};

}  // namespace vernier
