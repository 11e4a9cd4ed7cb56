// Requests by mode: see requests.h.
#include "precision/requests.h"

namespace vernier::precision {
namespace {

// The widest float type among values; kUndefined if none is a float.
DType widest_float(const ir::Graph& graph, const std::vector<ir::ValueId>& values) {
  DType widest = DType::kUndefined;
  for (ir::ValueId id : values) {
    if (id == ir::kNoValue || !is_float(graph.value(id).dtype)) continue;
    if (widest == DType::kUndefined || represents(graph.value(id).dtype, widest)) {
      widest = graph.value(id).dtype;
    }
  }
  return widest;
}

}  // namespace

void assign_requests(ir::Graph& graph, Mode mode) {
  VERNIER_ASSERT(mode == Mode::kFp32);
  for (ir::NodeId id : graph.order()) {
    ir::Node& node = graph.node(id);
    const DType out = widest_float(graph, node.outputs);
    if (out == DType::kUndefined && widest_float(graph, node.inputs) == DType::kUndefined) continue;
    node.request = {.compute = {DType::kF32, false},
                    .accumulate = {DType::kF32, false},
                    .store = {out, false},
                    .by = "mode fp32"};
  }
}

}  // namespace vernier::precision
