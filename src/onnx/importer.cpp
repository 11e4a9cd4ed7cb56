// The walk over the main graph: see importer.h. Calls and branches are in calls.cpp.
#include "onnx/importer.h"

#include <algorithm>
#include <set>

#include "core/error.h"
#include "ir/derivations.h"
#include "onnx/element_types.h"
#include "onnx/input_shapes.h"
#include "onnx/int8_operands.h"
#include "onnx/node_order.h"
#include "onnx/translations.h"

namespace vernier::onnx {
namespace {

[[noreturn]] void fail(const std::string& what) { throw Error(ErrorCode::kInput, what); }

constexpr int64_t kMaxNodes = 200'000;  // nested calls and loops can multiply nodes

bool ends_with(const std::string& text, const std::string& tail) { return text.ends_with(tail); }

// What weights are used for, as far as normalization operators show it (for seeded weights).
std::map<std::string, WeightRole> weight_roles(const proto::GraphProto& graph) {
  std::map<std::string, WeightRole> roles;
  for (const auto& node : graph.node()) {
    if (!ends_with(node.op_type(), "Normalization")) continue;
    if (node.input_size() > 1) roles[node.input(1)] = WeightRole::kScale;
    if (node.input_size() > 4) roles[node.input(4)] = WeightRole::kVariance;
  }
  return roles;
}

WeightRole role_of(const proto::TensorProto& tensor,
                   const std::map<std::string, WeightRole>& roles) {
  if (const auto found = roles.find(tensor.name()); found != roles.end()) return found->second;
  const bool vector_weight = tensor.dims_size() == 1 && (ends_with(tensor.name(), "weight") ||
                                                         ends_with(tensor.name(), "gamma"));
  return vector_weight ? WeightRole::kScale : WeightRole::kPlain;
}

// Why a name is not defined where a node uses it.
std::string missing_reason(const google::protobuf::RepeatedPtrField<proto::NodeProto>& nodes,
                           const std::string& name) {
  for (int i = 0; i < nodes.size(); ++i) {
    for (const std::string& output : nodes[i].output()) {
      if (output != name) continue;
      return "which node #" + std::to_string(i) + " (" + nodes[i].op_type() +
             ") defines, but that node depends on it: the nodes form a cycle";
    }
  }
  return "which no node, input or initializer defines";
}

// Bytes that the node copies from the attributes of the enclosing function's call: every node that
// refers to them has its own copy. A call passes them on without a copy.
size_t referenced_bytes(const proto::NodeProto& node, const AttributeBindings* bindings,
                        const Functions& functions) {
  if (bindings == nullptr || functions.contains(function_key(node))) return 0;
  size_t bytes = 0;
  for (const auto& attribute : node.attribute()) {
    const auto found = bindings->find(attribute.ref_attr_name());
    if (found != bindings->end()) bytes += found->second->ByteSizeLong();
  }
  return bytes;
}

// Rules, ledger and reports identify nodes by name.
void check_node_names(const google::protobuf::RepeatedPtrField<proto::NodeProto>& nodes,
                      const std::string& path) {
  std::map<std::string, int> seen;
  for (int i = 0; i < nodes.size(); ++i) {
    if (nodes[i].name().empty()) continue;
    const auto [first, added] = seen.emplace(nodes[i].name(), i);
    if (added) continue;
    fail("nodes " + path + "#" + std::to_string(first->second) + " and " + path + "#" +
         std::to_string(i) + " are both called " + quote(nodes[i].name()) +
         "; node names must be unique (or empty)");
  }
}

// Unification may compare every size with every other one.
void check_named_sizes(const ir::Graph& graph) {
  constexpr size_t kMaxSizes = 2048;
  std::set<std::string> names;
  for (ir::ValueId id : graph.inputs) {
    for (const Dim& size : graph.value(id).shape)
      for (std::string& name : size.symbols()) names.insert(std::move(name));
  }
  if (names.size() <= kMaxSizes) return;
  fail("the inputs have " + std::to_string(names.size()) + " different symbolic sizes, at most " +
       std::to_string(kMaxSizes) +
       " are supported; export the model with fixed sizes, or use one name for equal sizes");
}

void check_fixed_inputs(const std::vector<const proto::ValueInfoProto*>& inputs,
                        const ImportOptions& options) {
  for (const auto& [name, tensor] : options.fixed_inputs) {
    const bool known =
        std::any_of(inputs.begin(), inputs.end(),
                    [&wanted = name](const auto* input) { return input->name() == wanted; });
    if (!known) fail("the model has no input " + quote(name) + " to fix");
  }
}

void check_fixed(const std::string& where, const Tensor& tensor, DType dtype,
                 const SymShape& shape) {
  bool fits = tensor.dtype() == dtype && tensor.rank() == shape.size();
  for (size_t i = 0; fits && i < shape.size(); ++i) {
    fits = !shape[i].is_constant() || shape[i].constant() == tensor.shape()[i];
  }
  if (fits) return;
  fail(where + " is " + std::string(name(dtype)) + str(shape) + "; it cannot be fixed to " +
       std::string(name(tensor.dtype())) + str(tensor.shape()));
}

}  // namespace

const Binding* Scope::find(const std::string& name) const {
  for (const Scope* scope = this; scope != nullptr; scope = scope->parent) {
    if (const auto found = scope->names.find(name); found != scope->names.end()) {
      return &found->second;
    }
  }
  return nullptr;
}

Importer::Importer(proto::ModelProto& model, const std::filesystem::path& folder,
                   const ImportOptions& options, ImportReport& report)
    : model_(model),
      options_(options),
      report_(report),
      tensors_(folder, options.missing_weights),
      opsets_(read_opsets(model.opset_import(), "the model")) {}

std::shared_ptr<ir::Graph> Importer::run() {
  report_ = {};
  report_.producer = model_.producer_name();
  if (!model_.producer_version().empty()) report_.producer += " " + model_.producer_version();
  const auto opset = opsets_.find("");
  report_.opset = opset == opsets_.end() ? 0 : opset->second;
  read_functions();
  proto::GraphProto& graph = *model_.mutable_graph();
  find_unsupported(graph.node(), opsets_, functions_, "", unsupported_);
  unsupported_.throw_if_any();
  Scope scope;
  scope.opsets = &opsets_;
  add_initializers(graph, scope);
  add_inputs(scope);
  import_nodes(graph.node(), scope);
  unsupported_.throw_if_any();
  add_outputs(scope);
  ops::apply_substitutions(*graph_);
  if (!tensors_.seeded().empty()) {
    const size_t count = tensors_.seeded().size();
    report_.notes.push_back(
        std::to_string(count) +
        (count == 1 ? " weight has no data file and was" : " weights have no data file and were") +
        " filled with seeded values");
  }
  note_open_ifs();
  take_operands();
  if (graph.quantization_annotation_size() > 0) {
    report_.notes.push_back("quantization annotations are ignored");
  }
  ir::mark_constants_of_the_model(*graph_);
  ir::check(*graph_, "import");
  return graph_;
}

void Importer::note_open_ifs() {
  constexpr size_t kMostNames = 3;
  const size_t count = open_ifs_.size();
  if (count == 0) return;
  std::string names;
  for (size_t i = 0; i < std::min(count, kMostNames); ++i)
    names += (i > 0 ? ", " : "") + quote(open_ifs_[i]);
  report_.notes.push_back("both branches of " + std::to_string(count) + " If " +
                          (count == 1 ? "node" : "nodes") + " (" + names +
                          (count > kMostNames ? ", ..." : "") +
                          ") are computed in every run, since the condition is not known when the "
                          "engine is built");
}

void Importer::take_operands() {
  const auto metadata = find_int8_metadata(model_);
  if (!metadata) return;
  report_.policy = metadata->policy;
  const int taken = take_int8_operands(*graph_, *metadata);
  report_.notes.push_back(
      "quantized products: the operands of " + std::to_string(taken) + " of " +
      std::to_string(metadata->products.size()) +
      " products are those that 'vernier build --export-qdq' wrote into the model" +
      (taken == std::ssize(metadata->products)
           ? ""
           : "; the others were changed since, and their Q/DQ operators are read as such"));
}

void Importer::read_functions() {
  for (const auto& function : model_.functions()) {
    const FunctionKey key{std::string(canonical_domain(function.domain())), function.name(),
                          function.overload()};
    if (!functions_.emplace(key, &function).second) {
      fail("function " + quote(function.name()) + " of domain " + quote(function.domain()) +
           " is defined twice");
    }
  }
}

void Importer::add_initializers(proto::GraphProto& graph, Scope& scope) {
  std::map<std::string, WeightRole> roles;
  if (options_.missing_weights == MissingWeights::kSeeded) roles = weight_roles(graph);
  for (proto::TensorProto& tensor : *graph.mutable_initializer()) {
    const std::string where = "initializer " + quote(tensor.name());
    if (tensor.name().empty()) fail("an initializer has no name");
    const bool four_bits = type_of_4_bits(tensor.data_type()).has_value();
    Tensor data = tensors_.read(tensor, where, role_of(tensor, roles), FourBits::kAsBytes);
    const std::string inner = scope.path.empty() ? tensor.name() : scope.path + "/" + tensor.name();
    const ir::ValueId id = graph_->add_constant(std::move(data), inner);
    if (four_bits) four_bits_.emplace(id, ir::kNoValue);
    define(scope, tensor.name(), {.value = id}, where);
  }
}

void Importer::require_optional_inputs() {
  for (proto::ValueInfoProto& input : *model_.mutable_graph()->mutable_input()) {
    if (!input.type().optional_type().elem_type().has_tensor_type()) continue;
    proto::TypeProto element = input.type().optional_type().elem_type();
    *input.mutable_type() = std::move(element);
    report_.notes.push_back("input " + quote(input.name()) +
                            " may be absent in the model; the engine requires it");
  }
}

void Importer::add_inputs(Scope& scope) {
  require_optional_inputs();
  std::vector<const proto::ValueInfoProto*> inputs;
  for (const auto& input : model_.graph().input()) {
    if (!scope.names.contains(input.name())) {
      inputs.push_back(&input);
    } else if (model_.ir_version() >= 4) {
      report_.notes.push_back("input " + quote(input.name()) +
                              " has a default value and is treated as that constant");
    }
  }
  check_fixed_inputs(inputs, options_);
  InputShapes shapes(inputs);
  for (const auto* input : inputs) {
    const std::string where = "graph input " + quote(input->name());
    if (input->name().empty()) fail("a graph input has no name");
    if (!input->type().has_tensor_type()) {
      fail(where +
           " is not a tensor (sequences, maps, optionals of these and sparse values are not "
           "supported)");
    }
    const DType dtype = element_type(input->type().tensor_type().elem_type(), where);
    if (scope.names.contains(input->name())) fail(where + " is declared twice");
    ir::ValueId id = ir::kNoValue;
    if (const auto fixed = options_.fixed_inputs.find(input->name());
        fixed != options_.fixed_inputs.end()) {
      check_fixed(where, fixed->second, dtype, shapes.shape(*input));
      id = graph_->add_constant(fixed->second, input->name());
      report_.notes.push_back("input " + quote(input->name()) + " is fixed to a constant");
    } else {
      id = graph_->add_input(input->name(), dtype, shapes.shape(*input));
    }
    define(scope, input->name(), {.value = id}, where);
  }
  report_.notes.insert(report_.notes.end(), shapes.notes().begin(), shapes.notes().end());
  check_named_sizes(*graph_);
}

void Importer::note_declared_shape(const proto::ValueInfoProto& declared, ir::ValueId id) {
  const auto& type = declared.type().tensor_type();
  if (!declared.type().has_tensor_type() || !type.has_shape()) return;
  const SymShape& shape = graph_->value(id).shape;
  bool differs = static_cast<size_t>(type.shape().dim_size()) != shape.size();
  for (size_t i = 0; !differs && i < shape.size(); ++i) {
    const auto& dim = type.shape().dim(static_cast<int>(i));
    const auto known = shape[i].as_constant();
    differs = dim.has_dim_value() && dim.dim_value() >= 0 && known && *known != dim.dim_value();
  }
  if (!differs) return;
  std::string text = "[";
  for (int i = 0; i < type.shape().dim_size(); ++i) {
    const auto& dim = type.shape().dim(i);
    text += (i ? ", " : "");
    text += dim.has_dim_value() ? std::to_string(dim.dim_value()) : dim.dim_param();
  }
  report_.notes.push_back("output " + quote(declared.name()) + " is declared with shape " + text +
                          "], but its inferred shape is " + str(shape));
}

void Importer::add_outputs(const Scope& scope) {
  std::set<std::string> names;
  for (const auto& output : model_.graph().output()) {
    const std::string where = "graph output " + quote(output.name());
    if (!names.insert(output.name()).second) fail(where + " is declared twice");
    const Binding* binding = scope.find(output.name());
    if (binding == nullptr) fail(where + " is defined by no node, input or initializer");
    if (binding->kind == Binding::Kind::kUnavailable) {
      unsupported_.add("", binding->producer,
                       "output " + quote(output.name()) + " is not computed by Vernier");
      continue;
    }
    if (binding->kind == Binding::Kind::kValue && binding->value == ir::kNoValue)
      fail(where + " is an optional without an element, which an engine cannot return");
    const ir::ValueId value = in_own_type(binding->value);
    graph_->outputs.push_back(value);
    graph_->output_names.push_back(output.name());
    note_declared_shape(output, value);
  }
  unsupported_.throw_if_any();
  if (graph_->outputs.empty()) fail("the graph has no outputs");
}

void Importer::define(Scope& scope, const std::string& name, Binding binding,
                      const std::string& where) {
  if (!scope.names.emplace(name, std::move(binding)).second) {
    fail(where + " defines " + quote(name) +
         ", which is defined already. Every name must be defined once (SSA)");
  }
}

void Importer::define_unknown(const proto::NodeProto& node, Scope& scope,
                              const std::string& where) {
  for (const std::string& name : node.output()) {
    if (!name.empty()) define(scope, name, {.kind = Binding::Kind::kUnknown}, where);
  }
}

bool Importer::resolve_inputs(const proto::NodeProto& node, const Scope& scope,
                              std::vector<ir::ValueId>& inputs) {
  bool known = true;
  for (int i = 0; i < node.input_size(); ++i) {
    const std::string& name = node.input(i);
    if (name.empty()) {
      inputs.push_back(ir::kNoValue);
      continue;
    }
    const Binding* binding = scope.find(name);
    VERNIER_ASSERT(binding != nullptr, name);  // checked by import_nodes
    if (binding->kind == Binding::Kind::kUnavailable) {
      unsupported_.add("", binding->producer,
                       "its output " + quote(name) + " is used, but Vernier does not compute it");
    }
    known = known && binding->kind == Binding::Kind::kValue;
    inputs.push_back(binding->value);
  }
  // Others may depend on the type, as QuantizeLinear does on its zero point's. The numbers and the
  // zero point of one DequantizeLinear have one type.
  const auto is_held_so = [&](size_t i) {
    return i >= inputs.size() || inputs[i] == ir::kNoValue || four_bits_.contains(inputs[i]);
  };
  if (node.op_type() == "DequantizeLinear" && is_held_so(0) && is_held_so(2)) return known;
  for (ir::ValueId& input : inputs) input = in_own_type(input);
  return known;
}

ir::ValueId Importer::in_own_type(ir::ValueId value) {
  const auto held = four_bits_.find(value);
  if (held == four_bits_.end()) return value;
  if (held->second == ir::kNoValue) {
    const bool is_signed = graph_->value(value).dtype == DType::kI8;
    const CastAttrs to{.to = is_signed ? DType::kI4 : DType::kU4};
    const ir::NodeId cast = graph_->add_node(OpKind::kCast, {value}, encode(to));
    ops::infer_node(*graph_, cast);
    held->second = graph_->node(cast).outputs[0];
  }
  return held->second;
}

void Importer::import_nodes(const Nodes& nodes, Scope& scope) {
  // Two names per node begin with the path.
  const bool is_body = !scope.path.empty();
  for (int i = 0; is_body && i < nodes.size(); ++i) {
    charge(2 * scope.path.size() + nodes[i].ByteSizeLong() +
           referenced_bytes(nodes[i], scope.bindings, functions_));
  }
  check_node_names(nodes, scope.path);
  NodeNames names;
  std::vector<ir::Origin> origins;  // named in file order
  for (int i = 0; i < nodes.size(); ++i) origins.push_back(names.origin(nodes[i], i, scope.path));
  const std::vector<int> order = node_order(nodes);
  if (!std::is_sorted(order.begin(), order.end())) {
    report_.notes.push_back((scope.path.empty() ? "the graph" : scope.path) +
                            " has nodes that are not in topological order, which ONNX requires; "
                            "they were sorted");
  }
  for (const int i : order) {
    watch_.check_time([&] { return "importing node " + quote(nodes[i].name()); });
    const ir::Origin& origin = origins[i];
    for (const std::string& name : nodes[i].input()) {
      if (name.empty() || scope.find(name) != nullptr) continue;
      fail(describe(origin) + " uses " + quote(name) + ", " + missing_reason(nodes, name));
    }
    import_node(nodes[i], origin, scope);
  }
}

void Importer::count(int64_t& counter) const {
  if (++counter <= kMaxNodes) return;
  fail("the model has more than " + std::to_string(kMaxNodes) +
       " nodes once its functions are inlined and its loops unrolled");
}

void Importer::import_node(const proto::NodeProto& node, const ir::Origin& origin, Scope& scope) {
  count(report_.nodes);
  NodeSite site{
      .node = &node, .origin = origin, .opset = 0, .inputs = {}, .bindings = scope.bindings};
  if (!resolve_inputs(node, scope, site.inputs)) {
    return define_unknown(node, scope, describe(origin));
  }
  if (const auto call = functions_.find(function_key(node)); call != functions_.end()) {
    return inline_call(*call->second, site, scope);
  }
  const std::string domain(canonical_domain(node.domain()));
  const auto opset = scope.opsets->find(domain);
  // ONNX Runtime's own operators have one version, and its tools sometimes omit the import.
  if (opset == scope.opsets->end() && domain != "com.microsoft") {
    fail(describe(origin) + ": no operator set is imported for domain " + quote(node.domain()));
  }
  site.opset = opset == scope.opsets->end() ? 1 : opset->second;
  if (domain.empty() && node.op_type() == "If") return import_if(site, scope);
  translate(node, std::move(site), scope);
}

void Importer::translate(const proto::NodeProto& node, NodeSite site, Scope& scope) {
  const std::string domain(canonical_domain(node.domain()));
  const ir::Origin origin = site.origin;
  const Translation* row = find_translation(domain, node.op_type());
  VERNIER_ASSERT(row != nullptr, node.op_type());
  const size_t nodes_before = graph_->num_nodes();
  site.inline_graph = [this, &scope, where = describe(origin)](const auto& body, const auto& path,
                                                               auto inputs) {
    return inline_graph(body, path, inputs, where, scope);
  };
  site.known_number = [this](ir::ValueId value) { return known_number(value); };
  const bool shares_memory = domain.empty() && site.opset < 6;
  NodeContext context(*graph_, tensors_, std::move(site));
  if (shares_memory) context.attrs().ignore("consumed_inputs");  // which arrays may be reused
  try {
    row->translate(context);
    context.check_all_read();
  } catch (const UnsupportedNode& variant) {
    unsupported_.add(domain, origin, variant.why);
    return define_unknown(node, scope, describe(origin));
  }
  if (graph_->num_nodes() == nodes_before)
    graph_->retire({origin}, LedgerState::kFolded, "a constant");
  for (int i = 0; i < node.output_size(); ++i) {
    const std::string& name = node.output(i);
    if (name.empty()) continue;
    const ir::ValueId id = context.outputs()[i];
    if (context.is_absent(static_cast<size_t>(i))) {
      define(scope, name, {.value = ir::kNoValue}, describe(origin));
      continue;
    }
    if (id == ir::kNoValue) {
      define(scope, name, {.kind = Binding::Kind::kUnavailable, .producer = origin},
             describe(origin));
      continue;
    }
    ir::Value& value = graph_->value(id);
    if (value.name.empty()) value.name = scope.path.empty() ? name : scope.path + "/" + name;
    define(scope, name, {.value = id}, describe(origin));
  }
  if (graph_->symbol_substitutions.size() != substitutions_) {
    ops::apply_substitutions(*graph_);
    substitutions_ = graph_->symbol_substitutions.size();
  }
}

}  // namespace vernier::onnx
