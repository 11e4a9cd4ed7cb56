// Error, Support and assertions. Contract: docs/design.md "Errors".
// Wrong input throws Error; "this kernel cannot" is a Support with a reason; a wrong program
// asserts.
#pragma once
#include <stdexcept>
#include <string>
#include <utility>

#include "vernier/error.h"

namespace vernier {

/// Whether a kernel or rule can do something: yes, or no with a reason that a user can act on.
struct Support {
  std::string reason;
  explicit operator bool() const { return reason.empty(); }
};
inline Support yes() { return {}; }
inline Support no(std::string why) { return {std::move(why)}; }

}  // namespace vernier

/// An assertion that is active in release builds too: wrong program, never wrong input (exit code
/// 4).
#define VERNIER_ASSERT(condition, ...)                                                        \
  do {                                                                                        \
    if (!(condition))                                                                         \
      ::vernier::assertion_failed(#condition, __FILE__, __LINE__ __VA_OPT__(, ) __VA_ARGS__); \
  } while (0)

namespace vernier {
/// Throws Error{kInternal}: what failed and where, and that it is a bug in Vernier.
[[noreturn]] void assertion_failed(const char* condition, const char* file, int line,
                                   const std::string& detail = "");
}  // namespace vernier
