// Progress of a sweep in words.
#include "verify/sweep/schedule.h"

#include <gtest/gtest.h>

namespace vernier::verify {
namespace {

TEST(Schedule, SaysWhatIsLeftFromTheWorkSoFar) {
  using std::chrono::milliseconds;
  using std::chrono::seconds;
  Schedule schedule;
  const Schedule::Clock::time_point start{};
  EXPECT_EQ(schedule.begin(start), "") << "no steps are known";
  for (const double work : {10.0, 5.0, 5.0, 100.0}) schedule.add(work);
  EXPECT_EQ(schedule.begin(start), "step 1 of 4") << "nothing is measured yet";
  EXPECT_EQ(schedule.begin(start + seconds(2)), "step 2 of 4, about 30 s left");
  EXPECT_EQ(schedule.begin(start + seconds(20)), "step 3 of 4, about 2 min left")
      << "the second step took longer than expected";
  EXPECT_EQ(schedule.begin(start + milliseconds(1000)), "step 4 of 4, about 5 s left");
  EXPECT_EQ(schedule.begin(start + seconds(30)), "");
}

TEST(Schedule, PassesOverWhatWasDoneBefore) {
  using std::chrono::seconds;
  Schedule schedule;
  const Schedule::Clock::time_point start{};
  for (const double work : {10.0, 5.0, 5.0, 100.0}) schedule.add(work);
  schedule.done_before(0);
  schedule.done_before(2);
  EXPECT_EQ(schedule.begin(start), "step 2 of 4");
  EXPECT_EQ(schedule.begin(start + seconds(1)), "step 4 of 4, about 20 s left")
      << "5 of work took a second, 100 are left";
}

}  // namespace
}  // namespace vernier::verify
