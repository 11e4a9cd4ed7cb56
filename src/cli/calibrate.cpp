// vernier calibrate: scales for int8 products, from data. Contract: docs/commands.md; what it
// finds: docs/quantization.md "Calibration".
#include "vernier/calibrate.h"

#include <CLI/CLI.hpp>

#include "cli/arguments.h"
#include "cli/common.h"
#include "vernier/error.h"

namespace vernier::cli {
namespace {

struct Options {
  std::string model, output = "scales.json", method = "output-error", shapes, cache;
  std::vector<std::string> data;
  LimitOptions limits;
  int threads = 0;
  bool json = false;
};

void print_next(const Options& options, const std::string& more) {
  print_line("wrote " + options.output + "; build with: vernier build " + options.model +
             " -o ENGINE.vn --int8 --scales " + options.output + more);
}

int import_calibration(const Options& options) {
  check_keeps_inputs(options.output, {options.model, options.cache});
  const ImportCacheReport report = import_cache({.model = options.model,
                                                 .cache = options.cache,
                                                 .output = options.output,
                                                 .limits = limits_of(options.limits)});
  print(options.json ? to_json(report) : to_text(report));
  if (!options.json) print_next(options, report.missing.empty() ? " --static" : "");
  return 0;
}

int calibrate_model(const Options& options) {
  if (!options.cache.empty()) return import_calibration(options);
  std::vector<std::string> read = options.data;
  read.push_back(options.model);
  check_keeps_inputs(options.output, read);
  CalibrateOptions request;
  request.model = options.model;
  request.data.assign(options.data.begin(), options.data.end());
  request.output = options.output;
  request.method = options.method;
  request.shapes = options.shapes;
  request.threads = options.threads;
  request.limits = limits_of(options.limits);
  CalibrateReport report;
  {
    Progress progress("calibrating " + options.model);
    request.progress = [&](const std::string& stage) { progress.stage(stage); };
    report = calibrate(request);
  }
  print(options.json ? to_json(report) : to_text(report));
  if (!options.json) print_next(options, "");
  return 0;
}

}  // namespace

void add_calibrate(CLI::App& app, Run& chosen) {
  CLI::App* command = app.add_subcommand(
      "calibrate", "Find scales for the int8 products of a model, from data of yours");
  const auto options = std::make_shared<Options>();
  command->add_option("MODEL", options->model, "ONNX file")->required();
  command
      ->add_option("--data", options->data,
                   "arrays named as the model's inputs: an .npz file, or a folder of them; may be "
                   "repeated")
      ->allow_extra_args(false);
  command
      ->add_option("--import-cache", options->cache,
                   "in place of data: a calibration cache that TensorRT has written of this model; "
                   "it gives static ranges, and factors of 1")
      ->excludes("--data");
  command->add_option("-o,--output", options->output, "the scales file to write (JSON)")
      ->capture_default_str();
  command
      ->add_option("--method", options->method,
                   "how static ranges are found: output-error (the best of the others), max, "
                   "percentile, mse or entropy")
      ->capture_default_str();
  command->add_option("--shapes", options->shapes,
                      "range of each named size, where batches are larger than by default, e.g. "
                      "'batch=1..128,seq=1..2048'");
  add_threads(*command, options->threads);
  add_limits(*command, options->limits);
  command->add_flag("--json", options->json, "print the result as JSON");
  command->footer(
      "A calibration that was ended goes on with the same command: OUTPUT.checkpoint.npz holds "
      "what is done.\n"
      "Examples:\n"
      "  vernier calibrate model.onnx --data batches/ -o scales.json\n"
      "  vernier calibrate model.onnx --data a.npz --data b.npz -o scales.json --method entropy\n"
      "  vernier calibrate model.onnx --import-cache model.cache -o scales.json\n"
      "  vernier build model.onnx -o model.vn --int8 --scales scales.json --verify");
  command->callback(
      [options, &chosen] { chosen = [options] { return calibrate_model(*options); }; });
}

}  // namespace vernier::cli
