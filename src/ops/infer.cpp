// Inference of one node and of a whole graph, symbol unification and substitution: see infer.h.
#include "ops/infer.h"

#include <algorithm>
#include <array>

#include "rules/rules.h"

namespace vernier::ops {
namespace {

using rules::kMaxSymbolicElems;

constexpr size_t kMaxDims = 64;  // of a value; values of a plan have fewer

using Substitutions = std::map<std::string, Dim>;

std::string display_name(const ir::Node& node, ir::NodeId id) {
  if (!node.name.empty()) return node.name;
  for (const ir::Origin& origin : node.origins) {
    if (!origin.name.empty()) return origin.name;
    if (!origin.key.empty()) return origin.key;
  }
  return std::string("#") + std::to_string(id);
}

// Position of a symbol among the graph inputs' sizes: the earlier one survives unification.
size_t input_position(const ir::Graph& graph, const std::string& symbol) {
  size_t position = 0;
  for (ir::ValueId input : graph.inputs) {
    for (const Dim& d : graph.value(input).shape) {
      if (d.as_symbol() == symbol) return position;
      ++position;
    }
  }
  return position;
}

bool mentions(const Dim& d, const std::string& symbol) {
  const std::vector<std::string> symbols = d.symbols();
  return std::binary_search(symbols.begin(), symbols.end(), symbol);
}

// Records symbol := other; the right-hand sides stay free of substituted symbols.
void substitute_symbol(ir::Graph& graph, const std::string& symbol, const Dim& other) {
  const Substitutions one{{symbol, other}};
  for (auto& [name, replacement] : graph.symbol_substitutions)
    replacement = replacement.substitute(one);
  graph.symbol_substitutions[symbol] = other;
}

void add_guard(ir::Graph& graph, const Dim& lhs, const Dim& rhs, const std::string& where) {
  const auto is_new = [&known = graph.known_guards](const Dim& a, const Dim& b) {
    return known.texts.insert(std::minmax({a.str(), b.str()})).second;
  };
  size_t& count = graph.known_guards.count;
  for (; count < graph.guards.size(); ++count)  // that came with the graph
    is_new(graph.guards[count].lhs, graph.guards[count].rhs);
  if (!is_new(lhs, rhs)) return;
  graph.guards.push_back({lhs, rhs, where});
  ++count;
}

// A visitor over attribute structs that rewrites the sizes they hold.
struct Substitutor {
  const Substitutions& substitutions;
  bool changed = false;
  template <class T>
  void operator()(std::string_view, T&) {}
  void operator()(std::string_view, SymShape& sizes) {
    for (Dim& d : sizes) {
      Dim replaced = d.substitute(substitutions);
      changed = changed || !(replaced == d);
      d = std::move(replaced);
    }
  }
};
template <class A>
void substitute_in(AttrBytes& bytes, const Substitutions& substitutions) {
  A attrs = decode<A>(bytes);
  Substitutor substitutor{substitutions};
  attrs.visit(substitutor);
  if (substitutor.changed) bytes = encode(std::move(attrs));
}
void substitute_attrs(OpKind kind, AttrBytes& bytes, const Substitutions& substitutions) {
  static constexpr std::array<void (*)(AttrBytes&, const Substitutions&), 256> kRows{
#define OP(op, min_in, max_in, max_out, flags, attrs, ...) &substitute_in<attrs>,
#include "ops/ops.def"
#undef OP
  };
  kRows[static_cast<size_t>(kind)](bytes, substitutions);
}

[[noreturn]] void fail_guard(const ir::Guard& guard, const Dim& lhs, const Dim& rhs) {
  const std::string what = lhs.is_constant() && rhs.is_constant()
                               ? guard_text(guard.lhs, guard.rhs, lhs.constant(), rhs.constant())
                               : "sizes " + guard.lhs.str() + " and " + guard.rhs.str() +
                                     " must be equal, but are " + lhs.str() + " and " + rhs.str();
  throw Error(ErrorCode::kInput, "node '" + guard.where + "': " + what);
}

}  // namespace

const ir::Value& GraphContext::input(size_t i) const {
  if (!has_input(i)) fail("input " + std::to_string(i) + " is absent");
  return graph_.value(node().inputs[i]);
}

const Tensor* GraphContext::constant(size_t i) const {
  if (!has_input(i)) return nullptr;
  const ir::Value& v = input(i);
  return v.is_constant() ? &v.constant : nullptr;
}

std::optional<std::vector<Dim>> GraphContext::values(size_t i) const {
  if (!has_input(i)) return std::nullopt;
  const ir::Value& v = input(i);
  if (!v.is_constant()) {
    if (!v.values) return std::nullopt;
    std::vector<Dim> known = *v.values;
    for (Dim& d : known) d = d.substitute(graph_.symbol_substitutions);
    return known;
  }
  if (is_float(v.dtype) || v.constant.elems() > kMaxSymbolicElems) return std::nullopt;
  const std::vector<int64_t> numbers = v.constant.integers();
  return std::vector<Dim>(numbers.begin(), numbers.end());
}

DType GraphContext::dtype(size_t i) const {
  const DType stored = input(i).dtype;
  const OpKind op = node().op;
  if (op == OpKind::kQuantizeLinear || op == OpKind::kDequantizeLinear) {
    if (is_small_float(stored)) return stored;  // the model's own
  }
  const bool converts = graph_.typed && is_float(stored) && stored != DType::kF64;
  return converts ? DType::kF32 : stored;
}

// In a typed graph results are stored as the request says; a node without one only moves values.
DType GraphContext::stored_type(DType inferred) const {
  if (!graph_.typed || !is_float(inferred) || node().op == OpKind::kQuantizeLinear) return inferred;
  if (node().request.store.type != DType::kUndefined) return node().request.store.type;
  if (node().op == OpKind::kCast || node().op == OpKind::kQuantizeRows) return inferred;
  for (size_t i = 0; i < num_inputs(); ++i) {
    if (has_input(i) && is_float(input(i).dtype)) return input(i).dtype;
  }
  return inferred;
}

void GraphContext::set_output(size_t i, DType dtype, SymShape shape) {
  if (!node().has_output(i)) return;
  if (shape.size() > kMaxDims) {
    fail("output " + std::to_string(i) + " would have more than " + std::to_string(kMaxDims) +
         " dimensions, the limit");
  }
  Shape least;
  for (Dim& d : shape) {
    if (!graph_.symbol_substitutions.empty()) d = d.substitute(graph_.symbol_substitutions);
    const auto size = d.as_constant();
    if (size && *size < 0) fail("output " + std::to_string(i) + " would have shape " + str(shape));
    least.push_back(std::max<int64_t>(d.lower_bound().value_or(0), 0));
  }
  num_elems(least);  // throws if there are too many for all values of the symbols
  ir::Value& v = graph_.value(node().outputs[i]);
  v.dtype = stored_type(dtype);
  v.shape = std::move(shape);
  v.has_shape = true;
  v.values.reset();
}

void GraphContext::set_values(size_t i, std::vector<Dim> values) {
  if (!node().has_output(i)) return;
  ir::Value& v = graph_.value(node().outputs[i]);
  if (is_float(v.dtype) || !is_constant(v.shape)) return;
  const int64_t count = product(v.shape).constant();
  if (count > kMaxSymbolicElems || count != static_cast<int64_t>(values.size())) return;
  for (Dim& d : values) {
    if (const auto number = d.as_constant()) d = wrap_integer(v.dtype, *number);
  }
  v.values = std::move(values);
}

Dim GraphContext::unify(const Dim& first, const Dim& second) {
  const Dim a = first.substitute(graph_.symbol_substitutions);
  const Dim b = second.substitute(graph_.symbol_substitutions);
  if (a == b) return a;
  if (equal(a, b) == false) fail("sizes " + a.str() + " and " + b.str() + " differ");
  const bool a_is_data = depends_on_data(graph_, a), b_is_data = depends_on_data(graph_, b);
  if (a_is_data || b_is_data) {
    add_guard(graph_, a, b, display_name(node(), id_));
    if (a_is_data != b_is_data) return a_is_data ? b : a;
    return a.str().size() <= b.str().size() ? a : b;
  }
  const auto sa = a.as_symbol(), sb = b.as_symbol();
  if (sa && sb) {
    const auto rank_a = std::pair(input_position(graph_, *sa), *sa);
    const auto rank_b = std::pair(input_position(graph_, *sb), *sb);
    const bool keep_a = rank_a < rank_b;
    substitute_symbol(graph_, keep_a ? *sb : *sa, keep_a ? a : b);
    return keep_a ? a : b;
  }
  if (sa && !mentions(b, *sa)) {
    substitute_symbol(graph_, *sa, b);
    return b;
  }
  if (sb && !mentions(a, *sb)) {
    substitute_symbol(graph_, *sb, a);
    return a;
  }
  add_guard(graph_, a, b, display_name(node(), id_));
  return a.str().size() <= b.str().size() ? a : b;
}

void GraphContext::require_equal(const Dim& lhs, const Dim& rhs) {
  const Dim a = lhs.substitute(graph_.symbol_substitutions);
  const Dim b = rhs.substitute(graph_.symbol_substitutions);
  const auto known = equal(a, b);
  if (known == false) fail("needs " + a.str() + " == " + b.str());
  if (!known) add_guard(graph_, a, b, display_name(node(), id_));
}

void GraphContext::require_at_most(const Dim& small, const Dim& large) {
  const Dim a = small.substitute(graph_.symbol_substitutions);
  const Dim b = large.substitute(graph_.symbol_substitutions);
  const auto known = at_most(a, b);
  if (known == false) fail("needs " + a.str() + " <= " + b.str());
  if (!known) add_guard(graph_, min(a, b), a, display_name(node(), id_));
}

Dim GraphContext::fresh_size(const std::string& hint, const std::optional<Dim>& upper) {
  // Named after the node, so that repeated inference gives the same symbol.
  const std::string name = hint + "." + std::to_string(id_);
  std::optional<Dim>& bound = graph_.data_sizes[name];
  if (upper) bound = upper->substitute(graph_.symbol_substitutions) + Dim(1);
  return (Dim::symbol(name) - Dim(1)).substitute(graph_.symbol_substitutions);
}

Error GraphContext::refusal(const std::string& what) const {
  return {ErrorCode::kInput, "node '" + display_name(node(), id_) + "' (" +
                                 std::string(name(node().op)) + "): " + what};
}

const SymShape* GraphContext::output_shape(size_t i) const {
  if (!node().has_output(i)) return nullptr;
  return &graph_.value(node().outputs[i]).shape;
}

void infer_node(ir::Graph& graph, ir::NodeId node) {
  GraphContext context(graph, node);
  rules::infer(context);
}

void infer_graph(ir::Graph& graph) {
  // Each round can only shrink the set of free symbols, so this ends.
  for (;;) {
    const size_t before = graph.symbol_substitutions.size();
    for (ir::NodeId node : graph.order()) infer_node(graph, node);
    if (graph.symbol_substitutions.size() == before) break;
    apply_substitutions(graph);
  }
  apply_substitutions(graph);
}

bool depends_on_data(const ir::Graph& graph, const Dim& size) {
  if (graph.data_sizes.empty()) return false;
  return std::ranges::any_of(
      size.symbols(), [&](const std::string& symbol) { return graph.data_sizes.contains(symbol); });
}

bool brings_data_sizes(const ir::Graph& graph, const SymShape& shape,
                       std::span<const ir::ValueId> inputs) {
  if (graph.data_sizes.empty()) return false;
  const auto is_mentioned = [&](const std::string& symbol) {
    return std::ranges::any_of(inputs, [&](ir::ValueId id) {
      return id != ir::kNoValue && std::ranges::any_of(graph.value(id).shape, [&](const Dim& d) {
               return mentions(d, symbol);
             });
    });
  };
  return std::ranges::any_of(shape, [&](const Dim& d) {
    return std::ranges::any_of(d.symbols(), [&](const std::string& symbol) {
      return graph.data_sizes.contains(symbol) && !is_mentioned(symbol);
    });
  });
}

ir::ValueId emit(ir::Graph& graph, OpKind op, std::vector<ir::ValueId> inputs, AttrBytes attrs,
                 const std::vector<ir::Origin>& origins, int num_outputs) {
  const ir::NodeId id = graph.add_node(op, std::move(inputs), std::move(attrs), num_outputs);
  ir::Node& node = graph.node(id);
  node.origins = origins;
  if (!origins.empty()) node.name = origins.front().name;
  infer_node(graph, id);
  return node.outputs[0];
}

void substitute_attrs(ir::Graph& graph, ir::NodeId id) {
  ir::Node& node = graph.node(id);
  substitute_attrs(node.op, node.attrs, graph.symbol_substitutions);
}

void apply_substitutions(ir::Graph& graph) {
  // Right-hand sides are free of substituted symbols (see unify); a caller's own map may not be.
  for (auto& [name, replacement] : graph.symbol_substitutions) {
    for (size_t round = 0; round <= graph.symbol_substitutions.size(); ++round) {
      Dim next = replacement.substitute(graph.symbol_substitutions);
      if (next == replacement) break;
      replacement = std::move(next);
    }
  }
  const Substitutions& map = graph.symbol_substitutions;
  if (!map.empty()) {
    for (size_t i = 0; i < graph.num_values(); ++i) {
      ir::Value& v = graph.value(static_cast<ir::ValueId>(i));
      for (Dim& d : v.shape) d = d.substitute(map);
      if (!v.values) continue;
      for (Dim& d : *v.values) d = d.substitute(map);
    }
    for (ir::NodeId id : graph.order())
      substitute_attrs(graph.node(id).op, graph.node(id).attrs, map);
    for (auto& [name, upper] : graph.data_sizes) {
      if (upper) upper = upper->substitute(map);
    }
  }
  std::vector<ir::Guard> guards = std::move(graph.guards);
  graph.guards.clear();
  graph.known_guards = {};
  for (const ir::Guard& guard : guards) {
    const Dim lhs = guard.lhs.substitute(map), rhs = guard.rhs.substitute(map);
    const auto known = equal(lhs, rhs);
    if (known == false) fail_guard(guard, lhs, rhs);
    if (!known) add_guard(graph, lhs, rhs, guard.where);
  }
}

}  // namespace vernier::ops
