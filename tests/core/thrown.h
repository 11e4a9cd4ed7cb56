// The error that a call throws, for tests that read its code and its message.
#pragma once
#include "core/error.h"

namespace vernier::test {

/// What `work` throws; an internal error "no error" where it throws none.
template <class Work>
Error thrown_by(const Work& work) {
  try {
    work();
  } catch (const Error& error) {
    return error;
  }
  return Error(ErrorCode::kInternal, "no error");
}

}  // namespace vernier::test
