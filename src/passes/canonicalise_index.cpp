// Gathers whose indices are positions. Exporters index a mask [B, S] by (batch, key) ranges; proven
// by the affine forms of index.h.
//   Gather(Reshape(x), i) ⇒ Reshape(x)          requires: axis 0; i counts 0, 1, 2, … over all of x
//   GatherND(x, i) ⇒ Expand(Reshape(x))
//     requires: component k of i is the position along one output axis, in ascending order, over
//     all of axis k of x (or 0 if that axis has size 1)
//   GatherElements(x, i) ⇒ x         requires: i is the position along the axis; same shape
// Two symbols that these identities prove equal are unified (an exporter's two names of one size).
#include <algorithm>

#include "analysis/index.h"
#include "passes/canonicalise.h"

namespace vernier::passes {
namespace {

// Equal, or two plain symbols that may be unified at this node.
bool unifiable(const Dim& a, const Dim& b) { return a == b || (a.as_symbol() && b.as_symbol()); }

SymShape without_units(const SymShape& shape) {
  SymShape kept;
  for (const Dim& d : shape) {
    if (!(d == Dim(1))) kept.push_back(d);
  }
  return kept;
}

// True if the sizes of x, up to axes of 1, are those of the index.
bool unify_sizes(Graph& graph, NodeId id, const SymShape& a, const SymShape& b) {
  const SymShape x = without_units(a), y = without_units(b);
  if (x.size() != y.size()) return false;
  if (!std::equal(x.begin(), x.end(), y.begin(), &unifiable)) return false;
  ops::GraphContext context(graph, id);
  for (size_t i = 0; i < x.size(); ++i) context.unify(x[i], y[i]);
  return true;
}

bool gather_all(Graph& graph, NodeId id) {
  const Node& n = graph.node(id);
  if (n.op != OpKind::kGather || n.attrs_as<AxisAttrs>().axis != 0) return false;
  const auto form = analysis::affine(graph, n.inputs[1]);
  if (!form) return false;
  // [N, 1, …] reshaped from x: use x's own sizes, which have the exporter's names.
  const SymShape& data = shape_of(graph, n.inputs[0]);
  const bool one_column =
      std::all_of(data.begin() + 1, data.end(), [](const Dim& d) { return d == Dim(1); });
  const Node* view = producer_of(graph, n.inputs[0], OpKind::kReshape);
  const ValueId source = view && one_column ? view->inputs[0] : n.inputs[0];
  SymShape counted = shape_of(graph, source);
  if (source == n.inputs[0]) counted = {data[0]};
  // Strides use the data's sizes; the index's own sizes may have other names.
  SymShape index = shape_of(graph, n.inputs[1]);
  const SymShape names = without_units(counted), own = without_units(index);
  if (names.size() != own.size() || !std::equal(names.begin(), names.end(), own.begin(), unifiable))
    return false;
  size_t next = 0;
  for (Dim& d : index) {
    if (!(d == Dim(1))) d = names[next++];
  }
  if (!analysis::is_row_major_index(*form, index)) return false;
  const ValueId data_value = n.inputs[0];
  if (!unify_sizes(graph, id, counted, shape_of(graph, n.inputs[1]))) return false;
  const SymShape out = shape_of(graph, n.outputs[0]);
  mutate(graph, id, OpKind::kReshape, {data_value}, shape_attrs(out));
  return true;
}

// The output axis that component `form` of an index counts along, if it counts all of `size`.
std::optional<size_t> counted_axis(const analysis::Affine& form, const SymShape& shape,
                                   const Dim& size) {
  std::optional<size_t> found;
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    if (form.coefficients[axis] == Dim(0)) continue;
    if (found || !(form.coefficients[axis] == Dim(1)) || !unifiable(shape[axis], size))
      return std::nullopt;
    found = axis;
  }
  if (!(form.offset == Dim(0))) return std::nullopt;
  return found;
}

bool is_zero(const analysis::Affine& form) {
  return form.offset == Dim(0) && std::all_of(form.coefficients.begin(), form.coefficients.end(),
                                              [](const Dim& c) { return c == Dim(0); });
}

// The affine forms of the components of indices [.., n]: parts of a Concat along the last axis, or
// columns of a constant.
std::optional<std::vector<analysis::Affine>> component_forms(const Graph& graph, ValueId indices) {
  std::vector<analysis::Affine> forms;
  if (const Tensor* t = constant_of(graph, indices)) {
    const int64_t n = t->shape().back();
    const std::vector<int64_t> all = t->integers();
    for (int64_t k = 0; k < n; ++k) {
      std::vector<int64_t> column;
      for (size_t i = static_cast<size_t>(k); i < all.size(); i += static_cast<size_t>(n))
        column.push_back(all[i]);
      const Shape shape(t->shape().begin(), t->shape().end() - 1);
      auto form =
          analysis::affine(Tensor::from(DType::kI64, shape, std::span<const int64_t>(column)));
      if (!form) return std::nullopt;
      forms.push_back(std::move(*form));
    }
    return forms;
  }
  const Node* concat = producer_of(graph, indices, OpKind::kConcat);
  if (!concat) return std::nullopt;
  const int64_t rank = rank_of(graph, indices), axis = concat->attrs_as<AxisAttrs>().axis;
  if ((axis + rank) % rank != rank - 1) return std::nullopt;
  for (ValueId part : concat->inputs) {
    if (rank_of(graph, part) != rank) return std::nullopt;  // a scalar joined into a list
    auto form = analysis::affine(graph, part);
    if (!form || !(shape_of(graph, part).back() == Dim(1))) return std::nullopt;
    form->coefficients.pop_back();
    forms.push_back(std::move(*form));
  }
  return forms;
}

bool gather_nd_by_position(Graph& graph, NodeId id) {
  const Node& n = graph.node(id);
  if (n.op != OpKind::kGatherND || n.attrs_as<GatherNDAttrs>().batch_dims != 0) return false;
  const ValueId data = n.inputs[0];
  const SymShape sizes = shape_of(graph, data), out = shape_of(graph, n.outputs[0]);
  const auto forms = component_forms(graph, n.inputs[1]);
  if (!forms || forms->size() != sizes.size()) return false;
  std::vector<size_t> axes, units;
  for (size_t k = 0; k < forms->size(); ++k) {
    if (sizes[k] == Dim(1) && is_zero((*forms)[k])) {
      units.push_back(k);
      continue;
    }
    const auto axis = counted_axis((*forms)[k], out, sizes[k]);
    if (!axis || (!axes.empty() && *axis <= axes.back())) return false;
    axes.push_back(*axis);
  }
  if (ops::brings_data_sizes(graph, out, std::span(&data, 1))) return false;
  ops::GraphContext context(graph, id);
  SymShape shape(out.size(), Dim(1));
  for (size_t k = 0, next = 0; k < sizes.size(); ++k) {
    if (std::find(units.begin(), units.end(), k) != units.end()) continue;
    const size_t axis = axes[next++];
    shape[axis] = context.unify(sizes[k], out[axis]);
  }
  ops::apply_substitutions(graph);
  const SymShape wanted = shape_of(graph, graph.node(id).outputs[0]);
  const ValueId small = emit_reshape(graph, data, std::move(shape), graph.node(id).origins);
  mutate(graph, id, OpKind::kExpand, {small}, shape_attrs(wanted));
  return true;
}

bool gather_elements_by_position(Graph& graph, NodeId id) {
  const Node& n = graph.node(id);
  if (n.op != OpKind::kGatherElements) return false;
  const SymShape &data = shape_of(graph, n.inputs[0]), &index = shape_of(graph, n.inputs[1]);
  const auto form = analysis::affine(graph, n.inputs[1]);
  if (!form || !same_shape(data, index)) return false;
  const int64_t rank = rank_of(graph, n.inputs[0]);
  const auto axis = static_cast<size_t>((n.attrs_as<AxisAttrs>().axis + rank) % rank);
  const auto counted = counted_axis(*form, index, data[axis]);
  if (!counted || *counted != axis) return false;
  return replace_by(graph, id, n.inputs[0], "indices are positions");
}

}  // namespace

std::span<const Rule> index_rules() {
  static constexpr Rule kRules[] = {&gather_all, &gather_nd_by_position,
                                    &gather_elements_by_position};
  return kRules;
}

}  // namespace vernier::passes
