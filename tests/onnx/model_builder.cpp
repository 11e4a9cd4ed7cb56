// Building small models: see model_builder.h.
#include "onnx/model_builder.h"

#include "core/error.h"

namespace vernier::onnx {
namespace {

Attribute named(const std::string& name, Attribute::AttributeType type) {
  Attribute attribute;
  attribute.set_name(name);
  attribute.set_type(type);
  return attribute;
}

}  // namespace

Attribute attr_int(const std::string& name, int64_t value) {
  Attribute attribute = named(name, Attribute::INT);
  attribute.set_i(value);
  return attribute;
}
Attribute attr_float(const std::string& name, float value) {
  Attribute attribute = named(name, Attribute::FLOAT);
  attribute.set_f(value);
  return attribute;
}
Attribute attr_text(const std::string& name, const std::string& value) {
  Attribute attribute = named(name, Attribute::STRING);
  attribute.set_s(value);
  return attribute;
}
Attribute attr_ints(const std::string& name, const std::vector<int64_t>& values) {
  Attribute attribute = named(name, Attribute::INTS);
  attribute.mutable_ints()->Assign(values.begin(), values.end());
  return attribute;
}
Attribute attr_floats(const std::string& name, const std::vector<float>& values) {
  Attribute attribute = named(name, Attribute::FLOATS);
  attribute.mutable_floats()->Assign(values.begin(), values.end());
  return attribute;
}
Attribute attr_texts(const std::string& name, const std::vector<std::string>& values) {
  Attribute attribute = named(name, Attribute::STRINGS);
  attribute.mutable_strings()->Assign(values.begin(), values.end());
  return attribute;
}
Attribute attr_tensor(const std::string& name, const proto::TensorProto& value) {
  Attribute attribute = named(name, Attribute::TENSOR);
  *attribute.mutable_t() = value;
  return attribute;
}
Attribute attr_graph(const std::string& name, const proto::GraphProto& value) {
  Attribute attribute = named(name, Attribute::GRAPH);
  *attribute.mutable_g() = value;
  return attribute;
}
Attribute attr_ref(const std::string& name, const std::string& outer,
                   Attribute::AttributeType type) {
  Attribute attribute = named(name, type);
  attribute.set_ref_attr_name(outer);
  return attribute;
}

proto::TensorProto f32_tensor(const std::string& name, const std::vector<int64_t>& dims,
                              const std::vector<float>& values) {
  proto::TensorProto tensor;
  tensor.set_name(name);
  tensor.set_data_type(kFloat);
  tensor.mutable_dims()->Assign(dims.begin(), dims.end());
  tensor.mutable_float_data()->Assign(values.begin(), values.end());
  return tensor;
}
proto::TensorProto i64_tensor(const std::string& name, const std::vector<int64_t>& dims,
                              const std::vector<int64_t>& values) {
  proto::TensorProto tensor;
  tensor.set_name(name);
  tensor.set_data_type(kInt64);
  tensor.mutable_dims()->Assign(dims.begin(), dims.end());
  tensor.mutable_int64_data()->Assign(values.begin(), values.end());
  return tensor;
}
proto::NodeProto make_node(const std::string& op_type, const Names& inputs, const Names& outputs,
                           const std::vector<Attribute>& attributes) {
  proto::NodeProto node;
  node.set_op_type(op_type);
  for (const std::string& name : inputs) node.add_input(name);
  for (const std::string& name : outputs) node.add_output(name);
  for (const Attribute& attribute : attributes) *node.add_attribute() = attribute;
  return node;
}

ModelBuilder::ModelBuilder(int64_t opset) {
  model_.set_ir_version(8);
  model_.set_producer_name("test");
  model_.add_opset_import()->set_version(opset);
  graph().set_name("test");
}
ModelBuilder& ModelBuilder::input(const std::string& name, int32_t type,
                                  const std::vector<TestDim>& dims) {
  auto* info = graph().add_input();
  info->set_name(name);
  auto* tensor = info->mutable_type()->mutable_tensor_type();
  tensor->set_elem_type(type);
  tensor->mutable_shape();
  for (const TestDim& dim : dims) {
    auto* size = tensor->mutable_shape()->add_dim();
    if (const auto* number = std::get_if<int64_t>(&dim)) {
      size->set_dim_value(*number);
    } else if (!std::get<std::string>(dim).empty()) {
      size->set_dim_param(std::get<std::string>(dim));
    }
  }
  return *this;
}
ModelBuilder& ModelBuilder::output(const std::string& name) {
  graph().add_output()->set_name(name);
  return *this;
}
ModelBuilder& ModelBuilder::initializer(const proto::TensorProto& tensor) {
  *graph().add_initializer() = tensor;
  return *this;
}
proto::NodeProto& ModelBuilder::node(const std::string& op_type, const Names& inputs,
                                     const Names& outputs,
                                     const std::vector<Attribute>& attributes) {
  auto* added = graph().add_node();
  *added = make_node(op_type, inputs, outputs, attributes);
  return *added;
}
proto::FunctionProto& ModelBuilder::function(const std::string& name, const Names& inputs,
                                             const Names& outputs) {
  if (model_.functions_size() == 0) {
    auto* opset = model_.add_opset_import();
    opset->set_domain("local");
    opset->set_version(1);
  }
  auto* added = model_.add_functions();
  added->set_name(name);
  added->set_domain("local");
  for (const std::string& input : inputs) added->add_input(input);
  for (const std::string& output : outputs) added->add_output(output);
  *added->mutable_opset_import() = model_.opset_import();
  return *added;
}

std::shared_ptr<ir::Graph> import_bytes(const std::string& bytes, ImportReport* report) {
  return import_model_bytes(std::as_bytes(std::span(bytes.data(), bytes.size())), "", {}, report);
}
std::string import_error(const std::string& bytes) {
  try {
    import_bytes(bytes);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kInput) return error.what();
    return std::string("wrong code: ") + error.what();
  }
  return "no error";
}
std::shared_ptr<ir::Graph> ModelBuilder::import(ImportReport* report) const {
  return import_bytes(bytes(), report);
}
std::string ModelBuilder::error() const { return import_error(bytes()); }

}  // namespace vernier::onnx
