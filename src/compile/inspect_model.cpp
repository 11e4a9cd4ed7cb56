// What is in a model, as imported and as raised. Contract: include/vernier/inspect.h.

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "compile/json.h"
#include "compile/lines.h"
#include "compile/pipeline.h"
#include "ir/text.h"
#include "onnx/graph_model.h"
#include "passes/report.h"
#include "precision/onnx_nodes.h"
#include "vernier/inspect.h"

namespace vernier {
namespace {

using nlohmann::json;

// Constants longer than this print as {...}.
constexpr int64_t kShownElems = 8;

std::string graph_text(const ir::Graph& graph) {
  return ir::print(graph, {.max_constant_elems = kShownElems});
}

json summary_json(const ir::Graph& graph, const compiler::Compiled& compiled) {
  std::map<std::string, int> operators;
  for (ir::NodeId id : graph.order()) {
    const ir::Node& node = graph.node(id);
    ++operators[node.origins.empty() ? std::string(name(node.op)) : node.origins.front().op_type];
  }
  json inputs = json::array(), outputs = json::array();
  for (ir::ValueId id : graph.inputs) {
    const ir::Value& value = graph.value(id);
    inputs.push_back(tensor_json(value.name, value.dtype, value.shape));
  }
  for (size_t i = 0; i < graph.outputs.size(); ++i) {
    const ir::Value& value = graph.value(graph.outputs[i]);
    outputs.push_back(tensor_json(graph.output_names[i], value.dtype, value.shape));
  }
  return {{"model", compiled.plan.model_name},
          {"producer", compiled.plan.producer},
          {"onnx_nodes", compiled.onnx_nodes},
          {"inputs", inputs},
          {"outputs", outputs},
          {"operators", operators},
          {"notes", compiled.plan.notes}};
}

std::string summary_text(const json& s) {
  std::string text = format_line("model     {}\nproducer  {}\nnodes     {}\n",
                                 s["model"].get<std::string>(), s["producer"].get<std::string>(),
                                 counted(s["onnx_nodes"].get<int64_t>(), "ONNX node"));
  for (const char* ports : {"input", "output"}) {
    for (const json& port : s[std::string(ports) + "s"]) {
      text += format_line("{:<8}  {}: {}\n", ports, port["name"].get<std::string>(),
                          port["type"].get<std::string>() + shape_text(port));
    }
  }
  for (const json& note : s["notes"])
    text += format_line("note      {}\n", note.get<std::string>());
  text += "operators\n";
  std::vector<std::pair<int, std::string>> counts;
  for (const auto& [op, count] : s["operators"].items()) counts.emplace_back(count.get<int>(), op);
  std::sort(counts.begin(), counts.end(), std::greater<>());
  for (const auto& [count, op] : counts) text += format_line("{:>6}  {}\n", count, op);
  return text;
}

json parts_json(const passes::LayerParts& parts) {
  return {{"attention", parts.attention},
          {"norm", parts.norm},
          {"linear", parts.linear},
          {"activation", parts.activation}};
}

json raised_json(const passes::RaiseReport& report) {
  json layers = json::array(), leftovers = json::array();
  for (const passes::LayerParts& layer : report.layers) layers.push_back(parts_json(layer));
  for (const passes::Leftover& left : report.leftovers) {
    leftovers.push_back({{"node", left.node},
                         {"op", left.op},
                         {"pattern", left.pattern},
                         {"stopped", left.stopped}});
  }
  return {{"composites", report.composites},
          {"layers", layers},
          {"outside", parts_json(report.outside)},
          {"shape_nodes", report.shape_nodes},
          {"leftovers", leftovers}};
}

// A node of the raised graph that does work.
struct Row {
  std::string op, trtexec, node;
  DType type = DType::kUndefined;
  SymShape shape;
  size_t nodes = 0;
  std::string result() const { return std::string(name(type)) + str(shape); }
};

// What trtexec specs may call a node besides its ONNX name: of a composite its own (that all of its
// ONNX nodes have; a mask may belong to several), else of its ONNX node.
std::string trtexec_name(const ir::Node& node,
                         const std::map<std::string, precision::SyntheticNames>& names) {
  if (node.origins.empty()) return "";
  const precision::SyntheticNames& last = names.at(node.origins.back().key);
  if ((flags(node.op) & kComposite) == 0) return last.by_type;
  for (const std::string& name : last.composites) {
    const bool of_all = std::ranges::all_of(node.origins, [&](const ir::Origin& origin) {
      return std::ranges::count(names.at(origin.key).composites, name) > 0;
    });
    if (of_all) return name;
  }
  return last.by_type;
}

std::vector<Row> rows_of(const ir::Graph& graph) {
  const auto names = precision::synthetic_names(graph);
  std::vector<Row> rows;
  for (ir::NodeId id : graph.order()) {
    const ir::Node& node = graph.node(id);
    if (flags(node.op) & kView || node.op == OpKind::kShapeValues) continue;
    const ir::Value& result = graph.value(node.outputs[0]);
    rows.push_back({.op = std::string(name(node.op)),
                    .trtexec = trtexec_name(node, names),
                    .node = node.origins.empty() ? "" : node.origins.front().name,
                    .type = result.dtype,
                    .shape = result.shape,
                    .nodes = node.origins.size()});
  }
  return rows;
}

std::string outline(const std::vector<Row>& rows) {
  std::string text = format_line("{:<18} {:<30} {:>6}  {:<26} {}\n", "operator", "result", "nodes",
                                 "in trtexec specs", "from");
  for (const Row& row : rows) {
    text += format_line("{:<18} {:<30} {:>6}  {:<26} {}\n", row.op, row.result(), row.nodes,
                        row.trtexec, row.node);
  }
  return text;
}

json rows_json(const std::vector<Row>& rows) {
  json result = json::array();
  for (const Row& row : rows) {
    result.push_back({{"op", row.op},
                      {"type", type_json(row.type)},
                      {"shape", shape_json(row.shape)},
                      {"onnx_nodes", row.nodes},
                      {"trtexec", row.trtexec},
                      {"node", row.node}});
  }
  return result;
}

}  // namespace

std::string inspect_model(const std::string& path, const ModelInspection& what) {
  CompileOptions options;
  options.seed_missing_weights = what.seed_missing_weights;
  options.mode = what.mode;
  options.rules = what.rules;
  compiler::Compiled compiled;
  const bool as_json = what.format == InspectFormat::kJson;
  const bool raised = what.view == ModelView::kRaised || what.view == ModelView::kRaisedGraph;
  const auto graph =
      raised ? compiler::raise(path, options, compiled) : compiler::import(path, options, compiled);
  const auto dump = [](const json& j) {
    return j.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
  };
  switch (what.view) {
    case ModelView::kTypedGraph: {
      const std::string text = ir::print(
          *compiler::typed(*graph, options),
          {.max_constant_elems = kShownElems, .requests = ir::PrintOptions::Requests::kShow});
      return as_json ? dump({{"graph", text}}) : text;
    }
    case ModelView::kGraph:
    case ModelView::kRaisedGraph:
      return as_json ? dump({{"graph", graph_text(*graph)}}) : graph_text(*graph);
    case ModelView::kRaised: {
      const passes::RaiseReport report = passes::raise_report(*graph);
      const std::vector<Row> rows = rows_of(*graph);
      if (!as_json) return outline(rows) + "\n" + passes::to_text(report);
      json result = raised_json(report);
      result["nodes"] = rows_json(rows);
      return dump(result);
    }
    default: {
      const json summary = summary_json(*graph, compiled);
      return as_json ? dump(summary) : summary_text(summary);
    }
  }
}

ExportedModel export_onnx(const std::string& path, const std::string& to,
                          bool seed_missing_weights) {
  CompileOptions options;
  options.seed_missing_weights = seed_missing_weights;
  compiler::Compiled compiled;
  const onnx::WrittenGraph written = onnx::write_graph_model(
      *compiler::raise(path, options, compiled), to, {.model = path, .limits = options.limits});
  return {written.nodes, written.weight_bytes, written.data_file};
}

}  // namespace vernier
