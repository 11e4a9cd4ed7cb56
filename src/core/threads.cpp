// ThreadPool: see threads.h.
#include "core/threads.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace vernier {
namespace {

// About 50 µs of spinning before a thread sleeps: steps of a model follow each other faster.
constexpr int kSpins = 20000;

void pause() {
#if defined(__x86_64__)
  _mm_pause();
#endif
}

}  // namespace

ThreadPool::ThreadPool(int threads) {
  if (threads <= 0) threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  for (int i = 1; i < threads; ++i) workers_.emplace_back([this, i] { work(i); });
}

ThreadPool::~ThreadPool() {
  stop_.store(true);
  generation_.fetch_add(1);
  generation_.notify_all();
  for (std::thread& t : workers_) t.join();
}

void ThreadPool::run(void (*body)(void*, int), void* context) {
  if (workers_.empty()) return body(context, 0);
  body_ = body;
  context_ = context;
  pending_.store(static_cast<int>(workers_.size()), std::memory_order_relaxed);
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
  body(context, 0);
  for (int spin = 0; pending_.load(std::memory_order_acquire) > 0; ++spin) {
    if (spin < kSpins)
      pause();
    else
      std::this_thread::yield();
  }
}

void ThreadPool::work(int worker) {
  uint32_t seen = 0;
  for (;;) {
    for (int spin = 0; spin < kSpins && generation_.load(std::memory_order_acquire) == seen; ++spin)
      pause();
    generation_.wait(seen, std::memory_order_acquire);
    seen = generation_.load(std::memory_order_acquire);
    if (stop_.load()) return;
    body_(context_, worker);
    pending_.fetch_sub(1, std::memory_order_release);
  }
}

void in_parallel(int64_t count, int64_t least,
                 const std::function<void(int64_t begin, int64_t end)>& body) {
  if (count < 2 * least) return body(0, count);
  const auto cores = static_cast<int64_t>(std::max(1u, std::thread::hardware_concurrency()));
  const int64_t parts = std::min(count / least, cores);
  std::vector<std::jthread> others;  // joined at the end
  for (int64_t part = 1; part < parts; ++part) {
    others.emplace_back(
        [&body, count, part, parts] { body(count * part / parts, count * (part + 1) / parts); });
  }
  body(0, count / parts);
}

}  // namespace vernier
