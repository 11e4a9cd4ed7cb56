// Int8 operands from Q/DQ models: see int8_operands.h.
#include "onnx/int8_operands.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "core/attrs.h"
#include "core/error.h"
#include "ops/infer.h"

namespace vernier::onnx {
namespace {

using Json = nlohmann::ordered_json;
using ir::Graph;
using ir::Node;
using ir::NodeId;
using ir::ValueId;

constexpr int kVersion = 1;
constexpr int kMaxDepth = 3;  // object, products, one product
constexpr float kLargestQ8 = 127;

[[noreturn]] void fail(const std::string& what) {
  throw Error(ErrorCode::kInput, std::string("the model's metadata '") + kInt8Key + "' " + what +
                                     ". Write the model again with 'vernier build --export-qdq', "
                                     "or remove the entry to have its Q/DQ operators read as such");
}

Json parsed(const std::string& text) {
  const auto watch = [](int depth, Json::parse_event_t event, Json&) {
    const bool opens =
        event == Json::parse_event_t::object_start || event == Json::parse_event_t::array_start;
    if (opens && depth >= kMaxDepth) fail("is nested too deeply, expected a list of products");
    return true;
  };
  try {
    return Json::parse(text, watch);
  } catch (const nlohmann::json::exception&) {
    fail("is not JSON");
  }
}

Int8Metadata read(const std::string& text) {
  const Json json = parsed(text);
  Int8Metadata metadata;
  try {
    if (json.at("version") != kVersion)
      fail("has version " + json.at("version").dump() + ", expected " + std::to_string(kVersion));
    metadata.policy = json.at("policy").get<std::string>();
    for (const Json& product : json.at("products"))
      metadata.products.push_back(
          {product.at("output").get<std::string>(), product.at("factors").get<bool>()});
  } catch (const nlohmann::json::exception&) {
    fail("has not what it should, expected version, policy, and products with output and factors");
  }
  return metadata;
}

// ---- operands of a graph

const Tensor* constant_of(const Graph& graph, ValueId value) {
  const ir::Value& v = graph.value(value);
  return v.is_constant() ? &v.constant : nullptr;
}
const Node* producer_of(const Graph& graph, ValueId value, OpKind op) {
  const Node* node = graph.producer(value);
  return node != nullptr && node->op == op ? node : nullptr;
}

// Numbers of a constant f32 list; empty if it is none, or if one is no positive, normal number.
std::vector<float> positive_numbers(const Graph& graph, ValueId value) {
  const Tensor* tensor = constant_of(graph, value);
  if (tensor == nullptr || tensor->dtype() != DType::kF32) return {};
  std::vector<float> numbers;
  for (int64_t i = 0; i < tensor->elems(); ++i) {
    numbers.push_back(static_cast<float>(tensor->float_at(i)));
    if (!(numbers.back() > 0) || !std::isnormal(numbers.back())) return {};
  }
  return numbers;
}

// Scale and zero point of a node with one of each.
struct OneScale {
  DType type;  // of the zero point: i8 or f8e4m3
  float scale, zero;
  friend bool operator==(const OneScale&, const OneScale&) = default;
};
std::optional<OneScale> one_scale(const Graph& graph, const Node& node) {
  const std::vector<float> scale = positive_numbers(graph, node.inputs[1]);
  const Tensor* zero = node.has_input(2) ? constant_of(graph, node.inputs[2]) : nullptr;
  if (scale.size() != 1 || zero == nullptr || zero->elems() != 1) return std::nullopt;
  if (zero->dtype() == DType::kF8E4M3 && zero->float_at(0) == 0)
    return OneScale{DType::kF8E4M3, scale[0], 0};
  if (zero->dtype() != DType::kI8) return std::nullopt;
  const auto number = static_cast<float>(zero->integer_at(0));
  if (number < -kLargestQ8) return std::nullopt;
  return OneScale{DType::kI8, scale[0], number};
}

struct OperandX {
  ValueId x;
  OneScale by;
  std::vector<float> factors;
};
std::optional<OperandX> operand_x(const Graph& graph, ValueId value, bool has_factors) {
  const Node* real = producer_of(graph, value, OpKind::kDequantizeLinear);
  if (real == nullptr) return std::nullopt;
  const Node* whole = producer_of(graph, real->inputs[0], OpKind::kQuantizeLinear);
  if (whole == nullptr) return std::nullopt;
  const auto by = one_scale(graph, *whole);
  if (!by || one_scale(graph, *real) != by || graph.value(real->inputs[0]).dtype != by->type)
    return std::nullopt;
  if (by->type == DType::kF8E4M3 && !whole->attrs_as<QuantizeAttrs>().saturate) return std::nullopt;
  if (!has_factors) return OperandX{whole->inputs[0], *by, {}};
  const Node* times = producer_of(graph, whole->inputs[0], OpKind::kMul);
  if (times == nullptr || graph.value(times->inputs[1]).shape.size() != 1) return std::nullopt;
  std::vector<float> factors = positive_numbers(graph, times->inputs[1]);
  if (factors.empty()) return std::nullopt;
  return OperandX{times->inputs[0], *by, std::move(factors)};
}

struct OperandW {
  Tensor values;  // i8 or f8e4m3
  std::vector<float> scales;
};
std::optional<OperandW> operand_w(const Graph& graph, ValueId value, DType type, size_t columns) {
  const Node* real = producer_of(graph, value, OpKind::kDequantizeLinear);
  if (real == nullptr) return std::nullopt;
  const Tensor* values = constant_of(graph, real->inputs[0]);
  if (values == nullptr || values->dtype() != type || values->rank() != 2) return std::nullopt;
  if (real->has_input(2)) {
    const Tensor* zeros = constant_of(graph, real->inputs[2]);
    if (zeros == nullptr) return std::nullopt;
    for (int64_t i = 0; i < zeros->elems(); ++i) {
      const bool is_zero =
          is_float(zeros->dtype()) ? zeros->float_at(i) == 0 : zeros->integer_at(i) == 0;
      if (!is_zero) return std::nullopt;
    }
  }
  const auto attrs = real->attrs_as<QuantizeAttrs>();
  const int64_t axis = attrs.axis < 0 ? attrs.axis + 2 : attrs.axis;
  std::vector<float> scales = positive_numbers(graph, real->inputs[1]);
  if (attrs.block_size != 0 || axis != static_cast<int64_t>(columns) ||
      std::ssize(scales) != values->shape()[columns])
    return std::nullopt;
  return OperandW{*values, std::move(scales)};
}

bool same_type(const Graph& graph, ValueId a, ValueId b) {
  const ir::Value &left = graph.value(a), &right = graph.value(b);
  return left.dtype == right.dtype && left.shape == right.shape;
}

bool all_finite(const Tensor& f32) {
  const std::span numbers(reinterpret_cast<const float*>(f32.data()),
                          static_cast<size_t>(f32.elems()));
  return std::ranges::all_of(numbers, [](float v) { return std::isfinite(v); });
}

// values · scale of the column · factor of the row; the factors are powers of two, or 1.
Tensor real_weight(const OperandW& w, const std::vector<float>& factors, size_t columns) {
  const int64_t width = w.values.shape()[1];
  return Tensor::filled(DType::kF32, w.values.shape(), [&](std::byte* bytes) {
    auto* real = reinterpret_cast<float*>(bytes);
    const bool is_f8 = w.values.dtype() == DType::kF8E4M3;
    const auto* whole = reinterpret_cast<const int8_t*>(w.values.data());
    for (int64_t i = 0; i < w.values.elems(); ++i) {
      const auto row = static_cast<size_t>(i / width), col = static_cast<size_t>(i % width);
      const auto number = static_cast<float>(is_f8 ? w.values.float_at(i) : whole[i]);
      real[i] = number * w.scales[columns == 1 ? col : row];
      if (!factors.empty()) real[i] *= factors[columns == 1 ? row : col];
    }
  });
}

class Taker {
 public:
  explicit Taker(Graph& graph) : graph_(graph) {
    for (NodeId id : graph.order()) {
      const Node& node = graph.node(id);
      if (node.op == OpKind::kMatMul || node.op == OpKind::kGemm)
        products_.emplace(graph.value(node.outputs[0]).name, id);
    }
  }

