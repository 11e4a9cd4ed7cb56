// Error and Support, the two ways of saying no. Contract: design "Errors".
// Wrong input throws Error; "this kernel cannot" is a Support with a reason; a wrong program
// asserts.
#pragma once
#include <stdexcept>
#include <string>
#include <utility>

#include "vernier/error.h"

namespace vernier {

/// A kernel's or rule's answer to "can you do this?": yes, or no with a reason a user can act on.
struct Support {
  std::string reason;
  explicit operator bool() const { return reason.empty(); }
};
inline Support yes() { return {}; }
inline Support no(std::string why) { return {std::move(why)}; }

}  // namespace vernier

/// An assertion that stays on in release builds: wrong program, never wrong input (exit code 4).
#define VERNIER_ASSERT(condition, ...)                                                        \
  do {                                                                                        \
    if (!(condition))                                                                         \
      ::vernier::assertion_failed(#condition, __FILE__, __LINE__ __VA_OPT__(, ) __VA_ARGS__); \
  } while (0)

namespace vernier {
/// Throws Error{kInternal}: what failed and where, and that it is our bug.
[[noreturn]] void assertion_failed(const char* condition, const char* file, int line,
                                   const std::string& detail = "");
}  // namespace vernier
