// Extracts parts of models: see slice.h.
#include "onnx/slice.h"

#include <charconv>

#include "core/error.h"
#include "core/mapped_file.h"
#include "onnx/element_types.h"
#include "onnx/model_file.h"
#include "onnx/node_order.h"
#include "onnx/tensor_reader.h"
#include "onnx/unsupported.h"

namespace vernier::onnx {
namespace {

void set_type(proto::ValueInfoProto& info, const std::string& name, DType dtype,
              const Shape& shape) {
  info.set_name(name);
  auto& tensor = *info.mutable_type()->mutable_tensor_type();
  tensor.set_elem_type(static_cast<int32_t>(element_type_number(dtype)));
  tensor.mutable_shape();  // a scalar has a shape too
  for (int64_t size : shape) tensor.mutable_shape()->add_dim()->set_dim_value(size);
}

void set_tensor(proto::TensorProto& proto, const std::string& name, const Tensor& tensor) {
  proto.Clear();
  proto.set_name(name);
  proto.set_data_type(static_cast<int32_t>(element_type_number(tensor.dtype())));
  for (int64_t size : tensor.shape()) proto.add_dims(size);
  proto.set_raw_data(packed(tensor));
}

}  // namespace

struct ModelSlicer::Parts {
  std::filesystem::path folder;
  proto::ModelProto model;
};

size_t main_node_of(const std::string& key) {
  // "#172", "/function/3#17", "/function/3/inner/2#0"
  size_t at = key.starts_with('/') ? key.find('/', 1) : key.find('#');
  VERNIER_ASSERT(at != std::string::npos, key);
  size_t number = 0;
  const auto [end, error] = std::from_chars(key.data() + at + 1, key.data() + key.size(), number);
  VERNIER_ASSERT(error == std::errc(), key);
  return number;
}

ModelSlicer::ModelSlicer(const std::filesystem::path& path) : parts_(std::make_unique<Parts>()) {
  const auto file = MappedFile::open(path);
  parts_->folder = path.parent_path().empty() ? "." : path.parent_path();
  parts_->model = parse_model(file->bytes());
  const proto::GraphProto& graph = parts_->model.graph();
  NodeNames names;
  for (int i = 0; i < graph.node_size(); ++i) {
    const proto::NodeProto& node = graph.node(i);
    MainNode row{
        .name = names.origin(node, i, "").name, .op = node.op_type(), .inputs = {}, .outputs = {}};
    add_used(node, row.inputs);
    for (const std::string& name : node.output()) {
      if (!name.empty()) row.outputs.push_back(name);
    }
    nodes_.push_back(std::move(row));
  }
  for (int i = 0; i < graph.initializer_size(); ++i)
    initializers_.emplace(graph.initializer(i).name(), i);
  for (const auto& input : graph.input()) {
    if (!is_initializer(input.name())) inputs_.insert(input.name());
  }
  for (const auto& output : graph.output()) outputs_.insert(output.name());
}

ModelSlicer::~ModelSlicer() = default;

std::vector<std::byte> ModelSlicer::model_of(const Slice& slice) const {
  const proto::GraphProto& whole = parts_->model.graph();
  proto::ModelProto model;
  model.set_ir_version(parts_->model.ir_version());
  model.set_producer_name(parts_->model.producer_name());
  model.set_producer_version(parts_->model.producer_version());
  *model.mutable_opset_import() = parts_->model.opset_import();
  *model.mutable_functions() = parts_->model.functions();
  *model.mutable_metadata_props() = parts_->model.metadata_props();  // of int8_operands.h
  proto::GraphProto& graph = *model.mutable_graph();
  graph.set_name(whole.name());
  std::set<std::string> defined, used;
  for (size_t i : slice.nodes) {
    proto::NodeProto& node = *graph.add_node();
    node = whole.node(static_cast<int>(i));
    node.set_name(nodes_[i].name);
    used.insert(nodes_[i].inputs.begin(), nodes_[i].inputs.end());
    defined.insert(nodes_[i].outputs.begin(), nodes_[i].outputs.end());
  }
  for (const SliceOutput& output : slice.outputs) {
    set_type(*graph.add_output(), output.name, output.dtype, output.shape);
    used.insert(output.name);
  }
  uint64_t weight_bytes = 0;
  TensorReader reader(parts_->folder, MissingWeights::kError);
  for (const std::string& name : used) {
    if (defined.contains(name)) continue;
    if (const auto input = slice.inputs.find(name); input != slice.inputs.end()) {
      set_type(*graph.add_input(), name, input->second.dtype(), input->second.shape());
      continue;
    }
    const auto constant = slice.constants.find(name);
    const auto stored = initializers_.find(name);
    if (constant == slice.constants.end() && stored == initializers_.end()) {
      throw Error(ErrorCode::kInput, "the part of the model uses value " + quote(name) +
                                         ", which it neither computes nor gets as an input");
    }
    Tensor tensor;
    if (constant != slice.constants.end()) {
      tensor = constant->second;
    } else {
      proto::TensorProto copy = whole.initializer(stored->second);
      tensor = reader.read(copy, "initializer " + quote(name));
    }
    weight_bytes += tensor.bytes();
    if (weight_bytes > kMaxWeightBytes) {
      throw Error(ErrorCode::kInput, "the part of the model has more than " +
                                         std::to_string(kMaxWeightBytes >> 20) +
                                         " MiB of weights, with " + quote(name) +
                                         "; a model with embedded weights may not be larger");
    }
    set_tensor(*graph.add_initializer(), name, tensor);
  }
  const std::string bytes = model.SerializeAsString();
  const std::span<const std::byte> view = std::as_bytes(std::span(bytes.data(), bytes.size()));
  return {view.begin(), view.end()};
}

}  // namespace vernier::onnx
