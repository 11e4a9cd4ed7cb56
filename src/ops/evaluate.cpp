// Evaluation of graphs in FP64: see evaluate.h.
#include "ops/evaluate.h"

#include <algorithm>
#include <memory>
#include <set>

#include "core/evaluator.h"
#include "core/fp64_device.h"
#include "core/token_rows.h"
#include "ops/infer.h"
#include "reference/cut_tables.h"
#include "reference/evaluate_anywhere.h"
#include "rules/rules.h"

namespace vernier::ops {
namespace {

[[noreturn]] void fail(const std::string& what) { throw Error(ErrorCode::kInput, what); }

template <class T>
void check_names(const ir::Graph& graph, const std::map<std::string, T>& given) {
  std::set<std::string> expected;
  for (ir::ValueId id : graph.inputs) expected.insert(graph.value(id).name);
  std::string list;
  for (const std::string& input : expected) list += (list.empty() ? "" : ", ") + input;
  for (const std::string& input : expected) {
    if (!given.contains(input))
      fail("input '" + input + "' is missing; the model's inputs are: " + list);
  }
  for (const auto& [input, value] : given) {
    if (!expected.contains(input))
      fail("the model has no input '" + input + "'; its inputs are: " + list);
  }
}

std::string place(const std::string& input, size_t axis) {
  return "axis " + std::to_string(axis) + " of input '" + input + "'";
}

// Binds the axes that are plain symbols.
Binding bind_plain_symbols(const ir::Graph& graph, const std::map<std::string, Shape>& shapes) {
  Binding binding;
  std::map<std::string, std::string> bound_by;
  for (ir::ValueId id : graph.inputs) {
    const ir::Value& v = graph.value(id);
    const Shape& shape = shapes.at(v.name);
    if (shape.size() != v.shape.size()) {
      fail("input '" + v.name + "' has shape " + str(shape) + ", expected " + str(v.shape));
    }
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      const auto symbol = v.shape[axis].as_symbol();
      if (!symbol) continue;
      const auto [it, fresh] = binding.emplace(*symbol, shape[axis]);
      if (fresh) bound_by[*symbol] = place(v.name, axis);
      if (it->second == shape[axis]) continue;
      fail("size '" + *symbol + "' is " + std::to_string(it->second) + " in " + bound_by[*symbol] +
           " but " + std::to_string(shape[axis]) + " in " + place(v.name, axis) +
           "; they must be equal");
    }
  }
  return binding;
}

bool is_bound(const Dim& d, const Binding& binding) {
  const std::vector<std::string> symbols = d.symbols();
  return std::all_of(symbols.begin(), symbols.end(),
                     [&](const std::string& s) { return binding.contains(s); });
}

Shape concrete(const SymShape& shape) {
  Shape sizes;
  for (const Dim& d : shape) sizes.push_back(d.as_constant().value_or(0));
  return sizes;
}

// One run over a private copy of the graph in which every symbol has its size.
class Evaluator {
 public:
  Evaluator(const ir::Graph& graph, const std::map<std::string, Tensor>& inputs,
            const EvaluateOptions& options)
      : graph_(graph), options_(options), uses_(graph.num_values(), 0) {
    check_names(graph, inputs);
    std::map<std::string, Shape> shapes;
    for (const auto& [name, tensor] : inputs) shapes[name] = tensor.shape();
    result_.symbols = bind_symbols(graph, shapes);
    for (const ir::TokenCount& count : graph.token_counts) {
      const Tensor& mask = inputs.at(graph.value(count.mask).name);
      result_.symbols[count.symbol] = count_tokens(mask.dtype(), mask.byte_span().data(),
                                                   mask.shape()[0], mask.shape()[1], count.rule);
    }
    for (const auto& [symbol, size] : result_.symbols)
      graph_.symbol_substitutions[symbol] = Dim(size);
    apply_substitutions(graph_);
    for (ir::ValueId id : graph_.inputs) take_input(id, inputs.at(graph_.value(id).name));
    for (size_t i = 0; i < uses_.size(); ++i)
      uses_[i] = static_cast<int64_t>(graph_.value(static_cast<ir::ValueId>(i)).users.size());
    for (ir::ValueId id : graph_.outputs) ++uses_[id];
    for (ir::ValueId id : options_.wanted) ++uses_[id];
    for (const auto& [id, value] : options_.given) give(id, value);
  }

