// Affine forms, bounds and causal masks of integer and bool tensors: see index.h.
#include "analysis/index.h"

#include <algorithm>

#include "core/attrs.h"
#include "ops/infer.h"

namespace vernier::analysis {
namespace {

constexpr int kMaxDepth = 48;
constexpr int kMaxVisits = 1024;  // per query: paths through shared values multiply

// Depth and visits of one query.
struct Reach {
  int& visits;
  int depth = 0;
  Reach deeper() const { return {visits, depth + 1}; }
  bool ends() const { return depth > kMaxDepth || ++visits > kMaxVisits; }
};

using MaybeAffine = std::optional<Affine>;

MaybeAffine affine_at(const Graph& graph, ValueId value, Reach reach);

// Coefficients brought to `shape` under broadcasting: missing and expanded axes do not matter.
Affine broadcast_to(Affine form, size_t rank) {
  form.coefficients.insert(form.coefficients.begin(), rank - form.coefficients.size(), Dim(0));
  return form;
}

MaybeAffine of_constant(const Tensor& t) {
  if (is_float(t.dtype()) || t.elems() == 0 || t.elems() > (1 << 16)) return std::nullopt;
  const std::vector<int64_t> v = t.integers();
  const Shape strides = row_major_strides(t.shape());
  std::vector<int64_t> step(t.rank(), 0);
  for (size_t axis = 0; axis < step.size(); ++axis) {
    if (t.shape()[axis] > 1) step[axis] = v[strides[axis]] - v[0];
  }
  for (int64_t i = 0; i < t.elems(); ++i) {
    int64_t expected = v[0];
    for (size_t axis = 0; axis < step.size(); ++axis)
      expected += step[axis] * (i / strides[axis] % t.shape()[axis]);
    if (v[i] != expected) return std::nullopt;
  }
  return Affine{v[0], {step.begin(), step.end()}};
}

// Small tensors with known contents: a scalar or one element is a constant function.
MaybeAffine of_values(const Graph& graph, ValueId value) {
  const ir::Value& v = graph.value(value);
  if (!v.values || v.values->empty()) return std::nullopt;
  const bool all_equal = std::all_of(v.values->begin(), v.values->end(),
                                     [&](const Dim& d) { return d == v.values->front(); });
  if (!all_equal) return std::nullopt;
  return Affine{v.values->front(), std::vector<Dim>(v.shape.size(), Dim(0))};
}

// A reshape that only adds or removes axes of size 1.
MaybeAffine of_reshape(const Graph& graph, const Node& n, Reach reach) {
  const MaybeAffine in = affine_at(graph, n.inputs[0], reach);
  if (!in) return std::nullopt;
  const SymShape &from = shape_of(graph, n.inputs[0]), &to = shape_of(graph, n.outputs[0]);
  Affine out{in->offset, std::vector<Dim>(to.size(), Dim(0))};
  size_t next = 0;
  for (size_t axis = 0; axis < to.size(); ++axis) {
    if (to[axis] == Dim(1)) continue;
    while (next < from.size() && from[next] == Dim(1)) ++next;
    if (next == from.size() || !(from[next] == to[axis])) return std::nullopt;
    out.coefficients[axis] = in->coefficients[next++];
  }
  while (next < from.size() && from[next] == Dim(1)) ++next;
  if (next != from.size()) return std::nullopt;
  return out;
}

MaybeAffine of_arithmetic(const Graph& graph, const Node& n, Reach reach) {
  const MaybeAffine a = affine_at(graph, n.inputs[0], reach);
  const MaybeAffine b = a ? affine_at(graph, n.inputs[1], reach) : std::nullopt;
  if (!b) return std::nullopt;
  const size_t rank = shape_of(graph, n.outputs[0]).size();
  const Affine x = broadcast_to(*a, rank), y = broadcast_to(*b, rank);
  const auto is_flat = [](const Affine& f) {
    return std::all_of(f.coefficients.begin(), f.coefficients.end(),
                       [](const Dim& d) { return d == Dim(0); });
  };
  Affine out = x;
  if (n.op == OpKind::kMul) {
    if (!is_flat(x) && !is_flat(y)) return std::nullopt;
    const Affine& varying = is_flat(x) ? y : x;
    const Dim factor = is_flat(x) ? x.offset : y.offset;
    out.offset = varying.offset * factor;
    for (size_t i = 0; i < rank; ++i) out.coefficients[i] = varying.coefficients[i] * factor;
    return out;
  }
  const Dim sign = n.op == OpKind::kSub ? -1 : 1;
  out.offset = x.offset + sign * y.offset;
  for (size_t i = 0; i < rank; ++i)
    out.coefficients[i] = x.coefficients[i] + sign * y.coefficients[i];
  return out;
}

MaybeAffine of_slice(const Graph& graph, const Node& n, Reach reach) {
  const auto attrs = n.attrs_as<SliceAttrs>();
  if (!attrs.inline_starts) return std::nullopt;
  MaybeAffine form = affine_at(graph, n.inputs[0], reach);
  if (!form) return std::nullopt;
  const auto rank = static_cast<int64_t>(form->coefficients.size());
  for (size_t i = 0; i < attrs.axes.size(); ++i) {
    Dim& c = form->coefficients[(attrs.axes[i] + rank) % rank];
    form->offset = form->offset + c * Dim(attrs.starts[i]);
    c = c * Dim(attrs.steps[i]);
  }
  return form;
}

MaybeAffine of_node(const Graph& graph, const Node& n, Reach reach) {
  switch (n.op) {
    case OpKind::kRange: {
      const MaybeAffine start = affine_at(graph, n.inputs[0], reach);
      const MaybeAffine delta = affine_at(graph, n.inputs[2], reach);
      if (!start || !delta) return std::nullopt;
      return Affine{start->offset, {delta->offset}};
    }
    case OpKind::kIdentity:
      return affine_at(graph, n.inputs[0], reach);
    case OpKind::kCast:
      // Positions fit every integer type that exporters use for them, except the 8-bit ones.
      if (!is_integer(n.attrs_as<CastAttrs>().to) || !is_integer(dtype_of(graph, n.inputs[0])) ||
          size_bytes(n.attrs_as<CastAttrs>().to) < 4)
        return std::nullopt;
      return affine_at(graph, n.inputs[0], reach);
    case OpKind::kReshape:
    case OpKind::kUnsqueeze:
    case OpKind::kSqueeze:
      return of_reshape(graph, n, reach);
    case OpKind::kExpand: {
      const MaybeAffine in = affine_at(graph, n.inputs[0], reach);
      if (!in) return std::nullopt;
      const SymShape& wide = shape_of(graph, n.outputs[0]);
      // A size that only the data says: the input's own may be 1 or not.
      if (ops::brings_data_sizes(graph, wide, std::span(n.inputs).first(1))) return std::nullopt;
      return broadcast_to(*in, wide.size());
    }
    case OpKind::kTranspose: {
      const MaybeAffine in = affine_at(graph, n.inputs[0], reach);
      if (!in) return std::nullopt;
      Affine out{in->offset, {}};
      for (int64_t axis : n.attrs_as<TransposeAttrs>().perm)
        out.coefficients.push_back(in->coefficients[axis]);
      return out;
    }
    case OpKind::kAdd:
    case OpKind::kSub:
    case OpKind::kMul:
      return of_arithmetic(graph, n, reach);
    case OpKind::kSlice:
      return of_slice(graph, n, reach);
    default:
      return std::nullopt;
  }
}

MaybeAffine affine_at(const Graph& graph, ValueId value, Reach reach) {
  if (value == kNoValue || reach.ends() || !is_integer(dtype_of(graph, value))) return std::nullopt;
  MaybeAffine form;
  if (const Tensor* t = constant_of(graph, value)) {
    form = of_constant(*t);
  } else {
    form = of_values(graph, value);
    if (!form && graph.producer(value))
      form = of_node(graph, *graph.producer(value), reach.deeper());
  }
  if (!form) return std::nullopt;
  const SymShape& shape = shape_of(graph, value);
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == Dim(1)) form->coefficients[i] = 0;
  }
  return form;
}

