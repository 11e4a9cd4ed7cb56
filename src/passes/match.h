// Typed, composable patterns over values. A pattern is any callable bool(ValueId); captures are
// written through references and are valid only if the whole match returned true.
//
//   Patterns p(graph, &trace);
//   ValueId x;
//   p.op<OpKind::Div>(p.any(x), p.op<OpKind::Sqrt>(p.same(x)))(value)
//
// Commutative operators are tried in both orders. Casts between float types are skipped: they are
// requests for precision, not mathematics. For `inspect` the trace keeps the deepest mismatch:
// which node stopped the match, and what was expected there.
#pragma once
#include <string>
#include <utility>

#include "passes/rewrite.h"

namespace vernier::passes {

/// Why a match failed: the mismatch furthest from the root. Empty if there was none.
struct Trace {
  int depth = -1;
  ValueId value = kNoValue;
  std::string expected;

  void miss(int at_depth, ValueId at, std::string what) {
    if (at_depth <= depth) return;
    depth = at_depth;
    value = at;
    expected = std::move(what);
  }
};

class Patterns {
 public:
  explicit Patterns(const Graph& graph, Trace* trace = nullptr) : graph_(graph), trace_(trace) {}

  auto any(ValueId& out) const {
    return [&out](ValueId v) {
      out = v;
      return true;
    };
  }
  /// The value captured before (by an earlier operand or an outer pattern), ignoring casts.
  auto same(const ValueId& wanted) const {
    return [this, &wanted](ValueId v) {
      const bool is_same = same_value(graph_, under_casts(graph_, v), under_casts(graph_, wanted));
      if (!is_same) miss(v, "the same value as another operand");
      return is_same;
    };
  }
  /// A uniform constant equal to `wanted` within its type's rounding.
  auto scalar(double wanted) const {
    return [this, wanted](ValueId v) {
      const auto c = uniform(graph_, v);
      const bool found = c && nearly(*c, wanted, dtype_of(graph_, v));
      if (!found) miss(v, "the constant " + std::to_string(wanted));
      return found;
    };
  }
  /// Any uniform constant.
  auto constant(double& out) const {
    return [this, &out](ValueId v) {
      const auto c = uniform(graph_, v);
      if (c) out = *c;
      if (!c) miss(v, "a constant");
      return c.has_value();
    };
  }
  /// An operator whose inputs match.
  template <OpKind K, class... P>
  auto op(P... operands) const {
    return [this, operands...](ValueId v) {
      v = under_casts(graph_, v);
      const Node* n = producer_of(graph_, v, K);
      if (!n || n->inputs.size() < sizeof...(P)) {
        miss(v, std::string(name(K)));
        return false;
      }
      const auto in_order = [&](auto... index) { return (operands(n->inputs[index]) && ...); };
      ++depth_;
      bool found = false;
      if constexpr (sizeof...(P) == 2) {
        found = in_order(0, 1) || ((flags(K) & kCommutative) != 0 && in_order(1, 0));
      } else if constexpr (sizeof...(P) == 1) {
        found = in_order(0);
      } else {
        found = in_order(0, 1, 2);
      }
      --depth_;
      return found;
    };
  }
  template <class A, class B>
  auto either(A a, B b) const {
    return [a, b](ValueId v) { return a(v) || b(v); };
  }
  /// Matches `pattern` and captures the value itself.
  template <class A>
  auto as(ValueId& out, A pattern) const {
    return [&out, pattern](ValueId v) {
      out = v;
      return pattern(v);
    };
  }

  const Graph& graph() const { return graph_; }

 private:
  void miss(ValueId v, std::string expected) const {
    if (trace_) trace_->miss(depth_, v, std::move(expected));
  }
  const Graph& graph_;
  Trace* trace_;
  mutable int depth_ = 0;
};

/// Origins of all nodes between `root` and the values in `stop` (which are not included), searched
/// upwards through at most `limit` nodes.
void collect_origins(const Graph& graph, ValueId root, std::span<const ValueId> stop,
                     OriginSet& origins, int limit = 64);

}  // namespace vernier::passes
