// Graphs as standard ONNX: see graph_model.h.
#include "onnx/graph_model.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "core/attrs.h"
#include "core/convert.h"
#include "core/error.h"
#include "core/limits.h"
#include "onnx/element_types.h"
#include "onnx/graph_nodes.h"
#include "onnx/moved_weights.h"
#include "onnx/plain_nodes.h"
#include "vernier/version.h"

namespace vernier::onnx {
namespace {

namespace fs = std::filesystem;
using ir::Graph;
using ir::Node;
using ir::NodeId;
using ir::Value;
using ir::ValueId;
using enum OpKind;

constexpr int64_t kIrVersion = 10;  // of opset 21 (ONNX 1.16)

void describe(proto::ValueInfoProto& info, const std::string& name, const Value& value) {
  info.set_name(name);
  auto* type = info.mutable_type()->mutable_tensor_type();
  type->set_elem_type(static_cast<int32_t>(element_type_number(value.dtype)));
  type->mutable_shape();
  for (const Dim& dim : value.shape) {
    auto* size = type->mutable_shape()->add_dim();
    if (const auto constant = dim.as_constant())
      size->set_dim_value(*constant);
    else
      size->set_dim_param(dim.str());
  }
}

class GraphModel {
 public:
  GraphModel(const Graph& graph, proto::GraphProto& made)
      : graph_(graph), made_(made), nodes_(made), names_(graph.num_values()) {}

  void write() {
    made_.set_name(graph_.name);
    name_values();
    for (const NodeId id : graph_.order()) write(graph_.node(id));
    for (size_t i = 0; i < graph_.outputs.size(); ++i) {
      const std::string &name = graph_.output_names[i], &value = of(graph_.outputs[i]);
      nodes_.name_nodes("output " + name);
      if (value != name) nodes_.add("Identity", {value}, {name});
      describe(*made_.add_output(), name, graph_.value(graph_.outputs[i]));
    }
  }

 private:
  // ---- values

  // Inputs and outputs have the names of the model; the first output of a value is its name.
  void name_values() {
    for (const ValueId in : graph_.inputs) {
      const Value& value = graph_.value(in);
      names_[in] = value.name;
      nodes_.take(value.name);
      describe(*made_.add_input(), value.name, value);
      for (size_t axis = 0; axis < value.shape.size(); ++axis) {
        if (const auto symbol = value.shape[axis].as_symbol())
          nodes_.size_is_at(*symbol, value.name, static_cast<int64_t>(axis));
      }
    }
    for (const std::string& name : graph_.output_names) nodes_.take(name);
    for (size_t i = 0; i < graph_.outputs.size(); ++i) {
      std::string& name = names_[graph_.outputs[i]];
      if (name.empty() && graph_.producer(graph_.outputs[i]) != nullptr)
        name = graph_.output_names[i];
    }
  }
  const std::string& of(ValueId id) {
    std::string& name = names_[id];
    if (!name.empty()) return name;
    const Value& value = graph_.value(id);
    name = nodes_.fresh(value.name.empty() ? "value_" + std::to_string(id) : value.name);
    if (value.is_constant()) {
      const bool stored_otherwise = is_float(value.dtype) && value.constant.dtype() != value.dtype;
      nodes_.add_constant(
          name, stored_otherwise ? converted(value.constant, value.dtype) : value.constant);
    }
    return name;
  }
  std::string operand(const Node& node, size_t i) {
    return node.has_input(i) ? of(node.inputs[i]) : std::string();
  }
  const Value& value(const Node& node, size_t i) const { return graph_.value(node.inputs[i]); }
  DType type(const Node& node) const { return graph_.value(node.outputs[0]).dtype; }
  // In another float type, which ONNX's operators want of all their operands.
  std::string operand_as(const Node& node, size_t i, DType wanted) {
    if (!node.has_input(i)) return "";
    const std::string name = of(node.inputs[i]);
    return value(node, i).dtype == wanted ? name : cast(name, wanted);
  }
  std::string cast(const std::string& name, DType to) {
    return nodes_.make("Cast", {name}, {{"to", static_cast<int64_t>(element_type_number(to))}});
  }
  std::string transposed(const std::string& name, const std::vector<int64_t>& perm) {
    return nodes_.make("Transpose", {name}, {{"perm", perm}});
  }

