// Layout operators move toward one form: reshapes that split axes go up, transposes merge, axes of
// size 1 are added last, scalar factors come after layout changes.
//   Reshape(Reshape(x)) ⇒ Reshape(x)      Transpose(Transpose(x)) ⇒ Transpose(x)
//   Transpose(x) ⇒ Reshape(x)             requires: only axes of size 1 move
//   Transpose(Reshape(x)) ⇒ Reshape(Transpose(x))   requires: the reshape adds or drops size-1 axes
//   Reshape(Transpose(x)) ⇒ Transpose(Reshape(x))   requires: the reshape only splits axes
//   Slice(Transpose(x)) ⇒ Transpose(Slice(x))
//   Slice(Reshape(x)) ⇒ Reshape(Slice(x)) requires: the slice cuts the first part of a split axis
//   f(Slice(c)) ⇒ Slice(f(c))             f elementwise; c and f's other operands constant
//   Reshape(f(x)) ⇒ f(Reshape(x)), Transpose(x·c) ⇒ Transpose(x)·c   f elementwise;
//     requires: f's other operands scalars, f(x) used once
//   Slice(Slice(x)) ⇒ Slice(x);  Slices that partition one axis of x ⇒ Split(x)
//   Transpose(Reshape(x)) ⇒ Reshape(Transpose(x))   requires: the reshape only merges axes
//   products and softmax of [B·H, S, D] made from or cut into [B, H, S, D] ⇒ those of [B, H, S, D]
#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "ir/derivations.h"
#include "passes/canonicalise.h"
#include "rules/checks.h"

