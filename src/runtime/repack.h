// Kernels and packed weights of an engine on this machine, which may not be the one it was built
// on: another instruction set, another version of a library.
#pragma once
#include <optional>
#include <utility>
#include <vector>

#include "backend/kernel.h"
#include "plan/plan.h"

namespace vernier::runtime {

/// A step's weights in another layout than the file's: packed again for this machine, or plain
/// where the kernel of this machine packs nothing.
struct Repacked {
  std::vector<backend::PackedConstant> packed;
  std::vector<std::pair<int32_t, Tensor>> plain;  ///< by input
};

uint64_t bytes_of(const Repacked& repacked);

struct Placed {
  const backend::KernelDef* kernel = nullptr;
  std::optional<Repacked> repacked;  ///< absent: the file's weights fit
};

/// The step's own kernel; where its weights are packed for another machine, they are packed again,
/// for the first kernel that runs here and is as precise. The shapes must have been proven
/// (proof.h); what the kernel counts on is proven here. Throws Error(kInput) when the backend has
/// no such kernel, or the layout is unknown: build the engine again.
Placed place_step(const backend::Backend& backend, const plan::Plan& plan, const plan::Step& step);

}  // namespace vernier::runtime
