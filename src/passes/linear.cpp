// MatMul(x, w)                  ⇒ Linear(x, w)        requires: floats, w and x at least matrices
// MatMul(x, Transpose(w))       ⇒ Linear{trans_w}(x, w)
// Gemm(a, b, c), α and β        ⇒ Linear(a, b, c), with Mul by α or β where they are not 1
//   requires: a not transposed
// Linear(x, w) + b              ⇒ Linear(x, w, b)     requires: b of shape [N] up to leading ones
// Linear(Reshape(x), w, b)      ⇒ Reshape(Linear(x, w, b))
//   requires: the reshape merges all axes but the last (for Gemm, which takes matrices)
// Reshape(Linear(Reshape(x)))   ⇒ Linear(Reshape(x))  requires: the outer one keeps the last axis
#include "passes/canonicalise.h"
#include "passes/passes.h"

namespace vernier::passes {
namespace {

using enum OpKind;

bool from_matmul(Graph& graph, NodeId id) {
  const Node& n = graph.node(id);
  if (n.op != kMatMul) return false;
  const ValueId x = n.inputs[0];
  ValueId w = n.inputs[1];
  if (rank_of(graph, w) != 2 || rank_of(graph, x) < 2 || !is_float(dtype_of(graph, x)))
    return false;
  LinearAttrs attrs;
  const Node* transpose = producer_of(graph, w, kTranspose);
  if (transpose && constant_of(graph, transpose->inputs[0])) {
    attrs.trans_w = true;
    w = transpose->inputs[0];
  }
  mutate(graph, id, kLinear, {x, w}, attrs);
  return true;
}

// [N], or the same with leading ones.
bool is_bias(const Graph& graph, ValueId value, const Dim& n) {
  const SymShape& shape = shape_of(graph, value);
  return !shape.empty() && shape.back() == n && product(shape) == n;
}

ValueId scaled(Graph& graph, ValueId value, double factor, const std::vector<Origin>& origins) {
  if (factor == 1) return value;
  const ValueId c = add_scalar(graph, dtype_of(graph, value), factor);
  return ops::emit(graph, kMul, {value, c}, NoAttrs{}, origins);
}

bool from_gemm(Graph& graph, NodeId id) {
  const Node& n = graph.node(id);
  if (n.op != kGemm) return false;
  const auto gemm = n.attrs_as<GemmAttrs>();
  if (gemm.trans_a) return false;
  const std::vector<Origin> origins = n.origins;
  const ValueId out = n.outputs[0];
  const Dim columns = shape_of(graph, out).back();
  const ValueId c = n.has_input(2) ? n.inputs[2] : kNoValue;
  LinearAttrs attrs;
  attrs.trans_w = gemm.trans_b;
  const bool as_bias =
      c != kNoValue && gemm.alpha == 1 && gemm.beta == 1 && is_bias(graph, c, columns);
  std::vector<ValueId> inputs{n.inputs[0], n.inputs[1]};
  if (as_bias) inputs.push_back(emit_reshape(graph, c, {columns}, origins));
  if (as_bias || (c == kNoValue && gemm.alpha == 1)) {
    mutate(graph, id, kLinear, std::move(inputs), attrs);
    return true;
  }
  const ValueId product = ops::emit(graph, kLinear, std::move(inputs), attrs, origins);
  const ValueId first = scaled(graph, product, gemm.alpha, origins);
  if (c == kNoValue || gemm.beta == 0) {
    graph.replace_uses(out, first);
    return true;
  }
  mutate(graph, id, kAdd, {first, scaled(graph, c, gemm.beta, origins)}, NoAttrs{});
  return true;
}

bool add_bias(Graph& graph, NodeId id) {
  const Node& n = graph.node(id);
  if (n.op != kAdd || n.apart) return false;
  for (size_t i : {size_t{0}, size_t{1}}) {
    const Node* linear = producer_of(graph, n.inputs[i], kLinear);
    const ValueId bias = n.inputs[1 - i];
    if (!linear || linear->inputs.size() != 2 || sole_user(graph, n.inputs[i]) != id) continue;
    const SymShape& out = shape_of(graph, n.outputs[0]);
    if (!is_bias(graph, bias, out.back()) || !same_shape(out, shape_of(graph, n.inputs[i])) ||
        dtype_of(graph, bias) != dtype_of(graph, n.outputs[0]))
      continue;
    const std::vector<ValueId> operands = linear->inputs;
    const AttrBytes attrs = linear->attrs;
    std::vector<Origin> origins = linear->origins;
    ir::merge_origins(origins, n.origins);
    const ValueId row = emit_reshape(graph, bias, {out.back()}, origins);
    graph.node(id).origins = std::move(origins);
    mutate(graph, id, kLinear, {operands[0], operands[1], row}, attrs);
    return true;
  }
  return false;
}

const Node* reshape_before(const Graph& graph, const Node& linear) {
  const Node* view = producer_of(graph, linear.inputs[0], kReshape);
  return view && view->attrs_as<ShapeAttrs>().has_shape ? view : nullptr;
}

bool without_residual(const Node& linear) { return linear.inputs.size() <= 3; }

bool reshape_after(Graph& graph, NodeId id) {
  const Node& n = graph.node(id);
  if (n.op != kLinear || !without_residual(n)) return false;
  const Node* view = reshape_before(graph, n);
  if (!view) return false;
  const SymShape& x = shape_of(graph, view->inputs[0]);
  if (x.empty() || !(x.back() == shape_of(graph, n.inputs[0]).back())) return false;
  if (rank_of(graph, n.inputs[0]) != 2 || differ_by_unit_axes(x, shape_of(graph, n.inputs[0])))
    return false;  // not a reshape to a matrix for Gemm
  const SymShape out = shape_of(graph, n.outputs[0]);
  std::vector<ValueId> inputs = n.inputs;
  inputs[0] = view->inputs[0];
  const ValueId linear = ops::emit(graph, kLinear, std::move(inputs), n.attrs, n.origins);
  // The view's node is removed: it computed nothing.
  mutate(graph, id, kReshape, {linear}, shape_attrs(out));
  graph.node(id).origins = view->origins;
  return true;
}

bool reshape_inside(Graph& graph, NodeId id) {
  const Node& n = graph.node(id);
  if (n.op != kReshape || !n.attrs_as<ShapeAttrs>().has_shape) return false;
  const Node* linear = producer_of(graph, n.inputs[0], kLinear);
  if (!linear || !without_residual(*linear) || sole_user(graph, n.inputs[0]) != id) return false;
  const Node* view = reshape_before(graph, *linear);
  SymShape shape = shape_of(graph, n.outputs[0]);
  if (!view || shape.empty() || !(shape.back() == shape_of(graph, n.inputs[0]).back()))
    return false;
  shape.back() = shape_of(graph, linear->inputs[0]).back();
  std::vector<ValueId> inputs = linear->inputs;
  const AttrBytes attrs = linear->attrs;
  const std::vector<Origin> origins = linear->origins;
  std::vector<Origin> view_origins = view->origins;
  ir::merge_origins(view_origins, n.origins);
  inputs[0] = emit_reshape(graph, view->inputs[0], std::move(shape), view_origins);
  graph.node(id).origins = origins;
  mutate(graph, id, kLinear, std::move(inputs), attrs);
  return true;
}

}  // namespace

int raise_linear(Graph& graph) {
  static constexpr Rule kRules[] = {&from_matmul, &from_gemm, &add_bias, &reshape_after,
                                    &reshape_inside};
  const int found = apply_rules(graph, kRules);
  return found + canonicalise(graph);
}

}  // namespace vernier::passes
