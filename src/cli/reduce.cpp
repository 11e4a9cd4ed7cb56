// vernier reduce: the smallest part of a model that still fails, as files. Contract:
// docs/commands.md; how it is found: docs/diagnosis.md "Reduce".
#include "vernier/reduce.h"

#include <CLI/CLI.hpp>

#include "cli/common.h"
#include "cli/sweep_options.h"
#include "io/text_file.h"
#include "vernier/error.h"

namespace vernier::cli {
namespace {

struct Options : SweepOptions {
  std::string folder;
};

/// The folder itself is made where it is missing; the one that it is made in must be there.
void check_can_make(const std::filesystem::path& folder) {
  const std::filesystem::path named = folder.has_filename() ? folder : folder.parent_path();
  io::check_can_write(std::filesystem::is_directory(named) ? named / "command.txt" : named,
                      "the part");
}

int reduce(const Options& options) {
  const std::filesystem::path folder(options.folder);
  for (const char* name : {"model.onnx", "model.vn", "inputs.npz", "scales.json", "command.txt"})
    check_keeps_inputs((folder / name).string(), options);
  check_can_make(folder);
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
  add_sweep_options(*command, *options);
  command
      ->add_option(
          "-o,--output", options->folder,
          "folder for model.onnx, inputs.npz, scales.json (if it has scales) and command.txt")
      ->required();
  command->footer(
      "Examples:\n"
      "  vernier reduce model.vn --model model.onnx -o part\n"
      "  vernier reduce model.vn --model model.onnx --inputs in.npz -o part\n"
      "  cd part && sh command.txt\n"
      "Exit code 0 when the engine passes or a part was written that fails, 1 when no part does");
  command->callback([options, &chosen] { chosen = [options] { return reduce(*options); }; });
}

}  // namespace vernier::cli
