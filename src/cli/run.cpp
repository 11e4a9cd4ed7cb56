// vernier run: one engine, one .npz of inputs, one .npz of outputs. Contract: README.md "Commands".
#include <CLI/CLI.hpp>

#include "cli/arguments.h"
#include "cli/arrays.h"
#include "cli/common.h"

namespace vernier::cli {
namespace {

struct Options {
  std::string engine, inputs, outputs, device = "cpu";
  int threads = 0;
};

int run(const Options& options) {
  const Progress progress("running " + options.engine);
  Session session(Engine::open(options.engine), {.threads = options.threads});
  io::write_npz(options.outputs, run_session(session, io::read_arrays(options.inputs)));
  return 0;
}

}  // namespace

void add_run(CLI::App& app, Run& chosen) {
  CLI::App* command = app.add_subcommand("run", "Run an engine on the arrays of an .npz file");
  const auto options = std::make_shared<Options>();
  command->add_option("ENGINE", options->engine, "engine file (.vn)")->required();
  command->add_option("--inputs", options->inputs, "arrays named as the model's inputs (.npz)")
      ->required();
  command->add_option("-o,--outputs", options->outputs, "where the outputs go (.npz)")->required();
  add_device(*command, options->device);
  add_threads(*command, options->threads);
  command->footer(
      "Examples:\n"
      "  vernier run model.vn --inputs in.npz --outputs out.npz\n"
      "  vernier run model.vn --inputs in.npz -o out.npz --threads 1");
  command->callback([options, &chosen] { chosen = [options] { return run(*options); }; });
}

}  // namespace vernier::cli
