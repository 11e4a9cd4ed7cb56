// Options that several commands share, so that they read and fail alike.
#pragma once
#include <string>

namespace CLI {
class App;
}

namespace vernier::cli {

/// --threads N: 0 (all cores) to 1024.
void add_threads(CLI::App& command, int& threads);
/// --device NAME: only "cpu" here; anything else is wrong usage and says so.
void add_device(CLI::App& command, std::string& device);

}  // namespace vernier::cli