  Evaluation run() {
    if (options_.watch.limits_memory()) {
      options_.watch.check_memory(evaluation_bytes(graph_, result_.symbols),
                                  "the FP64 evaluation of the model");
    }
    const std::set<ir::NodeId> needed = needed_nodes();
    for (ir::NodeId id : graph_.order()) {
      if (!needed.contains(id)) continue;
      options_.watch.check_time(
          [&] { return "evaluating node '" + graph_.node(id).name + "' in FP64"; });
      run_node(id);
    }
    for (ir::ValueId id : options_.wanted) result_.values[id] = materialize(id);
    for (size_t i = 0; options_.wanted.empty() && i < graph_.outputs.size(); ++i)
      result_.outputs[graph_.output_names[i]] = materialize(graph_.outputs[i]);
    for (ir::ValueId id : kept_) result_.values[id] = std::move(live_.at(id));
    for (auto& [name, value] : result_.outputs) value.to_host();
    if (!options_.leave_on_device)
      for (auto& [id, value] : result_.values) value.to_host();
    return std::move(result_);
  }

 private:
  void take_input(ir::ValueId id, const Tensor& tensor) {
    const ir::Value& v = graph_.value(id);
    if (tensor.dtype() != v.dtype) {
      fail("input '" + v.name + "' has type " + std::string(name(tensor.dtype())) + ", expected " +
           std::string(name(v.dtype)));
    }
    live_[id] = EvalTensor::from(tensor);
    remember_small(id);
  }

  void give(ir::ValueId id, const EvalTensor& value) {
    ir::Value& v = graph_.value(id);
    if (v.dtype != DType::kUndefined && value.dtype != v.dtype) {
      fail("value '" + v.name + "' is given as " + std::string(name(value.dtype)) + ", expected " +
           std::string(name(v.dtype)));
    }
    v.dtype = value.dtype;
    const std::map<size_t, std::string> sizes = data_sizes_of(v);
    v.shape.assign(value.shape.begin(), value.shape.end());
    v.has_shape = true;
    bind(sizes, value.shape);
    live_[id] = value;
    remember_small(id);
    ++uses_[id];  // kept
  }

  // Nodes between inputs, constants and given values and the wanted values.
  std::set<ir::NodeId> needed_nodes() const {
    std::set<ir::NodeId> needed;
    std::vector<ir::ValueId> open =
        options_.wanted.empty() ? graph_.outputs.ids() : options_.wanted;
    if (options_.wanted.empty() && options_.given.empty())
      return {graph_.order().begin(), graph_.order().end()};
    while (!open.empty()) {
      const ir::ValueId id = open.back();
      open.pop_back();
      if (id == ir::kNoValue || options_.given.contains(id)) continue;
      const ir::NodeId producer = graph_.value(id).producer;
      if (producer == ir::kNoNode || !needed.insert(producer).second) continue;
      const ir::Node& node = graph_.node(producer);
      open.insert(open.end(), node.inputs.begin(), node.inputs.end());
    }
    return needed;
  }

  // Small tensors are constants for the inference of later nodes: shapes may depend on them.
  void remember_small(ir::ValueId id) {
    const EvalTensor& t = live_.at(id);
    if (t.elems() <= rules::kMaxSymbolicElems) graph_.value(id).constant = t.to_tensor();
  }

  const EvalTensor& materialize(ir::ValueId id) {
    const auto it = live_.find(id);
    if (it != live_.end()) return it->second;
    const ir::Value& v = graph_.value(id);
    VERNIER_ASSERT(v.is_constant(), "value " + std::to_string(id) + " is not computed");
    if (options_.constants == nullptr) return live_[id] = EvalTensor::from(v.constant);
    std::shared_ptr<const EvalTensor>& shared = shared_[id];
    if (!shared) shared = options_.constants->get(v.constant);
    return *shared;
  }

