// Importer, continued: local functions are inlined at their calls, and graphs of attributes at
// their nodes: of an If the branch that its condition selects, or both. Contract: importer.h.
#include <algorithm>
#include <set>

#include "core/error.h"
#include "onnx/conditional.h"
#include "onnx/importer.h"
#include "ops/evaluate.h"

namespace vernier::onnx {
namespace {

[[noreturn]] void fail(const std::string& what) { throw Error(ErrorCode::kInput, what); }

constexpr int kMaxCallDepth = 64;
constexpr size_t kMaxInlinedBytes = size_t{1} << 30;
constexpr size_t kNodeBytes = 256;  // rough size of a node without its names

// The call's attributes, with the function's defaults where the call gives none.
AttributeBindings bind_attributes(const proto::NodeProto& node,
                                  const proto::FunctionProto& function,
                                  const AttributeBindings* outer, const std::string& where) {
  Attributes given(node, outer, where);
  AttributeBindings bindings = given.take_all();
  std::set<std::string> declared(function.attribute().begin(), function.attribute().end());
  for (const auto& attribute : function.attribute_proto()) {
    declared.insert(attribute.name());
    bindings.emplace(attribute.name(), &attribute);
  }
  for (const auto& [name, attribute] : bindings) {
    if (!declared.contains(name)) {
      fail(where + ": function " + quote(function.name()) + " has no attribute " + quote(name));
    }
  }
  return bindings;
}

}  // namespace

void Importer::charge(size_t bytes) {
  inlined_bytes_ += kNodeBytes + bytes;
  if (inlined_bytes_ <= kMaxInlinedBytes) return;
  fail("inlined functions and branches take more than " + std::to_string(kMaxInlinedBytes >> 20) +
       " MiB (names, operands and constants); export the model without local functions");
}

void Importer::enter(const std::string& where) {
  if (++nesting_ <= kMaxCallDepth) return;
  fail(where + ": functions and branches are nested more than " + std::to_string(kMaxCallDepth) +
       " deep");
}

void Importer::bind_results(const NodeSite& site, const std::vector<std::string>& results,
                            const Scope& inner, Scope& scope) {
  for (int i = 0; i < site.node->output_size(); ++i) {
    const std::string& name = site.node->output(i);
    if (name.empty()) continue;
    const std::string& result = results[i];
    const Binding* binding = inner.find(result);
    if (binding == nullptr) {
      fail(describe(site.origin) + ": its body does not define output " + quote(result));
    }
    if (binding->kind == Binding::Kind::kValue && binding->value == ir::kNoValue) {
      fail(describe(site.origin) + ": its output " + quote(name) +
           " is an input that the call omits, or an optional without an element");
    }
    if (binding->kind == Binding::Kind::kValue) {
      // A value made inside takes the name that the caller has for it.
      std::string& known_as = graph_->value(binding->value).name;
      if (known_as.starts_with(inner.path + "/")) {
        known_as = scope.path.empty() ? name : scope.path + "/" + name;
      }
    }
    define(scope, name, *binding, describe(site.origin));
  }
}

const Opsets& Importer::opsets_of(const proto::FunctionProto& function) {
  const auto found = function_opsets_.find(&function);
  if (found != function_opsets_.end()) return found->second;
  Opsets opsets = read_opsets(function.opset_import(), "function " + quote(function.name()));
  return function_opsets_.emplace(&function, std::move(opsets)).first->second;
}

void Importer::inline_call(const proto::FunctionProto& function, const NodeSite& site,
                           Scope& scope) {
  const proto::NodeProto& node = *site.node;
  const std::string where = describe(site.origin);
  if (std::count(call_stack_.begin(), call_stack_.end(), &function) > 0) {
    fail(where + ": function " + quote(function.name()) + " calls itself");
  }
  enter(where);
  if (site.inputs.size() > static_cast<size_t>(function.input_size()) ||
      node.output_size() > function.output_size()) {
    fail(where + ": function " + quote(function.name()) + " takes " +
         std::to_string(function.input_size()) + " inputs and returns " +
         std::to_string(function.output_size()) + " outputs; the call has " +
         std::to_string(site.inputs.size()) + " and " + std::to_string(node.output_size()));
  }
  const AttributeBindings bindings = bind_attributes(node, function, site.bindings, where);
  Scope inner;
  const std::string index = site.origin.key.substr(site.origin.key.rfind('#') + 1);
  inner.path = scope.path + "/" + function.name() + "/" + index;
  inner.opsets = &opsets_of(function);
  inner.bindings = &bindings;
  for (const auto* names : {&function.input(), &function.output(), &function.attribute()}) {
    for (const std::string& name : *names) charge(name.size());
  }
  for (int i = 0; i < function.input_size(); ++i) {
    const auto at = static_cast<size_t>(i);
    const ir::ValueId value = at < site.inputs.size() ? site.inputs[at] : ir::kNoValue;
    define(inner, function.input(i), {.value = value}, "function " + quote(function.name()));
  }
  call_stack_.push_back(&function);
  import_nodes(function.node(), inner);
  call_stack_.pop_back();
  --nesting_;
  graph_->retire({site.origin}, LedgerState::kRemoved, "function " + function.name() + " inlined");
  bind_results(site, {function.output().begin(), function.output().end()}, inner, scope);
}

void Importer::fold_cone(ir::ValueId value, size_t depth, std::set<ir::NodeId>& seen) {
  constexpr size_t kMaxDepth = 100;
  constexpr int64_t kMaxElems = 4096;
  const ir::NodeId producer = graph_->value(value).producer;
  if (producer == ir::kNoNode || depth > kMaxDepth || !seen.insert(producer).second) return;
  const std::vector<ir::ValueId> inputs = graph_->node(producer).inputs;
  for (ir::ValueId input : inputs) {
    if (input != ir::kNoValue) fold_cone(input, depth + 1, seen);
  }
  const auto folded = ops::fold_node(*graph_, producer, kMaxElems);
  if (!folded) return;
  const std::vector<ir::ValueId> outputs = graph_->node(producer).outputs;
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i] != ir::kNoValue) graph_->make_constant(outputs[i], (*folded)[i]);
  }
  graph_->retire(graph_->node(producer).origins, LedgerState::kFolded, "constant");
  graph_->remove_node(producer);
}