  // ---- nodes

  void write(const Node& node) {
    const bool is_read = std::ranges::any_of(node.outputs, [this](ValueId out) {
      return out != ir::kNoValue && (!graph_.value(out).users.empty() || graph_.is_output(out));
    });
    if (!is_read) return;
    nodes_.name_nodes(node.name);
    switch (node.op) {
      case kLinear:
        return write_linear(node);
      case kLayerNorm:
        return write_layer_norm(node);
      case kRMSNorm:
        return write_rms_norm(node);
      case kL2Norm:
        return write_l2_norm(node);
      case kMaskedMean:
        return write_masked_mean(node);
      case kAttention:
        return write_attention(node);
      default:
        break;
    }
    std::vector<std::string> inputs, outputs;
    for (size_t i = 0; i < node.inputs.size(); ++i) inputs.push_back(operand(node, i));
    for (const ValueId out : node.outputs)
      outputs.push_back(out == ir::kNoValue ? std::string() : of(out));
    if (write_plain_node(graph_, node, inputs, outputs, nodes_)) return;
    throw Error(ErrorCode::kInput, "node '" + node.name + "' (" + std::string(name(node.op)) +
                                       ") has no form in standard ONNX that is written; leave out "
                                       "--export-onnx, or cut the model before it with 'vernier "
                                       "extract'");
  }

  // `made`, which the last node makes, is output 0 of `node`.
  void finish(const Node& node) { nodes_.rename_last(of(node.outputs[0])); }

  void write_linear(const Node& node) {
    const auto attrs = node.attrs_as<LinearAttrs>();
    const DType t = type(node);
    const std::string w = operand_as(node, 1, t);
    std::string y =
        nodes_.make("MatMul", {operand_as(node, 0, t), attrs.trans_w ? transposed(w, {1, 0}) : w});
    if (node.has_input(2)) y = nodes_.make("Add", {y, operand_as(node, 2, t)});
    switch (attrs.activation) {
      case Activation::kNone:
        break;
      case Activation::kGeluErf:
      case Activation::kGeluTanh: {
        const bool tanh = attrs.activation == Activation::kGeluTanh;
        y = nodes_.make("Gelu", {y}, {{"approximate", std::string(tanh ? "tanh" : "none")}});
        break;
      }
      case Activation::kRelu:
        y = nodes_.make("Relu", {y});
        break;
      case Activation::kTanh:
        y = nodes_.make("Tanh", {y});
        break;
    }
    if (node.has_input(3)) y = nodes_.make("Add", {y, operand_as(node, 3, t)});
    finish(node);
  }

  void write_layer_norm(const Node& node) {
    const auto attrs = node.attrs_as<NormAttrs>();
    const DType t = type(node);
    std::vector<std::string> outputs;
    for (size_t i = 0; i < node.outputs.size(); ++i)
      outputs.push_back(node.has_output(i) ? of(node.outputs[i]) : std::string());
    nodes_.add("LayerNormalization",
               {operand_as(node, 0, t), operand_as(node, 1, t), operand_as(node, 2, t)}, outputs,
               {{"axis", attrs.axis}, {"epsilon", attrs.epsilon}});
  }

  // Axes [axis, rank) of an operand.
  std::vector<int64_t> last_axes(const Node& node, int64_t axis) const {
    const auto rank = static_cast<int64_t>(value(node, 0).shape.size());
    std::vector<int64_t> axes(static_cast<size_t>(axis < 0 ? -axis : rank - axis));
    std::iota(axes.begin(), axes.end(), -std::ssize(axes));
    return axes;
  }

