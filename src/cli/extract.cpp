// vernier extract: a part of a model as a model of its own. Contract: docs/commands.md "Extract".
#include "vernier/extract.h"

#include <CLI/CLI.hpp>

#include "cli/arguments.h"
#include "cli/common.h"
#include "vernier/error.h"

namespace vernier::cli {
namespace {

struct Options {
  std::string model, part, from, to;
  LimitOptions limits;
  bool json = false;
};

int extract_part(const Options& options) {
  check_keeps_inputs(options.part, {options.model});
  ExtractOptions asked;
  asked.model = options.model;
  asked.part = options.part;
  if (!options.from.empty()) asked.from = split_list(options.from, "--from");
  if (!options.to.empty()) asked.to = split_list(options.to, "--to");
  asked.limits = limits_of(options.limits);
  ExtractReport report;
  {
    Progress progress("extracting from " + options.model);
    asked.progress = [&](std::string_view stage) { progress.stage(stage); };
    report = extract(asked);
  }
  print(options.json ? to_json(report) : to_text(report));
  return report.not_importable.empty() ? 0 : static_cast<int>(ErrorCode::kCheckFailed);
}

}  // namespace

void add_extract(CLI::App& app, Run& chosen) {
  CLI::App* command =
      app.add_subcommand("extract", "Write a part of a model as a model of its own");
  const auto options = std::make_shared<Options>();
  command->add_option("MODEL", options->model, "ONNX file")->required();
  command->add_option("--from", options->from,
                      "where the part begins: values, which become its inputs, or its first nodes "
                      "[the model's inputs]");
  command->add_option("--to", options->to,
                      "where it ends: values, which become its outputs, or its last nodes [the "
                      "model's outputs]");
  command->add_option("-o,--output", options->part, "ONNX file to write")->required();
  add_limits(*command, options->limits);
  command->add_flag("--json", options->json, "print JSON");
  command->footer(
      "Examples:\n"
      "  vernier extract model.onnx --from /enc/0/Add_output_0 --to /enc/1/Add_output_0 -o "
      "part.onnx\n"
      "  vernier extract model.onnx --to /pooler/Tanh -o encoder.onnx\n"
      "  vernier inspect model.onnx --dump-graph    lists values and nodes\n"
      "Exit code 1 when the part was written and Vernier cannot read it");
  command->callback([options, &chosen] { chosen = [options] { return extract_part(*options); }; });
}

}  // namespace vernier::cli
