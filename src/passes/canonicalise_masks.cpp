// Forms of masks: what is kept becomes one bool tensor, compared once.
//   Cast(1 − Cast(m) to bool) ⇒ Not(m == 1)        requires: m integer or bool
//   Where(Cast(x to bool), a, x) ⇒ Where(Cast(x to bool), a, 0)   (x is 0 where the cast is false)
//   Cast(b) == 0 ⇒ Not(b), Cast(b) == 1 ⇒ b        requires: b bool (also under Casts)
//   Cast(b) > 0, Cast(b) >= 1 ⇒ b;  Cast(b) < 1 ⇒ Not(b)
#include "passes/canonicalise.h"

namespace vernier::passes {
namespace {

using enum OpKind;

// The integer or bool tensor under Casts to numbers that keep 0 and 1 apart.
ValueId under_number_casts(const Graph& graph, ValueId value) {
  const Node* cast = producer_of(graph, value, kCast);
  if (!cast || is_float(dtype_of(graph, cast->inputs[0]))) return kNoValue;
  return cast->inputs[0];
}

// zero_where_false matches this Cast and must run first.
bool chooses_its_source(const Graph& graph, const Node& cast) {
  for (NodeId user : graph.value(cast.outputs[0]).users) {
    const Node& n = graph.node(user);
    if (n.op == kWhere && n.inputs[0] == cast.outputs[0] && n.inputs[2] == cast.inputs[0])
      return true;
  }
  return false;
}

bool inverted_mask(Graph& graph, NodeId id) {
  const Node& n = graph.node(id);
  if (n.op != kCast || dtype_of(graph, n.outputs[0]) != DType::kBool) return false;
  if (chooses_its_source(graph, n)) return false;
  const Node* sub = producer_of(graph, n.inputs[0], kSub);
  if (!sub || !is_uniform(graph, sub->inputs[0], 1) || !can_absorb(graph, id, *sub)) return false;
  ValueId mask = under_number_casts(graph, sub->inputs[1]);
  if (mask == kNoValue && is_integer(dtype_of(graph, sub->inputs[1]))) mask = sub->inputs[1];
  if (mask == kNoValue || !same_shape(shape_of(graph, mask), shape_of(graph, n.outputs[0])))
    return false;
  absorb_origins(graph, id, *sub);
  ValueId is_one = mask;
  if (dtype_of(graph, mask) != DType::kBool) {
    const ValueId one = add_scalar(graph, dtype_of(graph, mask), 1);
    is_one = ops::emit(graph, kEqual, {mask, one}, NoAttrs{}, n.origins);
  }
  mutate(graph, id, kNot, {is_one}, NoAttrs{});
  return true;
}

bool zero_where_false(Graph& graph, NodeId id) {
  const Node& n = graph.node(id);
  if (n.op != kWhere || constant_of(graph, n.inputs[2])) return false;
  const Node* cast = producer_of(graph, n.inputs[0], kCast);
  if (!cast || cast->inputs[0] != n.inputs[2]) return false;
  const ValueId zero = add_scalar(graph, dtype_of(graph, n.inputs[2]), 0);
  mutate(graph, id, kWhere, {n.inputs[0], n.inputs[1], zero}, NoAttrs{});
  return true;
}

struct BoolTest {
  OpKind op;
  double constant;
  bool negated;
};
constexpr BoolTest kTests[] = {
    {kEqual, 0, true},           {kEqual, 1, false}, {kGreater, 0, false},
    {kGreaterOrEqual, 1, false}, {kLess, 1, true},   {kLessOrEqual, 0, true},
};

bool test_of_bool(Graph& graph, NodeId id) {
  const Node& n = graph.node(id);
  for (const BoolTest& test : kTests) {
    if (n.op != test.op || !is_uniform(graph, n.inputs[1], test.constant)) continue;
    const ValueId source = under_number_casts(graph, n.inputs[0]);
    if (source == kNoValue || dtype_of(graph, source) != DType::kBool) return false;
    if (!same_shape(shape_of(graph, source), shape_of(graph, n.outputs[0]))) return false;
    if (!test.negated) return replace_by(graph, id, source, "compares a bool with a constant");
    mutate(graph, id, kNot, {source}, NoAttrs{});
    return true;
  }
  return false;
}

}  // namespace

std::span<const Rule> mask_rules() {
  static constexpr Rule kRules[] = {&zero_where_false, &inverted_mask, &test_of_bool};
  return kRules;
}

}  // namespace vernier::passes
