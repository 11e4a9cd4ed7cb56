// Independent tasks: see tasks.h.
#include "core/tasks.h"

#include <algorithm>
#include <atomic>

#include "core/cpus.h"
#include "core/threads.h"

namespace vernier {

int64_t tasks_at_once(int64_t count) {
  const int64_t cpus = allowed_cpus();
  return 2 * count < cpus ? 1 : std::min(count, cpus);
}

void for_each_task(int64_t count, const std::function<void(int64_t)>& body) {
  const int64_t at_once = tasks_at_once(count);
  if (at_once <= 1) {
    for (int64_t i = 0; i < count; ++i) body(i);
    return;
  }
  std::atomic<int64_t> next{0};
  in_parallel(at_once, 1, [&](int64_t, int64_t) {
    try {
      for (int64_t i = next.fetch_add(1); i < count; i = next.fetch_add(1)) body(i);
    } catch (...) {
      next.store(count);
      throw;
    }
  });
}

}  // namespace vernier
