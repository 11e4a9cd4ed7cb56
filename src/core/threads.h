// ThreadPool: fixed workers with static work division, one per session. The calling thread is
// worker 0. Same division for same inputs, so results never depend on timing.
// in_parallel: for work outside sessions, such as a build's.
#pragma once
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

namespace vernier {

class ThreadPool {
 public:
  /// `threads` workers in all, the caller included; 0: hardware concurrency.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const { return static_cast<int>(workers_.size()) + 1; }

  /// Calls body(context, worker) once on each worker and returns when all are done. `body` must not
  /// throw and must not call run again. No allocation, no lock: waits by spinning, then on a futex.
  void run(void (*body)(void* context, int worker), void* context);

  /// body(begin, end, worker) over [0, count) cut into size() contiguous parts whose bounds are
  /// multiples of `grain`.
  template <class Body>
  void parallel_for(int64_t count, int64_t grain, const Body& body) {
    if (count <= grain || size() == 1) {
      if (count > 0) body(int64_t{0}, count, 0);
      return;
    }
    struct Context {
      const Body* body;
      int64_t count, grain;
      int parts;
    } context{&body, count, grain, size()};
    run(
        [](void* opaque, int worker) {
          const auto& c = *static_cast<Context*>(opaque);
          const int64_t blocks = (c.count + c.grain - 1) / c.grain;
          const int64_t begin = blocks * worker / c.parts * c.grain;
          const int64_t end = std::min(c.count, blocks * (worker + 1) / c.parts * c.grain);
          if (begin < end) (*c.body)(begin, end, worker);
        },
        &context);
  }

 private:
  void work(int worker);
  std::vector<std::thread> workers_;
  std::atomic<uint32_t> generation_{0};
  std::atomic<int> pending_{0};
  std::atomic<bool> stop_{false};
  void (*body_)(void*, int) = nullptr;
  void* context_ = nullptr;
};

/// body(begin, end) over [0, count) cut into contiguous parts of at least `least` (> 0), on threads
/// made for the call, at most one per core. How it is cut depends on the machine: a body must give
/// the same results however it is. It must not throw.
void in_parallel(int64_t count, int64_t least,
                 const std::function<void(int64_t begin, int64_t end)>& body);

}  // namespace vernier
