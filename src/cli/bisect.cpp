// vernier bisect: the nodes that have to be raised for an engine to pass. Contract:
// docs/commands.md; how they are found: docs/diagnosis.md "Bisect".
#include "vernier/bisect.h"

#include <CLI/CLI.hpp>

#include "cli/common.h"
#include "cli/sweep_options.h"
#include "io/text_file.h"
#include "vernier/error.h"

namespace vernier::cli {
namespace {

struct Options : SweepOptions {
  std::string output;
};

int bisect(const Options& options) {
  if (!options.output.empty()) {
    check_keeps_inputs(options.output, options);
    io::check_can_write(options.output, "bisection");
  }
  verify::Request request = request_of(options);
  verify::Bisection found;
  {
    Progress progress("bisecting " + options.engine);
    request.progress = [&](const std::string& stage) { progress.stage(stage); };
    found = verify::bisect(request);
  }
  const std::string json = verify::to_json(found);
  if (!options.output.empty()) io::write_text_file(options.output, "bisection", json);
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
  add_sweep_options(*command, *options);
  command->add_option("-o,--output", options->output, "where the result goes as JSON");
  command->footer(
      "Examples:\n"
      "  vernier bisect model.vn --model model.onnx\n"
      "  vernier bisect model.vn --model model.onnx --inputs in.npz --tolerance rms=1e-3\n"
      "  vernier bisect model.vn --model model.onnx --batches 4 --lengths 16 -o found.json\n"
      "Exit code 0 when the engine passes or the nodes were found, 1 when precision is not "
      "the cause");
  command->callback([options, &chosen] { chosen = [options] { return bisect(*options); }; });
}

}  // namespace vernier::cli