  // Reads a node's inputs; of large tables only the rows that it needs, which are put into `cut`.
  std::vector<const EvalTensor*> read(const ir::Node& node, std::vector<reference::CutTable>& cut) {
    const auto table = [&](size_t i) -> const Tensor* {
      const ir::ValueId id = node.inputs[i];
      if (id == ir::kNoValue || live_.contains(id) || !graph_.value(id).is_constant())
        return nullptr;
      return &graph_.value(id).constant;
    };
    const auto ids = [&](size_t i) -> const EvalTensor* {
      return node.inputs[i] == ir::kNoValue ? nullptr : &materialize(node.inputs[i]);
    };
    cut = reference::cut_tables(node.op, node.attrs, node.inputs.size(), table, ids,
                                options_.constants != nullptr && fp64_device() != nullptr);
    std::vector<const EvalTensor*> in(node.inputs.size());
    for (const reference::CutTable& one : cut) {
      in[one.table_input] = &one.table;
      in[one.ids_input] = &one.ids;
    }
    for (size_t i = 0; i < in.size(); ++i) {
      if (!in[i] && node.inputs[i] != ir::kNoValue) in[i] = &materialize(node.inputs[i]);
    }
    return in;
  }

  // Is this use of a computed value of floats its last one?
  bool is_last_use(ir::ValueId id) const {
    const auto it = live_.find(id);
    return it != live_.end() && it->second.is_float() && uses_[id] == 1;
  }
  bool is_there(ir::ValueId id) const {
    const auto it = live_.find(id);
    return it != live_.end() && it->second.there != nullptr;
  }
  // Operators whose evaluators may write the result into an operand of its shape.
  static bool may_write_in_place(OpKind op) {
    using enum OpKind;
    return op == kAdd || op == kSub || op == kMul || op == kDiv || op == kSqrt || op == kErf ||
           op == kTanh || op == kSoftmax;
  }
  // Makes the result in the memory of the operand that nobody else reads: to fill new memory takes
  // as long as the operators that this is for. False: nothing was done.
  bool run_in_place(const ir::Node& node) {
    const bool moves = only_reshapes(node.op);
    if ((!moves && !may_write_in_place(node.op)) || node.outputs[0] == ir::kNoValue) return false;
    const ir::Value& result = graph_.value(node.outputs[0]);
    if (!is_float(result.dtype)) return false;
    const Shape shape = concrete(result.shape);
    for (size_t i = 0; i < (moves ? 1 : node.inputs.size()); ++i) {
      const ir::ValueId operand = node.inputs[i];
      if (operand == ir::kNoValue || !is_last_use(operand)) continue;
      const EvalTensor& x = live_.at(operand);
      if (moves ? x.elems() != num_elems(shape) : x.shape != shape) continue;
      if (!moves && std::ranges::any_of(node.inputs, [&](ir::ValueId id) { return is_there(id); }))
        continue;
      std::vector<EvalTensor> out(1);
      out[0] = std::move(live_.at(operand));
      out[0].dtype = result.dtype;
      out[0].shape = shape;
      if (!moves) {
        std::vector<const EvalTensor*> in;
        for (ir::ValueId id : node.inputs) in.push_back(id == operand ? &out[0] : &materialize(id));
        evaluator(node.op)({node.attrs, in, out, Rounding()});
      }
      finish(node, out);
      return true;
    }
    return false;
  }

