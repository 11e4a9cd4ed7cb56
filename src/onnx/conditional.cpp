// Nodes that are computed whatever their condition says: see conditional.h.
#include "onnx/conditional.h"

#include <algorithm>
#include <map>

#include "core/error.h"
#include "core/value_rules.h"
#include "onnx/model_file.h"

namespace vernier::onnx {
namespace {

std::string text_of(const ir::Node& node) {
  return "node " + quote(node.name) + " (" + std::string(name(node.op)) + ")";
}

// Inference has checked constants, and sizes against sizes.
bool may_forbid(const ir::Graph& graph, const ir::Node& node, const ValueRule& rule) {
  const auto input = static_cast<size_t>(rule.input);
  if (!node.has_input(input)) return false;
  const ir::Value& value = graph.value(node.inputs[input]);
  if (value.is_constant()) return false;
  if (rule.kind != ValueRule::Kind::kNonZero) return !value.values;
  if (is_float(value.dtype)) return false;
  return !value.values || std::ranges::any_of(*value.values, [](const Dim& divisor) {
    return equal(divisor, Dim(0)) != false;
  });
}

// In the smallest runs: sizes rarely fall as others grow.
bool may_be_negative(const Dim& size) {
  if (const auto least = size.lower_bound()) return *least < 0;
  std::map<std::string, int64_t> ones;
  for (const std::string& symbol : size.symbols()) ones.emplace(symbol, 1);
  try {
    return size.evaluate(ones) < 0;
  } catch (const Error&) {  // a division by zero
    return true;
  }
}

std::string refusal_of(const ir::Graph& graph, const ir::Node& node) {
  for (const ValueRule& rule : value_rules(node.op, node.attrs, node.inputs.size())) {
    if (may_forbid(graph, node, rule))
      return text_of(node) + " does not take every value of its input " +
             std::to_string(rule.input);
  }
  for (const ir::ValueId output : node.outputs) {
    if (output == ir::kNoValue) continue;
    const SymShape& shape = graph.value(output).shape;
    if (std::ranges::any_of(shape, may_be_negative))
      return text_of(node) + " has the result " + str(shape) + ", which small inputs do not give";
  }
  return "";
}

bool same_type_and_shape(const ir::Value& a, const ir::Value& b) {
  return a.dtype == b.dtype && std::ranges::equal(a.shape, b.shape, [](const Dim& x, const Dim& y) {
           return equal(x, y) == true;
         });
}

std::string text_of(const ir::Value& value) {
  return std::string(name(value.dtype)) + str(value.shape);
}

}  // namespace

EveryRun::EveryRun(const ir::Graph& graph)
    : graph_(graph),
      nodes_(graph.num_nodes()),
      guards_(graph.guards.size()),
      substitutions_(graph.symbol_substitutions.size()),
      data_sizes_(graph.data_sizes.size()) {}

std::string EveryRun::refusal() const {
  if (graph_.symbol_substitutions.size() != substitutions_)
    return "its nodes need inputs whose sizes are equal or fixed";
  if (graph_.guards.size() > guards_) {
    const ir::Guard& guard = graph_.guards[guards_];
    return "node " + quote(guard.where) + " needs " + guard.lhs.str() + " == " + guard.rhs.str();
  }
  if (graph_.data_sizes.size() != data_sizes_) return "sizes of its nodes depend on data";
  for (size_t id = nodes_; id < graph_.num_nodes(); ++id) {
    const ir::Node& node = graph_.node(static_cast<ir::NodeId>(id));
    if (node.removed) continue;
    if (std::string why = refusal_of(graph_, node); !why.empty()) return why;
  }
  return "";
}

ir::ValueId scalar_condition(NodeContext& node, ir::ValueId condition) {
  const ir::Value& value = node.value(condition);
  if (value.dtype != DType::kBool || equal(product(value.shape), Dim(1)) != true)
    node.fail("its condition is " + text_of(value) + "; expected one bool");
  return value.shape.empty() ? condition : node.reshape(condition, {});
}

ir::ValueId selected(NodeContext& node, ir::ValueId condition, const Choice& choice) {
  if (choice.yes == choice.no) return choice.yes;
  const ir::Value &yes = node.value(choice.yes), &no = node.value(choice.no);
  if (!same_type_and_shape(yes, no))
    node.unsupported(choice.what + " is " + text_of(yes) + " " + choice.yes_place + " and " +
                     text_of(no) + " " + choice.no_place +
                     "; equal types and shapes are supported");
  return node.emit(OpKind::kWhere, {condition, choice.yes, choice.no});
}

}  // namespace vernier::onnx
