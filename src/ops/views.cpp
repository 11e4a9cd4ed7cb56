// Layouts of views: see views.h.
#include "ops/views.h"

#include <array>

#include "core/attrs.h"
#include "core/op_kind.h"

namespace vernier::ops {
namespace {

const SymShape& shape_of(const ir::Graph& graph, const ir::Node& node, size_t output) {
  return graph.value(node.outputs[output]).shape;
}

// Cuts both shapes, from the right, into groups of equal product; within a group the input's axes
// must follow each other without gaps, and the output's axes divide that run.
std::optional<Layout> layout_reshape(const ir::Graph& graph, const ir::Node& node, size_t output,
                                     const Layout& input) {
  Layout result{input.base, input.offset, shape_of(graph, node, output), {}};
  result.strides.assign(result.shape.size(), Dim(1));
  if (is_dense(input)) {
    result.strides = dense_strides(result.shape);
    return result;
  }
  size_t from = input.shape.size(), to = result.shape.size();
  while (from > 0 || to > 0) {
    Dim in_product = 1, out_product = 1, stride = 1, run = 1;
    bool started = false;
    const size_t group_end = to;
    do {
      // Extend the side with the provably smaller product; a size of 1 is always included.
      const bool take_in = from > 0 && (less_equal(in_product, out_product) == true || to == 0);
      if (take_in) {
        --from;
        const Dim& size = input.shape[from];
        if (size == Dim(1)) continue;
        if (!started) {
          stride = input.strides[from];
          started = true;
        } else if (!(input.strides[from] == stride * run)) {
          return std::nullopt;
        }
        run = run * size;
        in_product = in_product * size;
      } else {
        if (to == 0) return std::nullopt;
        --to;
        out_product = out_product * result.shape[to];
      }
    } while (!(in_product == out_product) || (in_product == Dim(1) && (from > 0 || to > 0)));
    Dim step = stride;
    for (size_t axis = group_end; axis > to; --axis) {
      result.strides[axis - 1] = step;
      step = step * result.shape[axis - 1];
    }
  }
  return result;
}

std::optional<Layout> layout_identity(const ir::Graph&, const ir::Node&, size_t,
                                      const Layout& input) {
  return input;
}

std::optional<Layout> layout_transpose(const ir::Graph& graph, const ir::Node& node, size_t output,
                                       const Layout& input) {
  const auto perm = node.attrs_as<TransposeAttrs>().perm;
  Layout result{input.base, input.offset, shape_of(graph, node, output), {}};
  for (int64_t axis : perm) result.strides.push_back(input.strides[axis]);
  return result;
}

std::optional<Layout> layout_expand(const ir::Graph& graph, const ir::Node& node, size_t output,
                                    const Layout& input) {
  Layout result{input.base, input.offset, shape_of(graph, node, output), {}};
  const size_t added = result.shape.size() - input.shape.size();
  result.strides.assign(result.shape.size(), Dim(0));
  for (size_t axis = 0; axis < input.shape.size(); ++axis) {
    // Sizes other than 1 are equal, although they may be written otherwise.
    if (input.shape[axis] == result.shape[added + axis] || !(input.shape[axis] == Dim(1)))
      result.strides[added + axis] = input.strides[axis];
  }
  return result;
}

std::optional<Layout> layout_slice(const ir::Graph& graph, const ir::Node& node, size_t output,
                                   const Layout& input) {
  const auto attrs = node.attrs_as<SliceAttrs>();
  if (!attrs.inline_starts) return std::nullopt;
  Layout result{input.base, input.offset, shape_of(graph, node, output), input.strides};
  const auto rank = static_cast<int64_t>(input.shape.size());
  for (size_t i = 0; i < attrs.axes.size(); ++i) {
    if (attrs.steps[i] < 1) return std::nullopt;
    const auto axis = static_cast<size_t>(attrs.axes[i] < 0 ? attrs.axes[i] + rank : attrs.axes[i]);
    result.offset = result.offset + Dim(attrs.starts[i]) * input.strides[axis];
    result.strides[axis] = input.strides[axis] * Dim(attrs.steps[i]);
  }
  return result;
}

std::optional<Layout> layout_split(const ir::Graph& graph, const ir::Node& node, size_t output,
                                   const Layout& input) {
  const auto rank = static_cast<int64_t>(input.shape.size());
  const int64_t given = node.attrs_as<SplitAttrs>().axis;
  const auto axis = static_cast<size_t>(given < 0 ? given + rank : given);
  Layout result{input.base, input.offset, shape_of(graph, node, output), input.strides};
  for (size_t i = 0; i < output; ++i) {
    if (!node.has_output(i)) return std::nullopt;  // its size is not known here
    result.offset = result.offset + graph.value(node.outputs[i]).shape[axis] * input.strides[axis];
  }
  return result;
}

}  // namespace

SymShape dense_strides(const SymShape& shape) {
  SymShape strides(shape.size(), Dim(1));
  for (size_t i = shape.size(); i > 1; --i) strides[i - 2] = strides[i - 1] * shape[i - 1];
  return strides;
}

bool is_dense(const Layout& layout) {
  const SymShape dense = dense_strides(layout.shape);
  for (size_t i = 0; i < dense.size(); ++i) {
    if (!(layout.shape[i] == Dim(1)) && !(layout.strides[i] == dense[i])) return false;
  }
  return true;
}

bool innermost_contiguous(const Layout& layout) {
  for (size_t i = layout.shape.size(); i > 0; --i) {
    if (layout.shape[i - 1] == Dim(1)) continue;
    return layout.strides[i - 1] == Dim(1);
  }
  return true;
}

bool repeats(const Layout& layout) {
  for (size_t i = 0; i < layout.shape.size(); ++i) {
    if (!(layout.shape[i] == Dim(1)) && layout.strides[i] == Dim(0)) return true;
  }
  return false;
}

std::optional<Layout> view_layout(const ir::Graph& graph, const ir::Node& node, size_t output,
                                  const Layout& input) {
  static constexpr std::array<LayoutFn, 256> kLayouts{
#define OP(...) nullptr,
#define VIEW(layout, ...) &layout,
#include "ops/ops.def"
#undef OP
  };
  for (size_t i = 1; i < node.inputs.size(); ++i) {
    if (!node.has_input(i)) continue;
    const ir::Value& sizes = graph.value(node.inputs[i]);
    if (!sizes.is_constant() && !sizes.values) return std::nullopt;  // only the data says them
  }
  const LayoutFn layout = kLayouts[static_cast<size_t>(node.op)];
  return layout ? layout(graph, node, output, input) : std::nullopt;
}

}  // namespace vernier::ops
