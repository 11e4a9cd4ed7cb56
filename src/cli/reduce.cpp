// vernier reduce: the smallest part of a model that still fails, as files. Contract: README.md
// "Commands"; how it is found: docs/verification.md "Reduce".
#include "verify/reduce.h"

#include <CLI/CLI.hpp>

#include "cli/arguments.h"
#include "cli/common.h"
#include "io/npz.h"
#include "vernier/error.h"

namespace vernier::cli {
namespace {

struct Options {
  std::string engine, model, folder, tolerance, batches, lengths, batch_axis;
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

int reduce(const Options& options) {
  const std::filesystem::path folder(options.folder);
  std::vector<std::string> read = options.inputs;
  read.insert(read.end(), {options.engine, options.model});
  for (const char* name : {"model.onnx", "model.vn", "inputs.npz", "command.txt"})
    check_keeps_inputs((folder / name).string(), read);
  verify::Request request = request_of(options);
  verify::Reduction found;
  {
    Progress progress("reducing " + options.engine);
    request.progress = [&](const std::string& stage) { progress.stage(stage); };
    found = verify::reduce(request, {.folder = folder, .plugins = options.plugins});
  }
  print(options.json ? verify::to_json(found) : verify::to_text(found));
  return found.outcome == verify::ReduceOutcome::kNotReproduced
             ? static_cast<int>(ErrorCode::kCheckFailed)
             : 0;
}

}  // namespace

void add_reduce(CLI::App& app, Run& chosen) {
  CLI::App* command =
      app.add_subcommand("reduce", "Write the smallest part of a model that still fails");
  const auto options = std::make_shared<Options>();
  command->add_option("ENGINE", options->engine, "engine file (.vn) that fails")->required();
  command->add_option("--model", options->model, "the ONNX file it was built from")->required();
  command
      ->add_option("-o,--output", options->folder,
                   "folder for model.onnx, inputs.npz and command.txt")
      ->required();
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
  add_plugins(*command, options->plugins);
  add_threads(*command, options->threads);
  command->add_flag("--json", options->json, "print JSON");
  command->footer(
      "Examples:\n"
      "  vernier reduce model.vn --model model.onnx -o part\n"
      "  vernier reduce model.vn --model model.onnx --inputs in.npz -o part\n"
      "  cd part && sh command.txt\n"
      "Exit code 0 when the engine passes or a part was written that fails, 1 when no part does");
  command->callback([options, &chosen] { chosen = [options] { return reduce(*options); }; });
}

}  // namespace vernier::cli
