// The typed graph: see typing.h.
#include "precision/typing.h"

#include <algorithm>
#include <map>

#include "core/attrs.h"
#include "ops/infer.h"

namespace vernier::precision {
namespace {

bool has(const ir::Node& node, uint32_t flag) { return (flags(node.op) & flag) != 0; }

// The number of leading inputs that a product multiplies.
size_t product_operands(OpKind op) { return op == OpKind::kAttention ? 3 : 2; }

// Is input i of a lookup the table that it reads rows of?
bool is_table(const ir::Node& node, size_t i) {
  if (node.op == OpKind::kGather) return i == 0;
  if (node.op != OpKind::kEmbedNorm) return false;
  return i % 2 == 1 && i < 2 * static_cast<size_t>(node.attrs_as<EmbedNormAttrs>().tables);
}

// Does the request come from a rule, the range audit or bisect, not from the mode or the model?
bool binds(const std::string& by) {
  return by.starts_with("rule") || by.starts_with("range audit") || by.starts_with("raised");
}

// The type that a product takes its operands in. A quantized product is made of a Linear by a later
// pass (passes/quantize.cpp, weight_only.cpp); what stays a Linear takes operands in the type that
// its first one is stored in. Products of f64 are never narrowed: they are the model's own, or sums
// of integers.
DType operand_type(const ir::Graph& graph, const ir::Node& node) {
  const DType type = node.request.compute.type;
  if (graph.value(node.inputs[0]).dtype == DType::kF64) return DType::kF32;
  if (!is_quantized(type) || node.op == OpKind::kQuantizedLinear) return type;
  const DType stored = graph.value(node.inputs[0]).dtype;
  return is_narrow(stored) ? stored : DType::kF32;
}

class Typing {
 public:
  explicit Typing(ir::Graph& graph) : graph_(graph) {
    for (ir::ValueId id : graph.outputs) declared_.push_back(graph.value(id).dtype);
  }

  void run() {
    graph_.typed = true;
    hold_as_they_are();
    for (ir::NodeId id : std::vector<ir::NodeId>(graph_.order())) type_node(id);
    for (size_t i = 0; i < graph_.outputs.size(); ++i) type_output(i);
    graph_.sort();
    ops::infer_graph(graph_);
  }

 private:
  const ir::Value& value(ir::ValueId id) const { return graph_.value(id); }

  // A constant that was held in a wider type becomes a value of that type here.
  void hold_as_they_are() {
    for (size_t i = 0; i < graph_.num_values(); ++i) {
      ir::Value& v = graph_.value(static_cast<ir::ValueId>(i));
      if (v.is_constant()) v.dtype = v.constant.dtype();
    }
  }

  void type_node(ir::NodeId id) {
    ir::Node& node = graph_.node(id);
    if (node.op == OpKind::kCast && has_f8(node)) {
      keep_f8(id);
      return;
    }
    if (node.op == OpKind::kQuantizeLinear && is_small_float(value(node.outputs[0]).dtype))
      node.request.store = {value(node.outputs[0]).dtype, false};
    if (node.op == OpKind::kCast && is_float_cast(node)) drop_cast(node);
    if (is_exact(node.op) && !has(node, kView)) keep_exact_type(node);
    check_stored(node);
    if (has(node, kProduct)) cast_operands(id);
    for (ir::ValueId out : graph_.node(id).outputs) {
      if (out == ir::kNoValue || !is_float(value(out).dtype)) continue;
      ops::infer_node(graph_, id);
      break;
    }
    if (has(graph_.node(id), kView)) cast_view(id);
  }

  bool has_f8(const ir::Node& node) const {
    return is_small_float(value(node.inputs[0]).dtype) ||
           is_small_float(value(node.outputs[0]).dtype);
  }

  // No mode asks for floats of 8 and 4 bits: a rounding to them is the model's own, and stays one.
  void keep_f8(ir::NodeId id) {
    ir::Node& node = graph_.node(id);
    const DType to = node.attrs_as<CastAttrs>().to;
    if (is_small_float(to)) node.request.store = {to, false};
    ops::infer_node(graph_, id);
  }

  bool is_float_cast(const ir::Node& node) const {
    return is_float(value(node.inputs[0]).dtype) && is_float(value(node.outputs[0]).dtype) &&
           value(node.inputs[0]).dtype != DType::kF64 &&
           value(node.outputs[0]).dtype != DType::kF64;
  }

  static void drop_cast(ir::Node& node) {
    node.op = OpKind::kIdentity;
    node.attrs = encode(NoAttrs{});
    node.request = {};
  }

  // An exact result is stored in the widest type of its sources, unless more is requested.
  void keep_exact_type(ir::Node& node) const {
    if (node.request.by.empty() || node.request.store.exact) return;
    DType widest = DType::kUndefined;
    for (ir::ValueId in : node.inputs) {
      if (in == ir::kNoValue || value(in).is_constant() || !is_float(value(in).dtype)) continue;
      const DType type = value(in).dtype;
      if (widest == DType::kUndefined || represents(type, widest))
        widest = type;
      else if (!represents(widest, type))
        widest = DType::kF32;  // f16 beside bf16
    }
    DType& store = node.request.store.type;
    if (widest == DType::kUndefined || store == DType::kUndefined) return;
    store = binds(node.request.by) && represents(store, widest) ? store : widest;
  }

