// Counts forks, and keeps them from interrupting other work: see fork.h.
#include "core/fork.h"

#include <pthread.h>

#include <atomic>

namespace vernier {
namespace {

constinit std::atomic<uint32_t> count{0};
constinit std::mutex mutex;

// Registered before main(), and so before the first fork.
[[maybe_unused]] const int registered = pthread_atfork(
    [] { mutex.lock(); }, [] { mutex.unlock(); },
    [] {
      count.store(count.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
      mutex.unlock();
    });

}  // namespace

uint32_t forks() { return count.load(std::memory_order_relaxed); }
std::mutex& fork_mutex() { return mutex; }

}  // namespace vernier
