// vernier inspect: what is in a model or an engine. Contract: docs/commands.md; the views
// themselves: include/vernier/inspect.h.
#include "vernier/inspect.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/arguments.h"
#include "cli/arrays.h"
#include "cli/common.h"

namespace vernier::cli {
namespace {

struct Options {
  std::string file, why, shapes, inputs, typed, export_onnx;
  std::vector<std::string> rules;
  std::vector<std::string> plugins;
  int threads = 0;
  bool raised = false, ledger = false, plan = false, memory = false, timing = false,
       dump_graph = false, check = false, seed_missing_weights = false, json = false;
};

/// One option that picks a view, for the errors about wrong pairs.
struct Choice {
  const char* option;
  bool given;
};

[[noreturn]] void wrong_kind(const Options& options, const char* option, const char* is,
                             const char* needs) {
  throw Error(ErrorCode::kInput,
              std::string(option) + " is for " + needs + ", but '" + options.file + "' is " + is);
}

std::string to_text(const Options& options, const ExportedModel& made) {
  return fmt::format("wrote {}: {} nodes, {:.1f} MB of weights{}\n", options.export_onnx,
                     made.nodes, 1e-6 * static_cast<double>(made.weight_bytes),
                     made.data_file.empty() ? "" : " in " + made.data_file);
}
std::string to_json(const Options& options, const ExportedModel& made) {
  const nlohmann::json fields{{"model", options.file},
                              {"written", options.export_onnx},
                              {"nodes", made.nodes},
                              {"weight_bytes", made.weight_bytes},
                              {"data_file", made.data_file}};
  return fields.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

int inspect_model_file(const Options& options) {
  for (const Choice& choice :
       {Choice{"--ledger", options.ledger}, Choice{"--plan", options.plan},
        Choice{"--memory", options.memory}, Choice{"--timing", options.timing},
        Choice{"--why", !options.why.empty()}, Choice{"--check", options.check}}) {
    if (choice.given) wrong_kind(options, choice.option, "a model; build it first", "an engine");
  }
  ModelInspection what;
  what.seed_missing_weights = options.seed_missing_weights;
  what.format = options.json ? InspectFormat::kJson : InspectFormat::kText;
  what.mode = options.typed;
  what.rules = options.rules;
  if (!options.typed.empty()) {
    what.view = ModelView::kTypedGraph;
  } else if (options.raised && options.dump_graph) {
    what.view = ModelView::kRaisedGraph;
  } else if (options.raised) {
    what.view = ModelView::kRaised;
  } else if (options.dump_graph) {
    what.view = ModelView::kGraph;
  }
  if (!options.export_onnx.empty()) {
    if (options.raised || options.dump_graph || !options.typed.empty())
      throw Error(ErrorCode::kInput,
                  "--export-onnx writes a file and shows nothing: leave out the "
                  "options that show something");
    ExportedModel made;
    {
      const Progress progress("writing " + options.export_onnx);
      made = export_onnx(options.file, options.export_onnx, options.seed_missing_weights);
    }
    print(options.json ? to_json(options, made) : to_text(options, made));
    return 0;
  }
  const Progress progress("reading " + options.file);
  print(inspect_model(options.file, what));
  return 0;
}

int inspect_engine_file(const Options& options) {
  for (const Choice& choice :
       {Choice{"--raised", options.raised}, Choice{"--dump-graph", options.dump_graph},
        Choice{"--typed", !options.typed.empty()}, Choice{"--rule", !options.rules.empty()},
        Choice{"--export-onnx", !options.export_onnx.empty()}}) {
    if (choice.given) wrong_kind(options, choice.option, "an engine", "a model");
  }
  const EngineOptions opening{.kernels = plugin_kernels(options.plugins)};
  const std::shared_ptr<const Engine> engine = Engine::open(options.file, opening);
  if (options.check) engine->check_weights();
  EngineInspection what;
  what.node = options.why;
  what.shapes = options.shapes;
  what.threads = options.threads;
  what.format = options.json ? InspectFormat::kJson : InspectFormat::kText;
  if (options.ledger || !options.why.empty()) {
    what.view = EngineView::kLedger;
  } else if (options.plan) {
    what.view = EngineView::kPlan;
  } else if (options.memory) {
    what.view = EngineView::kMemory;
  } else if (options.timing) {
    what.view = EngineView::kTiming;
  }
  NamedTensors arrays;
  if (!options.inputs.empty()) {
    Session session(engine, {.threads = options.threads});
    arrays = read_inputs(session, options.inputs);
    what.inputs = as_inputs(arrays);
  }
  print(inspect_engine(*engine, what));
  return 0;
}

void check_one_view(const Options& options) {
  if (!options.inputs.empty() && !options.timing)
    throw Error(ErrorCode::kInput, "--inputs is for --timing: it times the steps on these arrays");

  const int views =
      options.raised + options.ledger + options.plan + options.memory + options.timing;
  if (views > 1) {
    throw Error(ErrorCode::kInput,
                "choose one view of --raised, --ledger, --plan, --memory and --timing");
  }
}

int inspect(const Options& options) {
  check_one_view(options);
  const std::filesystem::path path(options.file);
  if (!std::filesystem::exists(path))
    throw Error(ErrorCode::kInput, "cannot read '" + options.file + "': there is no such file");
  // A file that is named like an engine but is not one: opening it says so.
  const bool engine = is_engine_file(options.file) || path.extension() == ".vn";
  return engine ? inspect_engine_file(options) : inspect_model_file(options);
}

void add_views(CLI::App& command, Options& options) {
  command.add_flag("--raised", options.raised,
                   "model: composites per layer, and what stopped a pattern that did not match");
  command.add_flag("--ledger", options.ledger,
                   "engine: each ONNX node, what was asked, what it got, kernel, why");
  command.add_flag("--plan", options.plan, "engine: each step, its kernel and shapes");
  command.add_flag("--memory", options.memory, "engine: the arena, by value");
  command.add_flag("--timing", options.timing, "engine: time of each step");
}

}  // namespace

void add_inspect(CLI::App& app, Run& chosen) {
  CLI::App* command = app.add_subcommand("inspect", "Show what is in a model or an engine");
  const auto options = std::make_shared<Options>();
  command->add_option("FILE", options->file, "model (.onnx) or engine (.vn)")->required();
  add_views(*command, *options);
  command->add_flag("--dump-graph", options->dump_graph,
                    "model: the graph in text form; with --raised the raised one");
  command->add_option("--typed", options->typed,
                      "model: the raised graph in text form with the types and requests of this "
                      "mode: model, fp32, tf32, fp16, bf16, int8, fp8, w8 or w4");
  command->add_option("--rule", options->rules, "with --typed: rules, as build takes them")
      ->allow_extra_args(false);
  command->add_option("--export-onnx", options->export_onnx,
                      "model: write the raised graph as a standard ONNX model (opset 21)");
  command->add_option("--why", options->why, "engine: the ledger's rows of one ONNX node");
  command->add_option("--shapes", options->shapes,
                      "sizes for --memory and --timing: batch=4,seq=128");
  command->add_option("--inputs", options->inputs, "with --timing: arrays to run on (.npz)");
  command->add_flag("--check", options->check, "engine: read all weights, compare their checksums");
  command->add_flag("--seed-missing-weights", options->seed_missing_weights,
                    "model: seeded values for weight files that are absent");
  add_threads(*command, options->threads);
  add_plugins(*command, options->plugins);
  command->add_flag("--json", options->json, "print as JSON");
  command->footer(
      "Examples:\n"
      "  vernier inspect model.onnx --raised\n"
      "  vernier inspect model.onnx --export-onnx raised.onnx\n"
      "  vernier inspect model.onnx --typed fp16 --rule 'op:LayerNorm store=f32'\n"
      "  vernier inspect model.vn --ledger --json\n"
      "  vernier inspect model.vn --why /encoder/layer.0/output/LayerNorm/Pow\n"
      "  vernier inspect model.vn --timing --shapes batch=4,seq=128");
  command->callback([options, &chosen] { chosen = [options] { return inspect(*options); }; });
}

}  // namespace vernier::cli
