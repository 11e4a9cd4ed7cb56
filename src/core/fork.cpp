// Counts forks in the child, and keeps them apart from other work: see fork.h.
#include "core/fork.h"

#include <pthread.h>

#include <atomic>

namespace vernier {
namespace {

constinit std::atomic<uint32_t> count{0};
constinit std::mutex mutex;

// Before main(), and so before the first fork that could meet it.
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
