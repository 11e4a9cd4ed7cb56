// vernier bisect: the nodes that have to be raised for an engine to pass. Contract: README.md
// "Commands"; how they are found: docs/verification.md "Bisect".
#include "verify/bisect.h"

#include <CLI/CLI.hpp>

#include "cli/arguments.h"
#include "cli/common.h"
#include "io/npz.h"
#include "verify/html_report.h"
#include "vernier/error.h"

namespace vernier::cli {
namespace {

struct Options {
  std::string engine, model, output, tolerance, batches, lengths, batch_axis;
  std::vector<std::string> inputs, plugins;
  uint64_t seed = 1;
  int threads = 0;
  bool json = false;
};

verify::Request request_of(const Options& options) {
  verify::Request request;
  request.engine = options.engine;
  request.backend = plugin_kernels(options.plugins);
  request.model = options.model;
  request.tolerance = verify::parse_tolerance(options.tolerance);
  request.batches = parse_sizes(options.batches, "--batches");
  request.lengths = parse_sizes(options.lengths, "--lengths");
  request.batch_axis = options.batch_axis;
  request.seed = options.seed;
  request.threads = options.threads;
  for (const std::string& file : options.inputs)
    request.inputs.push_back({file, io::read_arrays(file)});
  return request;
}

int bisect(const Options& options) {
  if (!options.output.empty()) {
    std::vector<std::string> read = options.inputs;
    read.insert(read.end(), {options.engine, options.model});
    check_keeps_inputs(options.output, read);
    verify::check_can_write(options.output, "bisection");
  }
  verify::Request request = request_of(options);
  verify::Bisection found;
  {
    Progress progress("bisecting " + options.engine);
    request.progress = [&](const std::string& stage) { progress.stage(stage); };
    found = verify::bisect(request);
  }
  const std::string json = verify::to_json(found);
  if (!options.output.empty()) verify::write_text_file(options.output, "bisection", json);
  print(options.json ? json : verify::to_text(found));
  return found.outcome == verify::BisectOutcome::kNotPrecision
             ? static_cast<int>(ErrorCode::kCheckFailed)
             : 0;
}

}  // namespace

void add_bisect(CLI::App& app, Run& chosen) {
  CLI::App* command =
      app.add_subcommand("bisect", "Find the nodes that must be raised for an engine to pass");
  const auto options = std::make_shared<Options>();
  command->add_option("ENGINE", options->engine, "engine file (.vn) that fails")->required();
  command->add_option("--model", options->model, "the ONNX file it was built from")->required();
  command->add_option("--inputs", options->inputs,
                      "arrays named as the model's inputs (.npz), one or many; without it, seeded "
                      "inputs that fit the model are made");
  command->add_option("--batches", options->batches, "batch sizes of the sweep [1,2,4,8]");
  command->add_option("--lengths", options->lengths, "lengths of the sweep [4,16,48]");
  command->add_option("--batch-axis", options->batch_axis,
                      "the named size that counts rows [found on the model]");
  command->add_option("--seed", options->seed, "seed of the made inputs [1]");
  command->add_option("--tolerance", options->tolerance,
                      "limits instead of the usual ones, as in verify");
  command->add_option("-o,--output", options->output, "where the result goes as JSON");
  add_plugins(*command, options->plugins);
  add_threads(*command, options->threads);
  command->add_flag("--json", options->json, "print JSON");
  command->footer(
      "Examples:\n"
      "  vernier bisect model.vn --model model.onnx\n"
      "  vernier bisect model.vn --model model.onnx --inputs in.npz --tolerance rms=1e-3\n"
      "  vernier bisect model.vn --model model.onnx --batches 4 --lengths 16 -o found.json\n"
      "Exit code 0 when the engine passes or the nodes were found, 1 when it is no matter of "
      "precision");
  command->callback([options, &chosen] { chosen = [options] { return bisect(*options); }; });
}

}  // namespace vernier::cli
