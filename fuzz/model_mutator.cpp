// Changes to models: see model_mutator.h.
#include "model_mutator.h"

#include <string>

#include "field_changes.h"

namespace vernier::fuzz {
namespace {

namespace proto = onnx::proto;
using google::protobuf::RepeatedPtrField;

constexpr int kLastElementType = 23;  // float8e8m0 is 24, an unknown one

// A graph to change: the model's, or the body of an If if there is one.
proto::GraphProto& some_graph(Model& model, Choices& choices) {
  proto::GraphProto* graph = model.mutable_graph();
  for (proto::NodeProto& node : *graph->mutable_node()) {
    for (proto::AttributeProto& attribute : *node.mutable_attribute())
      if (attribute.has_g() && choices.one_in(4)) return *attribute.mutable_g();
  }
  return *graph;
}

// The nodes of the graph, or of a local function.
RepeatedPtrField<proto::NodeProto>& some_nodes(Model& model, Choices& choices) {
  if (model.functions_size() > 0 && choices.one_in(3))
    return *choices.of(*model.mutable_functions()).mutable_node();
  return *some_graph(model, choices).mutable_node();
}

proto::NodeProto* some_node(Model& model, Choices& choices) {
  auto& nodes = some_nodes(model, choices);
  return nodes.empty() ? nullptr : &choices.of(nodes);
}

std::vector<std::string> value_names(const Model& model) {
  std::vector<std::string> names{""};
  for (const auto& input : model.graph().input()) names.push_back(input.name());
  for (const auto& tensor : model.graph().initializer()) names.push_back(tensor.name());
  for (const auto& node : model.graph().node())
    names.insert(names.end(), node.output().begin(), node.output().end());
  return names;
}

// A text that `of` finds in a node of this or another model.
template <class Of>
std::string word_of(const Model& model, const std::vector<Model>& others, Choices& choices, Of of) {
  std::vector<std::string> words;
  const Model& from = others.empty() || choices.one_in(3) ? model : choices.of(others);
  for (const auto& node : from.graph().node()) of(node, words);
  return words.empty() ? "" : choices.of(words);
}

void change_operator(Model& model, const std::vector<Model>& others, Choices& choices) {
  proto::NodeProto* node = some_node(model, choices);
  if (node == nullptr) return;
  node->set_op_type(word_of(model, others, choices,
                            [](const auto& n, auto& words) { words.push_back(n.op_type()); }));
}

void change_wiring(Model& model, Choices& choices) {
  proto::NodeProto* node = some_node(model, choices);
  if (node == nullptr) return;
  const std::vector<std::string> names = value_names(model);
  switch (choices.below(5)) {
    case 0:
      *node->add_input() = choices.of(names);
      break;
    case 1:
      if (node->input_size() > 0) node->mutable_input()->RemoveLast();
      break;
    case 2:
      if (node->output_size() > 0) choices.of(*node->mutable_output()) = choices.of(names);
      break;
    default:
      if (node->input_size() > 0) choices.of(*node->mutable_input()) = choices.of(names);
  }
}

template <class T>
void change_numbers(google::protobuf::RepeatedField<T>& numbers, Choices& choices) {
  std::vector<T> list(numbers.begin(), numbers.end());
  if (list.empty() || choices.one_in(3)) {
    change_list(list, choices);
  } else {
    T& number = choices.of(list);
    if constexpr (std::is_floating_point_v<T>)
      number = static_cast<T>(changed_float(static_cast<double>(number), choices));
    else
      number = static_cast<T>(changed_integer(static_cast<int64_t>(number), choices));
  }
  numbers.Assign(list.begin(), list.end());
}

void change_raw(std::string& bytes, Choices& choices) {
  if (bytes.empty() || choices.one_in(5)) {
    bytes.resize(choices.one_in(2) ? bytes.size() / 2 : bytes.size() + choices.below(17));
    return;
  }
  // Eight bytes are one or two numbers of most types.
  const auto number = static_cast<uint64_t>(changed_integer(0, choices));
  const size_t at = choices.below((bytes.size() + 7) / 8) * 8;
  for (size_t i = 0; i < 8 && at + i < bytes.size(); ++i)
    bytes[at + i] = static_cast<char>(number >> (8 * i));
}

void change_tensor(proto::TensorProto& tensor, Choices& choices) {
  switch (choices.below(6)) {
    case 0:
      change_numbers(*tensor.mutable_dims(), choices);
      break;
    case 1:
      tensor.set_data_type(static_cast<int32_t>(choices.below(kLastElementType + 3)));
      break;
    default:
      if (tensor.has_raw_data())
        change_raw(*tensor.mutable_raw_data(), choices);
      else if (tensor.int64_data_size() > 0)
        change_numbers(*tensor.mutable_int64_data(), choices);
      else if (tensor.int32_data_size() > 0)
        change_numbers(*tensor.mutable_int32_data(), choices);
      else
        change_numbers(*tensor.mutable_float_data(), choices);
  }
}

void change_attribute(Model& model, const std::vector<Model>& others, Choices& choices) {
  proto::NodeProto* node = some_node(model, choices);
  if (node == nullptr) return;
  if (node->attribute_size() == 0 || choices.one_in(6)) {
    // One that another node has.
    const Model& from = others.empty() ? model : choices.of(others);
    for (const auto& other : from.graph().node()) {
      if (other.attribute_size() == 0) continue;
      *node->add_attribute() = other.attribute(0);
      return;
    }
    return;
  }
  proto::AttributeProto& attribute = choices.of(*node->mutable_attribute());
  switch (choices.below(8)) {
    case 0:
      node->mutable_attribute()->RemoveLast();
      break;
    case 1:
      change_text(*attribute.mutable_name(), choices);
      break;
    case 2:
      attribute.set_type(static_cast<proto::AttributeProto::AttributeType>(choices.below(15)));
      break;
    default:
      if (attribute.has_i()) attribute.set_i(changed_integer(attribute.i(), choices));
      if (attribute.has_f())
        attribute.set_f(static_cast<float>(changed_float(attribute.f(), choices)));
      if (attribute.has_s()) change_text(*attribute.mutable_s(), choices);
      if (attribute.has_t()) change_tensor(*attribute.mutable_t(), choices);
      if (attribute.ints_size() > 0) change_numbers(*attribute.mutable_ints(), choices);
      if (attribute.floats_size() > 0) change_numbers(*attribute.mutable_floats(), choices);
  }
}

void change_port(Model& model, Choices& choices) {
  proto::GraphProto& graph = *model.mutable_graph();
  auto& ports = choices.one_in(4) ? *graph.mutable_output() : *graph.mutable_input();
  if (ports.empty()) return;
  proto::ValueInfoProto& port = choices.of(ports);
  if (!port.type().has_tensor_type()) return;
  auto& type = *port.mutable_type()->mutable_tensor_type();
  auto& dims = *type.mutable_shape()->mutable_dim();
  switch (choices.below(6)) {
    case 0:
      type.set_elem_type(static_cast<int32_t>(choices.below(kLastElementType + 3)));
      break;
    case 1:
      dims.Add()->set_dim_value(static_cast<int64_t>(choices.below(4)));
      break;
    case 2:
      if (!dims.empty()) dims.RemoveLast();
      break;
    case 3:
      if (!dims.empty()) choices.of(dims).set_dim_param(choices.one_in(2) ? "batch" : "seq");
      break;
    default:
      if (!dims.empty()) {
        auto& dim = choices.of(dims);
        dim.set_dim_value(changed_integer(dim.dim_value(), choices));
      }
  }
}

void change_weight(Model& model, Choices& choices) {
  auto& tensors = *model.mutable_graph()->mutable_initializer();
  if (!tensors.empty()) change_tensor(choices.of(tensors), choices);
}

void change_nodes(Model& model, const std::vector<Model>& others, Choices& choices) {
  auto& nodes = some_nodes(model, choices);
  const size_t way = choices.below(4);
  if (way == 0 && !nodes.empty()) {
    nodes.erase(nodes.begin() + static_cast<std::ptrdiff_t>(choices.below(nodes.size())));
  } else if (way == 1 && nodes.size() > 1) {
    nodes.SwapElements(static_cast<int>(choices.below(nodes.size())),
                       static_cast<int>(choices.below(nodes.size())));
  } else if (!others.empty()) {
    // A node of another model, on values of this one; its result becomes an input of a later node.
    const auto& from = choices.of(others).graph();
    if (from.node_size() == 0) return;
    proto::NodeProto& node = *nodes.Add();
    node = choices.of(from.node());
    const std::vector<std::string> names = value_names(model);
    for (std::string& input : *node.mutable_input()) input = choices.of(names);
    const std::string result = "spliced" + std::to_string(nodes.size());
    for (int i = 0; i < node.output_size(); ++i)
      node.set_output(i, i == 0 ? result : result + "_" + std::to_string(i));
    proto::NodeProto& reader = choices.of(nodes);
    if (reader.input_size() > 0 && &reader != &node) choices.of(*reader.mutable_input()) = result;
    for (const auto& tensor : from.initializer())
      if (model.graph().initializer_size() < 64) *model.mutable_graph()->add_initializer() = tensor;
  }
}

void change_outputs(Model& model, Choices& choices) {
  auto& outputs = *model.mutable_graph()->mutable_output();
  const std::vector<std::string> names = value_names(model);
  if (!outputs.empty() && choices.one_in(2)) {
    choices.of(outputs).set_name(choices.of(names));
    return;
  }
  outputs.Add()->set_name(choices.of(names));
}

void change_versions(Model& model, Choices& choices) {
  if (model.opset_import_size() == 0 || choices.one_in(4)) {
    model.set_ir_version(changed_integer(model.ir_version(), choices));
    return;
  }
  choices.of(*model.mutable_opset_import())
      .set_version(6 + static_cast<int64_t>(choices.below(24)));
}

}  // namespace

void change_model(Model& model, const std::vector<Model>& others, Choices choices) {
  switch (choices.below(16)) {
    case 0:
    case 1:
      return change_operator(model, others, choices);
    case 2:
    case 3:
      return change_wiring(model, choices);
    case 4:
    case 5:
    case 6:
    case 7:
      return change_attribute(model, others, choices);
    case 8:
    case 9:
      return change_port(model, choices);
    case 10:
    case 11:
      return change_weight(model, choices);
    case 12:
    case 13:
      return change_nodes(model, others, choices);
    case 14:
      return change_outputs(model, choices);
    default:
      return change_versions(model, choices);
  }
}

}  // namespace vernier::fuzz
