// Parts of models: see extract.h. Nodes are found from the end: what the wanted values need, up to
// the values at the cut.
#include "onnx/extract.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "core/error.h"
#include "core/limits.h"
#include "core/mapped_file.h"
#include "onnx/element_types.h"
#include "onnx/model_file.h"
#include "onnx/moved_weights.h"
#include "onnx/node_order.h"
#include "onnx/unsupported.h"
#include "vernier/nearest.h"
#include "vernier/printable.h"

namespace vernier::onnx {
namespace {

namespace fs = std::filesystem;
using Names = std::vector<std::string>;

[[noreturn]] void fail(const std::string& what) { throw Error(ErrorCode::kInput, what); }

void add_once(Names& names, const std::string& name) {
  if (std::ranges::find(names, name) == names.end()) names.push_back(name);
}

// What the main graph has, by name.
class MainGraph {
 public:
  explicit MainGraph(const proto::GraphProto& graph) : graph_(graph) {
    for (const auto& tensor : graph.initializer()) weights_.insert(tensor.name());
    for (const auto& input : graph.input())
      if (!weights_.contains(input.name())) inputs_.push_back(input.name());
    NodeNames names;
    for (int i = 0; i < graph.node_size(); ++i) {
      const auto index = static_cast<size_t>(i);
      names_.push_back(names.origin(graph.node(i), i, "").name);
      numbers_.emplace(names_.back(), index);
      add_used(graph.node(i), reads_.emplace_back());
      for (const std::string& name : graph.node(i).output())
        if (!name.empty()) producers_.emplace(name, index);
    }
    find_varying();
  }

  const Names& inputs() const { return inputs_; }
  bool is_input(const std::string& name) const {
    return std::ranges::find(inputs_, name) != inputs_.end();
  }
  bool is_weight(const std::string& name) const { return weights_.contains(name); }
  const std::string& name_of(size_t node) const { return names_[node]; }
  const Names& reads(size_t node) const { return reads_[node]; }
  std::optional<size_t> producer(const std::string& value) const { return at(producers_, value); }
  std::optional<size_t> node(const std::string& name) const { return at(numbers_, name); }
  /// Does it depend on an input?
  bool varies(const std::string& value) const {
    const auto made_by = producer(value);
    return made_by ? varies_.contains(*made_by) : is_input(value);
  }
  /// The outputs of a node that somebody reads; all where nobody does.
  Names results(size_t node) const {
    Names read, all;
    for (const std::string& name : graph_.node(static_cast<int>(node)).output()) {
      if (name.empty()) continue;
      all.push_back(name);
      const auto has = [&](const Names& names) {
        return std::ranges::find(names, name) != names.end();
      };
      const auto is_output = [&](const auto& output) { return output.name() == name; };
      if (std::ranges::any_of(reads_, has) || std::ranges::any_of(graph_.output(), is_output))
        read.push_back(name);
    }
    return read.empty() ? all : read;
  }

  [[noreturn]] void refuse(const char* option, const std::string& name) const {
    Names known = names_;
    for (const auto& [value, node] : producers_) known.push_back(value);
    known.insert(known.end(), inputs_.begin(), inputs_.end());
    fail(std::string(option) + " " + quote(name) +
         ": the model has no value and no node of that name" + nearest_names(name, known));
  }

 private:
  static std::optional<size_t> at(const std::map<std::string, size_t>& places,
                                  const std::string& name) {
    const auto found = places.find(name);
    return found == places.end() ? std::nullopt : std::optional(found->second);
  }
  void find_varying() {
    for (const int i : node_order(graph_.node())) {
      const auto index = static_cast<size_t>(i);
      if (std::ranges::any_of(reads_[index], [&](const auto& name) { return varies(name); }))
        varies_.insert(index);
    }
  }