std::optional<int64_t> Importer::known_number(ir::ValueId id) {
  std::set<ir::NodeId> seen;
  fold_cone(id, 0, seen);
  const ir::Value& value = graph_->value(id);
  if (value.is_constant()) {
    if (is_float(value.dtype) || value.constant.elems() != 1) return std::nullopt;
    return value.constant.integer_at(0);
  }
  if (!value.values || value.values->size() != 1) return std::nullopt;
  return value.values->front().as_constant();
}

void Importer::import_if(const NodeSite& site, Scope& scope) {
  const proto::NodeProto& node = *site.node;
  Attributes attrs(node, site.bindings, describe(site.origin));
  const proto::GraphProto* then_branch = attrs.graph("then_branch");
  const proto::GraphProto* else_branch = attrs.graph("else_branch");
  if (then_branch == nullptr || else_branch == nullptr) {
    fail(describe(site.origin) + ": then_branch or else_branch is missing");
  }
  if (const auto unread = attrs.first_unread()) {
    fail(describe(site.origin) + ": attribute " + quote(*unread) + " is unknown");
  }
  if (site.inputs.size() != 1 || site.inputs[0] == ir::kNoValue) {
    fail(describe(site.origin) + ": expected one input, the condition");
  }
  const auto condition = known_number(site.inputs[0]);
  if (!condition) {
    try {
      return import_both(*then_branch, *else_branch, site, scope);
    } catch (const UnsupportedNode& variant) {
      unsupported_.add("", site.origin,
                       "its condition is not known when the engine is built, and " + variant.why);
      return define_unknown(node, scope, describe(site.origin));
    }
  }
  const bool is_true = *condition != 0;
  const std::string index = site.origin.key.substr(site.origin.key.rfind('#') + 1);
  const std::string then_path = scope.path + "/then_branch/" + index;
  const std::string else_path = scope.path + "/else_branch/" + index;
  graph_->retire(
      {site.origin}, LedgerState::kRemoved,
      is_true ? "condition is true: then_branch taken" : "condition is false: else_branch taken");
  take_branch(is_true ? *then_branch : *else_branch, is_true ? then_path : else_path, site, scope);
  retire_branch(is_true ? *else_branch : *then_branch, is_true ? else_path : then_path);
}

