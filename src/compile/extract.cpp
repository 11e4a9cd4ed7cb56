// Parts of models for users: see vernier/extract.h; the file is written by onnx/extract.h.
#include "vernier/extract.h"

#include <memory>
#include <nlohmann/json.hpp>

#include "compile/clock.h"
#include "compile/json.h"
#include "compile/lines.h"
#include "core/limits.h"
#include "core/whole_file.h"
#include "onnx/extract.h"
#include "onnx/import.h"
#include "vernier/error.h"

namespace vernier {
namespace {

ExtractReport::Port port_of(const onnx::PartPort& port) {
  ExtractReport::Port shown{.name = port.name, .dtype = port.dtype, .shape = {}};
  for (const Dim& size : port.shape) shown.shape.push_back(size.str());
  return shown;
}

std::string shape_text(const ExtractReport::Port& port) {
  std::string text;
  for (const std::string& size : port.shape) text += (text.empty() ? "" : ", ") + size;
  return "[" + text + "]";
}

nlohmann::json port_json(const ExtractReport::Port& port) {
  nlohmann::json shape = nlohmann::json::array();
  for (const std::string& size : port.shape) {
    const bool fixed = size.find_first_not_of("0123456789") == std::string::npos;
    shape.push_back(fixed ? nlohmann::json(std::stoll(size)) : nlohmann::json(size));
  }
  return {{"name", port.name}, {"type", type_json(port.dtype)}, {"shape", std::move(shape)}};
}

// For the types of values only: weights may be missing. Null where it cannot be imported.
std::shared_ptr<ir::Graph> types_of(const ExtractOptions& options, ExtractReport& report) {
  try {
    return onnx::import_model(options.model, {.missing_weights = onnx::MissingWeights::kSeeded,
                                              .limits = options.limits});
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kInput) throw;
    report.notes.push_back(
        format_line("the model as a whole cannot be imported, so types are those that its file "
                    "holds: {}",
                    std::string(error.what())));
    return nullptr;
  }
}

void check_imports(const ExtractOptions& options, ExtractReport& report) {
  try {
    onnx::ImportReport found;
    onnx::import_model(options.part, {.limits = options.limits}, &found);
    for (std::string& note : found.notes) report.notes.push_back(std::move(note));
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kInput) throw;
    report.not_importable = error.what();
  }
}

}  // namespace

ExtractReport extract(const ExtractOptions& asked) {
  const compiler::Clock clock;
  ExtractOptions options = asked;
  options.limits = asked.limits.begun();
  if (options.from.empty() && options.to.empty()) {
    throw Error(ErrorCode::kInput,
                "a part begins or ends somewhere else than the model; add --from or --to, the name "
                "of a value or a node ('vernier inspect MODEL.onnx --dump-graph' lists them)");
  }
  check_can_write(options.part, "part");
  const auto stage = [&](std::string_view what) {
    if (options.progress) options.progress(what);
  };
  ExtractReport report;
  report.model = options.model.string();
  report.part = options.part.string();
  stage("import");
  const std::shared_ptr<ir::Graph> graph = types_of(options, report);
  stage("write");
  const onnx::Part part = onnx::write_part(options.model, graph.get(),
                                           {.to_file = options.part,
                                            .from = options.from,
                                            .to = options.to,
                                            .external_from = options.external_from,
                                            .limits = options.limits});
  report.onnx_nodes = part.nodes;
  report.model_nodes = part.model_nodes;
  report.weight_bytes = part.weight_bytes;
  report.data_file = part.data_file;
  for (const onnx::PartPort& port : part.inputs) report.inputs.push_back(port_of(port));
  for (const onnx::PartPort& port : part.outputs) report.outputs.push_back(port_of(port));
  report.notes.insert(report.notes.end(), part.notes.begin(), part.notes.end());
  stage("read again");
  check_imports(options, report);
  report.ms = clock.ms();
  return report;
}

std::string to_text(const ExtractReport& report) {
  std::string text = format_line("wrote {}: {} of {} nodes, {:.1f} MB of weights{}\n", report.part,
                                 report.onnx_nodes, report.model_nodes,
                                 static_cast<double>(report.weight_bytes) / 1e6,
                                 report.data_file.empty() ? "" : " in " + report.data_file);
  for (const ExtractReport::Port& port : report.inputs)
    text += format_line("input     {} {} {}\n", port.name, name(port.dtype), shape_text(port));
  for (const ExtractReport::Port& port : report.outputs)
    text += format_line("output    {} {} {}\n", port.name, name(port.dtype), shape_text(port));
  for (const std::string& note : report.notes) text += format_line("note      {}\n", note);
  if (!report.not_importable.empty())
    text += format_line("Vernier cannot read the part: {}\n", report.not_importable);
  return text;
}

std::string to_json(const ExtractReport& report) {
  using nlohmann::json;
  json inputs = json::array(), outputs = json::array();
  for (const ExtractReport::Port& port : report.inputs) inputs.push_back(port_json(port));
  for (const ExtractReport::Port& port : report.outputs) outputs.push_back(port_json(port));
  const json result{{"model", report.model},
                    {"part", report.part},
                    {"onnx_nodes", report.onnx_nodes},
                    {"model_nodes", report.model_nodes},
                    {"weight_bytes", report.weight_bytes},
                    {"data_file", report.data_file},
                    {"inputs", std::move(inputs)},
                    {"outputs", std::move(outputs)},
                    {"imports", report.not_importable.empty()},
                    {"why_not", report.not_importable},
                    {"notes", report.notes},
                    {"ms", report.ms}};
  return result.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace vernier
