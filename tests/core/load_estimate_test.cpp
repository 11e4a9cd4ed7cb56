// When the load of other programs begins and ends (core/load_estimate.h).
#include "core/load_estimate.h"

#include <gtest/gtest.h>

namespace vernier {
namespace {

constexpr double kMs = 1e6;

// A thread with runs of `ms` without interruption.
class Runs {
 public:
  explicit Runs(double ms) : ms_(ms) {}
  // A run, longer by what other programs took.
  bool lose(double lost_ms) {
    const double all = ms_ + lost_ms;
    now_ += all * kMs;
    load_.add(static_cast<int64_t>(now_), all * kMs, lost_ms / all);
    return load_.crowded();
  }
  // Undisturbed runs for about `ms`; crowded at the end?
  bool rest(double ms) {
    for (auto left = static_cast<int>(ms / ms_); left > 0; --left) lose(0);
    return load_.crowded();
  }
  // Undisturbed milliseconds until the load has ended.
  double end() {
    int runs = 0;
    while (load_.crowded() && runs < 100'000) {
      lose(0);
      ++runs;
    }
    return runs * ms_;
  }
  uint32_t periods() const { return load_.periods(); }

 private:
  double ms_, now_ = kMs;
  LoadEstimate load_;
};

TEST(LoadEstimate, OneTimeSliceIsNoLoad) {
  for (const double ms : {0.2, 1.0, 5.0, 15.0}) {
    Runs runs(ms);
    for (int i = 0; i < 20; ++i) {
      EXPECT_FALSE(runs.lose(4)) << ms << " ms, slice " << i;
      EXPECT_FALSE(runs.rest(500)) << ms << " ms, behind slice " << i;
    }
    EXPECT_EQ(runs.periods(), 0U);
  }
}

TEST(LoadEstimate, ABusyProgramIsFoundAtItsSecondSlice) {
  for (const double ms : {0.2, 1.0, 4.0, 8.0}) {
    Runs runs(ms);
    EXPECT_FALSE(runs.lose(4));
    runs.rest(4);
    EXPECT_TRUE(runs.lose(4)) << ms << " ms";
    EXPECT_EQ(runs.periods(), 1U);
  }
}

TEST(LoadEstimate, ALongRunLosesMoreThanASlice) {
  Runs runs(100);
  EXPECT_TRUE(runs.lose(50));
  Runs short_runs(5);
  EXPECT_TRUE(short_runs.lose(8));
}

TEST(LoadEstimate, EndsSoonAndLaterEachTimeThatItReturnsAtOnce) {
  Runs runs(1);
  double before = 0;
  for (int i = 0; i < 6; ++i) {
    while (!runs.lose(4)) runs.rest(2);
    const double ms = runs.end();
    EXPECT_GT(ms, 1.5 * before) << "return " << i;
    if (i == 0) {
      EXPECT_LT(ms, 150);
    }
    EXPECT_LT(ms, 10e3);
    before = ms;
  }
  EXPECT_EQ(runs.periods(), 1U);
  runs.rest(2000);
  while (!runs.lose(4)) runs.rest(2);
  EXPECT_EQ(runs.periods(), 2U);
  EXPECT_LT(runs.end(), 150);
}

TEST(LoadEstimate, NeverEndsBelowASteadyLoad) {
  Runs runs(1);
  for (int i = 0; i < 100; ++i) runs.lose(1);
  for (int i = 0; i < 1000; ++i) EXPECT_TRUE(runs.lose(0.2));
}

}  // namespace
}  // namespace vernier
