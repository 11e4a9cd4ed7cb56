// Requests by mode, and the combined request of a composite: see requests.h.
#include "precision/requests.h"

#include <algorithm>

#include "analysis/layers.h"
#include "precision/onnx_nodes.h"

namespace vernier::precision {
namespace {

struct ModeRow {
  std::string_view name;
  Mode mode;
  DType operand, store;  // of products; of results. kUndefined: the device's type of 16 bits
  DType quantized = DType::kUndefined;  // of products that the mode quantizes
};
constexpr ModeRow kModes[] = {{"model", Mode::kModel, DType::kF32, DType::kF32},
                              {"fp32", Mode::kFp32, DType::kF32, DType::kF32},
                              {"tf32", Mode::kTf32, DType::kTF32, DType::kF32},
                              {"fp16", Mode::kFp16, DType::kF16, DType::kF16},
                              {"bf16", Mode::kBf16, DType::kBF16, DType::kBF16},
                              {"int8", Mode::kInt8, DType::kF16, DType::kF16, DType::kQ8},
                              {"fp8", Mode::kFp8, DType::kF16, DType::kF16, DType::kF8E4M3},
                              {"w8", Mode::kW8, DType::kUndefined, DType::kUndefined, DType::kW8},
                              {"w4", Mode::kW4, DType::kUndefined, DType::kUndefined, DType::kW4}};

const ModeRow& row_of(Mode mode) {
  return *std::find_if(std::begin(kModes), std::end(kModes),
                       [mode](const ModeRow& row) { return row.mode == mode; });
}

// The widest float type among values; kUndefined if none is a float.
DType widest_float(const ir::Graph& graph, const std::vector<ir::ValueId>& values) {
  DType widest = DType::kUndefined;
  for (ir::ValueId id : values) {
    if (id == ir::kNoValue || !is_float(graph.value(id).dtype)) continue;
    if (widest == DType::kUndefined || represents(graph.value(id).dtype, widest)) {
      widest = graph.value(id).dtype;
    }
  }
  return widest;
}

bool has(const ir::Node& node, uint32_t flag) { return (flags(node.op) & flag) != 0; }

// Attention's fourth and fifth inputs: an added bias, and which keys to keep.
constexpr size_t kFirstMask = 3, kLastMask = 4;

// The nodes whose results are read only where `wanted(graph, nodes, value)` says so. It is asked
// from the last node to the first, so that it can look up a value's users in `nodes`.
using NodeIds = std::set<ir::NodeId>;
template <class Wanted>
NodeIds nodes_of(const ir::Graph& graph, const Wanted& wanted) {
  NodeIds nodes;
  const auto& order = graph.order();
  for (auto it = order.rbegin(); it != order.rend(); ++it) {
    const auto inside = [&](ir::ValueId v) { return v == ir::kNoValue || wanted(graph, nodes, v); };
    if (std::ranges::all_of(graph.node(*it).outputs, inside)) nodes.insert(*it);
  }
  return nodes;
}

// Does `attention` read v as a mask, and as nothing else?
bool is_mask_of(const ir::Node& attention, ir::ValueId v) {
  for (size_t i = 0; i < attention.inputs.size(); ++i) {
    if (attention.inputs[i] == v && (i < kFirstMask || i > kLastMask)) return false;
  }
  return true;
}

// Sums of products of integers as floats: MatMulInteger and ConvInteger with the Cast behind them.
bool is_cast_of_sums(const ir::Graph& graph, ir::ValueId v) {
  const auto integers = [&](ir::ValueId value) {
    const ir::Node* node = graph.producer(value);
    return node != nullptr && node->op == OpKind::kCast ? node->inputs[0] : ir::kNoValue;
  };
  const ir::ValueId sums = integers(v);
  if (sums == ir::kNoValue || graph.value(sums).dtype != DType::kI32) return false;
  const ir::ValueId exact = integers(sums);  // of a Conv, in f64
  const ir::Node* product = graph.producer(exact == ir::kNoValue ? sums : exact);
  return product != nullptr && has(*product, kProduct);
}

// Does `node` read v as the scale of quantized numbers, or of such sums?
bool reads_as_scale(const ir::Graph& graph, const ir::Node& node, ir::ValueId v) {
  if (node.op == OpKind::kDequantizeLinear) return node.inputs[1] == v && node.inputs[0] != v;
  return node.op == OpKind::kMul && std::ranges::any_of(node.inputs, [&](ir::ValueId other) {
           return other != v && is_cast_of_sums(graph, other);
         });
}

// Values from which only masks, decisions, integers and scales of integers are computed: 16 bits
// would save nothing there, -3.4e38 would become infinite, and products of integers take their
// scales in f32. An output that no node reads is stored in the type that
// the model declares.
bool is_read_exactly(const ir::Graph& graph, const NodeIds& exact, ir::ValueId v) {
  const auto& users = graph.value(v).users;
  if (graph.is_output(v)) return users.empty();
  return !users.empty() && std::ranges::all_of(users, [&](ir::NodeId user) {
    const ir::Node& node = graph.node(user);
    const bool spreads =
        has(node, kElementwise) || has(node, kView) || node.op == OpKind::kZeroPadding;
    if (spreads && exact.contains(user)) return true;
    if (has(node, kDiscrete) || has(node, kBoolResult)) return true;
    if (reads_as_scale(graph, node, v)) return true;
    if (std::ranges::none_of(node.outputs, [&](ir::ValueId out) {
          return out != ir::kNoValue && is_float(graph.value(out).dtype);
        }))
      return true;
    return node.op == OpKind::kAttention && is_mask_of(node, v);
  });
}

// Values of which only q, k and v of attentions are made.
bool is_attended(const ir::Graph& graph, const NodeIds& attended, ir::ValueId v) {
  const auto& users = graph.value(v).users;
  return !graph.is_output(v) && !users.empty() && std::ranges::all_of(users, [&](ir::NodeId user) {
    const ir::Node& node = graph.node(user);
    if (has(node, kView)) return attended.contains(user);
    if (node.op != OpKind::kAttention) return false;
    for (size_t i = kFirstMask; i < node.inputs.size(); ++i)
      if (node.inputs[i] == v) return false;
    return true;
  });
}

// The products that a mode quantizes: those with a constant weight, but for the head's, whose few
// results are the answer.
class Quantized {
 public:
  Quantized(const ir::Graph& graph, Mode mode) : graph_(graph) {
    if (quantized_type(mode) != DType::kUndefined) behind_ = analysis::layers_of(graph).behind;
  }
  bool contains(ir::NodeId id) const {
    const ir::Node& node = graph_.node(id);
    return !behind_.empty() && !behind_[id] && node.op == OpKind::kLinear &&
           graph_.value(node.inputs[1]).is_constant();
  }