  bool take(const Int8Metadata::Product& product) {
    const auto found = products_.find(product.output);
    if (found == products_.end()) return false;
    const NodeId id = found->second;
    const Node& node = graph_.node(id);
    if (node.origins.size() != 1 || graph_.int8_operands.contains(node.origins[0].key))
      return false;
    const bool trans_w = node.op == OpKind::kGemm && node.attrs_as<GemmAttrs>().trans_b;
    const size_t columns = trans_w ? 0 : 1;
    auto x = operand_x(graph_, node.inputs[0], product.factors);
    if (!x) return false;
    const auto w = operand_w(graph_, node.inputs[1], x->by.type, columns);
    if (!w) return false;
    if (!same_type(graph_, x->x, node.inputs[0])) return false;
    if (!x->factors.empty() && std::ssize(x->factors) != w->values.shape()[1 - columns])
      return false;
    Tensor weight = real_weight(*w, x->factors, columns);
    if (graph_.value(node.inputs[1]).dtype != DType::kF32 || !all_finite(weight)) return false;
    const ValueId real = graph_.add_constant(std::move(weight));
    graph_.int8_operands.emplace(node.origins[0].key,
                                 ir::Int8Operands{.type = x->by.type,
                                                  .x_scale = x->by.scale,
                                                  .x_zero = x->by.zero,
                                                  .factors = std::move(x->factors),
                                                  .w_scales = w->scales});
    replaced_.insert(replaced_.end(), {node.inputs[0], node.inputs[1]});
    weights_.push_back({real, node.inputs[1], graph_.value(node.inputs[1]).name});
    graph_.set_input(id, 0, x->x);
    graph_.set_input(id, 1, real);
    return true;
  }