  void write_rms_norm(const Node& node) {
    const auto attrs = node.attrs_as<NormAttrs>();
    const DType t = type(node);
    const std::string x = operand_as(node, 0, t);
    const std::string mean = nodes_.make(
        "ReduceMean", {nodes_.make("Mul", {x, x}), nodes_.integers(last_axes(node, attrs.axis))});
    const std::string rms =
        nodes_.make("Sqrt", {nodes_.make("Add", {mean, nodes_.number(t, attrs.epsilon)})});
    nodes_.make("Mul", {nodes_.make("Div", {x, rms}), operand_as(node, 1, t)});
    finish(node);
  }

  void write_l2_norm(const Node& node) {
    const DType t = type(node);
    const std::string x = operand_as(node, 0, t);
    const std::string length = nodes_.make("ReduceL2", {x, nodes_.integers({-1})});
    const double minimum = node.attrs_as<L2NormAttrs>().minimum;
    nodes_.make("Div", {x, nodes_.make("Max", {length, nodes_.number(t, minimum)})});
    finish(node);
  }

  void write_masked_mean(const Node& node) {
    const DType t = type(node);
    const std::string m = operand_as(node, 1, t);
    const std::string all = nodes_.make(
        "Mul", {operand_as(node, 0, t), nodes_.make("Unsqueeze", {m, nodes_.integers({-1})})});
    const MadeAttributes drops{{"keepdims", int64_t{0}}};
    const std::string sum = nodes_.make("ReduceSum", {all, nodes_.integers({1})}, drops);
    const std::string count = nodes_.make("ReduceSum", {m, nodes_.integers({1})});
    const double minimum = node.attrs_as<MaskedMeanAttrs>().minimum;
    nodes_.make("Div", {sum, nodes_.make("Max", {count, nodes_.number(t, minimum)})});
    finish(node);
  }

  // ---- attention

  using Input = AttentionAttrs::Input;

  // x·cos + rotated(x)·sin of [B, S, H, D].
  std::string rotated(const Node& node, const std::string& x, const Dim& width, bool interleaved,
                      DType t) {
    const auto half = [&](const std::string& from, int64_t i) {
      const int64_t d = width.constant() / 2;
      return interleaved
                 ? nodes_.make("Slice", {from, nodes_.integers({i}), nodes_.integers({i + 1}),
                                         nodes_.integers({-1})})
                 : nodes_.make("Slice", {from, nodes_.integers({i * d}),
                                         nodes_.integers({(i + 1) * d}), nodes_.integers({-1})});
    };
    std::string pairs = x;
    if (interleaved) pairs = nodes_.make("Reshape", {x, nodes_.integers({0, 0, 0, -1, 2})});
    std::string turned = nodes_.make(
        "Concat", {nodes_.make("Neg", {half(pairs, 1)}), half(pairs, 0)}, {{"axis", int64_t{-1}}});
    if (interleaved) turned = nodes_.make("Reshape", {turned, nodes_.integers({0, 0, 0, -1})});
    return nodes_.make("Add", {nodes_.make("Mul", {x, operand_as(node, Input::kCosines, t)}),
                               nodes_.make("Mul", {turned, operand_as(node, Input::kSines, t)})});
  }

  // [B, Sk, Hk, D] as [B, H, …] in the order `perm`.
  std::string heads(const Node& node, const std::string& x, Input which, int64_t query_heads,
                    const std::vector<int64_t>& perm) {
    const int64_t own = value(node, which).shape[2].constant();
    const std::string first = transposed(x, perm);
    if (own == query_heads) return first;
    const std::string apart = nodes_.make("Unsqueeze", {first, nodes_.integers({2})});
    const std::string each =
        nodes_.make("Expand", {apart, nodes_.integers({1, 1, query_heads / own, 1, 1})});
    const std::vector<int64_t> shape =
        perm[2] == 3
            ? std::vector<int64_t>{0, query_heads, value(node, which).shape[3].constant(), -1}
            : std::vector<int64_t>{0, query_heads, -1, value(node, which).shape[3].constant()};
    return nodes_.make("Reshape", {each, nodes_.integers(shape)});
  }