Bounds bounds_of_affine(const Affine& form, const SymShape& shape) {
  Bounds b{form.offset, form.offset};
  for (size_t i = 0; i < shape.size(); ++i) {
    const Dim& c = form.coefficients[i];
    if (c == Dim(0)) continue;
    const Dim span = c * (shape[i] - Dim(1));
    if (less_equal(0, c) == true) {
      if (b.high) b.high = *b.high + span;
    } else if (less_equal(c, 0) == true) {
      if (b.low) b.low = *b.low + span;
    } else {
      return {};
    }
  }
  return b;
}

Bounds bounds_at(const Graph& graph, ValueId value, Reach reach) {
  if (value == kNoValue || reach.ends() || is_float(dtype_of(graph, value))) return {};
  if (dtype_of(graph, value) == DType::kBool) return {Dim(0), Dim(1)};
  if (const auto form = affine_at(graph, value, {reach.visits})) {
    return bounds_of_affine(*form, shape_of(graph, value));
  }
  if (const Tensor* t = constant_of(graph, value); t && t->elems() > 0 && t->elems() < (1 << 16)) {
    const std::vector<int64_t> v = t->integers();
    return {Dim(*std::min_element(v.begin(), v.end())), Dim(*std::max_element(v.begin(), v.end()))};
  }
  const Node* n = graph.producer(value);
  if (!n) return {};
  if ((flags(n->op) & kMoves) != 0) return bounds_at(graph, n->inputs[0], reach.deeper());
  if (n->op == OpKind::kCast && !is_float(dtype_of(graph, n->inputs[0])) &&
      size_bytes(n->attrs_as<CastAttrs>().to) >= size_bytes(dtype_of(graph, n->inputs[0])))
    return bounds_at(graph, n->inputs[0], reach.deeper());
  if (n->op == OpKind::kAdd) {
    const Bounds a = bounds_at(graph, n->inputs[0], reach.deeper());
    const Bounds b = bounds_at(graph, n->inputs[1], reach.deeper());
    Bounds sum;
    if (a.low && b.low) sum.low = *a.low + *b.low;
    if (a.high && b.high) sum.high = *a.high + *b.high;
    return sum;
  }
  return {};
}

