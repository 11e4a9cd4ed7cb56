// Log lines: see log.h.
#include "core/log.h"

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "vernier/printable.h"

namespace vernier::log {
namespace {

constexpr std::array<std::string_view, 4> kNames{"error", "warn", "info", "debug"};

Level from_environment() {
  const char* text = std::getenv("VERNIER_LOG");
  for (size_t i = 0; text && i < kNames.size(); ++i) {
    if (kNames[i] == text) return static_cast<Level>(i);
  }
  return Level::kWarn;
}
std::atomic<Level>& current() {
  static std::atomic<Level> level{from_environment()};
  return level;
}

}  // namespace

void set_level(Level level) { current() = level; }
Level level() { return current(); }

void write(Level at, std::string_view message) {
  if (at > level()) return;
  std::string line = "vernier: " + std::string(kNames[static_cast<size_t>(at)]) + ": ";
  line += printable_message(message);
  line += '\n';
  std::fwrite(line.data(), 1, line.size(), stderr);
}

}  // namespace vernier::log
