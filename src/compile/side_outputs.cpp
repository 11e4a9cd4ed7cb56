// Side outputs: see side_outputs.h.
#include "compile/side_outputs.h"

#include <algorithm>
#include <map>

#include "core/attrs.h"
#include "ops/infer.h"

namespace vernier::compiler {
namespace {

class SideOutputs {
 public:
  SideOutputs(ir::Graph& fused, const ir::Graph& raised) : fused_(fused), raised_(raised) {
    for (ir::ValueId id : fused.inputs) named_[fused.value(id).name] = id;
    for (ir::NodeId id : fused.order()) {
      for (ir::ValueId out : fused.node(id).outputs) {
        if (out != ir::kNoValue && !fused.value(out).name.empty())
          named_[fused.value(out).name] = out;
      }
    }
  }

  void add(const std::string& name) {
    const auto at = std::ranges::find(raised_.output_names, name) - raised_.output_names.begin();
    const ir::ValueId wanted = raised_.outputs[at];
    const ir::ValueId source = value_of(wanted);
    // A node of its own: the value's own step must not know that it is an output.
    const DType declared = raised_.value(wanted).dtype;
    const bool converts = fused_.value(source).dtype != declared;
    const ir::ValueId copy =
        converts ? ops::emit(fused_, OpKind::kCast, {source}, CastAttrs{.to = declared}, {})
                 : ops::emit(fused_, OpKind::kIdentity, {source}, NoAttrs{}, {});
    if (converts) fused_.producer(copy)->request.store = {declared, false};
    if (converts) fused_.producer(copy)->request.by = "--outputs";
    fused_.outputs.push_back(copy);
    fused_.output_names.push_back(name);
  }

 private:
  // The value of `fused_` that stands for a value of `raised_`, computed again if there is none.
  ir::ValueId value_of(ir::ValueId wanted) {
    std::vector<ir::ValueId> open{wanted};  // the next one last, what it needs behind it
    while (!open.empty()) {
      const ir::ValueId id = open.back();
      if (find(id)) {
        open.pop_back();
        continue;
      }
      const ir::NodeId producer = raised_.value(id).producer;
      const std::vector<ir::ValueId>& inputs = raised_.node(producer).inputs;
      const size_t before = open.size();
      for (auto in = inputs.rbegin(); in != inputs.rend(); ++in)
        if (*in != ir::kNoValue && !known_.contains(*in)) open.push_back(*in);
      if (open.size() == before) make(producer);
    }
    return known_.at(wanted);
  }

  // Is there a value that stands for this one already? A constant is one at once.
  bool find(ir::ValueId id) {
    if (known_.contains(id)) return true;
    const ir::Value& value = raised_.value(id);
    const auto named = value.name.empty() ? named_.end() : named_.find(value.name);
    if (!value.is_constant() && named == named_.end()) return false;
    if (value.is_constant()) {
      known_[id] = fused_.add_constant(value.constant);
      fused_.value(known_[id]).derivation = value.derivation;
    } else {
      known_[id] = named->second;
    }
    return true;
  }

  // Requires: all of the node's inputs are found.
  void make(ir::NodeId id) {
    const ir::Node& node = raised_.node(id);
    std::vector<ir::ValueId> inputs;
    for (ir::ValueId in : node.inputs)
      inputs.push_back(in == ir::kNoValue ? ir::kNoValue : known_.at(in));
    const ir::NodeId copy = fused_.add_node(node.op, std::move(inputs), node.attrs,
                                            static_cast<int>(node.outputs.size()));
    ir::Node& made = fused_.node(copy);
    made.name = node.name;
    made.subgraphs = node.subgraphs;
    if ((flags(node.op) & kView) == 0) {
      made.request = {.compute = {DType::kF32, false},
                      .accumulate = {DType::kF32, false},
                      .store = {DType::kF32, false},
                      .by = "--outputs",
                      .inner = {}};
    }
    ops::infer_node(fused_, copy);
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.has_output(i)) known_[node.outputs[i]] = made.outputs[i];
    }
  }

  ir::Graph& fused_;
  const ir::Graph& raised_;
  std::map<std::string, ir::ValueId> named_;  // of fused_, before anything was added
  std::map<ir::ValueId, ir::ValueId> known_;  // raised_ → fused_
};

}  // namespace

void add_side_outputs(ir::Graph& fused, const ir::Graph& raised,
                      const std::vector<std::string>& names) {
  SideOutputs side(fused, raised);
  for (const std::string& name : names) {
    if (std::ranges::find(fused.output_names, name) == fused.output_names.end()) side.add(name);
  }
  fused.sort();
  ops::infer_graph(fused);
}

}  // namespace vernier::compiler
