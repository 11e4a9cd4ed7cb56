// Options that several commands share: see arguments.h.
#include "cli/arguments.h"

#include <CLI/CLI.hpp>
#include <charconv>

#include "cli/common.h"
#include "cli/signals.h"
#include "vernier/error.h"
#include "vernier/plugins.h"

namespace vernier::cli {
namespace {

constexpr int kMaxThreads = 1024;

}  // namespace

void add_threads(CLI::App& command, int& threads) {
  command.add_option("--threads", threads, "CPUs to use at most; 0: all that the process may")
      ->check(CLI::Range(0, kMaxThreads))
      ->capture_default_str();
}

void add_device(CLI::App& command, std::string& device) {
  command.add_option("--device", device, "cpu, or cuda for one NVIDIA GPU")->capture_default_str();
}

void add_plugins(CLI::App& command, std::vector<std::string>& plugins) {
  command
      .add_option(
          "--plugin", plugins,
          "shared library with kernels of your own, tried before Vernier's; may be repeated")
      ->allow_extra_args(false);
}

const KernelSet* plugin_kernels(const std::vector<std::string>& plugins) {
  return plugins.empty() ? nullptr : &load_plugins(plugins);
}

void add_limits(CLI::App& command, LimitOptions& options) {
  command.add_option("--max-memory", options.memory,
                     "end with exit code 3 before more memory than this is allocated, by estimate: "
                     "4GB, 512MiB");
  command
      .add_option("--max-seconds", options.seconds,
                  "end with exit code 3 after this time, between two steps")
      ->check(CLI::Range(0.001, 1e9));
}

Limits limits_of(const LimitOptions& options) {
  Limits limits;
  if (!options.memory.empty()) limits.max_bytes = parse_bytes(options.memory, "--max-memory");
  limits.max_seconds = options.seconds;
  limits.stop = stops_on_interrupt();
  return limits.begun();
}

void add_read_into_memory(CLI::App& command, bool& read_into_memory) {
  command.add_flag("--read-into-memory", read_into_memory,
                   "read the engine instead of mapping it: later changes to its file have no "
                   "effect");
}

std::vector<int64_t> parse_sizes(const std::string& text, const std::string& option) {
  std::vector<int64_t> sizes;
  if (text.empty()) return sizes;
  for (const std::string& part : split_list(text, option)) {
    int64_t size = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), size);
    if (error != std::errc{} || end != part.data() + part.size() || size < 1) {
      throw Error(ErrorCode::kInput,
                  option + ": got '" + part + "', expected sizes such as 1,2,4,8");
    }
    sizes.push_back(size);
  }
  return sizes;
}

}  // namespace vernier::cli
