// Limits of memory and time, and ending work early. Contract: include/vernier/limits.h.
#include "core/limits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/thrown.h"

namespace vernier {
namespace {

using test::thrown_by;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

TEST(Bytes, AreReadWithTheirUnits) {
  EXPECT_EQ(parse_bytes("1000", "--m"), 1000u);
  EXPECT_EQ(parse_bytes("4GB", "--m"), 4'000'000'000u);
  EXPECT_EQ(parse_bytes("4 gb", "--m"), 4'000'000'000u);
  EXPECT_EQ(parse_bytes("1.5GiB", "--m"), uint64_t{3} << 29);
  EXPECT_EQ(parse_bytes("512MiB", "--m"), uint64_t{512} << 20);
  EXPECT_EQ(parse_bytes("7kB", "--m"), 7000u);
}

TEST(Bytes, WhatIsNoneIsNamed) {
  for (const char* text : {"", "GB", "four", "-4GB", "1.2.3MB", "4GX", "0", "1e999", "99999999TB",
                           "0.1", "4GB!", "nan"}) {
    const Error error = thrown_by([&] { parse_bytes(text, "--max-memory"); });
    EXPECT_EQ(error.code(), ErrorCode::kInput) << text;
    EXPECT_THAT(error.what(), AllOf(StartsWith("--max-memory: got '" + std::string(text) + "'"),
                                    HasSubstr("4GB, 512MiB or 1000000000")));
  }
}

TEST(Bytes, AreShownInTheUnitThatFits) {
  EXPECT_EQ(bytes_text(999'999), "999999 bytes");
  EXPECT_EQ(bytes_text(2'300'000), "2.3 MB");
  EXPECT_EQ(bytes_text(4'000'000'000), "4.0 GB");
  EXPECT_EQ(bytes_text(1'500'000'000'000), "1.5 TB");
}

TEST(Watch, WithoutLimitsRefusesNothing) {
  const Watch watch;
  EXPECT_NO_THROW(watch.check_time("working"));
  EXPECT_NO_THROW(watch.check_memory(UINT64_MAX, "everything"));
  const Limits none;
  EXPECT_NO_THROW(Watch(none).holding(1000).check_memory(UINT64_MAX - 1000, "everything"));
}

TEST(Watch, RefusesMemoryBeforeItIsTaken) {
  Limits limits;
  limits.max_bytes = 4'000'000;
  const Watch watch(limits);
  EXPECT_NO_THROW(watch.check_memory(4'000'000, "all of it"));
  const Error error = thrown_by([&] { watch.check_memory(4'000'001, "one byte more"); });
  EXPECT_EQ(error.code(), ErrorCode::kMachine);
  EXPECT_STREQ(error.what(),
               "one byte more would take 4.0 MB, but the memory limit (max-memory) is 4.0 MB; use "
               "smaller sizes, or raise the limit");
  const Watch later = watch.holding(3'000'000);
  EXPECT_NO_THROW(later.check_memory(1'000'000, "the rest"));
  EXPECT_THAT(thrown_by([&] {
                later.check_memory(2'000'000, [] { return std::string("too much"); });
              }).what(),
              StartsWith("too much would take 2.0 MB in addition to 3.0 MB in use"));
  EXPECT_THROW(later.check_memory(UINT64_MAX, "an overflow"), Error);
  EXPECT_THROW(watch.holding(UINT64_MAX).check_memory(0, "nothing more"), Error);
}

TEST(Watch, EndsWorkWhoseTimeIsOver) {
  Limits limits;
  limits.max_seconds = 3600;
  EXPECT_NO_THROW(Watch(limits).check_time("working"));
  limits.since = Limits::Clock::now() - std::chrono::hours(2);
  const Error error =
      thrown_by([&] { Watch(limits).check_time([] { return std::string("running step 3"); }); });
  EXPECT_EQ(error.code(), ErrorCode::kMachine);
  EXPECT_THAT(error.what(), AllOf(StartsWith("the time limit of 3600 s (max-seconds) was exceeded"),
                                  HasSubstr("while running step 3; allow more time")));
}

TEST(Watch, AsksWhetherToStop) {
  int asked = 0;
  Limits limits;
  limits.stop = [&] { return ++asked == 3; };
  const Watch watch(limits);
  watch.check_time("one");
  watch.check_time("two");
  const Error error = thrown_by([&] { watch.check_time("three"); });
  EXPECT_STREQ(error.what(), "stopped while three");
  EXPECT_EQ(error.code(), ErrorCode::kMachine);
  limits.stop = []() -> bool { throw 7; };
  EXPECT_THROW(Watch(limits).check_time("what stop throws comes out"), int);
}

TEST(Limits, OneClockForManyCalls) {
  Limits limits;
  limits.max_seconds = 1;
  const Limits begun = limits.begun();
  EXPECT_NE(begun.since, Limits::Clock::time_point{});
  EXPECT_EQ(begun.begun().since, begun.since);
}

}  // namespace
}  // namespace vernier