  const proto::GraphProto& graph_;
  Names inputs_, names_;
  std::set<std::string> weights_;
  std::vector<Names> reads_;
  std::map<std::string, size_t> producers_, numbers_;
  std::set<size_t> varies_;
};

// The types of values: those of the graph, else those that the file holds.
class Types {
 public:
  Types(const proto::GraphProto& file, const ir::Graph* graph) : graph_(graph) {
    for (const std::string& bytes : file.value_info()) {
      proto::ValueInfoProto info;
      if (info.ParseFromString(bytes)) add(info);
    }
    for (const auto& info : file.input()) add(info);
    for (const auto& info : file.output()) add(info);
    if (graph == nullptr) return;
    for (size_t v = 0; v < graph->num_values(); ++v) {
      const auto id = static_cast<ir::ValueId>(v);
      if (!graph->value(id).name.empty()) values_.emplace(graph->value(id).name, id);
    }
    for (size_t o = 0; o < graph->outputs.size(); ++o)
      values_.emplace(graph->output_names[o], graph->outputs[o]);
  }

  /// Its type and shape, with what else the file says of it.
  proto::ValueInfoProto info(const std::string& name) const {
    const auto stored = stored_.find(name);
    proto::ValueInfoProto info;
    if (stored != stored_.end()) info = stored->second;
    info.set_name(name);
    if (const ir::Value* value = find(name); value != nullptr && value->has_shape) {
      auto& tensor = *info.mutable_type()->mutable_tensor_type();
      tensor.set_elem_type(static_cast<int32_t>(element_type_number(value->dtype)));
      tensor.mutable_shape()->clear_dim();
      for (const Dim& size : value->shape) {
        auto& dim = *tensor.mutable_shape()->add_dim();
        if (size.is_constant())
          dim.set_dim_value(size.constant());
        else
          dim.set_dim_param(size.str());
      }
    } else if (!info.type().has_tensor_type() || !info.type().tensor_type().has_shape()) {
      fail("the type of value " + quote(name) +
           " is not known: the file does not hold it, and import gives the value no name of its "
           "own. Cut at a value before or behind it");
    }
    return info;
  }
  PartPort port(const std::string& name) const {
    const proto::ValueInfoProto of = info(name);
    PartPort port{
        .name = name,
        .dtype = element_type(of.type().tensor_type().elem_type(), "value " + quote(name)),
        .shape = {}};
    for (const auto& dim : of.type().tensor_type().shape().dim()) {
      if (dim.has_dim_value())
        port.shape.emplace_back(dim.dim_value());
      else
        port.shape.push_back(Dim::symbol(dim.dim_param().empty() ? "?" : dim.dim_param()));
    }
    if (const ir::Value* value = find(name); value != nullptr && value->has_shape)
      port.shape = value->shape;
    return port;
  }
  /// A small integer array that sizes are computed with.
  bool is_size(const std::string& name) const {
    const ir::Value* value = find(name);
    return value != nullptr && value->values.has_value();
  }

 private:
  void add(const proto::ValueInfoProto& info) { stored_.insert_or_assign(info.name(), info); }
  const ir::Value* find(const std::string& name) const {
    const auto found = values_.find(name);
    return found == values_.end() ? nullptr : &graph_->value(found->second);
  }

  const ir::Graph* graph_;
  std::map<std::string, proto::ValueInfoProto> stored_;
  std::map<std::string, ir::ValueId> values_;
};

// What belongs to the part.
class Cut {
 public:
  Cut(const MainGraph& graph, const Types& types, const PartOptions& options)
      : graph_(graph), types_(types) {
    for (const std::string& name : options.from) begin_at(name);
    for (const std::string& name : options.to) end_at(name);
    if (options.to.empty()) fail("no value is wanted");  // write_part() gives the outputs
    for (const std::string& output : outputs) {
      if (cut_.contains(output))
        fail("value " + quote(output) + " is in --from and in --to: nothing lies between");
    }
    walk();
    check(options);
    for (const std::string& name : graph.inputs())
      if (needed_.contains(name)) add_once(inputs, name);
  }

