// Counts composites and explains what was not raised: see report.h.
#include "passes/report.h"

#include <algorithm>
#include <set>

#include "analysis/layers.h"
#include "passes/attention_parts.h"
#include "passes/gelu.h"
#include "passes/norms.h"
#include "vernier/printable.h"

namespace vernier::passes {
namespace {

using enum OpKind;

bool is_activation(OpKind op) {
  return op == kGelu || op == kRelu || op == kSwish || op == kHardSwish || op == kMish;
}

// ---- layers

std::vector<LayerParts> parts_of_layers(const Graph& graph, LayerParts& outside) {
  const analysis::Layers layers = analysis::layers_of(graph);
  std::vector<LayerParts> parts(static_cast<size_t>(layers.count));
  for (NodeId id : graph.order()) {
    const int layer = layers.of[id];
    const OpKind op = graph.node(id).op;
    LayerParts& here = layer < 0 ? outside : parts[layer];
    here.attention += op == kAttention;
    here.norm += analysis::is_norm(op);
    here.linear += op == kLinear;
    here.activation += is_activation(op);
  }
  return parts;
}

// ---- leftovers

std::string describe(const Graph& graph, ValueId value) {
  const Node* n = value == kNoValue ? nullptr : graph.producer(value);
  if (n && !n->origins.empty()) {
    return std::string(name(n->op)) + " '" + n->origins.front().name + "' (" +
           n->origins.front().key + ")";
  }
  if (n) return std::string(name(n->op)) + " created by a rewrite";
  if (value == kNoValue) return "an absent operand";
  return (graph.value(value).is_constant() ? "the constant '" : "the input '") +
         graph.value(value).name + "'";
}

Leftover leftover(const Graph& graph, const Node& n, const char* pattern, const Trace& trace) {
  Leftover row;
  row.node =
      n.origins.empty() ? n.name : n.origins.front().name + " (" + n.origins.front().key + ")";
  row.op = std::string(name(n.op));
  row.pattern = pattern;
  row.stopped = trace.depth < 0 ? "no similar pattern around it"
                                : describe(graph, trace.value) + ", expected " + trace.expected;
  return row;
}

// Div and Mul nodes at most `steps` users below `value`.
void anchors_below(const Graph& graph, ValueId value, int steps, std::set<NodeId>& anchors) {
  if (steps == 0) return;
  for (NodeId user : graph.value(value).users) {
    const Node& n = graph.node(user);
    if (n.op == kMul || n.op == kDiv) anchors.insert(user);
    if ((flags(n.op) & kElementwise) != 0 && n.has_output(0))
      anchors_below(graph, n.outputs[0], steps - 1, anchors);
  }
}

bool comes_from_mean(const Graph& graph, ValueId value, int steps = 4) {
  const Node* n = graph.producer(value);
  if (!n || steps == 0) return false;
  if (n->op == kReduceMean) return true;
  if ((flags(n->op) & kElementwise) == 0) return false;
  return std::any_of(n->inputs.begin(), n->inputs.end(), [&](ValueId in) {
    return in != kNoValue && comes_from_mean(graph, in, steps - 1);
  });
}

void explain_softmax(const Graph& graph, NodeId id, RaiseReport& report) {
  Trace trace;
  const auto match = match_attention(graph, id, &trace);
  if (match) {
    const auto copy = graph.clone();  // joining masks emits nodes
    combine_terms(*copy, *match, &trace);
  }
  report.leftovers.push_back(leftover(graph, graph.node(id), "Attention", trace));
}

void explain_norm(const Graph& graph, NodeId id, RaiseReport& report) {
  const Node& n = graph.node(id);
  if (!comes_from_mean(graph, n.outputs[0])) return;
  std::set<NodeId> anchors;
  anchors_below(graph, n.outputs[0], 3, anchors);
  Trace trace;
  for (NodeId anchor : anchors) {
    match_layer_norm(graph, anchor, &trace);
    match_rms_norm(graph, anchor, &trace);
  }
  report.leftovers.push_back(leftover(graph, n, "LayerNorm or RMSNorm", trace));
}

void explain_gelu(const Graph& graph, NodeId id, RaiseReport& report) {
  const Node& n = graph.node(id);
  if (n.op == kTanh) {
    // A Tanh that is not part of 1 + tanh(…) is an activation of its own.
    const NodeId user = sole_user(graph, n.outputs[0]);
    if (user == ir::kNoNode || graph.node(user).op != kAdd) return;
    const auto& operands = graph.node(user).inputs;
    if (!is_uniform(graph, operands[0], 1) && !is_uniform(graph, operands[1], 1)) return;
  }
  std::set<NodeId> anchors;
  anchors_below(graph, n.outputs[0], 4, anchors);
  Trace trace;
  for (NodeId anchor : anchors) match_gelu(graph, anchor, &trace);
  report.leftovers.push_back(leftover(graph, n, "Gelu", trace));
}

}  // namespace

RaiseReport raise_report(const Graph& graph) {
  RaiseReport report;
  for (NodeId id : graph.order()) {
    const Node& n = graph.node(id);
    if ((flags(n.op) & kComposite) != 0) ++report.composites[std::string(name(n.op))];
    if (n.op == kSoftmax) explain_softmax(graph, id, report);
    if (n.op == kSqrt || n.op == kPow) explain_norm(graph, id, report);
    if (n.op == kErf || n.op == kTanh) explain_gelu(graph, id, report);
    const bool sizes = n.has_output(0) && graph.value(n.outputs[0]).values && n.op != kShapeValues;
    report.shape_nodes += sizes || n.op == kShape || n.op == kSize;
  }
  report.layers = parts_of_layers(graph, report.outside);
  return report;
}

namespace {

std::string counted(int count, const char* what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

std::string describe(const LayerParts& layer) {
  return counted(layer.attention, "attention") + ", " + counted(layer.norm, "norm") + ", " +
         counted(layer.linear, "linear") + ", " + counted(layer.activation, "activation");
}

}  // namespace

std::string to_text(const RaiseReport& report) {
  std::string text = "composites:";
  for (const auto& [op, count] : report.composites)
    text.append(" ").append(printable_name(op)).append(" ").append(std::to_string(count));
  text += "\n";
  for (size_t i = 0; i < report.layers.size();) {
    size_t end = i;
    while (end < report.layers.size() && report.layers[end] == report.layers[i]) ++end;
    const std::string which =
        end - i == 1 ? "layer " + std::to_string(i)
                     : "layers " + std::to_string(i) + ".." + std::to_string(end - 1) + ", each";
    text += which + ": " + describe(report.layers[i]) + "\n";
    i = end;
  }
  if (!(report.outside == LayerParts{}))
    text += "outside the layers: " + describe(report.outside) + "\n";
  if (report.shape_nodes > 0)
    text += counted(report.shape_nodes, "node") + " that only compute sizes\n";
  for (const Leftover& row : report.leftovers) {
    text += printable_name(row.op + " '" + row.node + "' is not part of " + row.pattern +
                           ": stopped at " + row.stopped) +
            "\n";
  }
  return text;
}

}  // namespace vernier::passes
