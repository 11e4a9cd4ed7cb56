// GraphNodes: see graph_nodes.h.
#include "onnx/graph_nodes.h"

#include <algorithm>

#include "core/error.h"
#include "onnx/element_types.h"
#include "onnx/unsupported.h"

namespace vernier::onnx {
namespace {

proto::TensorProto message_of(const Tensor& tensor) {
  proto::TensorProto message;
  message.set_data_type(static_cast<int32_t>(element_type_number(tensor.dtype())));
  message.mutable_dims()->Assign(tensor.shape().begin(), tensor.shape().end());
  message.set_raw_data(packed(tensor));
  return message;
}

void set_attribute(proto::AttributeProto& message, const MadeAttribute& attribute) {
  using proto::AttributeProto;
  message.set_name(attribute.name);
  if (const auto* integer = std::get_if<int64_t>(&attribute.value)) {
    message.set_type(AttributeProto::INT);
    message.set_i(*integer);
  } else if (const auto* number = std::get_if<double>(&attribute.value)) {
    message.set_type(AttributeProto::FLOAT);
    message.set_f(static_cast<float>(*number));
  } else if (const auto* text = std::get_if<std::string>(&attribute.value)) {
    message.set_type(AttributeProto::STRING);
    message.set_s(*text);
  } else if (const auto* list = std::get_if<std::vector<int64_t>>(&attribute.value)) {
    message.set_type(AttributeProto::INTS);
    message.mutable_ints()->Assign(list->begin(), list->end());
  } else {
    message.set_type(AttributeProto::TENSOR);
    *message.mutable_t() = message_of(std::get<Tensor>(attribute.value));
  }
}

}  // namespace

std::string GraphNodes::fresh(const std::string& wanted) {
  std::string name = wanted;
  for (int k = 1; !take(name); ++k) name = wanted + "_" + std::to_string(k);
  return name;
}

void GraphNodes::add(const std::string& op, const std::vector<std::string>& inputs,
                     const std::vector<std::string>& outputs, const MadeAttributes& attributes) {
  proto::NodeProto& node = *graph_.add_node();
  std::string name = node_name_.empty() ? op : node_name_;
  for (int k = 1; !node_names_.insert(name).second; ++k)
    name = (node_name_.empty() ? op : node_name_) + "_" + std::to_string(k);
  node.set_name(name);
  node.set_op_type(op);
  size_t count = inputs.size();  // absent ones at the end are left out
  while (count > 0 && inputs[count - 1].empty()) --count;
  for (size_t i = 0; i < count; ++i) node.add_input(inputs[i]);
  for (const std::string& output : outputs) node.add_output(output);
  for (const MadeAttribute& attribute : attributes) set_attribute(*node.add_attribute(), attribute);
}

std::string GraphNodes::make(const std::string& op, const std::vector<std::string>& inputs,
                             const MadeAttributes& attributes) {
  std::string output = fresh((node_name_.empty() ? op : node_name_ + "/" + op) + "_output");
  add(op, inputs, {output}, attributes);
  return output;
}

void GraphNodes::rename_last(const std::string& name) {
  graph_.mutable_node(graph_.node_size() - 1)->set_output(0, name);
}

void GraphNodes::add_constant(const std::string& name, const Tensor& tensor) {
  proto::TensorProto& message = *graph_.add_initializer() = message_of(tensor);
  message.set_name(name);
}

std::string GraphNodes::small(const std::string& key, const Tensor& tensor,
                              const std::string& name) {
  const auto [at, is_new] = small_.try_emplace(key);
  if (is_new) {
    at->second = fresh(name);
    add_constant(at->second, tensor);
  }
  return at->second;
}

std::string GraphNodes::integers(const std::vector<int64_t>& values) {
  std::string key = "i";
  for (const int64_t value : values) key += ' ' + std::to_string(value);
  const Shape shape{static_cast<int64_t>(values.size())};
  return small(key, Tensor::from(DType::kI64, shape, std::span<const int64_t>(values)), "sizes");
}

std::string GraphNodes::number(DType type, double value) {
  const Tensor tensor = Tensor::scalar(type, value);
  const auto* bytes = reinterpret_cast<const char*>(tensor.data());
  return small(std::string(name(type)) + ' ' + std::string(bytes, tensor.bytes()), tensor,
               "number");
}

void GraphNodes::size_is_at(const std::string& symbol, const std::string& input, int64_t axis) {
  places_.try_emplace(symbol, input, axis);
}

std::string GraphNodes::size(const Dim& dim) {
  if (const auto constant = dim.as_constant()) return integers({*constant});
  if (const auto found = sizes_.find(dim.str()); found != sizes_.end()) return found->second;
  const std::string before = std::exchange(node_name_, "size " + dim.str());
  std::vector<std::string> stack;
  const auto pop = [&stack] {
    std::string top = std::move(stack.back());
    stack.pop_back();
    return top;
  };
  const auto binary = [&](const char* op, const MadeAttributes& attributes = {}) {
    const std::string b = pop(), a = pop();
    stack.push_back(make(op, {a, b}, attributes));
  };
  for (const DimOp& op : dim.postfix()) {
    switch (op.kind) {
      case DimOp::Kind::kConstant:
        stack.push_back(integers({op.constant}));
        break;
      case DimOp::Kind::kSymbol: {
        const auto place = places_.find(op.symbol);
        if (place == places_.end())
          throw Error(ErrorCode::kInput, "the size " + dim.str() +
                                             " cannot be written: no input has the size " +
                                             op.symbol + ", it depends on the data");
        const auto& [input, axis] = place->second;
        stack.push_back(make("Shape", {input}, {{"start", axis}, {"end", axis + 1}}));
        break;
      }
      case DimOp::Kind::kAdd:
        binary("Add");
        break;
      case DimOp::Kind::kMul:
        binary("Mul");
        break;
      case DimOp::Kind::kFloorDiv: {
        // ONNX's Div of integers rounds toward 0, its Mod has the sign of the divisor.
        const std::string b = pop(), a = pop();
        const std::string whole = make("Sub", {a, make("Mod", {a, b})});
        stack.push_back(make("Div", {whole, b}));
        break;
      }
      case DimOp::Kind::kMod:
        binary("Mod");
        break;
      case DimOp::Kind::kMin:
        binary("Min");
        break;
      case DimOp::Kind::kMax:
        binary("Max");
        break;
    }
  }
  node_name_ = before;
  return sizes_[dim.str()] = stack.back();
}

std::string GraphNodes::sizes(const SymShape& shape) {
  if (is_constant(shape)) {
    std::vector<int64_t> numbers;
    for (const Dim& dim : shape) numbers.push_back(dim.constant());
    return integers(numbers);
  }
  if (shape.size() == 1) return size(shape[0]);
  std::vector<std::string> parts;
  for (const Dim& dim : shape) parts.push_back(size(dim));
  const auto [at, is_new] = sizes_.try_emplace(str(shape));
  if (is_new) {
    const std::string before = std::exchange(node_name_, "sizes " + str(shape));
    at->second = make("Concat", parts, {{"axis", int64_t{0}}});
    node_name_ = before;
  }
  return at->second;
}

}  // namespace vernier::onnx
