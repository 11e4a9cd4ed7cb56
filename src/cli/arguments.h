// Options that several commands share, so that they read and fail alike.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace vernier::cli {

/// --threads N: 0 (all cores) to 1024.
void add_threads(CLI::App& command, int& threads);
/// --device NAME: only "cpu" here; anything else is wrong usage and says so.
void add_device(CLI::App& command, std::string& device);

/// "1,2,4" -> {1, 2, 4}; anything else is an Error(kInput) naming `option`. Empty text: none.
std::vector<int64_t> parse_sizes(const std::string& text, const std::string& option);

}  // namespace vernier::cli