void Importer::import_both(const proto::GraphProto& then_branch,
                           const proto::GraphProto& else_branch, const NodeSite& site,
                           Scope& scope) {
  const std::string where = describe(site.origin);
  const int outputs = site.node->output_size();
  if (std::min(then_branch.output_size(), else_branch.output_size()) < outputs)
    fail(where + ": has " + std::to_string(outputs) + " outputs, its branches " +
         std::to_string(then_branch.output_size()) + " and " +
         std::to_string(else_branch.output_size()));
  const std::string index = site.origin.key.substr(site.origin.key.rfind('#') + 1);
  const EveryRun before(*graph_);
  const auto yes = inline_graph(then_branch, "then_branch/" + index, {}, where, scope);
  const auto no = inline_graph(else_branch, "else_branch/" + index, {}, where, scope);
  if (const std::string why = before.refusal(); !why.empty())
    throw UnsupportedNode{"a branch may refuse a run that does not take it: " + why};
  NodeContext context(*graph_, tensors_, site);
  context.retire("condition is not known: both branches computed");
  const ir::ValueId condition = scalar_condition(context, site.inputs[0]);
  std::vector<ir::ValueId> values;
  for (size_t i = 0; i < static_cast<size_t>(outputs); ++i) {
    const std::string& name = site.node->output(static_cast<int>(i));
    values.push_back(name.empty() ? ir::kNoValue
                                  : selected(context, condition,
                                             {.yes = yes[i],
                                              .no = no[i],
                                              .what = "output " + quote(name),
                                              .yes_place = "in then_branch",
                                              .no_place = "in else_branch"}));
  }
  open_ifs_.push_back(site.origin.name);
  for (int i = 0; i < outputs; ++i) {
    const std::string& name = site.node->output(i);
    const ir::ValueId value = values[static_cast<size_t>(i)];
    if (value == ir::kNoValue) continue;
    std::string& known_as = graph_->value(value).name;
    if (known_as.empty()) known_as = scope.path.empty() ? name : scope.path + "/" + name;
    define(scope, name, {.value = value}, where);
  }
}

void Importer::take_branch(const proto::GraphProto& branch, const std::string& path,
                           const NodeSite& site, Scope& scope) {
  const proto::NodeProto& node = *site.node;
  const std::string where = describe(site.origin);
  if (branch.input_size() > 0) fail(where + ": a branch of If takes no inputs");
  if (branch.output_size() < node.output_size()) {
    fail(where + ": has " + std::to_string(node.output_size()) + " outputs, its branch " +
         std::to_string(branch.output_size()));
  }
  Scope inner;
  inner.path = path;
  if (!import_body(branch, where, scope, inner)) return define_unknown(node, scope, where);
  std::vector<std::string> results;
  for (const auto& output : branch.output()) results.push_back(output.name());
  bind_results(site, results, inner, scope);
}

