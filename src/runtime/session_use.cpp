// Who uses a session: see session_use.h.
#include "runtime/session_use.h"

#include "core/error.h"

namespace vernier::runtime {
namespace {

// Tells threads of a process apart, and those of a child by fork() from its parent's: an address of
// a thread's own would be another's again when it has ended. Never 0.
constexpr unsigned kThreadBits = 32;
uint64_t this_thread() {
  static std::atomic<uint32_t> threads{0};
  static thread_local const uint32_t number = threads.fetch_add(1, std::memory_order_relaxed) + 1;
  return uint64_t{forks()} << kThreadBits | number;
}
bool of_this_process(uint64_t thread) { return thread >> kThreadBits == forks(); }

}  // namespace

SessionUse::Turn::Turn(SessionUse& use) : use_(use) {
  uint64_t user = 0;
  if (use.user_.compare_exchange_strong(user, this_thread(), std::memory_order_acquire)) return;
  outermost_ = false;
  if (user == this_thread()) return;  // a call from within a call
  if (!of_this_process(user)) {
    throw Error(ErrorCode::kInput,
                "the session was running in another thread when this process was forked; make a "
                "new one from the same engine");
  }
  throw Error(ErrorCode::kInput,
              "the session is running in another thread; a session is one thread's at a time: make "
              "one per thread from the same engine, whose weights they share");
}

SessionUse::Turn::~Turn() {
  if (outermost_) use_.user_.store(0, std::memory_order_release);
}

}  // namespace vernier::runtime
