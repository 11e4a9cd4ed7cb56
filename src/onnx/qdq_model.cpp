// Q/DQ models: see qdq_model.h.
#include "onnx/qdq_model.h"

#include <algorithm>
#include <map>
#include <set>

#include "core/error.h"
#include "core/limits.h"
#include "core/mapped_file.h"
#include "onnx/element_types.h"
#include "onnx/int8_operands.h"
#include "onnx/model_file.h"
#include "onnx/moved_weights.h"
#include "onnx/node_order.h"
#include "onnx/unsupported.h"

namespace vernier::onnx {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kInitializersOnly = 4;  // IR version: initializers need not be inputs

[[noreturn]] void fail(const std::string& what) { throw Error(ErrorCode::kInput, what); }

// ---- names

// Calls use(name) for all names that a node reads, those of its sub-graphs included.
template <class Use>
void for_each_read(const proto::NodeProto& node, const Use& use) {
  for (const std::string& name : node.input()) use(name);
  const auto read_graph = [&](const proto::GraphProto& graph) {
    for (const auto& inner : graph.node()) for_each_read(inner, use);
    for (const auto& output : graph.output()) use(output.name());
  };
  for (const auto& attribute : node.attribute()) {
    if (attribute.has_g()) read_graph(attribute.g());
    for (const auto& graph : attribute.graphs()) read_graph(graph);
  }
}

// Calls use(name) for all names that a graph defines, those of its sub-graphs included.
template <class Use>
void for_each_defined(const proto::GraphProto& graph, const Use& use) {
  for (const auto& tensor : graph.initializer()) use(tensor.name());
  for (const auto& input : graph.input()) use(input.name());
  for (const auto& node : graph.node()) {
    for (const std::string& name : node.output()) use(name);
    for (const auto& attribute : node.attribute()) {
      if (attribute.has_g()) for_each_defined(attribute.g(), use);
      for (const auto& inner : attribute.graphs()) for_each_defined(inner, use);
    }
  }
}

// Names that nobody has.
class FreshNames {
 public:
  void take(const std::string& name) { taken_.insert(name); }
  std::string make(const std::string& wanted) {
    std::string name = wanted;
    for (int k = 1; !taken_.insert(name).second; ++k) name = wanted + "_" + std::to_string(k);
    return name;
  }

 private:
  std::set<std::string> taken_;
};

// ---- tensors

proto::TensorProto head_of(const std::string& name, DType dtype, const Shape& shape) {
  proto::TensorProto tensor;
  tensor.set_name(name);
  tensor.set_data_type(static_cast<int32_t>(element_type_number(dtype)));
  tensor.mutable_dims()->Assign(shape.begin(), shape.end());
  return tensor;
}

proto::TensorProto floats(const std::string& name, const Shape& shape,
                          std::span<const float> values) {
  proto::TensorProto tensor = head_of(name, DType::kF32, shape);
  tensor.set_raw_data(values.data(), values.size_bytes());
  return tensor;
}

// The same bytes with rows and columns exchanged.
std::string transposed(const Tensor& matrix) {
  const auto rows = static_cast<size_t>(matrix.shape()[0]),
             cols = static_cast<size_t>(matrix.shape()[1]);
  const auto* from = reinterpret_cast<const char*>(matrix.data());
  std::string to(rows * cols, '\0');
  for (size_t r = 0; r < rows; ++r)
    for (size_t c = 0; c < cols; ++c) to[c * rows + r] = from[r * cols + c];
  return to;
}

bool is_trans_b(const proto::NodeProto& gemm) {
  return std::ranges::any_of(gemm.attribute(), [](const proto::AttributeProto& attribute) {
    return attribute.name() == "transB" && attribute.i() != 0;
  });
}

// ---- the graph

class Quantizer {
 public:
  explicit Quantizer(proto::GraphProto& graph) : graph_(graph) {
    for_each_defined(graph, [this](const std::string& name) { values_.take(name); });
    for (const auto& node : graph.node()) nodes_.take(node.name());
  }

  std::vector<Int8Metadata::Product> run(const std::vector<QdqProduct>& products) {
    std::map<size_t, const QdqProduct*> by_node;
    for (const QdqProduct& product : products) by_node[product.node] = &product;
    name_nodes();
    const std::vector<int> order = node_order(graph_.node());
    std::vector<Int8Metadata::Product> written;
    for (const int i : order) {
      proto::NodeProto node = std::move(*graph_.mutable_node(i));
      if (const auto found = by_node.find(static_cast<size_t>(i)); found != by_node.end()) {
        quantize(node, *found->second);
        written.push_back({node.output(0), !found->second->factors.empty()});
      }
      made_.push_back(std::move(node));
    }
    drop_unread();
    graph_.clear_node();
    for (proto::NodeProto& node : made_) *graph_.add_node() = std::move(node);
    return written;
  }

