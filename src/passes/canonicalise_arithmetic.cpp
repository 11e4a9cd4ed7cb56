// Arithmetic with known operands.
//   op(c, x) ⇒ op(x, c)                       requires: op commutative, c constant, x not
//   x·1, x/1, x+0, x−0, x∧true, x∨false ⇒ x   (broadcast to the result's shape)
//   x∧false ⇒ false   x∨true ⇒ true   Not(Not(x)) ⇒ x   Not(a<b) ⇒ a>=b (integers: no NaN)
//   Pow(x, 2) ⇒ x·x   Pow(x, 1) ⇒ x   x/c ⇒ x·(1/c)   requires: c a power of two
//   (x·a)·b ⇒ x·(a·b), (x+a)+b ⇒ x+(a+b)      requires: the merged constant is exact in the type
//   Cast(Cast(x)) ⇒ Cast(x)                   requires: integers or bool, inner type holds all of x
//   Cast(x to bool) ⇒ x                       requires: x bool
//   Where(Not(c), a, b) ⇒ Where(c, b, a)   Where(true, a, b) ⇒ a   Where(c, a, a) ⇒ a
//   a < b, a <= b, a > b, a >= b ⇒ true or false   requires: proven by bounds (a Range starts at 0)
#include <array>
#include <cmath>

#include "analysis/index.h"
#include "ir/derivations.h"
#include "passes/canonicalise.h"

