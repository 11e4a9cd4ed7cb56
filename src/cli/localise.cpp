// vernier localise: which steps of an engine its error comes from. Contract: docs/commands.md;
// what the numbers are: docs/diagnosis.md "Localise".
#include "vernier/localise.h"

#include <CLI/CLI.hpp>

#include "cli/arguments.h"
#include "cli/arrays.h"
#include "cli/common.h"
#include "io/text_file.h"
#include "vernier/error.h"
#include "vernier/verify.h"

namespace vernier::cli {
namespace {

struct Options {
  std::string engine, model, inputs, output, batch, length;
  std::vector<std::string> plugins;
  uint64_t seed = 1;
  int threads = 0;
  bool json = false;
};

verify::Request request_of(const Options& options) {
  verify::Request request;
  request.engine = options.engine;
  request.kernels = plugin_kernels(options.plugins);
  request.model = options.model;
  request.seed = options.seed;
  request.threads = options.threads;
  request.limits = limits_of({});  // Ctrl-C
  request.batches = parse_sizes(options.batch, "--batch");
  request.lengths = parse_sizes(options.length, "--length");
  if (request.batches.size() > 1 || request.lengths.size() > 1)
    throw Error(ErrorCode::kInput, "--batch and --length take one size: one run is followed");
  if (options.inputs.empty()) return request;
  if (!options.batch.empty() || !options.length.empty()) {
    throw Error(ErrorCode::kInput,
                "--inputs excludes --batch and --length: the arrays have their own sizes");
  }
  request.inputs = read_user_inputs(options.engine, options.plugins, options.inputs);
  if (request.inputs.size() > 1) {
    warn_of_more(options.inputs, request.inputs.size());
    request.inputs.resize(1);
  }
  return request;
}

int localise(const Options& options) {
  if (!options.output.empty()) {
    std::vector<std::string> read{options.engine, options.model};
    if (!options.inputs.empty()) read.push_back(options.inputs);
    check_keeps_inputs(options.output, read);
    io::check_can_write(options.output, "localisation");
  }
  verify::Request request = request_of(options);
  verify::Localisation found;
  {
    Progress progress("localising " + options.engine);
    request.progress = [&](const std::string& stage) { progress.stage(stage); };
    found = verify::localise(request);
  }
  const std::string json = verify::to_json(found);
  if (!options.output.empty()) io::write_text_file(options.output, "localisation", json);
  print(options.json ? json : verify::to_text(found));
  return 0;
}

}  // namespace

void add_localise(CLI::App& app, Run& chosen) {
  CLI::App* command =
      app.add_subcommand("localise", "Show which steps of an engine its error comes from");
  const auto options = std::make_shared<Options>();
  command->add_option("ENGINE", options->engine, "engine file (.vn)")->required();
  command->add_option("--model", options->model, "the ONNX file it was built from")->required();
  command->add_option("--inputs", options->inputs,
                      "arrays named as the model's inputs (.npz) [seeded ones that fit the model]");
  command->add_option("--batch", options->batch, "batch size of the seeded inputs [8]");
  command->add_option("--length", options->length, "length of the seeded inputs [48]");
  command->add_option("--seed", options->seed, "seed of the generated inputs [1]");
  command->add_option("-o,--output", options->output, "where the numbers go as JSON");
  add_threads(*command, options->threads);
  add_plugins(*command, options->plugins);
  command->add_flag("--json", options->json, "print JSON");
  command->footer(
      "Examples:\n"
      "  vernier localise model.vn --model model.onnx\n"
      "  vernier localise model.vn --model model.onnx --inputs in.npz -o errors.json");
  command->callback([options, &chosen] { chosen = [options] { return localise(*options); }; });
}

}  // namespace vernier::cli