  Names inputs, outputs;
  std::set<size_t> nodes;
  std::set<std::string> weights;
  /// Inputs of the model that the part needs beside --from.
  Names also_needed() const {
    Names names;
    for (const std::string& name : needed_)
      if (!cut_.contains(name)) names.push_back(name);
    return names;
  }

 private:
  void begin_at(const std::string& name) {
    if (graph_.producer(name) || graph_.is_input(name)) {
      cut_.insert(name);
      add_once(wanted_inputs_, name);
      return;
    }
    if (graph_.is_weight(name))
      fail("--from " + quote(name) +
           " is a weight: it comes along. Name the value or the node that "
           "the part begins with");
    const std::optional<size_t> node = graph_.node(name);
    if (!node) graph_.refuse("--from", name);
    first_.emplace(*node, name);
    for (const std::string& read : graph_.reads(*node)) {
      if (!graph_.varies(read) || types_.is_size(read)) continue;
      cut_.insert(read);
      add_once(wanted_inputs_, read);
      of_nodes_.insert(read);
    }
  }

  void end_at(const std::string& name) {
    if (graph_.producer(name)) return add_once(outputs, name);
    if (graph_.is_input(name) || graph_.is_weight(name))
      fail("--to " + quote(name) + " is " + (graph_.is_input(name) ? "an input" : "a weight") +
           " of the model, expected the result of a node, or a node");
    const std::optional<size_t> node = graph_.node(name);
    if (!node) graph_.refuse("--to", name);
    for (const std::string& result : graph_.results(*node)) add_once(outputs, result);
  }

  void walk() {
    Names open = outputs;
    std::set<std::string> seen;
    while (!open.empty()) {
      const std::string name = open.back();
      open.pop_back();
      if (!seen.insert(name).second) continue;
      if (cut_.contains(name)) {
        used_.insert(name);
        continue;
      }
      if (const std::optional<size_t> node = graph_.producer(name)) {
        if (!nodes.insert(*node).second) continue;
        for (const std::string& read : graph_.reads(*node)) open.push_back(read);
      } else if (graph_.is_weight(name)) {
        weights.insert(name);
      } else if (graph_.is_input(name)) {
        needed_.insert(name);
      } else {
        fail("value " + quote(name) + " is not defined in the model");
      }
    }
  }

  void check(const PartOptions& options) {
    for (const std::string& name : wanted_inputs_) {
      if (used_.contains(name)) {
        inputs.push_back(name);
      } else if (!of_nodes_.contains(name)) {
        fail("--from " + quote(name) + ": " +
             (options.to.size() == 1 ? quote(options.to[0]) + " does" : "the values of --to do") +
             " not depend on it" + (cut_.size() > 1 ? " beside the other values of --from" : ""));
      }
    }
    for (const auto& [node, name] : first_) {
      if (!nodes.contains(node))
        fail("--from " + quote(name) + ": the values of --to do not depend on this node");
    }
    for (const std::string& name : used_) {
      const std::optional<size_t> made_by = graph_.producer(name);
      if (made_by && nodes.contains(*made_by))
        fail("--from " + quote(name) +
             ": the part needs another result of the node that makes it, " +
             quote(graph_.name_of(*made_by)) + "; name all of its results in --from");
    }
    if (inputs.empty() && needed_.empty())
      fail("the part would have no input: " + quote(outputs.front()) +
           " is computed from weights alone");
  }