  void check_stored(const ir::Node& node) const {
    if (node.request.store.type != DType::kTF32) return;
    throw Error(ErrorCode::kInput, "node '" + node.name + "' is asked to store tf32 (" +
                                       node.request.by +
                                       "), which is only a compute type; store f32");
  }

  void cast_operands(ir::NodeId id) {
    const DType type = operand_type(graph_, graph_.node(id));
    if (!is_narrow(type)) return;
    const size_t count =
        std::min(product_operands(graph_.node(id).op), graph_.node(id).inputs.size());
    for (size_t i = 0; i < count; ++i) {
      const ir::ValueId in = graph_.node(id).inputs[i];
      if (in == ir::kNoValue || value(in).is_constant() || !is_float(value(in).dtype)) continue;
      if (value(in).dtype == type || represents(type, value(in).dtype)) continue;
      graph_.set_input(id, i, cast(in, type));
    }
  }

  // A view shares its input's bytes: if a rule asks for another type of its result, a Cast follows.
  void cast_view(ir::NodeId id) {
    for (const ir::Origin& origin : std::vector<ir::Origin>(graph_.node(id).origins)) {
      const TypeRequest wish = origin.asked.store;
      const auto kind = parse_op_kind(origin.op_type);
      const bool moves = kind && ((flags(*kind) & kView) != 0 || *kind == OpKind::kCast);
      if (!moves || !origin.asked.by.starts_with("rule") || wish.type == DType::kUndefined)
        continue;
      for (ir::ValueId out : std::vector<ir::ValueId>(graph_.node(id).outputs)) {
        if (out == ir::kNoValue || !is_float(value(out).dtype)) continue;
        const DType type = value(out).dtype;
        if (wish.exact ? type == wish.type : represents(type, wish.type)) continue;
        convert_uses(out, origin);
      }
    }
  }

  void convert_uses(ir::ValueId from, const ir::Origin& origin) {
    const TypeRequest wish = origin.asked.store;
    // A floor must not lose precision: f16 that is asked for bf16 becomes f32.
    const bool fits = wish.exact || represents(wish.type, value(from).dtype);
    const DType to = fits ? wish.type : DType::kF32;
    const ir::NodeId id = graph_.add_node(OpKind::kCast, {}, encode(CastAttrs{.to = to}));
    graph_.replace_uses(from, graph_.node(id).outputs[0]);
    graph_.set_inputs(id, {from});
    graph_.value(from).name.clear();  // the ONNX value is the converted one
    graph_.node(id).origins = {origin};
    graph_.node(id).request = {.compute = {},
                               .accumulate = {},
                               .store = {to, wish.exact},
                               .by = origin.asked.by,
                               .inner = {}};
    ops::infer_node(graph_, id);
  }

  ir::ValueId cast(ir::ValueId from, DType to) {
    const auto [it, fresh] = casts_.try_emplace({from, to}, ir::kNoValue);
    if (!fresh) return it->second;
    const ir::NodeId id = graph_.add_node(OpKind::kCast, {from}, encode(CastAttrs{.to = to}));
    graph_.node(id).request = {
        .compute = {}, .accumulate = {}, .store = {to, false}, .by = "operand type", .inner = {}};
    ops::infer_node(graph_, id);
    return it->second = graph_.node(id).outputs[0];
  }

  void type_output(size_t i) {
    const ir::ValueId id = graph_.outputs[i];
    const DType stored = value(id).dtype;
    if (!is_float(stored) || stored == declared_[i]) return;
    graph_.outputs.set(i, cast(id, declared_[i]));
  }

  ir::Graph& graph_;
  std::vector<DType> declared_;
  std::map<std::pair<ir::ValueId, DType>, ir::ValueId> casts_;
};

}  // namespace

void type_graph(ir::Graph& graph) { Typing(graph).run(); }

DType stored_type(const ir::Graph& graph, const ir::Node& node, size_t i) {
  const ir::Value& v = graph.value(node.inputs[i]);
  if (!graph.typed || !v.is_constant() || !is_float(v.dtype) || v.dtype == DType::kF64 ||
      is_small_float(v.dtype))
    return v.dtype;
  const auto narrowed = [&](DType type) {
    return is_narrow(type) && !represents(type, v.dtype) ? type : v.dtype;
  };
  if (node.op == OpKind::kWeightOnlyLinear && i == 1)
    return narrowed(node.attrs_as<WeightOnlyLinearAttrs>().bits == 4 ? DType::kQ4 : DType::kQ8);
  if (has(node, kProduct) && i < product_operands(node.op)) {
    const DType type = operand_type(graph, node);
    const bool wide = type == DType::kF32 || type == DType::kTF32;
    return wide ? DType::kF32 : narrowed(type);
  }
  if (is_table(node, i)) return narrowed(node.request.store.type);
  // A model's 16-bit bias is stored in f32, exactly: kernels take f32 besides their operands.
  return is_narrow(v.dtype) && !is_exact(node.op) ? DType::kF32 : v.dtype;
}

}  // namespace vernier::precision
