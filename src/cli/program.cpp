// The commands of the program: one per file of this folder. Contract: docs/commands.md.
#include "cli/program.h"

#include <CLI/CLI.hpp>

#include "cli/common.h"
#include "cli/signals.h"
#include "vernier/error.h"
#include "vernier/nearest.h"
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

/// `message` and then a sentence of its own.
std::string followed_by(const std::string& message, const std::string& next) {
  return message + (message.ends_with('?') ? " " : ". ") + next;
}

/// The word that stands for no command or option of the program, and what was meant.
std::string unknown_word(const CLI::App& app, const std::string& word) {
  std::vector<std::string> known;
  for (const CLI::App* command : app.get_subcommands({})) known.push_back(command->get_name());
  return "there is no command or option '" + word + "'" + vernier::did_you_mean(word, known);
}

/// The word that a command does not take: an option that was meant, or all that there are.
std::string unknown_option(const CLI::App& command, const std::string& word) {
  const std::string option = word.substr(0, word.find('='));
  std::vector<std::string> known;
  for (const CLI::Option* each : command.get_options()) {
    for (const std::string& name : each->get_lnames()) known.push_back("--" + name);
  }
  const std::string meant =
      option.starts_with("--") ? vernier::did_you_mean(option, known) : std::string();
  return "'vernier " + command.get_name() + "' does not take '" + word + "'" +
         (meant.empty() ? "; its options are " + option_names(command) : meant);
}

/// What the parser found wrong, with what would be right.
std::string usage_error(const CLI::App& app, const CLI::ParseError& error) {
  const std::vector<CLI::App*> chosen = app.get_subcommands();
  if (chosen.empty()) {
    const std::vector<std::string> words = app.remaining();
    return followed_by(words.empty() ? error.what() : unknown_word(app, words.front()),
                       "Run 'vernier --help' for the commands");
  }
  const CLI::App& command = *chosen.front();
  const std::string help = "Run 'vernier " + command.get_name() + " --help' for examples";
  const std::vector<std::string> extra = command.remaining();
  return followed_by(extra.empty() ? "vernier " + command.get_name() + ": " + error.what()
                                   : unknown_option(command, extra.front()),
                     help);
}

int parse_and_run(int argc, char** argv) {
  CLI::App app(
      "Vernier compiles Transformer models from ONNX into engines and checks their numbers.",
      "vernier");
  app.set_version_flag("--version", std::string("vernier ") + vernier::kVersion + " (build " +
                                        vernier::build_id() + ")");
  app.require_subcommand(1);
  app.footer(
      "Examples:\n"
      "  vernier build model.onnx -o model.vn\n"
      "  vernier run model.vn --inputs in.npz --outputs out.npz\n"
      "  vernier verify model.vn --model model.onnx --inputs in.npz\n"
      "Exit codes: 0 ok, 1 a check failed, 2 wrong usage or input, 3 the machine, 4 a bug in "
      "Vernier");
  vernier::cli::Run run;
  vernier::cli::add_build(app, run);
  vernier::cli::add_calibrate(app, run);
  vernier::cli::add_run(app, run);
  vernier::cli::add_verify(app, run);
  vernier::cli::add_localise(app, run);
  vernier::cli::add_bisect(app, run);
  vernier::cli::add_reduce(app, run);
  vernier::cli::add_extract(app, run);
  vernier::cli::add_inspect(app, run);
  vernier::cli::add_bench(app, run);
  vernier::cli::add_demo(app, run);
  vernier::cli::add_make_model(app, run);
  vernier::cli::add_trtexec(app, run);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    throw Error(ErrorCode::kInput, usage_error(app, error));
  }
  return run();
}

}  // namespace

int vernier::cli::program(int argc, char** argv) {
  install_signal_handlers();
  const int code = run_guarded([&] { return parse_and_run(argc, argv); }, error_format(argc, argv));
  die_if_interrupted();
  return code;
}