namespace vernier::passes {
namespace {

bool constants_second(Graph& graph, NodeId id) {
  const Node& n = graph.node(id);
  if ((flags(n.op) & kCommutative) == 0 || n.inputs.size() != 2) return false;
  if (!uniform(graph, n.inputs[0]) && !constant_of(graph, n.inputs[0])) return false;
  if (uniform(graph, n.inputs[1]) || constant_of(graph, n.inputs[1])) return false;
  mutate(graph, id, n.op, {n.inputs[1], n.inputs[0]}, n.attrs);
  return true;
}

struct Neutral {
  OpKind op;
  double value;
};
constexpr std::array kNeutral{Neutral{OpKind::kMul, 1}, Neutral{OpKind::kDiv, 1},
                              Neutral{OpKind::kAdd, 0}, Neutral{OpKind::kSub, 0},
                              Neutral{OpKind::kAnd, 1}, Neutral{OpKind::kOr, 0},
                              Neutral{OpKind::kPow, 1}};

bool drop_neutral(Graph& graph, NodeId id) {
  const Node& n = graph.node(id);
  for (const Neutral& row : kNeutral) {
    if (n.op == row.op && is_uniform(graph, n.inputs[1], row.value))
      return become(graph, id, n.inputs[0], "neutral operand");
  }
  return false;
}

bool absorb_logic(Graph& graph, NodeId id) {
  const Node& n = graph.node(id);
  const bool absorbs = (n.op == OpKind::kAnd && is_uniform(graph, n.inputs[1], 0)) ||
                       (n.op == OpKind::kOr && is_uniform(graph, n.inputs[1], 1));
  if (absorbs) return become_uniform(graph, id, n.op == OpKind::kOr ? 1 : 0);
  if ((n.op == OpKind::kAnd || n.op == OpKind::kOr) && n.inputs[0] == n.inputs[1])
    return replace_by(graph, id, n.inputs[0], "both operands are the same");
  return false;
}

std::optional<OpKind> negated(OpKind op) {
  switch (op) {
    case OpKind::kLess:
      return OpKind::kGreaterOrEqual;
    case OpKind::kLessOrEqual:
      return OpKind::kGreater;
    case OpKind::kGreater:
      return OpKind::kLessOrEqual;
    case OpKind::kGreaterOrEqual:
      return OpKind::kLess;
    default:
      return std::nullopt;
  }
}

bool simplify_not(Graph& graph, NodeId id) {
  const Node& n = graph.node(id);
  if (n.op != OpKind::kNot) return false;
  const Node* inner = graph.producer(n.inputs[0]);
  if (!inner) return false;
  if (inner->op == OpKind::kNot) return replace_by(graph, id, inner->inputs[0], "negated twice");
  const auto op = negated(inner->op);
  if (!op || is_float(dtype_of(graph, inner->inputs[0])) || !can_absorb(graph, id, *inner))
    return false;
  absorb_origins(graph, id, *inner);
  mutate(graph, id, *op, inner->inputs, inner->attrs);
  return true;
}

bool simplify_pow(Graph& graph, NodeId id) {
  const Node& n = graph.node(id);
  if (n.op != OpKind::kPow || !is_uniform(graph, n.inputs[1], 2)) return false;
  const ValueId x = n.inputs[0];
  if (!is_float(dtype_of(graph, x)) ||
      !same_shape(shape_of(graph, x), shape_of(graph, n.outputs[0])))
    return false;
  mutate(graph, id, OpKind::kMul, {x, x}, NoAttrs{});
  return true;
}

bool simplify_div(Graph& graph, NodeId id) {
  const Node& n = graph.node(id);
  if (n.op != OpKind::kDiv || !is_float(dtype_of(graph, n.outputs[0]))) return false;
  const auto c = uniform(graph, n.inputs[1]);
  const Tensor* t = constant_of(graph, n.inputs[1]);
  if (!c || !t || *c == 0 || !std::isfinite(*c)) return false;
  int exponent = 0;
  if (std::abs(std::frexp(*c, &exponent)) != 0.5 || std::abs(exponent) > 12) return false;
  const std::vector<double> inverse(static_cast<size_t>(t->elems()), 1 / *c);
  const ValueId factor = add_constant_like(
      graph, n.inputs[1], Tensor::from(t->dtype(), t->shape(), std::span<const double>(inverse)));
  graph.value(factor).derivation =
      ir::derived(graph, graph.value(factor).constant, OpKind::kReciprocal, encode(NoAttrs{}),
                  std::span(&n.inputs[1], 1));
  mutate(graph, id, OpKind::kMul, {n.inputs[0], factor}, NoAttrs{});
  return true;
}

// (x ∘ a) ∘ b ⇒ x ∘ (a ∘ b) for Mul and Add with constants whose combination needs no rounding.
bool merge_scalars(Graph& graph, NodeId id) {
  const Node& n = graph.node(id);
  if (n.op != OpKind::kMul && n.op != OpKind::kAdd) return false;
  const Node* inner = producer_of(graph, n.inputs[0], n.op);
  const Tensor *a = inner ? constant_of(graph, inner->inputs[1]) : nullptr,
               *b = constant_of(graph, n.inputs[1]);
  if (!a || !b || a->elems() != 1 || b->elems() != 1 || sole_user(graph, n.inputs[0]) != id)
    return false;
  if (!is_float(a->dtype()) || !can_absorb(graph, id, *inner)) return false;
  const double x = a->float_at(0), y = b->float_at(0);
  const double merged = n.op == OpKind::kMul ? x * y : x + y;
  if (round_to(a->dtype(), merged) != merged || !std::isfinite(merged)) return false;
  const ValueId source = inner->inputs[0];
  const std::array both{inner->inputs[1], n.inputs[1]};
  absorb_origins(graph, id, *inner);
  const Tensor& wider = a->rank() >= b->rank() ? *a : *b;
  const ValueId c = add_constant_like(graph, n.inputs[1],
                                      Tensor::scalar(a->dtype(), merged).reshaped(wider.shape()));
  graph.value(c).derivation =
      ir::derived(graph, graph.value(c).constant, n.op, encode(NoAttrs{}), both);
  mutate(graph, id, n.op, {source, c}, NoAttrs{});
  return true;
}

bool holds_all(DType wide, DType narrow) {
  if (narrow == DType::kBool) return wide != DType::kBool;
  return is_signed_integer(wide) && is_signed_integer(narrow) &&
         element_bits(wide) >= element_bits(narrow);
}

bool merge_casts(Graph& graph, NodeId id) {
  const Node& n = graph.node(id);
  if (n.op != OpKind::kCast) return false;
  const Node* inner = producer_of(graph, n.inputs[0], OpKind::kCast);
  if (!inner || !can_absorb(graph, id, *inner)) return false;
  const DType source = dtype_of(graph, inner->inputs[0]);
  if (is_float(source) || !holds_all(dtype_of(graph, n.inputs[0]), source)) return false;
  absorb_origins(graph, id, *inner);
  mutate(graph, id, OpKind::kCast, {inner->inputs[0]}, n.attrs);
  return true;
}

bool simplify_where(Graph& graph, NodeId id) {
  const Node& n = graph.node(id);
  if (n.op != OpKind::kWhere) return false;
  if (const auto condition = uniform(graph, n.inputs[0]))
    return become(graph, id, n.inputs[*condition != 0 ? 1 : 2], "the condition is known");
  if (n.inputs[1] == n.inputs[2])
    return become(graph, id, n.inputs[1], "both branches are the same");
  const Node* inner = producer_of(graph, n.inputs[0], OpKind::kNot);
  if (inner && can_absorb(graph, id, *inner)) {
    absorb_origins(graph, id, *inner);
    mutate(graph, id, OpKind::kWhere, {inner->inputs[0], n.inputs[2], n.inputs[1]}, NoAttrs{});
    return true;
  }
  return false;
}

// a ≤ b, or its opposite, for all elements?
std::optional<bool> provably_le(const Graph& graph, ValueId a, ValueId b, int64_t slack) {
  const analysis::Bounds x = analysis::bounds(graph, a), y = analysis::bounds(graph, b);
  if (x.high && y.low && less_equal(*x.high, *y.low + Dim(slack)) == true) return true;
  if (x.low && y.high && less_equal(*y.high + Dim(slack + 1), *x.low) == true) return false;
  return std::nullopt;
}

bool decide_comparison(Graph& graph, NodeId id) {
  const Node& n = graph.node(id);
  std::optional<bool> known;
  switch (n.op) {
    case OpKind::kLessOrEqual:
      known = provably_le(graph, n.inputs[0], n.inputs[1], 0);
      break;
    case OpKind::kLess:
      known = provably_le(graph, n.inputs[0], n.inputs[1], -1);
      break;
    case OpKind::kGreaterOrEqual:
      known = provably_le(graph, n.inputs[1], n.inputs[0], 0);
      break;
    case OpKind::kGreater:
      known = provably_le(graph, n.inputs[1], n.inputs[0], -1);
      break;
    case OpKind::kEqual:
      if (provably_le(graph, n.inputs[0], n.inputs[1], 0) == false ||
          provably_le(graph, n.inputs[1], n.inputs[0], 0) == false)
        known = false;
      break;
    default:
      return false;
  }
  if (!known) return false;
  return become_uniform(graph, id, *known ? 1 : 0);
}

}  // namespace

std::span<const Rule> arithmetic_rules() {
  static constexpr Rule kRules[] = {
      &constants_second, &drop_neutral,  &absorb_logic, &simplify_not,   &simplify_pow,
      &simplify_div,     &merge_scalars, &merge_casts,  &simplify_where, &decide_comparison};
  return kRules;
}

}  // namespace vernier::passes
