// Cutting a part out of a model: see cutter.h.
#include "verify/cutter.h"

#include <algorithm>
#include <map>

#include "ops/evaluate.h"

namespace vernier::verify {
namespace {

// Everything that can be reached from `start` by `next`, `start` included.
std::set<size_t> reach(const std::set<size_t>& start, const std::vector<std::set<size_t>>& next) {
  std::set<size_t> seen = start;
  std::vector<size_t> open(start.begin(), start.end());
  while (!open.empty()) {
    const size_t node = open.back();
    open.pop_back();
    for (size_t other : next[node]) {
      if (seen.insert(other).second) open.push_back(other);
    }
  }
  return seen;
}

std::vector<std::set<size_t>> reversed(const std::vector<std::set<size_t>>& edges) {
  std::vector<std::set<size_t>> result(edges.size());
  for (size_t from = 0; from < edges.size(); ++from) {
    for (size_t to : edges[from]) result[to].insert(from);
  }
  return result;
}

}  // namespace

Cutter::Cutter(const onnx::ModelSlicer& slicer, const ir::Graph& model, const plan::Plan& plan,
               NamedTensors inputs)
    : slicer_(slicer), model_(model), inputs_(std::move(inputs)) {
  for (size_t v = 0; v < model.num_values(); ++v) {
    const auto id = static_cast<ir::ValueId>(v);
    if (!model.value(id).name.empty()) values_.emplace(model.value(id).name, id);
  }
  for (size_t o = 0; o < model.outputs.size(); ++o)
    values_.emplace(model.output_names[o], model.outputs[o]);
  const std::vector<onnx::MainNode>& nodes = slicer.nodes();
  for (size_t i = 0; i < nodes.size(); ++i) {
    for (const std::string& name : nodes[i].outputs) producer_[name] = i;
  }
  users_.resize(nodes.size());
  std::set<size_t> fed;
  for (size_t i = 0; i < nodes.size(); ++i) {
    for (const std::string& name : nodes[i].inputs) {
      if (slicer.inputs().contains(name)) fed.insert(i);
      const auto made_by = producer_.find(name);
      if (made_by != producer_.end()) users_[made_by->second].insert(i);
    }
  }
  varies_.resize(nodes.size());
  for (size_t i : reach(fed, users_)) varies_[i] = true;
  for (const plan::LedgerRow& row : plan.ledger) {
    if (row.step != plan::kNone) computing_.insert(onnx::main_node_of(row.key));
  }
}

// With two nodes every node on a path between them: a part without holes.
std::set<size_t> Cutter::between(const std::set<size_t>& chosen) const {
  const std::set<size_t> below = reach(chosen, users_), above = reach(chosen, reversed(users_));
  std::set<size_t> both;
  std::ranges::set_intersection(below, above, std::inserter(both, both.end()));
  return both;
}

// What the nodes use from outside becomes an input, or a constant where no array of the caller's
// changes it (sizes are fixed). Nodes that are needed for want of a value join; true if one did.
bool Cutter::settle_inputs(std::set<size_t>& nodes, onnx::Slice& slice) const {
  slice.inputs.clear();
  slice.constants.clear();
  ops::EvaluateOptions options;
  std::map<std::string, bool> as_constant;
  const size_t before = nodes.size();
  for (size_t i : std::set<size_t>(nodes)) {
    for (const std::string& name : slicer_.nodes()[i].inputs) {
      const auto made_by = producer_.find(name);
      const bool outside = made_by == producer_.end() || !nodes.contains(made_by->second);
      if (!outside || slicer_.is_initializer(name)) continue;
      if (const Tensor* given = find(inputs_, name); given && slicer_.inputs().contains(name)) {
        slice.inputs[name] = *given;
        continue;
      }
      const auto value = values_.find(name);
      const bool fixed = made_by != producer_.end() && !varies_[made_by->second];
      if (made_by != producer_.end() && (fixed || value == values_.end())) {
        nodes.insert(made_by->second);
        continue;
      }
      if (value == values_.end()) continue;  // refused by the slicer
      const ir::Value& v = model_.value(value->second);
      if (v.is_constant()) {
        slice.constants[name] = v.constant;
        continue;
      }
      const bool size_like =
          !is_float(v.dtype) && made_by != producer_.end() && !computing_.contains(made_by->second);
      as_constant[name] = size_like;
      options.wanted.push_back(value->second);
    }
  }
  if (nodes.size() > before) return true;
  if (options.wanted.empty()) return false;
  const ops::Evaluation r = ops::evaluate(model_, {inputs_.begin(), inputs_.end()}, options);
  for (const auto& [name, constant] : as_constant) {
    (constant ? slice.constants : slice.inputs)[name] = r.values.at(values_.at(name)).to_tensor();
  }
  return false;
}

// What somebody outside computes with, or the caller gets.
std::vector<std::string> Cutter::outputs_of(const std::set<size_t>& nodes) const {
  std::vector<std::string> names;
  for (size_t i : nodes) {
    if (!varies_[i]) continue;
    for (const std::string& name : slicer_.nodes()[i].outputs) {
      if (!values_.contains(name)) continue;
      bool needed = slicer_.outputs().contains(name);
      for (size_t user : users_[i]) {
        const auto& used = slicer_.nodes()[user].inputs;
        needed = needed || (!nodes.contains(user) && computing_.contains(user) &&
                            std::ranges::find(used, name) != used.end());
      }
      if (needed) names.push_back(name);
    }
  }
  return names;
}

std::optional<Cut> Cutter::cut(const std::set<size_t>& chosen) const {
  Cut result{.nodes = between(chosen), .model = {}, .inputs = {}};
  onnx::Slice slice;
  while (settle_inputs(result.nodes, slice)) {
  }
  const std::vector<std::string> names = outputs_of(result.nodes);
  if (names.empty() || slice.inputs.empty()) return std::nullopt;
  ops::EvaluateOptions options;
  for (const std::string& name : names) options.wanted.push_back(values_.at(name));
  const ops::Evaluation r = ops::evaluate(model_, {inputs_.begin(), inputs_.end()}, options);
  for (const std::string& name : names) {
    const EvalTensor& value = r.values.at(values_.at(name));
    slice.outputs.push_back({.name = name, .dtype = value.dtype, .shape = value.shape});
  }
  slice.nodes = result.nodes;
  result.model = slicer_.model_of(slice);
  result.inputs.assign(slice.inputs.begin(), slice.inputs.end());
  return result;
}

}  // namespace vernier::verify
