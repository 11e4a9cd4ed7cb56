// One call of a session at a time, in the process that made it.
#pragma once
#include <atomic>
#include <cstdint>

#include "core/fork.h"

namespace vernier::runtime {

/// Which thread works with a session, and in which process the session was made.
class SessionUse {
 public:
  /// While it lives the calling thread has the session. A call from within a call is part of it.
  class Turn {
   public:
    /// Throws Error(kInput) where another thread has the session, or had it when this process was
    /// forked.
    explicit Turn(SessionUse& use);
    ~Turn();
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

   private:
    SessionUse& use_;
    bool outermost_ = true;
  };

  /// Was the session made by a process that this one was forked from?
  bool is_of_parent() const { return forks() != made_forks_; }

 private:
  std::atomic<uint64_t> user_{0};  // the thread in a call, see session_use.cpp; 0: none
  uint32_t made_forks_ = forks();
};

}  // namespace vernier::runtime