// ---- causal masks

CausalKind opposite(CausalKind kind) {
  return kind == CausalKind::kSeen     ? CausalKind::kHidden
         : kind == CausalKind::kHidden ? CausalKind::kSeen
                                       : kind;
}

// The last two axes of a mask, all others being 1.
bool is_matrix(const SymShape& shape) {
  return shape.size() >= 2 &&
         std::all_of(shape.begin(), shape.end() - 2, [](const Dim& d) { return d == Dim(1); });
}

// less ≤ more + slack  over [Sq, Sk]:  j + low ≤ i + high  with high − low + slack == Sk − Sq.
CausalKind compare_ranges(const Graph& graph, ValueId less, ValueId more, int64_t slack,
                          const SymShape& shape) {
  const auto a = affine(graph, less), b = affine(graph, more);
  if (!a || !b || !is_matrix(shape)) return CausalKind::kNotCausal;
  const Affine x = broadcast_to(*a, shape.size()), y = broadcast_to(*b, shape.size());
  const Dim &rows = shape[shape.size() - 2], &cols = shape.back();
  const Dim row = y.coefficients[shape.size() - 2] - x.coefficients[shape.size() - 2];
  const Dim col = x.coefficients.back() - y.coefficients.back();
  const Dim offset = y.offset - x.offset + Dim(slack);
  if (row == Dim(1) && col == Dim(1) && offset == cols - rows) return CausalKind::kSeen;
  // i + low ≤ j + high, that is j > i + (low − high − 1): the hidden half.
  if (row == Dim(-1) && col == Dim(-1) && Dim(0) - offset - Dim(1) == cols - rows)
    return CausalKind::kHidden;
  return CausalKind::kNotCausal;
}

CausalKind of_comparison(const Graph& graph, const Node& n) {
  const SymShape& shape = shape_of(graph, n.outputs[0]);
  const ValueId a = n.inputs[0], b = n.inputs[1];
  switch (n.op) {
    case OpKind::kLessOrEqual:
      return compare_ranges(graph, a, b, 0, shape);
    case OpKind::kLess:
      return compare_ranges(graph, a, b, -1, shape);
    case OpKind::kGreaterOrEqual:
      return compare_ranges(graph, b, a, 0, shape);
    default:
      return compare_ranges(graph, b, a, -1, shape);
  }
}

// Trilu of a tensor of trues: the lower triangle with k = Sk − Sq is what is seen, the upper one
// with k = Sk − Sq + 1 what is hidden.
CausalKind of_trilu(const Graph& graph, const Node& n) {
  const SymShape& shape = shape_of(graph, n.outputs[0]);
  const auto inner = uniform(graph, n.inputs[0]);
  if (!is_matrix(shape) || !inner || *inner == 0) return CausalKind::kNotCausal;
  Dim k = 0;
  if (n.has_input(1)) {
    const auto form = affine(graph, n.inputs[1]);
    if (!form) return CausalKind::kNotCausal;
    k = form->offset;
  }
  const Dim gap = shape.back() - shape[shape.size() - 2];
  if (n.attrs_as<TriluAttrs>().upper)
    return k == gap + Dim(1) ? CausalKind::kHidden : CausalKind::kNotCausal;
  return k == gap ? CausalKind::kSeen : CausalKind::kNotCausal;
}