  void run_node(ir::NodeId id) {
    if (!graph_.data_sizes.empty()) take_data_sizes(id);
    infer_node(graph_, id);
    const ir::Node& node = graph_.node(id);
    if (run_in_place(node)) return;
    std::vector<reference::CutTable> cut;
    const std::vector<const EvalTensor*> in = read(node, cut);
    std::vector<EvalTensor> out;
    for (ir::ValueId value : node.outputs) {
      if (value == ir::kNoValue)
        out.emplace_back();
      else
        out.push_back(
            EvalTensor::shaped(graph_.value(value).dtype, concrete(graph_.value(value).shape)));
    }
    const Rounding exact;
    const EvalCall call{node.attrs, in, out, exact};
    Fp64Device* device = reference::device_for(node.op, call);
    if (device != nullptr) move_operands(node, *device);
    try {
      reference::evaluate_on(device, node.op, call);
    } catch (const Error& error) {
      GraphContext(graph_, id).fail(error.what());
    }
    finish(node, out);
  }
  // Large operands that later nodes read, too, are copied to the device once.
  void move_operands(const ir::Node& node, Fp64Device& device) {
    constexpr int64_t kLargeElems = int64_t{1} << 16;
    for (ir::ValueId id : node.inputs) {
      const auto it = live_.find(id);
      if (it == live_.end() || !it->second.is_float() || it->second.there != nullptr ||
          it->second.elems() < kLargeElems || uses_[id] == 1)
        continue;
      it->second = device.copied(it->second);
    }
  }
  void finish(const ir::Node& node, std::vector<EvalTensor>& out) {
    for (size_t i = 0; i < out.size(); ++i) store(node.outputs[i], std::move(out[i]));
    for (ir::ValueId value : node.inputs) {
      if (value != ir::kNoValue) release(value, 1);
    }
  }

  // Before a node is inferred at its concrete sizes: which of its results have sizes that only the
  // data says, and what its attributes hold of those that are known by now.
  void take_data_sizes(ir::NodeId id) {
    substitute_attrs(graph_, id);
    made_sizes_.clear();
    for (ir::ValueId out : graph_.node(id).outputs)
      if (out != ir::kNoValue) made_sizes_[out] = data_sizes_of(graph_.value(out));
  }
  // The axes whose size is one that only the data says, and its symbol.
  std::map<size_t, std::string> data_sizes_of(const ir::Value& value) const {
    std::map<size_t, std::string> sizes;
    for (size_t axis = 0; axis < value.shape.size(); ++axis) {
      const auto symbol = (value.shape[axis] + Dim(1)).as_symbol();
      if (symbol && graph_.data_sizes.contains(*symbol)) sizes[axis] = *symbol;
    }
    return sizes;
  }
  void bind(const std::map<size_t, std::string>& sizes, const Shape& shape) {
    for (const auto& [axis, symbol] : sizes)
      graph_.symbol_substitutions.emplace(symbol, Dim(shape.at(axis) + 1));
  }

  void store(ir::ValueId id, EvalTensor tensor) {
    if (id == ir::kNoValue) return;
    ir::Value& v = graph_.value(id);
    if (const auto made = made_sizes_.find(id); made != made_sizes_.end())
      bind(made->second, tensor.shape);
    v.shape.assign(tensor.shape.begin(), tensor.shape.end());  // where it depends on data
    const bool named = options_.keep == Keep::kNamed && !v.name.empty();
    if (named && (options_.names == nullptr || options_.names->contains(v.name))) {
      kept_.push_back(id);
      ++uses_[id];
      if (tensor.there) tensor.there->compute();  // kept, its operands are not
    }
    live_[id] = std::move(tensor);
    remember_small(id);
    release(id, 0);
  }

  void release(ir::ValueId id, int64_t uses) {
    if ((uses_[id] -= uses) > 0) return;
    live_.erase(id);
    shared_.erase(id);
  }

