// Names of error codes and assertion failures: see vernier/error.h and error.h.
#include "core/error.h"

namespace vernier {

const char* name(ErrorCode code) {
  switch (code) {
    case ErrorCode::kCheckFailed:
      return "check_failed";
    case ErrorCode::kInput:
      return "input";
    case ErrorCode::kMachine:
      return "machine";
    case ErrorCode::kInternal:
      break;
  }
  return "internal";
}

void assertion_failed(const char* condition, const char* file, int line,
                      const std::string& detail) {
  std::string message = "internal error: assertion '" + std::string(condition) + "' failed at " +
                        file + ":" + std::to_string(line);
  if (!detail.empty()) message += ": " + detail;
  message += ". This is a bug in Vernier; please report it with the command and the model";
  throw Error(ErrorCode::kInternal, message);
}

}  // namespace vernier