 private:
  // Rules of the policy find nodes by these names, which depend on the nodes around them.
  void name_nodes() {
    NodeNames names;
    for (int i = 0; i < graph_.node_size(); ++i) {
      proto::NodeProto& node = *graph_.mutable_node(i);
      const std::string name = names.origin(node, i, "").name;
      if (node.name().empty() && nodes_.make(name) == name) node.set_name(name);
    }
  }

  void quantize(proto::NodeProto& node, const QdqProduct& product) {
    const bool gemm = node.op_type() == "Gemm";
    if (!canonical_domain(node.domain()).empty() || (!gemm && node.op_type() != "MatMul"))
      fail("product " + quote(product.name) + " is a " + node.op_type() +
           ", expected a MatMul or a Gemm");
    replaced_.insert(node.input(1));
    const std::string x = real_x(node.input(0), product),
                      w = real_w(node.input(1), product, gemm && is_trans_b(node));
    node.set_input(0, x);
    node.set_input(1, w);
  }

  const std::string& real_x(const std::string& x, const QdqProduct& product) {
    const auto [at, fresh] =
        xs_.try_emplace({x, product.type, product.x_scale, product.x_zero, product.factors});
    if (!fresh) return at->second;
    std::string from = x;
    if (!product.factors.empty()) {
      const std::string factors = values_.make(x + "_factors");
      *graph_.add_initializer() = floats(factors, {std::ssize(product.factors)}, product.factors);
      from = add_node("Mul", {x, factors}, x + "_times_factors");
    }
    const std::string scale = values_.make(x + "_scale"), zero = values_.make(x + "_zero_point");
    *graph_.add_initializer() = floats(scale, {}, std::span(&product.x_scale, 1));
    proto::TensorProto& byte = *graph_.add_initializer() = head_of(zero, product.type, {});
    byte.set_raw_data(std::string(1, static_cast<char>(product.x_zero)));
    const std::string whole = add_node("QuantizeLinear", {from, scale, zero}, x + "_quantized");
    return at->second = add_node("DequantizeLinear", {whole, scale, zero}, x + "_dequantized");
  }

  // w as the node takes it: [N, K] with `rows_are_columns`, else [K, N].
  std::string real_w(const std::string& w, const QdqProduct& product, bool rows_are_columns) {
    const std::string whole = values_.make(w + "_quantized"), scale = values_.make(w + "_scale"),
                      zero = values_.make(w + "_zero_point");
    const bool turns = rows_are_columns != product.trans_w;
    Shape shape = product.w.shape();
    if (turns) std::swap(shape[0], shape[1]);
    const int64_t axis = rows_are_columns ? 0 : 1, columns = shape[axis];
    proto::TensorProto& bytes = *graph_.add_initializer() = head_of(whole, product.type, shape);
    if (turns)
      bytes.set_raw_data(transposed(product.w));
    else
      bytes.set_raw_data(product.w.data(), product.w.bytes());
    proto::TensorProto& scales = *graph_.add_initializer() = head_of(scale, DType::kF32, {columns});
    scales.set_raw_data(product.w_scales.data(), product.w_scales.bytes());
    proto::TensorProto& zeros = *graph_.add_initializer() = head_of(zero, product.type, {columns});
    zeros.set_raw_data(std::string(static_cast<size_t>(columns), '\0'));
    std::string real = add_node("DequantizeLinear", {whole, scale, zero}, w + "_dequantized");
    proto::AttributeProto& attribute = *made_.back().add_attribute();
    attribute.set_name("axis");
    attribute.set_type(proto::AttributeProto::INT);
    attribute.set_i(axis);
    return real;
  }

  std::string add_node(const char* op, const std::vector<std::string>& inputs,
                       const std::string& output) {
    proto::NodeProto& node = made_.emplace_back();
    node.set_op_type(op);
    for (const std::string& input : inputs) node.add_input(input);
    node.add_output(values_.make(output));
    node.set_name(nodes_.make(node.output(0)));
    return node.output(0);
  }

