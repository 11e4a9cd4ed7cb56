// Functions shared by all targets: see target.h.
#include "target.h"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "vernier/error.h"

namespace vernier::fuzz {

std::span<const Target* const> all_targets() {
  static const std::array<const Target*, 4> targets{&kCompile, &kRun, &kRequest, &kVerify};
  return targets;
}

void broken(std::string_view what, std::string_view why) {
  const std::string line = std::string(what) + ": " + std::string(why) + "\n";
  std::fputs(line.c_str(), stderr);
  std::abort();
}

bool holds(std::string_view what, const std::function<void()>& body) {
  try {
    body();
    return true;
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kInput || error.code() == ErrorCode::kMachine) return false;
    broken(what, "Error(" + std::to_string(static_cast<int>(error.code())) + ") " + error.what());
  } catch (const std::exception& error) {
    broken(what, std::string("another exception than Error: ") + error.what());
  }
}

}  // namespace vernier::fuzz