bool Importer::import_body(const proto::GraphProto& body, const std::string& where,
                           const Scope& scope, Scope& inner) {
  enter(where);
  watch_.check_time([&] { return "importing a graph of " + where; });
  count(bodies_);
  UnsupportedNodes found;
  find_unsupported(body.node(), *scope.opsets, functions_, inner.path, found);
  if (!found.empty()) {
    find_unsupported(body.node(), *scope.opsets, functions_, inner.path, unsupported_);
    --nesting_;
    return false;
  }
  inner.parent = &scope;
  inner.opsets = scope.opsets;
  inner.bindings = scope.bindings;
  for (const auto& tensor : body.initializer()) charge(tensor.ByteSizeLong());
  proto::GraphProto weights;  // a copy: the body may be imported again
  *weights.mutable_initializer() = body.initializer();
  add_initializers(weights, inner);
  import_nodes(body.node(), inner);
  --nesting_;
  return true;
}

namespace {

// Why a value is not what an input of a body declares: its rank, or a size that is a number.
std::string misfit_of(const proto::ValueInfoProto& declared, const ir::Value& given) {
  if (!declared.type().has_tensor_type() || !declared.type().tensor_type().has_shape()) return "";
  const auto& dims = declared.type().tensor_type().shape().dim();
  bool fits = static_cast<size_t>(dims.size()) == given.shape.size();
  std::string text;
  for (int i = 0; i < dims.size(); ++i) {
    const bool number = dims[i].has_dim_value();
    text += (i > 0 ? ", " : "") + (number ? std::to_string(dims[i].dim_value())
                                   : dims[i].dim_param().empty() ? "?"
                                                                 : dims[i].dim_param());
    if (fits && number)
      fits = equal(given.shape[static_cast<size_t>(i)], Dim(dims[i].dim_value())) != false;
  }
  return fits ? "" : "is given shape " + str(given.shape) + "; expected [" + text + "]";
}

}  // namespace

std::vector<ir::ValueId> Importer::inline_graph(const proto::GraphProto& graph,
                                                const std::string& path,
                                                std::span<const ir::ValueId> inputs,
                                                const std::string& where, const Scope& scope) {
  if (static_cast<size_t>(graph.input_size()) != inputs.size())
    fail(where + ": its graph " + quote(graph.name()) + " has " +
         std::to_string(graph.input_size()) + " inputs; expected " + std::to_string(inputs.size()));
  Scope inner;
  inner.path = scope.path + "/" + path;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const proto::ValueInfoProto& declared = graph.input(static_cast<int>(i));
    const std::string misfit = misfit_of(declared, graph_->value(inputs[i]));
    if (!misfit.empty())
      fail(where + ": input " + quote(declared.name()) + " of its graph " + quote(graph.name()) +
           " " + misfit);
    define(inner, declared.name(), {.value = inputs[i]}, where);
  }
  if (!import_body(graph, where, scope, inner))
    throw UnsupportedNode{"its graph has nodes that are not supported"};
  std::vector<ir::ValueId> results;
  for (const auto& output : graph.output()) {
    const Binding* binding = inner.find(output.name());
    if (binding == nullptr)
      fail(where + ": its graph " + quote(graph.name()) + " does not define output " +
           quote(output.name()));
    if (binding->kind != Binding::Kind::kValue || binding->value == ir::kNoValue)
      throw UnsupportedNode{"output " + quote(output.name()) + " of its graph is not computed"};
    results.push_back(in_own_type(binding->value));
  }
  return results;
}

void Importer::retire_branch(const proto::GraphProto& branch, const std::string& path) {
  NodeNames names;
  for (int i = 0; i < branch.node_size(); ++i) {
    const proto::NodeProto& node = branch.node(i);
    charge(2 * path.size() + node.name().size() + node.op_type().size());
    graph_->retire({names.origin(node, i, path)}, LedgerState::kDead, "branch not taken");
    for (const auto& attribute : node.attribute()) {
      if (!attribute.has_g()) continue;
      retire_branch(attribute.g(), path + "/" + attribute.name() + "/" + std::to_string(i));
    }
  }
}

}  // namespace vernier::onnx
