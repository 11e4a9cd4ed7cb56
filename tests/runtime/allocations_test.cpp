// After a shape has been seen, a run allocates nothing. Contract: Session::run in
// include/vernier/session.h. Counts what goes through operator new of this program.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "runtime/engines.h"
#include "runtime/models.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kCounts = false;  // the sanitizers have their own
#else
constexpr bool kCounts = true;
namespace {
std::atomic<bool> counting{false};
std::atomic<int> allocations{0};
}  // namespace

void* operator new(size_t bytes) {
  if (counting) ++allocations;
  if (void* data = std::malloc(bytes == 0 ? 1 : bytes)) return data;
  throw std::bad_alloc();
}
void operator delete(void* data) noexcept { std::free(data); }
void operator delete(void* data, size_t) noexcept { std::free(data); }
#endif

namespace vernier::test {
namespace {

TEST(Allocations, ARunOfAKnownShapeMakesNone) {
  if (!kCounts) GTEST_SKIP() << "SKIP: a sanitizer has operator new";
  if (device_under_test() != "cpu") GTEST_SKIP() << "SKIP: a driver allocates as it likes";
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  const auto engine = engine_of(R"(graph g(%x: f32[batch, 16], %shift: f32[batch, 1]) {
  %w = const f32[16, 32] normal(seed=5, mean=0, std=1)
  %g = const f32[32] normal(seed=6, mean=1, std=0.1)
  %h = Linear(%x, %w)
  %n = LayerNorm(%h, %g) {axis=-1, epsilon=1e-05}
  %p = Softmax(%n) {axis=-1}
  %y = Add(%p, %shift)
  return %y as "y"
})");
  Session session(engine, {.threads = 1});
  for (const int64_t batch : {3, 5}) {
    const Arrays arrays = {{"x", random_f32({batch, 16}, 1)}, {"shift", random_f32({batch, 1}, 2)}};
    const std::vector<Input> inputs = inputs_of(arrays);
    for (int i = 0; i < 3; ++i) session.run(inputs);
    allocations = 0;
    counting = true;
    session.run(inputs);
    counting = false;
    EXPECT_EQ(allocations, 0) << "batch " << batch;
  }
#endif
}

}  // namespace
}  // namespace vernier::test
