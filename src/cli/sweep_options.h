// The options of commands that take an engine which fails, and try others like it (bisect, reduce).
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "vernier/verify.h"

namespace CLI {
class App;
}

namespace vernier::cli {

struct SweepOptions {
  std::string engine, model, tolerance, batches, lengths, batch_axis;
  std::vector<std::string> inputs, plugins;
  uint64_t seed = 1;
  int threads = 0;
  bool json = false;
};

/// ENGINE, --model and everything else above.
void add_sweep_options(CLI::App& command, SweepOptions& options);
/// What they ask for; reads the input arrays. Throws Error(kInput).
verify::Request request_of(const SweepOptions& options);
/// Throws Error(kInput) if `path` is a file that the command reads.
void check_keeps_inputs(const std::string& path, const SweepOptions& options);

}  // namespace vernier::cli
