// The view of one ONNX node that its translation works on: see node_context.h.
#include "onnx/node_context.h"

#include "core/attrs.h"
#include "core/error.h"
#include "core/op_attrs.h"
#include "onnx/model_file.h"

namespace vernier::onnx {

std::string describe(const ir::Origin& origin) {
  return "node " + quote(origin.name) + " (" + origin.op_type + ", " + origin.key + ")";
}

NodeContext::NodeContext(ir::Graph& graph, TensorReader& tensors, NodeSite site)
    : graph_(graph),
      tensors_(tensors),
      site_(std::move(site)),
      where_(describe(site_.origin)),
      attrs_(*site_.node, site_.bindings, where_),
      outputs_(static_cast<size_t>(site_.node->output_size()), ir::kNoValue) {}

void NodeContext::fail(const std::string& what) const {
  throw Error(ErrorCode::kInput, where_ + ": " + what);
}

ir::ValueId NodeContext::input(size_t i) {
  if (!has_input(i)) fail("input " + std::to_string(i) + " is missing");
  return optional_input(i);
}

ir::ValueId NodeContext::optional_input(size_t i) {
  inputs_read_.insert(i);
  return has_input(i) ? site_.inputs[i] : ir::kNoValue;
}

std::vector<ir::ValueId> NodeContext::all_inputs() {
  for (size_t i = 0; i < num_inputs(); ++i) inputs_read_.insert(i);
  std::vector<ir::ValueId> inputs = site_.inputs;
  while (!inputs.empty() && inputs.back() == ir::kNoValue) inputs.pop_back();
  return inputs;
}

std::optional<std::vector<int64_t>> NodeContext::integers(ir::ValueId id) const {
  const ir::Value& value = graph_.value(id);
  if (value.is_constant()) {
    if (is_float(value.dtype)) return std::nullopt;
    return value.constant.integers();
  }
  if (!value.values) return std::nullopt;
  std::vector<int64_t> numbers;
  for (const Dim& dim : *value.values) {
    if (!dim.is_constant()) return std::nullopt;
    numbers.push_back(dim.constant());
  }
  return numbers;
}

size_t NodeContext::num_outputs() const { return outputs_.size(); }

bool NodeContext::wants_output(size_t i) const {
  return i < num_outputs() && !site_.node->output(static_cast<int>(i)).empty();
}

Tensor NodeContext::read_tensor(const proto::TensorProto& tensor) {
  proto::TensorProto copy = tensor;  // attribute tensors are small; the reader may move bytes out
  return tensors_.read(copy, where_ + ": tensor attribute");
}

std::vector<ir::ValueId> NodeContext::emit_all(OpKind op, std::vector<ir::ValueId> inputs,
                                               AttrBytes attrs, size_t num_outputs) {
  while (!inputs.empty() && inputs.back() == ir::kNoValue) inputs.pop_back();
  const ir::NodeId id =
      graph_.add_node(op, std::move(inputs), std::move(attrs), static_cast<int>(num_outputs));
  ir::Node& node = graph_.node(id);
  node.name = site_.origin.name;
  node.origins = {site_.origin};
  ops::infer_node(graph_, id);
  return graph_.node(id).outputs;
}

ir::ValueId NodeContext::reshape(ir::ValueId value, SymShape shape) {
  return emit(OpKind::kReshape, {value},
              ShapeAttrs{.shape = std::move(shape), .has_shape = true, .allowzero = true});
}

ir::ValueId NodeContext::transpose(ir::ValueId value, std::vector<int64_t> perm) {
  return emit(OpKind::kTranspose, {value}, TransposeAttrs{std::move(perm)});
}

ir::ValueId NodeContext::cast(ir::ValueId value, DType type) {
  return dtype(value) == type ? value : emit(OpKind::kCast, {value}, CastAttrs{.to = type});
}

std::vector<ir::ValueId> NodeContext::inline_graph(const std::string& name,
                                                   std::span<const ir::ValueId> inputs) {
  const proto::GraphProto* graph = attrs_.graph(name);
  if (graph == nullptr) fail("attribute " + quote(name) + " is missing");
  const std::string index = site_.origin.key.substr(site_.origin.key.rfind('#') + 1);
  return site_.inline_graph(*graph, name + "/" + index + "/" + std::to_string(graphs_inlined_++),
                            inputs);
}

void NodeContext::retire(const std::string& why) {
  graph_.retire({site_.origin}, LedgerState::kRemoved, why);
}

void NodeContext::set_output(size_t i, ir::ValueId value) {
  if (i < outputs_.size()) outputs_[i] = value;
}

void NodeContext::check_all_read() const {
  if (const auto unread = attrs_.first_unread()) {
    fail("attribute " + quote(*unread) + " is unknown for this operator at opset " +
         std::to_string(opset()));
  }
  for (size_t i = 0; i < num_inputs(); ++i) {
    if (has_input(i) && !inputs_read_.contains(i)) {
      fail("has an input " + std::to_string(i) + ", which this operator does not take at opset " +
           std::to_string(opset()));
    }
  }
}

}  // namespace vernier::onnx
