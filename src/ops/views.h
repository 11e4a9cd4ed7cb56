// Layouts: which nodes are pure views of their input, and what strides that gives.
#pragma once
#include <optional>
#include <vector>

#include "core/dim.h"
#include "ir/graph.h"

namespace vernier::ops {

/// The position of a value in the memory of a base value: element [i…] is at offset + Σ i·strides.
struct Layout {
  ir::ValueId base = ir::kNoValue;
  Dim offset = 0;
  SymShape shape, strides;
};

SymShape dense_strides(const SymShape& shape);
/// Row-major without gaps (sizes of 1 do not matter).
bool is_dense(const Layout& layout);
/// The innermost axis longer than 1 has stride 1 (the condition of strided_inputs).
bool innermost_contiguous(const Layout& layout);
/// An axis that may be longer than 1 has stride 0: all its elements are the same.
bool repeats(const Layout& layout);

/// The layout of an operator with kView over its input 0: a row's `layout` in ops.def.
using LayoutFn = std::optional<Layout> (*)(const ir::Graph& graph, const ir::Node& node,
                                           size_t output, const Layout& input);

/// The layout of output `output` of `node` if the node is a view of its input 0 with layout
/// `input`: Identity; Reshape, Squeeze, Unsqueeze and Flatten if the axes split or merge without
/// gaps; Expand; Transpose; Slice with inline starts; Split. Empty for other nodes, if no
/// strides describe it, and where inputs whose contents are not known say the shape.
std::optional<Layout> view_layout(const ir::Graph& graph, const ir::Node& node, size_t output,
                                  const Layout& input);

}  // namespace vernier::ops
