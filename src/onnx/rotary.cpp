// Rotary embedding in the form that exporters write, which the attention pass recognizes: see
// attention.h.
#include <numeric>

#include "core/attrs.h"
#include "onnx/attention.h"

namespace vernier::onnx {
namespace {

// Elements first, first + step, … of the last axis, `count` of them.
ir::ValueId slice_last(NodeContext& node, ir::ValueId x, int64_t first, int64_t count,
                       int64_t step = 1) {
  SliceAttrs attrs;
  attrs.inline_starts = true;
  attrs.starts = {first};
  attrs.axes = {node.rank(x) - 1};
  attrs.steps = {step};
  attrs.sizes = {Dim(count)};
  return node.emit(OpKind::kSlice, {x}, attrs);
}

ir::ValueId join_last(NodeContext& node, std::vector<ir::ValueId> parts) {
  return node.emit(OpKind::kConcat, std::move(parts), AxisAttrs{-1});
}

// x·[cos cos] + [−x₂ x₁]·[sin sin]
ir::ValueId rotate_halves(NodeContext& node, ir::ValueId x, ir::ValueId cos, ir::ValueId sin,
                          int64_t dim) {
  const ir::ValueId low = slice_last(node, x, 0, dim / 2);
  const ir::ValueId high = slice_last(node, x, dim / 2, dim / 2);
  const ir::ValueId turned = join_last(node, {node.emit(OpKind::kNeg, {high}), low});
  const ir::ValueId straight = node.emit(OpKind::kMul, {x, join_last(node, {cos, cos})});
  const ir::ValueId across = node.emit(OpKind::kMul, {turned, join_last(node, {sin, sin})});
  return node.emit(OpKind::kAdd, {straight, across});
}

// Pairs are neighbors: split into two arrays, rotated and interleaved again.
ir::ValueId rotate_neighbors(NodeContext& node, ir::ValueId x, ir::ValueId cos, ir::ValueId sin,
                             int64_t dim) {
  const ir::ValueId a = slice_last(node, x, 0, dim / 2, 2), b = slice_last(node, x, 1, dim / 2, 2);
  const auto mul = [&](ir::ValueId l, ir::ValueId r) { return node.emit(OpKind::kMul, {l, r}); };
  const ir::ValueId real = node.emit(OpKind::kSub, {mul(a, cos), mul(b, sin)});
  const ir::ValueId imaginary = node.emit(OpKind::kAdd, {mul(a, sin), mul(b, cos)});
  SymShape column = node.shape(real);
  column.push_back(1);
  const ir::ValueId pairs =
      join_last(node, {node.reshape(real, column), node.reshape(imaginary, column)});
  return node.reshape(pairs, node.shape(x));
}

}  // namespace

ir::ValueId rotate(NodeContext& node, const RotaryInputs& rotary) {
  const SymShape shape = node.shape(rotary.x);
  if (shape.size() != 3 && shape.size() != 4)
    node.fail("input 0 has shape " + str(shape) + "; expected rank 3 or 4");
  ir::ValueId x = rotary.x;
  if (shape.size() == 3) {  // temporarily [batch, heads, seq, head_dim]
    if (rotary.heads < 1) node.fail("an input of rank 3 needs the attribute num_heads");
    x = node.reshape(x, {shape[0], shape[1], rotary.heads, floordiv(shape[2], rotary.heads)});
    x = node.transpose(x, {0, 2, 1, 3});
  }
  const auto head_dim = node.shape(x)[3].as_constant();
  if (!head_dim) node.unsupported("its head size is not constant");
  const int64_t dim = rotary.rotary_dim == 0 ? *head_dim : rotary.rotary_dim;
  if (dim < 2 || dim % 2 != 0 || dim > *head_dim) {
    node.fail("rotary_embedding_dim is " + std::to_string(dim) +
              "; expected an even number up to the head size " + std::to_string(*head_dim));
  }
  const auto table = [&](ir::ValueId value) {
    const SymShape s = node.shape(value);
    if (s.size() != 3 || equal(s[2], Dim(dim / 2)) == false) {
      node.fail("a table of cosines and sines has shape " + str(s) + "; expected [batch, seq, " +
                std::to_string(dim / 2) + "]");
    }
    return node.reshape(value, {s[0], 1, s[1], s[2]});
  };
  const ir::ValueId cos = table(rotary.cos), sin = table(rotary.sin);
  const bool whole = dim == *head_dim;
  const ir::ValueId part = whole ? x : slice_last(node, x, 0, dim);
  ir::ValueId y = rotary.interleaved ? rotate_neighbors(node, part, cos, sin, dim)
                                     : rotate_halves(node, part, cos, sin, dim);
  if (!whole) y = join_last(node, {y, slice_last(node, x, dim, *head_dim - dim)});
  if (shape.size() == 4) return y;
  return node.reshape(node.transpose(y, {0, 2, 1, 3}), shape);
}

}  // namespace vernier::onnx