  // [Sq, Sk], bool: key j is seen by query i.
  std::string causal_keep(const Node& node) {
    const DType i64 = DType::kI64;
    const Dim &queries = value(node, Input::kQ).shape[1], &keys = value(node, Input::kK).shape[1];
    const auto number = [&](const Dim& dim) { return nodes_.make("Squeeze", {nodes_.size(dim)}); };
    const std::string zero = nodes_.number(i64, 0), one = nodes_.number(i64, 1);
    const std::string i = nodes_.make("Range", {zero, number(queries), one});
    const std::string j = nodes_.make("Range", {zero, number(keys), one});
    const std::string last = nodes_.make(
        "Add", {nodes_.make("Unsqueeze", {i, nodes_.integers({1})}), nodes_.size(keys - queries)});
    return nodes_.make("LessOrEqual", {j, last});
  }

  // list[i − j + Sk], [Sq, Sk].
  std::string by_distance(const Node& node, Input list) {
    const DType i64 = DType::kI64;
    const Dim &queries = value(node, Input::kQ).shape[1], &keys = value(node, Input::kK).shape[1];
    const auto range = [&](const Dim& end) {
      return nodes_.make("Range",
                         {nodes_.number(i64, 0), nodes_.make("Squeeze", {nodes_.size(end)}),
                          nodes_.number(i64, 1)});
    };
    const std::string i = nodes_.make("Unsqueeze", {range(queries), nodes_.integers({1})});
    const std::string distance = nodes_.make("Sub", {i, range(keys)});
    const std::string at = nodes_.make("Add", {distance, nodes_.size(keys)});
    return nodes_.make("Gather", {operand(node, list), at});
  }

  // Products [B, H, Sq, Sk] with what relative positions add to them.
  std::string with_positions(const Node& node, const std::string& products, DType t) {
    const auto gathered = [&](Input positions, const std::string& index, const std::string& like) {
      const std::string wide = nodes_.make("Expand", {index, nodes_.make("Shape", {like})});
      const std::string rows = transposed(operand_as(node, positions, t), {0, 2, 1, 3});
      return nodes_.make("GatherElements", {rows, wide}, {{"axis", int64_t{3}}});
    };
    std::string sum = products;
    if (node.has_input(Input::kQueryPositions)) {
      const std::string index = by_distance(node, Input::kQueryBuckets);
      sum = nodes_.make("Add", {sum, gathered(Input::kQueryPositions, index, products)});
    }
    if (node.has_input(Input::kKeyPositions)) {
      const std::string index = transposed(by_distance(node, Input::kKeyBuckets), {1, 0});
      const std::string by_key =
          gathered(Input::kKeyPositions, index, transposed(products, {0, 1, 3, 2}));
      sum = nodes_.make("Add", {sum, transposed(by_key, {0, 1, 3, 2})});
    }
    return sum;
  }

