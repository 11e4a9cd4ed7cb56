// Options that several commands share, so that they have the same texts and errors.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "vernier/kernel_set.h"
#include "vernier/limits.h"

namespace CLI {
class App;
}

namespace vernier::cli {

/// --threads N: 0 (all CPUs that the process may use) to 1024.
void add_threads(CLI::App& command, int& threads);
/// --device NAME. One that this program does not have is refused by what builds for it.
void add_device(CLI::App& command, std::string& device);

/// --plugin LIB.so, once or often.
void add_plugins(CLI::App& command, std::vector<std::string>& plugins);
/// The kernels of these libraries before the CPU's own; null where there are none.
const KernelSet* plugin_kernels(const std::vector<std::string>& plugins);

/// --max-memory SIZE, --max-seconds S.
struct LimitOptions {
  std::string memory;
  double seconds = 0;
};
void add_limits(CLI::App& command, LimitOptions& options);
/// These limits, from now on, and Ctrl-C, which ends the work between steps. Throws Error(kInput).
Limits limits_of(const LimitOptions& options);

/// --read-into-memory
void add_read_into_memory(CLI::App& command, bool& read_into_memory);

/// "1,2,4" -> {1, 2, 4}; anything else is an Error(kInput) naming `option`. Empty text: none.
std::vector<int64_t> parse_sizes(const std::string& text, const std::string& option);

}  // namespace vernier::cli