  // Weights that were replaced, and what only made them.
  void drop_unread() {
    std::map<std::string, int> reads;
    const auto count = [&reads](const std::string& name) { ++reads[name]; };
    for (const auto& node : made_) for_each_read(node, count);
    for (const auto& output : graph_.output()) count(output.name());
    std::map<std::string, size_t> producer;
    for (size_t i = 0; i < made_.size(); ++i)
      for (const std::string& name : made_[i].output()) producer[name] = i;
    std::set<std::string> dropped;
    std::set<size_t> dead;
    std::vector<std::string> open(replaced_.begin(), replaced_.end());
    while (!open.empty()) {
      const std::string name = open.back();
      open.pop_back();
      if (reads[name] > 0 || !dropped.insert(name).second) continue;
      const auto found = producer.find(name);
      if (found == producer.end()) continue;
      const proto::NodeProto& node = made_[found->second];
      const auto is_read = [&](const std::string& output) { return reads[output] > 0; };
      if (std::ranges::any_of(node.output(), is_read) || !dead.insert(found->second).second)
        continue;
      for_each_read(node, [&](const std::string& input) {
        if (--reads[input] == 0) open.push_back(input);
      });
    }
    size_t at = 0;
    std::erase_if(made_, [&](const auto&) { return dead.contains(at++); });
    drop(*graph_.mutable_initializer(), dropped);
    drop(*graph_.mutable_input(), dropped);  // defaults of the same names
    drop_types(dropped);
  }
  template <class List>
  static void drop(List& list, const std::set<std::string>& names) {
    list.erase(std::remove_if(list.begin(), list.end(),
                              [&](const auto& each) { return names.contains(each.name()); }),
               list.end());
  }
  void drop_types(const std::set<std::string>& names) {
    const google::protobuf::RepeatedPtrField<std::string> all = graph_.value_info();
    graph_.clear_value_info();
    for (const std::string& bytes : all) {
      proto::ValueInfoProto info;
      if (!info.ParseFromString(bytes) || !names.contains(info.name()))
        graph_.add_value_info(bytes);
    }
  }

  proto::GraphProto& graph_;
  FreshNames values_, nodes_;
  std::vector<proto::NodeProto> made_;
  std::set<std::string> replaced_;
  std::map<std::tuple<std::string, DType, float, int, std::vector<float>>, std::string> xs_;
};

void check_opset(const proto::ModelProto& model, DType type) {
  const Opsets opsets = read_opsets(model.opset_import(), "the model");
  const auto opset = opsets.find("");
  if (opset != opsets.end() && opset->second >= oldest_qdq_opset(type)) return;
  fail(opset_message(opset == opsets.end() ? 0 : opset->second, type));
}

}  // namespace

int64_t oldest_qdq_opset(DType type) { return type == DType::kF8E4M3 ? 19 : 13; }

std::string opset_message(int64_t opset, DType type) {
  const bool is_f8 = type == DType::kF8E4M3;
  return "the model has opset " + std::to_string(opset) + ", and DequantizeLinear takes " +
         (is_f8 ? "f8e4m3" : "one scale for each column") + " from opset " +
         std::to_string(oldest_qdq_opset(type)) +
         " on. Export the model with a newer opset, or convert it with "
         "onnx.version_converter.convert_version(model, " +
         (is_f8 ? "19)" : "17)");
}

void write_qdq_model(const fs::path& path, const fs::path& to,
                     const std::vector<QdqProduct>& products, const QdqOptions& options) {
  VERNIER_ASSERT(!products.empty());
  MovedWeights::check_keeps(path, to);
  const auto file = MappedFile::open(path);
  const Watch watch(options.limits);
  watch.check_memory(saturating_product(file->bytes().size(), 2), "writing the Q/DQ model");
  proto::ModelProto model = parse_model(file->bytes());
  const bool any_f8 =
      std::ranges::find(products, DType::kF8E4M3, &QdqProduct::type) != products.end();
  check_opset(model, any_f8 ? DType::kF8E4M3 : DType::kI8);
  Int8Metadata metadata{.policy = options.policy,
                        .products = Quantizer(*model.mutable_graph()).run(products)};
  add_int8_metadata(model, metadata);
  model.set_ir_version(std::max(model.ir_version(), kInitializersOnly));
  write_moved(model, path, {.to = to, .what = "a Q/DQ model", .file = "Q/DQ model"},
              options.external_from, watch);
}

}  // namespace vernier::onnx
