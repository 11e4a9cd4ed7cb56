// Log lines on stderr, and progress of long work. Level from VERNIER_LOG: error, warn, info, debug.
#pragma once
#include <string_view>

namespace vernier::log {

enum class Level : int { kError = 0, kWarn = 1, kInfo = 2, kDebug = 3 };

/// Default warn; set once from VERNIER_LOG, changed by the command line's --verbose.
void set_level(Level level);
Level level();
/// Prints "vernier: <level>: <message>" if `at` is enabled. Safe from any thread.
void write(Level at, std::string_view message);
inline void warn(std::string_view m) { write(Level::kWarn, m); }
inline void info(std::string_view m) { write(Level::kInfo, m); }
inline void debug(std::string_view m) { write(Level::kDebug, m); }

}  // namespace vernier::log