  ir::Graph graph_;
  EvaluateOptions options_;
  std::vector<int64_t> uses_;  // that are left, by value
  std::vector<ir::ValueId> kept_;
  /// Of the node that runs: the symbols of sizes that only the data says, by result and axis.
  std::map<ir::ValueId, std::map<size_t, std::string>> made_sizes_;
  std::map<ir::ValueId, EvalTensor> live_;
  std::map<ir::ValueId, std::shared_ptr<const EvalTensor>> shared_;  // constants of the cache
  Evaluation result_;
};

// The output as a constant if inference knows its contents as numbers.
std::optional<Tensor> known_contents(const ir::Value& v) {
  if (!v.values || !is_constant(v.shape)) return std::nullopt;
  std::vector<int64_t> numbers;
  for (const Dim& d : *v.values) {
    if (!d.is_constant()) return std::nullopt;
    numbers.push_back(d.constant());
  }
  return Tensor::from(v.dtype, concrete(v.shape), std::span<const int64_t>(numbers));
}

// The constant of a folded node. R does not round between nodes, so values that 16 bits would
// change are kept in f32 until types are decided, and rounded when they are stored.
Tensor held(EvalTensor result, const ir::Graph& graph) {
  const DType type = result.dtype;
  const bool narrow = !graph.typed && (type == DType::kF16 || type == DType::kBF16);
  const auto stays = [type](double v) { return std::isnan(v) || round_to(type, v) == v; };
  if (narrow && !std::ranges::all_of(result.f, stays)) result.dtype = DType::kF32;
  return result.to_tensor();
}

struct Work {
  double elems = 0, all = 0;  // elements read and written; the total with the operations
};
// Sizes of 0 count as 1: an evaluator may loop over the other axes.
Work work_of(const ir::Graph& graph, const ir::Node& node) {
  std::vector<Shape> in, out;
  std::vector<DType> in_types, out_types;
  Work work;
  const auto add = [&](ir::ValueId id, std::vector<Shape>& shapes, std::vector<DType>& types) {
    const bool absent = id == ir::kNoValue;
    shapes.push_back(absent ? Shape() : concrete(graph.value(id).shape));
    for (int64_t& size : shapes.back()) size = std::max<int64_t>(size, 1);
    types.push_back(absent ? DType::kUndefined : graph.value(id).dtype);
    if (!absent) work.elems += static_cast<double>(num_elems(shapes.back()));
  };
  for (ir::ValueId id : node.inputs) add(id, in, in_types);
  for (ir::ValueId id : node.outputs) add(id, out, out_types);
  work.all = kFoldWorkPerElem * work.elems +
             rules::cost(node.op, {node.attrs, in, out, in_types, out_types}).flops;
  return work;
}

double elems_of_constants(const ir::Graph& graph) {
  double elems = 0;
  for (size_t v = 0; v < graph.num_values(); ++v) {
    const ir::Value& value = graph.value(static_cast<ir::ValueId>(v));
    if (value.is_constant()) elems += static_cast<double>(value.constant.elems());
  }
  return elems;
}

// May the node be evaluated? If so, its work is charged.
bool charge_fold(ir::Graph& graph, const ir::Node& node) {
  if (graph.max_folded_work == 0)
    graph.max_folded_work = kMaxFoldWorkInAll + kFoldWorkPerWeight * elems_of_constants(graph);
  const Work work = work_of(graph, node);
  if (work.all > kMaxFoldWork + kFoldWorkPerWeight * work.elems ||
      graph.folded_work + work.all > graph.max_folded_work)
    return false;
  graph.folded_work += work.all;
  return true;
}

}  // namespace

Binding bind_symbols(const ir::Graph& graph, const std::map<std::string, Shape>& shapes) {
  check_names(graph, shapes);
  const Binding binding = bind_plain_symbols(graph, shapes);
  for (ir::ValueId id : graph.inputs) {
    const ir::Value& v = graph.value(id);
    const Shape& shape = shapes.at(v.name);
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      if (!is_bound(v.shape[axis], binding)) {
        fail(place(v.name, axis) + " is " + v.shape[axis].str() +
             ", which the sizes of the inputs do not determine");
      }
      const int64_t expected = v.shape[axis].evaluate(binding);
      if (expected == shape[axis]) continue;
      fail(place(v.name, axis) + " is " + std::to_string(shape[axis]) + ", expected " +
           v.shape[axis].str() +
           (v.shape[axis].is_constant() ? "" : " = " + std::to_string(expected)));
    }
  }
  for (const ir::Guard& guard : graph.guards) {
    if (!is_bound(guard.lhs, binding) || !is_bound(guard.rhs, binding)) continue;
    const int64_t lhs = guard.lhs.evaluate(binding), rhs = guard.rhs.evaluate(binding);
    if (lhs == rhs) continue;
    fail("the sizes of the inputs do not fit together: node '" + guard.where + "' needs " +
         guard.lhs.str() + " == " + guard.rhs.str() + ", but they are " + std::to_string(lhs) +
         " and " + std::to_string(rhs));
  }
  return binding;
}

