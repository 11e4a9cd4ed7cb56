// Which types are asked of each node (design "Words": request). Modes in rising order of strength:
// what the model itself says, then the mode. Today one mode: fp32.
#pragma once
#include "ir/graph.h"

namespace vernier::precision {

enum class Mode : uint8_t {
  kFp32,  ///< every float operation at least in f32, never TF32
};

/// Sets Node::request on every live node that touches floats: computed and accumulated in at least
/// f32, stored in at least the type that the model declares.
void assign_requests(ir::Graph& graph, Mode mode);

}  // namespace vernier::precision