  void write_attention(const Node& node) {
    const auto attrs = node.attrs_as<AttentionAttrs>();
    const SymShape &q_shape = value(node, Input::kQ).shape, &k_shape = value(node, Input::kK).shape;
    const auto heads_of = [](const SymShape& shape) { return shape[2].as_constant(); };
    if (node.has_input(Input::kStartsQ) || !heads_of(q_shape) || !heads_of(k_shape))
      throw Error(ErrorCode::kInput, "attention '" + node.name +
                                         "' takes sequences by offsets, or a number of heads that "
                                         "depends on the inputs, which is not written");
    if (attrs.zero_hidden_rows && attrs.fill != -INFINITY)
      throw Error(ErrorCode::kInput, "attention '" + node.name +
                                         "' has hidden rows of 0 with a finite fill, which is "
                                         "not written");
    const DType t = type(node);
    const int64_t query_heads = *heads_of(q_shape);
    std::string q = operand_as(node, Input::kQ, t), k = operand_as(node, Input::kK, t);
    const std::string v = operand_as(node, Input::kV, t);
    if (node.has_input(Input::kCosines)) {
      q = rotated(node, q, q_shape[3], attrs.rotary_interleaved, t);
      k = rotated(node, k, k_shape[3], attrs.rotary_interleaved, t);
    }
    std::string scores = nodes_.make(
        "MatMul",
        {transposed(q, {0, 2, 1, 3}), heads(node, k, Input::kK, query_heads, {0, 2, 3, 1})});
    scores = with_positions(node, scores, t);
    if (attrs.scale != 1) scores = nodes_.make("Mul", {scores, nodes_.number(t, attrs.scale)});
    const std::string bias = operand_as(node, Input::kBias, t);
    if (!bias.empty()) scores = nodes_.make("Add", {scores, bias});
    std::vector<std::string> masks;
    for (const Input keep : {Input::kKeep, Input::kKeepQueries})
      if (node.has_input(keep)) masks.push_back(operand(node, keep));
    const std::vector<std::string> keeps = masks;
    if (attrs.causal) masks.push_back(causal_keep(node));
    std::string added = bias;  // what masks add to scores
    for (const std::string& keep : masks) {
      if (!attrs.masks_add) {
        scores = nodes_.make("Where", {keep, scores, nodes_.number(t, attrs.fill)});
        continue;
      }
      const std::string mask =
          nodes_.make("Where", {keep, nodes_.number(t, 0), nodes_.number(t, -INFINITY)});
      scores = nodes_.make("Add", {scores, mask});
      added = added.empty() ? mask : nodes_.make("Add", {added, mask});
    }
    std::string probabilities = nodes_.make("Softmax", {scores}, {{"axis", int64_t{-1}}});
    if (attrs.masks_add && !added.empty()) {
      // Of queries that see no key, 0.
      const std::string most = nodes_.make("ReduceMax", {added, nodes_.integers({-1})});
      const std::string none = nodes_.make("Equal", {most, nodes_.number(t, -INFINITY)});
      probabilities = nodes_.make("Where", {none, nodes_.number(t, 0), probabilities});
    }
    // Beside a key that is seen, those hidden by -inf have the probability 0.
    for (const std::string& keep : keeps) {
      if (attrs.zero_hidden_rows)
        probabilities = nodes_.make("Where", {keep, probabilities, nodes_.number(t, 0)});
    }
    if (attrs.zero_nan_rows)
      probabilities = nodes_.make(
          "Where", {nodes_.make("IsNaN", {probabilities}), nodes_.number(t, 0), probabilities});
    const std::string context = nodes_.make(
        "MatMul", {probabilities, heads(node, v, Input::kV, query_heads, {0, 2, 1, 3})});
    transposed(context, {0, 2, 1, 3});
    finish(node);
  }

  const Graph& graph_;
  proto::GraphProto& made_;
  GraphNodes nodes_;
  std::vector<std::string> names_;  // by value; empty: not named yet
};

}  // namespace

WrittenGraph write_graph_model(const Graph& graph, const fs::path& to,
                               const GraphModelOptions& options) {
  MovedWeights::check_keeps(options.model, to);
  const Watch watch(options.limits);
  uint64_t bytes = 0;
  for (size_t v = 0; v < graph.num_values(); ++v) {
    const Value& value = graph.value(static_cast<ValueId>(v));
    if (value.is_constant()) bytes += value.constant.bytes();
  }
  watch.check_memory(saturating_product(bytes, 2), "writing the ONNX model");
  proto::ModelProto model;
  model.set_ir_version(kIrVersion);
  model.set_producer_name("vernier");
  model.set_producer_version(kVersion);
  model.add_opset_import()->set_version(kWrittenOpset);
  GraphModel(graph, *model.mutable_graph()).write();
  const MovedModel moved =
      write_moved(model, options.model, {.to = to, .what = "an ONNX model", .file = "ONNX model"},
                  options.external_from, watch);
  return {.nodes = static_cast<uint64_t>(model.graph().node_size()),
          .weight_bytes = moved.weight_bytes,
          .data_file = moved.data_file};
}

}  // namespace vernier::onnx
