// See sweep_options.h.
#include "cli/sweep_options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iterator>

#include "cli/arguments.h"
#include "cli/arrays.h"
#include "cli/common.h"

namespace vernier::cli {

void add_sweep_options(CLI::App& command, SweepOptions& options) {
  command.add_option("ENGINE", options.engine, "engine file (.vn) that fails")->required();
  command.add_option("--model", options.model, "the ONNX file it was built from")->required();
  command.add_option("--inputs", options.inputs,
                     "arrays named as the model's inputs (.npz), one or many; without it, seeded "
                     "inputs that fit the model are made");
  command.add_option("--batches", options.batches, "batch sizes of the sweep [1,2,4,8]");
  command.add_option("--lengths", options.lengths, "lengths of the sweep [4,16,48]");
  command.add_option("--batch-axis", options.batch_axis,
                     "the named size that counts rows [found on the model]");
  command.add_option("--seed", options.seed, "seed of the generated inputs [1]");
  command.add_option("--tolerance", options.tolerance,
                     "limits instead of the usual ones, as in verify");
  add_plugins(command, options.plugins);
  add_threads(command, options.threads);
  command.add_flag("--json", options.json, "print JSON");
}

verify::Request request_of(const SweepOptions& options) {
  keep_freed_memory();
  verify::Request request;
  request.engine = options.engine;
  request.kernels = plugin_kernels(options.plugins);
  request.model = options.model;
  request.tolerance = verify::parse_tolerance(options.tolerance);
  request.batches = parse_sizes(options.batches, "--batches");
  request.lengths = parse_sizes(options.lengths, "--lengths");
  request.batch_axis = options.batch_axis;
  request.seed = options.seed;
  request.threads = options.threads;
  request.limits = limits_of({});  // Ctrl-C
  for (const std::string& file : options.inputs)
    std::ranges::move(read_user_inputs(options.engine, options.plugins, file),
                      std::back_inserter(request.inputs));
  return request;
}

void check_keeps_inputs(const std::string& path, const SweepOptions& options) {
  std::vector<std::string> read = options.inputs;
  read.insert(read.end(), {options.engine, options.model});
  check_keeps_inputs(path, read);
}

}  // namespace vernier::cli
