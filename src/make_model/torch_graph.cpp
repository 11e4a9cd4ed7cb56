// Spelling graphs as the exporter does: see torch_graph.h.
#include "make_model/torch_graph.h"

#include <algorithm>

namespace vernier::make_model {

using onnx::NodeAttribute;
using onnx::SmallArray;

TorchGraph::TorchGraph(onnx::ModelWriter& writer, std::vector<int64_t> outlier_channels,
                       double outlier_factor)
    : writer_(writer),
      outlier_channels_(std::move(outlier_channels)),
      outlier_factor_(outlier_factor) {}

std::string TorchGraph::unique(const std::string& path, const std::string& kind) {
  ++values_;
  const std::string name = path + "/" + kind;
  const int64_t count = used_[name]++;
  return count == 0 ? name : name + "_" + std::to_string(count);
}

std::string TorchGraph::anonymous(const std::string& kind) {
  return "onnx::" + kind + "_" + std::to_string(++values_);
}

Value TorchGraph::weight(std::string name, std::vector<int64_t> dims, const Spread& spread,
                         const std::string& transpose_of) {
  onnx::SeededWeight weight;
  weight.name = std::move(name);
  weight.dims = std::move(dims);
  weight.mean = spread.mean;
  weight.deviation = spread.deviation;
  weight.transpose_of = transpose_of;
  if (spread.outliers) {
    weight.outliers = outlier_channels_;
    weight.outlier_factor = outlier_factor_;
  }
  const Value value = weight.name;
  writer_.add_weight(std::move(weight));
  return value;
}

Value Scope::op(const std::string& kind, std::vector<Value> inputs,
                std::vector<NodeAttribute> attributes, const Value& output) const {
  const std::string name = graph_->unique(path_, kind);
  const Value result = output.empty() ? name + "_output_0" : output;
  graph_->writer().add_node({name, kind, std::move(inputs), {result}, std::move(attributes)});
  return result;
}

std::vector<Value> Scope::split(const Value& x, const std::vector<int64_t>& sizes,
                                int64_t axis) const {
  const Value lengths = integers(sizes);
  const std::string name = graph_->unique(path_, "Split");
  std::vector<Value> results;
  for (size_t i = 0; i < sizes.size(); ++i)
    results.push_back(name + "_output_" + std::to_string(i));
  graph_->writer().add_node({name, "Split", {x, lengths}, results, {{"axis", axis}}});
  return results;
}

Value Scope::constant(SmallArray array) const {
  return op("Constant", {}, {{"value", std::move(array)}});
}
Value Scope::integer(int64_t value) const { return constant({DType::kI64, {}, {value}, {}}); }
Value Scope::integers(const std::vector<int64_t>& values) const {
  return constant({DType::kI64, {static_cast<int64_t>(values.size())}, values, {}});
}
Value Scope::number(float value) const { return constant({DType::kF32, {}, {}, {value}}); }

Value Scope::parameter(const std::string& name, std::vector<int64_t> dims,
                       const Spread& spread) const {
  std::string full = path_.empty() ? name : path_.substr(1) + "." + name;
  std::replace(full.begin(), full.end(), '/', '.');
  return graph_->weight(std::move(full), std::move(dims), spread);
}

Value Scope::size(const Value& x, int64_t axis) const {
  const Value sizes = op("Shape", {x});
  return op("Gather", {sizes, integer(axis)}, {{"axis", int64_t{0}}});
}

Value Scope::shape(const std::vector<std::variant<int64_t, Value>>& sizes) const {
  std::vector<Value> parts;
  for (const auto& size : sizes) {
    const auto* number = std::get_if<int64_t>(&size);
    parts.push_back(number ? integers({*number}) : unsqueeze(std::get<Value>(size), {0}));
  }
  return op("Concat", std::move(parts), {{"axis", int64_t{0}}});
}

Value Scope::expand(const Value& x, const std::vector<std::variant<int64_t, Value>>& sizes) const {
  const Value wanted = op("Reshape", {shape(sizes), integers({-1})}, {{"allowzero", int64_t{0}}});
  const Value ones = op("ConstantOfShape", {op("Shape", {wanted})},
                        {{"value", SmallArray{DType::kI64, {1}, {1}, {}}}});
  const Value stays = op("Equal", {wanted, op("Mul", {ones, integer(-1)})});
  return op("Expand", {x, op("Where", {stays, ones, wanted})});
}

Value Scope::unsqueeze(Value x, const std::vector<int64_t>& axes) const {
  for (int64_t axis : axes) {
    const Value where = integers({axis});
    x = op("Unsqueeze", {x, where});
  }
  return x;
}

Value Scope::range(const Value& length) const {
  const Value end = op("Cast", {length}, {{"to", kToInt64}});
  const Value start = integer(0), step = integer(1);
  return op("Range", {start, end, step});
}

}  // namespace vernier::make_model
