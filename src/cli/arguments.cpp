// Options that several commands share: see arguments.h.
#include "cli/arguments.h"

#include <CLI/CLI.hpp>

namespace vernier::cli {
namespace {

constexpr int kMaxThreads = 1024;

}  // namespace

void add_threads(CLI::App& command, int& threads) {
  command.add_option("--threads", threads, "worker threads; 0: all cores")
      ->check(CLI::Range(0, kMaxThreads))
      ->capture_default_str();
}

void add_device(CLI::App& command, std::string& device) {
  command.add_option("--device", device, "cpu")
      ->check([](const std::string& name) {
        return name == "cpu" ? std::string() : "this version runs on 'cpu', not on '" + name + "'";
      })
      ->capture_default_str();
}

}  // namespace vernier::cli
