// vernier verify: an engine held against the FP64 evaluation of its model. Contract: README.md
// "Commands"; what is compared with what: verify/verify.h.
#include "verify/verify.h"

#include <CLI/CLI.hpp>

#include "cli/arguments.h"
#include "cli/common.h"
#include "io/npz.h"
#include "vernier/error.h"

namespace vernier::cli {
namespace {

struct Options {
  std::string engine, model, inputs, expect, tolerance;
  int threads = 0;
  bool json = false;
};

int verify_engine(const Options& options) {
  verify::Request request{.model = options.model,
                          .engine = options.engine,
                          .inputs = io::read_arrays(options.inputs),
                          .expect = {},
                          .tolerance = verify::parse_tolerance(options.tolerance),
                          .threads = options.threads};
  if (!options.expect.empty()) request.expect = io::read_arrays(options.expect);
  verify::Report report;
  {
    const Progress progress("verifying " + options.engine);
    report = verify::verify(request);
  }
  print(options.json ? verify::to_json(report) : verify::to_text(report));
  return report.passed() ? 0 : static_cast<int>(ErrorCode::kCheckFailed);
}

}  // namespace

void add_verify(CLI::App& app, Run& chosen) {
  CLI::App* command =
      app.add_subcommand("verify", "Hold an engine against the FP64 evaluation of its model");
  const auto options = std::make_shared<Options>();
  command->add_option("ENGINE", options->engine, "engine file (.vn)")->required();
  command->add_option("--model", options->model, "the ONNX file it was built from")->required();
  command->add_option("--inputs", options->inputs, "arrays named as the model's inputs (.npz)")
      ->required();
  command->add_option(
      "--expect", options->expect,
      "arrays named as the model's outputs: holds the FP64 evaluation against them");
  command->add_option("--tolerance", options->tolerance,
                      "limits instead of the usual ones, e.g. rms=1e-3,max=1e-2,cos=0.9999");
  add_threads(*command, options->threads);
  command->add_flag("--json", options->json, "print the report as JSON");
  command->footer(
      "Examples:\n"
      "  vernier verify model.vn --model model.onnx --inputs in.npz\n"
      "  vernier verify model.vn --model model.onnx --inputs in.npz --expect out.npz --json\n"
      "Exit code 1 when the verdict is not 'pass'");
  command->callback([options, &chosen] { chosen = [options] { return verify_engine(*options); }; });
}

}  // namespace vernier::cli