  const MainGraph& graph_;
  const Types& types_;
  Names wanted_inputs_;
  std::set<std::string> cut_, of_nodes_, used_, needed_;
  std::map<size_t, std::string> first_;
};

template <class List>
void keep(List& list, const std::set<std::string>& names) {
  list.erase(std::remove_if(list.begin(), list.end(),
                            [&](const auto& each) { return !names.contains(each.name()); }),
             list.end());
}

// Names that import gives to nodes depend on the nodes around them.
void name_nodes(proto::GraphProto& graph, const MainGraph& names) {
  std::set<std::string> taken;
  for (const auto& node : graph.node()) taken.insert(node.name());
  for (int i = 0; i < graph.node_size(); ++i) {
    const std::string& name = names.name_of(static_cast<size_t>(i));
    if (graph.node(i).name().empty() && taken.insert(name).second)
      graph.mutable_node(i)->set_name(name);
  }
}

// Types of values inside the part.
void keep_types(proto::GraphProto& graph, const Cut& cut) {
  std::set<std::string> inside;
  for (const auto& node : graph.node()) inside.insert(node.output().begin(), node.output().end());
  for (const std::string& name : cut.outputs) inside.erase(name);
  const google::protobuf::RepeatedPtrField<std::string> all = graph.value_info();
  graph.clear_value_info();
  for (const std::string& bytes : all) {
    proto::ValueInfoProto info;
    if (info.ParseFromString(bytes) && inside.contains(info.name())) graph.add_value_info(bytes);
  }
}

// The graph without what is outside of the cut.
void reduce_to(proto::GraphProto& graph, const MainGraph& names, const Types& types,
               const Cut& cut) {
  name_nodes(graph, names);
  std::vector<proto::ValueInfoProto> inputs, outputs;
  for (const std::string& name : cut.inputs) inputs.push_back(types.info(name));
  for (const auto& input : graph.input())  // weights that are inputs with a default, too
    if (cut.weights.contains(input.name())) inputs.push_back(input);
  for (const std::string& name : cut.outputs) outputs.push_back(types.info(name));
  std::vector<proto::NodeProto> nodes;
  for (const size_t i : cut.nodes)
    nodes.push_back(std::move(*graph.mutable_node(static_cast<int>(i))));
  graph.clear_node();
  for (proto::NodeProto& node : nodes) *graph.add_node() = std::move(node);
  graph.clear_input();
  for (proto::ValueInfoProto& input : inputs) *graph.add_input() = std::move(input);
  graph.clear_output();
  for (proto::ValueInfoProto& output : outputs) *graph.add_output() = std::move(output);
  keep(*graph.mutable_initializer(), cut.weights);
  graph.clear_quantization_annotation();  // of values by name; nobody needs them to compute
  keep_types(graph, cut);
}

std::string note_on(const Names& also_needed) {
  std::string names;
  for (const std::string& name : also_needed) names += (names.empty() ? "" : ", ") + quote(name);
  return counted(also_needed.size(), "input") + " of the model " +
         (also_needed.size() == 1 ? "is" : "are") + " needed beside --from: " + names;
}

}  // namespace

Part write_part(const fs::path& path, const ir::Graph* graph, const PartOptions& asked) {
  MovedWeights::check_keeps(path, asked.to_file);
  const auto file = MappedFile::open(path);
  const Watch watch(asked.limits);
  watch.check_memory(saturating_product(file->bytes().size(), 2), "writing the part");
  proto::ModelProto model = parse_model(file->bytes());
  proto::GraphProto& whole = *model.mutable_graph();
  PartOptions options = asked;
  if (options.to.empty())
    for (const auto& output : whole.output()) options.to.push_back(output.name());
  const MainGraph names(whole);
  const Types types(whole, graph);
  const Cut cut(names, types, options);
  Part part{.nodes = std::ssize(cut.nodes), .model_nodes = whole.node_size()};
  for (const std::string& name : cut.inputs) part.inputs.push_back(types.port(name));
  for (const std::string& name : cut.outputs) part.outputs.push_back(types.port(name));
  if (const Names also = cut.also_needed(); !also.empty() && !asked.from.empty())
    part.notes.push_back(note_on(also));
  reduce_to(whole, names, types, cut);
  const MovedModel written =
      write_moved(model, path, {.to = asked.to_file, .what = "a part of a model", .file = "part"},
                  asked.external_from, watch);
  part.weight_bytes = written.weight_bytes;
  part.data_file = written.data_file;
  return part;
}

}  // namespace vernier::onnx
