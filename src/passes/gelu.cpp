// ½·x·(1 + erf(x/√2))                        ⇒ Gelu{erf}(x)
// ½·x·(1 + tanh(√(2/π)·(x + 0.044715·x³)))   ⇒ Gelu{tanh}(x)
//   requires: the constants within the rounding of their type. The product may have any order and
//   association, ½ may be in any factor (also inside the sum), x/√2 may be a product, x³ may be Pow
//   or products: factors are flattened and the argument is read as a polynomial in x.
#include "passes/gelu.h"

#include <array>
#include <cmath>

#include "passes/passes.h"

namespace vernier::passes {
namespace {

using enum OpKind;

// c0 + c1·x + c2·x² + c3·x³
using Polynomial = std::array<double, 4>;

std::optional<Polynomial> multiply(const Polynomial& a, const Polynomial& b) {
  Polynomial product{};
  for (size_t i = 0; i < a.size(); ++i) {
    for (size_t j = 0; j < b.size(); ++j) {
      if (a[i] == 0 || b[j] == 0) continue;
      if (i + j >= product.size()) return std::nullopt;
      product[i + j] += a[i] * b[j];
    }
  }
  return product;
}

std::optional<Polynomial> polynomial(const Graph& graph, ValueId value, ValueId x, int depth = 0) {
  value = under_casts(graph, value);
  if (value == x) return Polynomial{0, 1, 0, 0};
  if (const auto c = uniform(graph, value)) return Polynomial{*c, 0, 0, 0};
  const Node* n = graph.producer(value);
  if (!n || depth > 8) return std::nullopt;
  const auto operand = [&](size_t i) { return polynomial(graph, n->inputs[i], x, depth + 1); };
  if (n->op == kMul) {
    const auto a = operand(0), b = a ? operand(1) : std::nullopt;
    return b ? multiply(*a, *b) : std::nullopt;
  }
  if (n->op == kAdd || n->op == kSub) {
    auto a = operand(0), b = a ? operand(1) : std::nullopt;
    if (!b) return std::nullopt;
    for (size_t i = 0; i < a->size(); ++i) (*a)[i] += (n->op == kAdd ? 1 : -1) * (*b)[i];
    return a;
  }
  if (n->op == kDiv) {
    const auto c = uniform(graph, n->inputs[1]);
    auto a = c && *c != 0 ? operand(0) : std::nullopt;
    if (a) {
      for (double& v : *a) v /= *c;
    }
    return a;
  }
  if (n->op == kPow) {
    const auto exponent = uniform(graph, n->inputs[1]);
    const auto a = operand(0);
    if (!a || !exponent || (*exponent != 2 && *exponent != 3)) return std::nullopt;
    const auto square = multiply(*a, *a);
    return *exponent == 2 || !square ? square : multiply(*square, *a);
  }
  return std::nullopt;
}

struct Product {
  double coefficient = 1;
  std::vector<ValueId> factors;
};

// Flattens Mul and division by constants into a coefficient and the factors that vary.
void flatten(const Graph& graph, ValueId value, Product& product, int depth = 0) {
  value = under_casts(graph, value);
  if (const auto c = uniform(graph, value)) {
    product.coefficient *= *c;
    return;
  }
  // x itself may be a product, but it has a second use, in the argument of erf or tanh.
  const bool inner = depth == 0 || (depth < 4 && graph.single_use(value));
  const Node* n = inner ? graph.producer(value) : nullptr;
  if (n && n->op == kMul) {
    flatten(graph, n->inputs[0], product, depth + 1);
    flatten(graph, n->inputs[1], product, depth + 1);
    return;
  }
  if (n && n->op == kDiv) {
    if (const auto c = uniform(graph, n->inputs[1]); c && *c != 0) {
      product.coefficient /= *c;
      flatten(graph, n->inputs[0], product, depth + 1);
      return;
    }
  }
  product.factors.push_back(value);
}

// value = constant + slope · f where f is Erf or Tanh of something.
struct Sigmoidal {
  double constant = 0, slope = 0;
  const Node* f = nullptr;
};
std::optional<Sigmoidal> sigmoidal(const Graph& graph, ValueId value) {
  const Node* add = producer_of(graph, value, kAdd);
  if (!add) return std::nullopt;
  for (size_t i : {size_t{0}, size_t{1}}) {
    const auto c = uniform(graph, add->inputs[i]);
    if (!c) continue;
    Product inner;
    flatten(graph, add->inputs[1 - i], inner);
    if (inner.factors.size() != 1) return std::nullopt;
    const Node* f = graph.producer(inner.factors[0]);
    if (!f || (f->op != kErf && f->op != kTanh)) return std::nullopt;
    return Sigmoidal{*c, inner.coefficient, f};
  }
  return std::nullopt;
}

}  // namespace

std::optional<GeluMatch> match_gelu(const Graph& graph, NodeId anchor, Trace* trace) {
  const Node& n = graph.node(anchor);
  if (n.op != kMul && n.op != kDiv) return std::nullopt;
  const ValueId out = n.outputs[0];
  const DType dtype = dtype_of(graph, out);
  Product product;
  flatten(graph, out, product);
  if (product.factors.size() != 2) return std::nullopt;
  const auto miss = [&](ValueId at, const char* what) {
    if (trace) trace->miss(at == out ? 1 : 2, at, what);
    return std::nullopt;
  };
  for (size_t i : {size_t{0}, size_t{1}}) {
    const ValueId x = product.factors[1 - i];
    const auto s = sigmoidal(graph, product.factors[i]);
    if (!s) continue;
    if (!nearly(product.coefficient * s->constant, 0.5, dtype) ||
        !nearly(product.coefficient * s->slope, 0.5, dtype))
      return miss(out, "the factor 1/2");
    const auto argument = polynomial(graph, s->f->inputs[0], x);
    if (!argument) return miss(s->f->inputs[0], "a polynomial in the other factor");
    const auto [c0, c1, c2, c3] = *argument;
    if (c0 != 0 || c2 != 0) return miss(s->f->inputs[0], "an odd polynomial");
    if (s->f->op == kErf) {
      if (c3 != 0 || !nearly(c1, M_SQRT1_2, dtype)) return miss(s->f->inputs[0], "x / sqrt(2)");
      return GeluMatch{x, GeluKind::kErf};
    }
    const double outer = std::sqrt(2 / M_PI);
    if (!nearly(c1, outer, dtype) || !nearly(c3, outer * 0.044715, dtype))
      return miss(s->f->inputs[0], "sqrt(2/pi) (x + 0.044715 x^3)");
    return GeluMatch{x, GeluKind::kTanh};
  }
  return std::nullopt;
}

int raise_gelu(Graph& graph) {
  int found = 0;
  const std::vector<NodeId> order = graph.order();
  for (auto it = order.rbegin(); it != order.rend(); ++it) {  // the last multiplication first
    if (!is_live(graph, *it) || graph.node(*it).apart) continue;
    const auto match = match_gelu(graph, *it);
    if (!match) continue;
    const ValueId out = graph.node(*it).outputs[0];
    if (dtype_of(graph, match->x) != dtype_of(graph, out) ||
        !same_shape(shape_of(graph, match->x), shape_of(graph, out)))
      continue;
    OriginSet origins;
    const ValueId stop[] = {match->x};
    collect_origins(graph, out, stop, origins);
    const ValueId gelu =
        ops::emit(graph, kGelu, {match->x}, GeluAttrs{match->kind}, origins.list());
    graph.replace_uses(out, gelu);
    graph.drop_dead(*it);
    ++found;
  }
  graph.remove_dead();
  return found;
}

}  // namespace vernier::passes