CausalKind of_matrix(const Tensor& t, int64_t gap) {
  if (t.rank() < 2) return CausalKind::kNotCausal;
  const int64_t cols = t.shape().back(), rows = t.shape()[t.rank() - 2];
  if (rows * cols != t.elems() || cols < 2) return CausalKind::kNotCausal;
  bool seen = true, hidden = true;
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < cols; ++j) {
      const int64_t at = i * cols + j;
      const double value =
          is_float(t.dtype()) ? t.float_at(at) : static_cast<double>(t.integer_at(at));
      const bool is_set = value != 0;
      seen = seen && is_set == (j <= i + gap);
      hidden = hidden && is_set == (j > i + gap);
    }
  }
  return seen ? CausalKind::kSeen : hidden ? CausalKind::kHidden : CausalKind::kNotCausal;
}

// A constant causal matrix cut to [0, S) × [0, S).
CausalKind of_slice_of_matrix(const Graph& graph, const Node& n) {
  const Tensor* t = constant_of(graph, n.inputs[0]);
  const auto attrs = n.attrs_as<SliceAttrs>();
  const SymShape& shape = shape_of(graph, n.outputs[0]);
  if (!t || !attrs.inline_starts || !is_matrix(shape)) return CausalKind::kNotCausal;
  if (!(shape.back() == shape[shape.size() - 2])) return CausalKind::kNotCausal;
  const auto zero = [](int64_t s) { return s == 0; };
  const auto one = [](int64_t s) { return s == 1; };
  if (!std::all_of(attrs.starts.begin(), attrs.starts.end(), zero) ||
      !std::all_of(attrs.steps.begin(), attrs.steps.end(), one))
    return CausalKind::kNotCausal;
  return of_matrix(*t, 0);
}

}  // namespace

std::optional<Affine> affine(const Graph& graph, ValueId value) {
  int visits = 0;
  try {
    return affine_at(graph, value, {visits});
  } catch (const Error&) {  // overflow of a size expression
    return std::nullopt;
  }
}

std::optional<Affine> affine(const Tensor& constant) { return of_constant(constant); }

Bounds bounds(const Graph& graph, ValueId value) {
  int visits = 0;
  try {
    return bounds_at(graph, value, {visits});
  } catch (const Error&) {  // as in affine()
    return {};
  }
}

bool is_row_major_index(const Affine& form, const SymShape& shape) {
  if (!(form.offset == Dim(0))) return false;
  Dim stride = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    if (!(shape[i] == Dim(1)) && !(form.coefficients[i] == stride)) return false;
    stride = stride * shape[i];
  }
  return true;
}

// Through at most `left` nodes that negate, cast or reshape.
static CausalKind causal_kind_at(const Graph& graph, ValueId value, int left) {
  if (left == 0) return CausalKind::kNotCausal;

  if (value == kNoValue) return CausalKind::kNotCausal;
  if (const Tensor* t = constant_of(graph, value)) {
    if (!is_matrix(shape_of(graph, value))) return CausalKind::kNotCausal;
    return of_matrix(*t, t->shape().back() - t->shape()[t->rank() - 2]);
  }
  const Node* n = graph.producer(value);
  if (!n) return CausalKind::kNotCausal;
  switch (n->op) {
    case OpKind::kNot:
      return opposite(causal_kind_at(graph, n->inputs[0], left - 1));
    case OpKind::kCast:
      return causal_kind_at(graph, n->inputs[0], left - 1);
    case OpKind::kEqual:  // == 0, as exporters negate numbers
      return is_uniform(graph, n->inputs[1], 0)
                 ? opposite(causal_kind_at(graph, n->inputs[0], left - 1))
                 : CausalKind::kNotCausal;
    case OpKind::kReshape:
      return is_matrix(shape_of(graph, n->inputs[0])) && is_matrix(shape_of(graph, value))
                 ? causal_kind_at(graph, n->inputs[0], left - 1)
                 : CausalKind::kNotCausal;
    case OpKind::kLess:
    case OpKind::kLessOrEqual:
    case OpKind::kGreater:
    case OpKind::kGreaterOrEqual:
      return of_comparison(graph, *n);
    case OpKind::kTrilu:
      return of_trilu(graph, *n);
    case OpKind::kSlice:
      return of_slice_of_matrix(graph, *n);
    default:
      return CausalKind::kNotCausal;
  }
}

CausalKind causal_kind(const Graph& graph, ValueId value) {
  return causal_kind_at(graph, value, kMaxDepth);
}

}  // namespace vernier::analysis