namespace vernier::passes {
namespace {

const Node* own_reshape(const Graph& graph, ValueId value) {
  const Node* n = producer_of(graph, value, OpKind::kReshape);
  return n && n->attrs_as<ShapeAttrs>().has_shape ? n : nullptr;
}

std::vector<int64_t> perm_of(const Node& n) { return n.attrs_as<TransposeAttrs>().perm; }

bool merge_reshapes(Graph& graph, NodeId id) {
  const Node& n = graph.node(id);
  if (n.op != OpKind::kReshape || !n.attrs_as<ShapeAttrs>().has_shape) return false;
  const Node* inner = own_reshape(graph, n.inputs[0]);
  if (!inner || !can_absorb(graph, id, *inner)) return false;
  absorb_origins(graph, id, *inner);
  mutate(graph, id, OpKind::kReshape, {inner->inputs[0]}, n.attrs);
  return true;
}

bool merge_transposes(Graph& graph, NodeId id) {
  const Node& n = graph.node(id);
  if (n.op != OpKind::kTranspose) return false;
  const Node* inner = producer_of(graph, n.inputs[0], OpKind::kTranspose);
  if (!inner || !can_absorb(graph, id, *inner)) return false;
  const auto first = perm_of(*inner);
  std::vector<int64_t> perm;
  for (int64_t axis : perm_of(n)) perm.push_back(first[axis]);
  absorb_origins(graph, id, *inner);
  mutate(graph, id, OpKind::kTranspose, {inner->inputs[0]}, TransposeAttrs{std::move(perm)});
  return true;
}

bool transpose_of_units(Graph& graph, NodeId id) {
  const Node& n = graph.node(id);
  if (n.op != OpKind::kTranspose) return false;
  const SymShape& in = shape_of(graph, n.inputs[0]);
  int64_t last = -1;
  for (int64_t axis : perm_of(n)) {
    if (in[axis] == Dim(1)) continue;
    if (axis < last) return false;
    last = axis;
  }
  const SymShape out = shape_of(graph, n.outputs[0]);
  mutate(graph, id, OpKind::kReshape, {n.inputs[0]}, shape_attrs(out));
  return true;
}

// Transpose(Reshape(x)) where the reshape adds or drops axes of size 1: they move below.
bool units_after_transpose(Graph& graph, NodeId id) {
  const Node& n = graph.node(id);
  if (n.op != OpKind::kTranspose) return false;
  const Node* view = own_reshape(graph, n.inputs[0]);
  if (!view) return false;
  const SymShape from = shape_of(graph, view->inputs[0]), to = shape_of(graph, n.inputs[0]);
  if (!differ_by_unit_axes(from, to)) return false;
  // Non-unit axis k of `to` is non-unit axis k of `from`.
  std::vector<int64_t> source(to.size(), -1);
  for (size_t axis = 0, next = 0; axis < to.size(); ++axis) {
    if (to[axis] == Dim(1)) continue;
    while (from[next] == Dim(1)) ++next;
    source[axis] = static_cast<int64_t>(next++);
  }
  std::vector<int64_t> perm;
  for (int64_t axis : perm_of(n)) {
    if (source[axis] >= 0) perm.push_back(source[axis]);
  }
  // Axes of size 1 of x keep their order at the front.
  std::vector<int64_t> full;
  for (size_t axis = 0; axis < from.size(); ++axis) {
    if (from[axis] == Dim(1)) full.push_back(static_cast<int64_t>(axis));
  }
  full.insert(full.end(), perm.begin(), perm.end());
  const SymShape out = shape_of(graph, n.outputs[0]);
  const ValueId moved = emit_transpose(graph, view->inputs[0], std::move(full), n.origins);
  mutate(graph, id, OpKind::kReshape, {moved}, shape_attrs(out));
  return true;
}

// Reshape(Transpose(x)) that splits axes of the transposed tensor: split x instead.
bool split_before_transpose(Graph& graph, NodeId id) {
  const Node& n = graph.node(id);
  if (n.op != OpKind::kReshape || !n.attrs_as<ShapeAttrs>().has_shape) return false;
  const Node* transpose = producer_of(graph, n.inputs[0], OpKind::kTranspose);
  if (!transpose || !can_absorb(graph, id, *transpose)) return false;
  const SymShape mid = shape_of(graph, n.inputs[0]), out = shape_of(graph, n.outputs[0]);
  const auto groups = reshape_groups(mid, out);
  bool splits = false;
  for (const AxisGroup& g : groups) {
    if (g.in_end - g.in_begin != 1) return false;
    const auto parts = std::count_if(out.begin() + static_cast<std::ptrdiff_t>(g.out_begin),
                                     out.begin() + static_cast<std::ptrdiff_t>(g.out_end),
                                     [](const Dim& d) { return !(d == Dim(1)); });
    splits = splits || parts > 1;
  }
  if (!splits) return false;
  // Group of transposed axis a holds x's axis perm[a].
  const auto perm = perm_of(*transpose);
  std::vector<size_t> group_of(perm.size());
  for (size_t a = 0; a < perm.size(); ++a) group_of[perm[a]] = a;
  SymShape split;
  std::vector<int64_t> first(perm.size());
  for (size_t axis = 0; axis < perm.size(); ++axis) {
    const AxisGroup& g = groups[group_of[axis]];
    first[axis] = static_cast<int64_t>(split.size());
    for (size_t o = g.out_begin; o < g.out_end; ++o) split.push_back(out[o]);
  }
  std::vector<int64_t> new_perm;
  for (size_t a = 0; a < perm.size(); ++a) {
    const AxisGroup& g = groups[a];
    for (size_t o = g.out_begin; o < g.out_end; ++o) {
      new_perm.push_back(first[perm[a]] + static_cast<int64_t>(o - g.out_begin));
    }
  }
  const ValueId source = emit_reshape(graph, transpose->inputs[0], std::move(split), n.origins);
  absorb_origins(graph, id, *transpose);
  mutate(graph, id, OpKind::kTranspose, {source}, TransposeAttrs{std::move(new_perm)});
  return true;
}

bool slice_before_transpose(Graph& graph, NodeId id) {
  const Node& n = graph.node(id);
  if (n.op != OpKind::kSlice) return false;
  auto attrs = n.attrs_as<SliceAttrs>();
  const Node* transpose = producer_of(graph, n.inputs[0], OpKind::kTranspose);
  if (!attrs.inline_starts || !transpose || !can_absorb(graph, id, *transpose)) return false;
  const auto perm = perm_of(*transpose);
  for (int64_t& axis : attrs.axes) axis = perm[axis];
  const ValueId cut = ops::emit(graph, OpKind::kSlice, {transpose->inputs[0]}, attrs, n.origins);
  absorb_origins(graph, id, *transpose);
  mutate(graph, id, OpKind::kTranspose, {cut}, TransposeAttrs{perm});
  return true;
}

// x [.., n·m, ..] seen as [.., n, m, ..] and cut along n: cut x itself in steps of m.
bool slice_before_split(Graph& graph, NodeId id) {
  const Node& n = graph.node(id);
  if (n.op != OpKind::kSlice) return false;
  auto attrs = n.attrs_as<SliceAttrs>();
  const Node* view = own_reshape(graph, n.inputs[0]);
  if (!attrs.inline_starts || !view || attrs.axes.size() != 1 || attrs.steps[0] != 1 ||
      !can_absorb(graph, id, *view))
    return false;
  const SymShape& from = shape_of(graph, view->inputs[0]);
  const SymShape& to = shape_of(graph, n.inputs[0]);
  const auto axis = static_cast<size_t>(attrs.axes[0]);
  for (const AxisGroup& g : reshape_groups(from, to)) {
    if (axis < g.out_begin || axis >= g.out_end) continue;
    size_t source = g.in_begin, parts = 0;
    for (size_t i = g.in_begin; i < g.in_end; ++i) {
      if (from[i] == Dim(1)) continue;
      source = i;
      ++parts;
    }
    if (parts != 1) return false;
    Dim before = 1, inner = 1;
    for (size_t o = g.out_begin; o < axis; ++o) before = before * to[o];
    for (size_t o = axis + 1; o < g.out_end; ++o) inner = inner * to[o];
    if (!(before == Dim(1)) || !inner.is_constant()) return false;
    attrs.axes = {static_cast<int64_t>(source)};
    attrs.starts[0] *= inner.constant();
    attrs.sizes[0] = attrs.sizes[0] * inner;
    const SymShape out = shape_of(graph, n.outputs[0]);
    const ValueId cut = ops::emit(graph, OpKind::kSlice, {view->inputs[0]}, attrs, n.origins);
    absorb_origins(graph, id, *view);
    mutate(graph, id, OpKind::kReshape, {cut}, shape_attrs(out));
    return true;
  }
  return false;
}

bool slice_after_constant_math(Graph& graph, NodeId id) {
  const Node& n = graph.node(id);
  if ((flags(n.op) & kElementwise) == 0 || n.outputs.size() != 1) return false;
  const Node* slice = nullptr;
  std::vector<ValueId> inputs = n.inputs;
  for (ValueId& in : inputs) {
    if (in == kNoValue) continue;
    const Node* s = producer_of(graph, in, OpKind::kSlice);
    if (s && !slice && s->attrs_as<SliceAttrs>().inline_starts &&
        constant_of(graph, s->inputs[0])) {
      slice = s;
      in = s->inputs[0];
      continue;
    }
    const Tensor* t = constant_of(graph, in);
    if (!t || t->elems() != 1 || t->rank() > 1) return false;
  }
  if (!slice || !can_absorb(graph, id, *slice)) return false;
  const ValueId whole = ops::emit(graph, n.op, std::move(inputs), n.attrs, n.origins);
  absorb_origins(graph, id, *slice);
  mutate(graph, id, OpKind::kSlice, {whole}, slice->attrs);
  return true;
}

// The one operand of an elementwise operator that is not a scalar, or nothing.
std::optional<size_t> varying_operand(const Graph& graph, const Node& math) {
  if ((flags(math.op) & kElementwise) == 0 || math.outputs.size() != 1) return std::nullopt;
  std::optional<size_t> found;
  for (size_t i = 0; i < math.inputs.size(); ++i) {
    const Tensor* c = constant_of(graph, math.inputs[i]);
    if (!math.has_input(i) || (c && c->elems() == 1)) continue;
    if (found) return std::nullopt;
    found = i;
  }
  return found;
}

bool math_after_view(Graph& graph, NodeId id) {
  const Node& n = graph.node(id);
  if (n.op != OpKind::kTranspose && n.op != OpKind::kReshape) return false;
  if (n.op == OpKind::kReshape && !n.attrs_as<ShapeAttrs>().has_shape) return false;
  const Node* math = graph.producer(n.inputs[0]);
  if (!math || !graph.single_use(n.inputs[0])) return false;
  const bool scales = math->op == OpKind::kMul || math->op == OpKind::kDiv;
  if (n.op == OpKind::kTranspose && !scales) return false;
  const auto varying = varying_operand(graph, *math);
  if (!varying ||
      !same_shape(shape_of(graph, math->inputs[*varying]), shape_of(graph, n.inputs[0])))
    return false;
  std::vector<ValueId> inputs = math->inputs;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (i == *varying || inputs[i] == kNoValue || rank_of(graph, inputs[i]) == 0) continue;
    // Rank 0, so that the result keeps the view's shape whatever its rank.
    inputs[i] = ir::add_reshaped_constant(graph, inputs[i], {});
  }
  const OpKind op = math->op;
  const AttrBytes attrs = math->attrs;
  const std::vector<Origin> origins = math->origins;
  inputs[*varying] = ops::emit(graph, n.op, {inputs[*varying]}, n.attrs, n.origins);
  graph.node(id).origins = origins;
  mutate(graph, id, op, std::move(inputs), attrs);
  return true;
}

bool merge_slices(Graph& graph, NodeId id) {
  const Node& n = graph.node(id);
  if (n.op != OpKind::kSlice) return false;
  const Node* inner = producer_of(graph, n.inputs[0], OpKind::kSlice);
  if (!inner || !can_absorb(graph, id, *inner)) return false;
  auto attrs = inner->attrs_as<SliceAttrs>();
  const auto outer = n.attrs_as<SliceAttrs>();
  if (!attrs.inline_starts || !outer.inline_starts) return false;
  for (size_t i = 0; i < outer.axes.size(); ++i) {
    const auto at = std::find(attrs.axes.begin(), attrs.axes.end(), outer.axes[i]);
    if (at == attrs.axes.end()) {
      attrs.axes.push_back(outer.axes[i]);
      attrs.starts.push_back(outer.starts[i]);
      attrs.steps.push_back(outer.steps[i]);
      attrs.sizes.push_back(outer.sizes[i]);
      continue;
    }
    const auto k = static_cast<size_t>(at - attrs.axes.begin());
    attrs.starts[k] += outer.starts[i] * attrs.steps[k];
    attrs.steps[k] *= outer.steps[i];
    if (std::abs(attrs.steps[k]) > rules::kLargestNumber) return false;  // not valid for a Slice
    attrs.sizes[k] = outer.sizes[i];
  }
  absorb_origins(graph, id, *inner);
  mutate(graph, id, OpKind::kSlice, {inner->inputs[0]}, attrs);
  return true;
}

// The Slice of one axis with step 1 and constant size that `user` is, or nothing.
std::optional<SliceAttrs> part_of_axis(const Graph& graph, NodeId user) {
  const Node& n = graph.node(user);
  if (n.op != OpKind::kSlice) return std::nullopt;
  auto attrs = n.attrs_as<SliceAttrs>();
  const bool simple = attrs.inline_starts && attrs.axes.size() == 1 && attrs.steps[0] == 1 &&
                      attrs.sizes[0].is_constant();
  if (!simple) return std::nullopt;
  return attrs;
}

// Handles all parts when the first of them is visited.
bool slices_to_split(Graph& graph, NodeId id) {
  const auto first = part_of_axis(graph, id);
  if (!first) return false;
  const ValueId source = graph.node(id).inputs[0];
  if (graph.value(source).users.front() != id) return false;
  const std::vector<NodeId> users = users_of(graph, source);
  if (users.size() < 2 || graph.is_output(source) || constant_of(graph, source)) return false;
  std::vector<std::pair<int64_t, NodeId>> parts;
  for (NodeId user : users) {
    const auto attrs = part_of_axis(graph, user);
    if (!attrs || attrs->axes != first->axes) return false;
    parts.emplace_back(attrs->starts[0], user);
  }
  std::sort(parts.begin(), parts.end());
  SplitAttrs split;
  split.axis = first->axes[0];
  int64_t at = 0;
  std::vector<Origin> all, origins;  // `origins`: each once
  for (const auto& [start, user] : parts) {
    if (start != at) return false;
    split.sizes.push_back(part_of_axis(graph, user)->sizes[0].constant());
    at += split.sizes.back();
    all.insert(all.end(), graph.node(user).origins.begin(), graph.node(user).origins.end());
  }
  if (!(shape_of(graph, source)[split.axis] == Dim(at))) return false;
  ir::merge_origins(origins, all);
  const ValueId out =
      ops::emit(graph, OpKind::kSplit, {source}, split, origins, static_cast<int>(parts.size()));
  const std::vector<ValueId> results = graph.producer(out)->outputs;
  for (size_t i = 0; i < parts.size(); ++i)
    graph.replace_uses(graph.node(parts[i].second).outputs[0], results[i]);
  return true;
}

// Transpose(Reshape(x)) where the reshape only merges axes: they move together.
bool merge_after_transpose(Graph& graph, NodeId id) {
  const Node& n = graph.node(id);
  if (n.op != OpKind::kTranspose) return false;
  const Node* view = own_reshape(graph, n.inputs[0]);
  if (!view) return false;
  const SymShape from = shape_of(graph, view->inputs[0]), to = shape_of(graph, n.inputs[0]);
  const auto groups = reshape_groups(from, to);
  bool merges = false;
  for (const AxisGroup& g : groups) {
    if (g.out_end - g.out_begin != 1) return false;
    const auto parts = std::count_if(from.begin() + static_cast<std::ptrdiff_t>(g.in_begin),
                                     from.begin() + static_cast<std::ptrdiff_t>(g.in_end),
                                     [](const Dim& d) { return !(d == Dim(1)); });
    merges = merges || parts > 1;
  }
  if (!merges) return false;
  std::vector<int64_t> perm;
  for (int64_t axis : perm_of(n)) {
    const AxisGroup& g = groups[axis];
    for (size_t i = g.in_begin; i < g.in_end; ++i) perm.push_back(static_cast<int64_t>(i));
  }
  const SymShape out = shape_of(graph, n.outputs[0]);
  const ValueId moved = emit_transpose(graph, view->inputs[0], std::move(perm), n.origins);
  mutate(graph, id, OpKind::kReshape, {moved}, shape_attrs(out));
  return true;
}

// Does a reshape from `from` to `to` leave the last `kept` axes alone?
bool keeps_last_axes(const SymShape& from, const SymShape& to, size_t kept) {
  if (from.size() < kept || to.size() < kept) return false;
  return std::equal(from.end() - static_cast<std::ptrdiff_t>(kept), from.end(),
                    to.end() - static_cast<std::ptrdiff_t>(kept));
}

SymShape with_batch(const SymShape& batch_of, const SymShape& matrix_of) {
  SymShape shape(batch_of.begin(), batch_of.end() - 2);
  shape.insert(shape.end(), matrix_of.end() - 2, matrix_of.end());
  return shape;
}

bool same_batch(const SymShape& a, const SymShape& b) {
  return a.size() == b.size() && a.size() >= 2 && std::equal(a.begin(), a.end() - 2, b.begin());
}

// Reshape(MatMul(a, b)) that splits the batch: split a and b.
bool split_batch_before_product(Graph& graph, NodeId id) {
  const Node& n = graph.node(id);
  if (n.op != OpKind::kReshape || !n.attrs_as<ShapeAttrs>().has_shape) return false;
  const Node* product = producer_of(graph, n.inputs[0], OpKind::kMatMul);
  const SymShape out = shape_of(graph, n.outputs[0]);
  const SymShape from = shape_of(graph, n.inputs[0]);
  if (!product || !graph.single_use(n.inputs[0]) || from.size() != 3 || out.size() != 4 ||
      !keeps_last_axes(from, out, 2))
    return false;
  std::vector<ValueId> operands = product->inputs;
  for (ValueId operand : operands) {
    if (!same_batch(shape_of(graph, operand), from)) return false;
  }
  const std::vector<Origin> origins = product->origins;
  for (ValueId& operand : operands) {
    operand = emit_reshape(graph, operand, with_batch(out, shape_of(graph, operand)),
                           graph.node(id).origins);
  }
  graph.node(id).origins = origins;
  mutate(graph, id, OpKind::kMatMul, std::move(operands), NoAttrs{});
  return true;
}

// MatMul(Reshape(a), b) where the reshape merges the batch: multiply before it.
bool merge_batch_after_product(Graph& graph, NodeId id) {
  const Node& n = graph.node(id);
  if (n.op != OpKind::kMatMul) return false;
  const Node* view = own_reshape(graph, n.inputs[0]);
  if (!view) return false;
  const SymShape from = shape_of(graph, view->inputs[0]), to = shape_of(graph, n.inputs[0]);
  if (from.size() != 4 || to.size() != 3 || !keeps_last_axes(from, to, 2) ||
      !same_batch(shape_of(graph, n.inputs[1]), to))
    return false;
  const SymShape out = shape_of(graph, n.outputs[0]);
  const ValueId right =
      emit_reshape(graph, n.inputs[1], with_batch(from, shape_of(graph, n.inputs[1])), n.origins);
  const ValueId product =
      ops::emit(graph, OpKind::kMatMul, {view->inputs[0], right}, NoAttrs{}, n.origins);
  mutate(graph, id, OpKind::kReshape, {product}, shape_attrs(out));
  return true;
}

bool reshape_after_softmax(Graph& graph, NodeId id) {
  const Node& n = graph.node(id);
  if (n.op != OpKind::kSoftmax) return false;
  const Node* view = own_reshape(graph, n.inputs[0]);
  const int64_t rank = rank_of(graph, n.inputs[0]);
  const auto attrs = n.attrs_as<AxisAttrs>();
  if (!view || rank == 0 || (attrs.axis + rank) % rank != rank - 1) return false;
  if (!keeps_last_axes(shape_of(graph, view->inputs[0]), shape_of(graph, n.inputs[0]), 2))
    return false;
  const SymShape out = shape_of(graph, n.outputs[0]);
  const ValueId probs =
      ops::emit(graph, OpKind::kSoftmax, {view->inputs[0]}, AxisAttrs{-1}, n.origins);
  mutate(graph, id, OpKind::kReshape, {probs}, shape_attrs(out));
  return true;
}

}  // namespace

std::span<const Rule> view_rules() {
  static constexpr Rule kRules[] = {&merge_reshapes,
                                    &merge_transposes,
                                    &transpose_of_units,
                                    &units_after_transpose,
                                    &split_before_transpose,
                                    &slice_before_transpose,
                                    &slice_before_split,
                                    &slice_after_constant_math,
                                    &math_after_view,
                                    &merge_slices,
                                    &slices_to_split,
                                    &merge_after_transpose,
                                    &split_batch_before_product,
                                    &merge_batch_after_product,
                                    &reshape_after_softmax};
  return kRules;
}

}  // namespace vernier::passes
