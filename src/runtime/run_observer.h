// How verify and the profiler watch a run. An observer changes nothing: same steps, kernels,
// addresses and bits.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "backend/kernel.h"

namespace vernier {

/// Called before the first step with the whole arena (to poison it; where data say sizes it may
/// grow later), before every step that is launched with its
/// workspace and its outputs (the same: what an earlier step left there is nobody's), and after it
/// with its arguments (to copy values out). On a GPU all see a copy in host memory.
class RunObserver {
 public:
  virtual ~RunObserver() = default;
  virtual void before_run(std::span<std::byte> arena) { (void)arena; }
  virtual void before_step(std::span<std::byte> unwritten) { (void)unwritten; }
  virtual void after_step(int32_t step, const backend::LaunchCall& call) = 0;
};

}  // namespace vernier
