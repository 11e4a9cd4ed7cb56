// Steps whose results depend on the sizes of a run alone: the buckets of relative positions, a mask
// made of a length. A session computes them once per shape and keeps what other steps read.
#pragma once
#include <cstdint>
#include <vector>

#include "plan/plan.h"

namespace vernier::runtime {

struct SizedSteps {
  std::vector<bool> is_sized;    ///< by step
  std::vector<int32_t> kept;     ///< values of theirs that other steps read
  std::vector<int32_t> kept_at;  ///< by value: its index in `kept`, or kNone
};

/// Those that read constants, sizes and each other alone, and whose results are no outputs. None in
/// plans of several segments, and none of a plugin's kernels, which may have a state.
SizedSteps find_sized_steps(const plan::Plan& plan);

}  // namespace vernier::runtime
