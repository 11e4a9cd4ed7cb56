// What depends on sizes alone is computed once per shape, on the device under test
// (VERNIER_TEST_DEVICE). Contract: runtime/sized_steps.h.
#include "runtime/sized_steps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

#include "plan/graphs.h"
#include "runtime/engine_impl.h"
#include "runtime/engines.h"
#include "runtime/models.h"
#include "runtime/run_observer.h"
#include "runtime/session_impl.h"

namespace vernier::test {
namespace {

// y = x + 0, 1, 3, 6, …: the sums are of the length alone.
constexpr std::string_view kSums =
    R"(graph sums(%x: f32[batch, seq]) {
  %n = ShapeValues() {values=(seq), scalar=true}
  %r = Range(i64{0}, %n, i64{1})
  %f = Cast(%r) {to=f32}
  %c = CumSum(%f, i64{0})
  %a = Abs(%x)
  %y = Add(%a, %c)
  return %y as "y"
})";

const std::string kSizes = "batch=1..4,seq=1..2000000";

Arrays sums_of(const Arrays& inputs) {
  const Tensor& x = inputs.at("x");
  const int64_t length = x.shape()[1];
  std::vector<double> y;
  for (int64_t i = 0; i < x.elems(); ++i) {
    const auto at = static_cast<double>(i % length);
    y.push_back(
        static_cast<double>(static_cast<float>(std::abs(x.float_at(i)) + at * (at + 1) / 2)));
  }
  return {{"y", Tensor::from(DType::kF32, x.shape(), std::span<const double>(y))}};
}

Arrays inputs_of_shape(Shape shape, uint64_t seed) {
  return {{"x", random_f32(std::move(shape), seed)}};
}

std::vector<std::string> sized_kernels(const Engine& engine) {
  std::vector<std::string> names;
  for (size_t s = 0; s < engine.impl().plan.steps.size(); ++s)
    if (engine.impl().sized.is_sized[s]) names.emplace_back(name(engine.impl().plan.steps[s].op));
  return names;
}

TEST(SizedSteps, AreThoseThatReadSizesAndConstantsAlone) {
  const auto engine = engine_of(kSums, kSizes);
  EXPECT_THAT(sized_kernels(*engine), testing::ElementsAre("Range", "Cast", "CumSum"));
  ASSERT_EQ(engine->impl().sized.kept.size(), 1u);
  EXPECT_EQ(engine->impl().sized.kept_at[engine->impl().sized.kept[0]], 0);
}

TEST(SizedSteps, OfAnOutputAreNot) {
  const auto engine = engine_of(
      R"(graph g(%x: f32[batch, seq]) {
  %n = ShapeValues() {values=(seq), scalar=true}
  %r = Range(i64{0}, %n, i64{1})
  %a = Abs(%x)
  return %a as "y", %r as "places"
})");
  EXPECT_THAT(sized_kernels(*engine), testing::IsEmpty());
}

TEST(SizedSteps, GiveTheSameInEveryRun) {
  Session session(engine_of(kSums, kSizes), {.threads = 2});
  uint64_t seed = 0;
  for (int round = 0; round < 4; ++round) {
    for (const int64_t length : {1, 5, 64, 33}) {
      const Arrays inputs = inputs_of_shape({3, length}, ++seed);
      EXPECT_EQ(difference(run(session, inputs), sums_of(inputs)), "") << round << " " << length;
    }
  }
}

// What the shape keeps is changed behind the session's back: its next run shows it.
TEST(SizedSteps, AreNotRunAgain) {
  Session session(engine_of(kSums, kSizes), {.threads = 1});
  const Arrays inputs = inputs_of_shape({2, 16}, 1);
  const Arrays want = run(session, inputs);
  runtime::KeptValues& kept = session.impl().shapes.back()->kept;
  ASSERT_TRUE(kept.made);
  ASSERT_GE(kept.bytes, 16 * sizeof(float));
  const std::vector<float> other(16, 100.0f);
  session.impl().device->copy_to_device(kept.memory->data(),
                                        reinterpret_cast<const std::byte*>(other.data()),
                                        16 * sizeof(float), session.impl().execution.stream);
  for (int again = 0; again < 3; ++again) EXPECT_NE(difference(run(session, inputs), want), "");
  kept.made = false;
  EXPECT_EQ(difference(run(session, inputs), want), "");
}

struct Counting : RunObserver {
  void before_run(std::span<std::byte> arena) override {
    std::ranges::fill(arena, std::byte{0xff});
  }
  void before_step(std::span<std::byte> unwritten) override {
    std::ranges::fill(unwritten, std::byte{0xff});
  }
  void after_step(int32_t, const backend::LaunchCall&) override { ++steps; }
  int steps = 0;
};

TEST(SizedSteps, AreSeenByObserversInEveryRun) {
  const auto engine = engine_of(kSums, kSizes);
  Session session(engine, {.threads = 1});
  const Arrays inputs = inputs_of_shape({2, 16}, 1);
  const Arrays want = sums_of(inputs);
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ(difference(run(session, inputs), want), "");
    Counting counting;
    session.impl().run(inputs_of(inputs), &counting);
    EXPECT_EQ(counting.steps, static_cast<int>(engine->impl().plan.steps.size()));
  }
}

// More than a shape keeps: each run computes them.
TEST(SizedSteps, ThatAreLargeAreRunInEveryRun) {
  Session session(engine_of(kSums, kSizes), {.threads = 2});
  const Arrays inputs = inputs_of_shape({1, (1 << 20) + 1}, 1);
  run(session, inputs);
  EXPECT_EQ(session.impl().shapes.back()->kept.bytes, 0u);
  EXPECT_FALSE(session.impl().shapes.back()->kept.memory);
  run(session, inputs_of_shape({1, 1 << 20}, 1));
  EXPECT_EQ(session.impl().shapes.back()->kept.bytes, size_t{4} << 20);
}

}  // namespace
}  // namespace vernier::test