  // Nodes that only made operands: DequantizeLinear, QuantizeLinear and Mul above each other.
  void remove_makers() {
    for (ValueId value : replaced_) {
      while (graph_.value(value).users.empty() && !graph_.is_output(value)) {
        const NodeId id = graph_.value(value).producer;
        if (id == ir::kNoNode || graph_.node(id).removed) break;
        const Node& node = graph_.node(id);
        graph_.retire(node.origins, LedgerState::kRemoved,
                      "makes an operand of a quantized product");
        graph_.value(value).name.clear();
        value = node.inputs[0];
        graph_.remove_node(id);
      }
    }
    // By its name verify finds a constant in the model again.
    for (const Weight& weight : weights_) {
      if (!graph_.value(weight.before).name.empty()) continue;  // somebody else reads it, too
      graph_.value(weight.real).name = weight.name;
    }
  }

 private:
  Graph& graph_;
  std::map<std::string, NodeId> products_;  // by the name of their result
  std::vector<ValueId> replaced_;
  struct Weight {
    ValueId real, before;
    std::string name;  // of the result of DequantizeLinear
  };
  std::vector<Weight> weights_;
};

}  // namespace

void add_int8_metadata(proto::ModelProto& model, const Int8Metadata& metadata) {
  Json json{{"version", kVersion}, {"policy", metadata.policy}, {"products", Json::array()}};
  for (const Int8Metadata::Product& product : metadata.products)
    json["products"].push_back({{"output", product.output}, {"factors", product.factors}});
  proto::StringStringEntryProto entry;
  entry.set_key(kInt8Key);
  try {
    entry.set_value(json.dump());
  } catch (const nlohmann::json::exception&) {
    throw Error(ErrorCode::kInput, "a product of the model has a name that is not UTF-8");
  }
  model.add_metadata_props(entry.SerializeAsString());
}

std::optional<Int8Metadata> find_int8_metadata(const proto::ModelProto& model) {
  for (const std::string& bytes : model.metadata_props()) {
    proto::StringStringEntryProto entry;
    if (entry.ParseFromString(bytes) && entry.key() == kInt8Key) return read(entry.value());
  }
  return std::nullopt;
}

int take_int8_operands(Graph& graph, const Int8Metadata& metadata) {
  Taker taker(graph);
  int taken = 0;
  for (const Int8Metadata::Product& product : metadata.products) taken += taker.take(product);
  taker.remove_makers();
  return taken;
}

}  // namespace vernier::onnx