 private:
  const ir::Graph& graph_;
  analysis::NodeSet behind_;
};

enum class Operands : uint8_t { kNone, kOfMode, kQuantized, kAttended };

// What a mode's request for one ONNX node depends on.
struct ModeCase {
  DType declared;     // of its result
  Operands operands;  // of its product
  DType attended;     // type of attention's operands
  bool exact_zone, is_attended;
};
Request default_request(Mode mode, const ModeCase& node) {
  const ModeRow& row = row_of(mode);
  const DType wide = node.declared == DType::kF64 ? DType::kF64 : DType::kF32;
  const auto of_the_device = [&](DType type) {
    return type == DType::kUndefined ? node.attended : type;
  };
  DType operand = node.operands == Operands::kQuantized  ? row.quantized
                  : node.operands == Operands::kAttended ? node.attended
                                                         : of_the_device(row.operand);
  DType store = node.is_attended ? node.attended : of_the_device(row.store);
  if (mode == Mode::kModel) operand = store = node.declared;
  if (node.declared == DType::kF64 || node.exact_zone) store = wide;
  if (operand == DType::kF64) operand = DType::kF32;
  return {.compute = {node.operands == Operands::kNone ? DType::kF32 : operand, false},
          .accumulate = {DType::kF32, false},
          .store = {store, false},
          .by = mode == Mode::kModel ? "model" : "mode " + std::string(row.name),
          .inner = {}};
}

TypeRequest join(const TypeRequest& a, const TypeRequest& b, bool& possible) {
  Request left, right;
  left.compute = a;
  right.compute = b;
  const auto both = common_request(left, right);
  possible = possible && both.has_value();
  return both ? both->compute : a;
}

// If two requests cannot both be met, the nodes with exact requests are kept apart.
void keep_exact_apart(const std::vector<ir::Origin>& origins, std::set<std::string>& apart) {
  for (const ir::Origin& origin : origins) {
    const Request& asked = origin.asked;
    const bool insists = asked.compute.exact || asked.accumulate.exact || asked.store.exact;
    if (insists) apart.insert(origin.key);
  }
}

class Join {
 public:
  explicit Join(const ir::Node& node) : node_(node), composite_product_(has(node, kProduct)) {
    const auto last = std::ranges::max_element(
        node.origins, [](const auto& a, const auto& b) { return later_in_file(b, a); });
    for (const ir::Origin& origin : node.origins) add(origin, origin.key == last->key);
  }
  const Request& request() const { return request_; }
  bool possible() const { return possible_; }

