// Limits: how much memory and time a call may take, and how a caller ends it early. Contract:
// docs/security.md "Limits".
#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

namespace vernier {

/// A limit that is reached is Error(kMachine), which says how far the work had come. The work ends
/// between steps: nodes of an evaluation, passes, checks, launches. A step that has begun
/// completes.
struct Limits {
  using Clock = std::chrono::steady_clock;
  /// Memory that Vernier allocates for this work, estimated before it is allocated; 0: no limit.
  /// Mapped files do not count: the system drops their pages when memory is short.
  uint64_t max_bytes = 0;
  double max_seconds = 0;     ///< 0: no limit
  Clock::time_point since{};  ///< when the seconds begin; default: with each call
  /// Called between steps, often: true ends the work. What it throws leaves the call.
  std::function<bool()> stop = {};

  /// These limits with a clock that starts now, unless it has started: for a call that makes
  /// others.
  Limits begun() const;
};

/// Memory and swap of this machine; the largest number where the system does not say.
uint64_t machine_memory_bytes();

/// "4GB", "512MiB", "1.5 GB", "1000000": a number of bytes. Throws Error(kInput) that names
/// `option`.
uint64_t parse_bytes(const std::string& text, const std::string& option);
/// "4.0 GB", "16 bytes"
std::string bytes_text(uint64_t bytes);

}  // namespace vernier
