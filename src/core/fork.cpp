// Counts forks in the child: see fork.h.
#include "core/fork.h"

#include <pthread.h>

#include <atomic>

namespace vernier {
namespace {

std::atomic<uint32_t> count{0};

}  // namespace

uint32_t forks() {
  static const int registered = pthread_atfork(nullptr, nullptr, [] {
    count.store(count.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  });
  static_cast<void>(registered);
  return count.load(std::memory_order_relaxed);
}

}  // namespace vernier