uint64_t evaluation_bytes(const ir::Graph& graph, const Binding& sizes) {
  constexpr uint64_t kElemBytes = 8;
  const auto bytes_of = [&](ir::ValueId id) -> uint64_t {
    const ir::Value& v = graph.value(id);
    if (v.is_constant()) return saturating_product(v.constant.elems(), kElemBytes);
    if (!v.has_shape) return 0;
    uint64_t bytes = kElemBytes;
    for (const Dim& d : v.shape) {
      const int64_t size = is_bound(d, sizes) ? d.evaluate(sizes) : 0;
      bytes = saturating_product(bytes, static_cast<uint64_t>(std::max<int64_t>(size, 0)));
    }
    return bytes;
  };
  std::vector<size_t> uses(graph.num_values());
  for (size_t i = 0; i < uses.size(); ++i)
    uses[i] = graph.value(static_cast<ir::ValueId>(i)).users.size();
  for (ir::ValueId id : graph.outputs) ++uses[id];
  uint64_t live = 0, most = 0;
  for (ir::ValueId id : graph.inputs) live = saturating_sum(live, bytes_of(id));
  std::set<ir::ValueId> constants;  // kept until their last use
  for (ir::NodeId id : graph.order()) {
    const ir::Node& node = graph.node(id);
    for (ir::ValueId in : node.inputs) {
      if (in != ir::kNoValue && graph.value(in).is_constant() && constants.insert(in).second)
        live = saturating_sum(live, bytes_of(in));
    }
    for (ir::ValueId out : node.outputs)
      if (out != ir::kNoValue) live = saturating_sum(live, bytes_of(out));
    most = std::max(most, live);
    for (ir::ValueId in : node.inputs) {
      if (in == ir::kNoValue || --uses[in] > 0) continue;
      live -= std::min(live, bytes_of(in));
    }
  }
  return std::max(most, live);
}

Evaluation evaluate(const ir::Graph& graph, const std::map<std::string, Tensor>& inputs,
                    const EvaluateOptions& options) {
  return Evaluator(graph, inputs, options).run();
}

std::optional<std::vector<Tensor>> fold_node(ir::Graph& graph, ir::NodeId id, int64_t max_elems) {
  const ir::Node& node = graph.node(id);
  std::vector<Tensor> folded(node.outputs.size());
  bool contents_known = true;
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    if (!node.has_output(i)) continue;
    const ir::Value& v = graph.value(node.outputs[i]);
    const auto count = v.has_shape ? product(v.shape).as_constant() : std::nullopt;
    if (!count || !is_constant(v.shape) || *count > max_elems) return std::nullopt;
    if (auto known = known_contents(v))
      folded[i] = std::move(*known);
    else
      contents_known = false;
  }
  if (contents_known) return folded;

  std::vector<EvalTensor> inputs(node.inputs.size());
  std::vector<const EvalTensor*> in(node.inputs.size(), nullptr);
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (!node.has_input(i)) continue;
    if (!graph.value(node.inputs[i]).is_constant()) return std::nullopt;
  }
  if (!charge_fold(graph, node)) return std::nullopt;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (!node.has_input(i)) continue;
    inputs[i] = EvalTensor::from(graph.value(node.inputs[i]).constant);
    in[i] = &inputs[i];
  }
  std::vector<EvalTensor> out(node.outputs.size());
  for (size_t i = 0; i < out.size(); ++i) {
    if (!node.has_output(i)) continue;
    const ir::Value& v = graph.value(node.outputs[i]);
    out[i] = EvalTensor(v.dtype, concrete(v.shape));
  }
  const Rounding exact;
  evaluator(node.op)({node.attrs, in, out, exact});
  for (size_t i = 0; i < out.size(); ++i) {
    if (node.has_output(i)) folded[i] = held(std::move(out[i]), graph);
  }
  return folded;
}

}  // namespace vernier::ops
