// The program `vernier`: one command per file of this folder. Contract: README.md "Commands".
#include <CLI/CLI.hpp>

#include "cli/common.h"
#include "cli/signals.h"
#include "vernier/error.h"
#include "vernier/version.h"

namespace {

using vernier::Error;
using vernier::ErrorCode;

/// "-o,--output --device --fp32": the options that a command takes.
std::string option_names(const CLI::App& command) {
  std::string names;
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_positional() || option->get_name() == "--help") continue;
    names += (names.empty() ? "" : " ") + option->get_name();
  }
  return names;
}

/// What the parser found wrong, with what would be right.
std::string usage_error(const CLI::App& app, const CLI::ParseError& error) {
  const std::vector<CLI::App*> chosen = app.get_subcommands();
  if (chosen.empty()) {
    const std::vector<std::string> words = app.remaining();
    const std::string what =
        words.empty() ? error.what() : "there is no command or option '" + words.front() + "'";
    return what + ". Run 'vernier --help' for the commands";
  }
  const CLI::App& command = *chosen.front();
  const std::string help = "Run 'vernier " + command.get_name() + " --help' for examples";
  const std::vector<std::string> extra = command.remaining();
  if (!extra.empty()) {
    return "'vernier " + command.get_name() + "' does not take '" + extra.front() +
           "'; its options are " + option_names(command) + ". " + help;
  }
  return "vernier " + command.get_name() + ": " + error.what() + ". " + help;
}

int parse_and_run(int argc, char** argv) {
  CLI::App app(
      "Vernier compiles Transformer models from ONNX into engines and checks their numbers.",
      "vernier");
  app.set_version_flag("--version", std::string("vernier ") + vernier::kVersion);
  app.require_subcommand(1);
  app.footer(
      "Examples:\n"
      "  vernier build model.onnx -o model.vn\n"
      "  vernier run model.vn --inputs in.npz --outputs out.npz\n"
      "  vernier verify model.vn --model model.onnx --inputs in.npz\n"
      "Exit codes: 0 ok, 1 a check failed, 2 wrong usage or input, 3 the machine, 4 our bug");
  vernier::cli::Run run;
  vernier::cli::add_build(app, run);
  vernier::cli::add_run(app, run);
  vernier::cli::add_verify(app, run);
  vernier::cli::add_localise(app, run);
  vernier::cli::add_bisect(app, run);
  vernier::cli::add_reduce(app, run);
  vernier::cli::add_inspect(app, run);
  vernier::cli::add_bench(app, run);
  vernier::cli::add_demo(app, run);
  vernier::cli::add_make_model(app, run);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    throw Error(ErrorCode::kInput, usage_error(app, error));
  }
  return run();
}

}  // namespace

int main(int argc, char** argv) {
  vernier::cli::install_signal_handlers();
  const int code = vernier::cli::run_guarded([&] { return parse_and_run(argc, argv); });
  vernier::cli::die_if_interrupted();
  return code;
}