 private:
  void add(const ir::Origin& origin, bool is_last) {
    const Request& asked = origin.asked;
    if (asked.by.empty()) return;
    const bool stronger = asked.by.starts_with("rule");
    if (request_.by.empty() || stronger) request_.by = asked.by;
    const bool to_product =
        composite_product_ && (is_product(origin.op_type) || node_.origins.size() == 1);
    TypeRequest& compute = composite_product_ && !to_product ? request_.inner : request_.compute;
    compute = join(compute, asked.compute, possible_);
    request_.inner = join(request_.inner, asked.inner, possible_);
    request_.accumulate = join(request_.accumulate, asked.accumulate, possible_);
    // Results between the parts stay in f32 registers.
    if (is_last)
      request_.store = asked.store;
    else if (asked.store.exact)
      hold_exactly(asked.store.type, composite_product_ ? request_.inner : request_.compute);
  }

  // Inner results are f32 registers: exactly f32 is met there, exactly another type is not.
  void hold_exactly(DType type, TypeRequest& registers) {
    registers = join(registers, {DType::kF32, false}, possible_);
    possible_ = possible_ && type == DType::kF32;
  }

  const ir::Node& node_;
  bool composite_product_, possible_ = true;
  Request request_;
};

}  // namespace

std::string_view name(Mode mode) { return row_of(mode).name; }

DType quantized_type(Mode mode) { return row_of(mode).quantized; }

std::optional<Mode> parse_mode(std::string_view text) {
  for (const ModeRow& row : kModes) {
    if (row.name == text) return row.mode;
  }
  return std::nullopt;
}

bool is_product(std::string_view onnx_op) {
  // Operators of ONNX Runtime's domain that have no OpKind.
  static constexpr std::string_view kOthers[] = {"MultiHeadAttention", "FusedMatMul", "FusedGemm",
                                                 "FusedConv", "QAttention"};
  if (std::ranges::find(kOthers, onnx_op) != std::end(kOthers)) return true;
  const auto kind = parse_op_kind(onnx_op);
  return kind && (flags(*kind) & kProduct) != 0;
}

bool later_in_file(const ir::Origin& a, const ir::Origin& b) {
  return compare_keys(a.key, b.key) > 0;  // NOLINT(modernize-use-nullptr): an ordering
}

void ask_mode(ir::Graph& raised, Mode mode, DType attended) {
  const NodeIds exact = nodes_of(raised, is_read_exactly);
  const Quantized quantized(raised, mode);
  const bool in_8_bits = is_quantized_operand(quantized_type(mode));
  const NodeIds attended_nodes = in_8_bits ? nodes_of(raised, is_attended) : NodeIds();
  for (ir::NodeId id : raised.order()) {
    ir::Node& node = raised.node(id);
    // A sum is up to 2^31.
    const bool sums = node.op == OpKind::kCast && is_cast_of_sums(raised, node.outputs[0]);
    const DType out = widest_float(raised, node.outputs);
    const DType in = widest_float(raised, node.inputs);
    if (out == DType::kUndefined && in == DType::kUndefined) continue;
    const DType declared = out == DType::kUndefined ? in : out;
    const bool attends = in_8_bits && node.op == OpKind::kAttention;
    const Operands operands = quantized.contains(id) ? Operands::kQuantized
                              : attends              ? Operands::kAttended
                                                     : Operands::kOfMode;
    const auto of = [&](bool product) {
      return default_request(mode, {.declared = declared,
                                    .operands = product ? operands : Operands::kNone,
                                    .attended = attended,
                                    .exact_zone = sums || exact.contains(id),
                                    .is_attended = attended_nodes.contains(id)});
    };
    for (ir::Origin& origin : node.origins) {
      const bool product =
          has(node, kProduct) && (is_product(origin.op_type) || node.origins.size() == 1);
      origin.asked = of(product);
      if (out == DType::kUndefined) origin.asked.store = {};
    }
    // A node that a pass added (a transpose next to an attention) has no ONNX node.
    if (node.origins.empty() && !has(node, kView)) {
      node.request = of(has(node, kProduct));
      if (out == DType::kUndefined) node.request.store = {};
    }
  }
}

std::set<std::string> join_requests(ir::Graph& raised) {
  std::set<std::string> apart;
  for (ir::NodeId id : raised.order()) {
    ir::Node& node = raised.node(id);
    if (node.origins.empty() || has(node, kView)) continue;
    const Join join(node);
    if (join.request().by.empty()) continue;
    node.request = join.request();
    if (has(node, kProduct) && node.request.inner.type == DType::kUndefined &&
        node.request.compute.type != DType::kUndefined && !node.request.compute.exact)
      node.request.inner = {DType::kF32, false};
    if (join.possible()) continue;
    const size_t before = apart.size();
    if (node.origins.size() > 1) keep_exact_apart(node.origins, apart);
    VERNIER_ASSERT(apart.size() > before, "requests of one node contradict each other");
  }
  return apart;
}

}  // namespace vernier::precision
