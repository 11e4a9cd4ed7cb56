// The compiler's stages: see pipeline.h.
#include "compile/pipeline.h"

#include "backend/cpu/cpu.h"
#include "compile/weights.h"
#include "core/names.h"
#include "onnx/import.h"
#include "plan/planner.h"
#include "precision/requests.h"

namespace vernier::compiler {
namespace {

const backend::Backend& backend_named(const std::string& device) {
  if (device == backend::cpu_backend().name) return backend::cpu_backend();
  throw Error(ErrorCode::kInput,
              "--device: got '" + device + "', expected cpu (the only device of this version)");
}

void add_outputs(ir::Graph& graph, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    ir::ValueId found = ir::kNoValue;
    std::vector<std::string> known;
    for (size_t v = 0; v < graph.num_values(); ++v) {
      const auto id = static_cast<ir::ValueId>(v);
      if (graph.value(id).name.empty()) continue;
      known.push_back(graph.value(id).name);
      if (known.back() == name) found = id;
    }
    if (found == ir::kNoValue) {
      throw Error(ErrorCode::kInput,
                  "--outputs: the model has no value '" + name + "'" + nearest_names(name, known));
    }
    if (std::find(graph.output_names.begin(), graph.output_names.end(), name) !=
        graph.output_names.end())
      continue;
    graph.outputs.push_back(found);
    graph.output_names.push_back(name);
  }
}

passes::PassOptions pass_options(const CompileOptions& options) {
  passes::PassOptions result;
  result.off = {options.passes_off.begin(), options.passes_off.end()};
  if (options.progress) {
    result.after = [&options](std::string_view pass, const ir::Graph&) { options.progress(pass); };
  }
  return result;
}

}  // namespace

std::shared_ptr<ir::Graph> import(const std::string& model_path, const CompileOptions& options,
                                  Compiled& result) {
  if (options.progress) options.progress("import");
  onnx::ImportOptions import_options;
  if (options.seed_missing_weights) import_options.missing_weights = onnx::MissingWeights::kSeeded;
  onnx::ImportReport report;
  std::shared_ptr<ir::Graph> graph = onnx::import_model(model_path, import_options, &report);
  result.onnx_nodes = report.nodes;
  result.plan.model_name = graph->name;
  result.plan.producer = report.producer;
  result.plan.notes = report.notes;
  for (const std::string& line : non_finite_weights(*graph))
    result.plan.notes.push_back("warning: " + line);
  add_outputs(*graph, options.extra_outputs);
  return graph;
}

std::shared_ptr<ir::Graph> raise(const std::string& model_path, const CompileOptions& options,
                                 Compiled& result) {
  std::shared_ptr<ir::Graph> graph = import(model_path, options, result);
  passes::run_passes(*graph, passes::Phase::kRaise, pass_options(options));
  return graph;
}

namespace {

// From the raised graph to the plan.
plan::Plan lower(ir::Graph& graph, const CompileOptions& options) {
  const backend::Backend& backend = backend_named(options.device);
  precision::assign_requests(graph, precision::Mode::kFp32);
  passes::run_passes(graph, passes::Phase::kFuse, pass_options(options));
  if (options.progress) options.progress("plan");
  return plan::make_plan(graph, backend, {.shapes = options.shapes, .progress = nullptr});
}

}  // namespace

plan::Plan plan_of(ir::Graph& imported, const CompileOptions& options) {
  passes::run_passes(imported, passes::Phase::kRaise, pass_options(options));
  return lower(imported, options);
}

Compiled run(const std::string& model_path, const CompileOptions& options) {
  backend_named(options.device);  // refuse a wrong device before the work
  Compiled result;
  const std::shared_ptr<ir::Graph> graph = raise(model_path, options, result);
  plan::Plan plan = lower(*graph, options);
  plan.model_name = result.plan.model_name;
  plan.producer = result.plan.producer;
  plan.notes.insert(plan.notes.begin(), result.plan.notes.begin(), result.plan.notes.end());
  result.plan = std::move(plan);
  return result;
}

}  // namespace vernier::compiler
