// See row_axes.h.
#include "analysis/row_axes.h"

#include "core/attrs.h"

namespace vernier::analysis {

using enum OpKind;

int64_t row_axes(const Graph& graph, const Node& node) {
  const int64_t rank = rank_of(graph, node.outputs[0]);
  switch (node.op) {
    case kLinear:
    case kLinearAddLayerNorm:
    case kQuantizedLinear:
    case kWeightOnlyLinear:
    case kL2Norm:
      return rank - 1;
    case kQuantizeLinear:
    case kDequantizeLinear:
      return product(shape_of(graph, node.inputs[1])) == Dim(1) ? rank : 0;
    case kLayerNorm:
    case kRMSNorm:
    case kAddLayerNorm: {
      const int64_t axis = node.attrs_as<NormAttrs>().axis;
      return axis < 0 ? rank + axis : axis;
    }
    default:
      return (flags(node.op) & kElementwise) != 0 ? rank : 0;
  }
}

bool holds_rows(const Node& node, size_t i) {
  switch (node.op) {
    case kLinear:
    case kLinearAddLayerNorm:
      return i == 0 || i == 3;
    case kQuantizedLinear:  // numbers, their scales and zero points, residual
      return i == 0 || i == 2 || i == 4 || i == 7;
    case kWeightOnlyLinear:
      return i == 0 || i == 5;
    case kLayerNorm:
    case kRMSNorm:
    case kQuantizeLinear:
    case kDequantizeLinear:
      return i == 0;
    case kAddLayerNorm:
      return i <= 1;
    default:
      return true;
  }
}

}  // namespace vernier::analysis
