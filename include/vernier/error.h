// vernier::Error: every failure that a caller can meet. Contract: docs/commands.md "Exit codes".
#pragma once
#include <stdexcept>
#include <string>

namespace vernier {

/// Why something failed; the numeric values are the exit codes of the command line.
enum class ErrorCode {
  kCheckFailed = 1,  ///< a verdict or check failed
  kInput = 2,        ///< wrong usage or input: model, engine file, arrays, shapes, rules
  kMachine = 3,      ///< disk, memory or device
  kInternal = 4,     ///< a bug in Vernier
};

/// "check_failed", "input", "machine" or "internal": in JSON (docs/json.md) and in Python.
const char* name(ErrorCode code);

/// message: what failed, where, what was found and expected, and what to do.
class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ErrorCode code() const { return code_; }

 private:
  ErrorCode code_;
};

}  // namespace vernier
