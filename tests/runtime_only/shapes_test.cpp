// New shapes and many sessions, in a program without the compiler.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <thread>

#include "runtime_only/shared_engine.h"

namespace vernier::test {
namespace {

bool all_finite(std::span<const Output> outputs) {
  for (const Output& o : outputs) {
    const auto* values = static_cast<const float*>(o.data);
    for (size_t i = 0; i < o.bytes / sizeof(float); ++i) {
      if (!std::isfinite(values[i])) return false;
    }
  }
  return true;
}

// Each shape is new; the first row is the same in all of one length, so its bits must be too.
TEST(Shapes, TwoHundredUnseenOnesRunAndKeepTheBitsOfTheFirstRow) {
  const auto engine = shared_engine();
  Session session(engine, {.threads = 2});
  int shapes = 0;
  for (int64_t seq = 1; seq <= 40; ++seq) {
    std::vector<std::byte> first_row;
    for (const int64_t batch : {1, 2, 3, 5, 7}) {
      const auto arrays = arrays_of(*engine, batch, seq, 9);
      const auto outputs = session.run(refs(arrays));
      ASSERT_TRUE(all_finite(outputs)) << batch << " x " << seq;
      ASSERT_EQ(outputs[0].shape[0], batch);
      std::vector<std::byte> row = bytes_of(outputs);
      row.resize(row.size() / static_cast<size_t>(batch));
      if (batch == 1) first_row = row;
      ASSERT_EQ(row == first_row, true) << batch << " x " << seq;
      ++shapes;
    }
  }
  EXPECT_EQ(shapes, 200);
}

TEST(Threads, FourSessionsOfOneEngineGiveTheSameBitsAsOneAlone) {
  const auto engine = shared_engine();
  constexpr int kSessions = 4, kRuns = 12;
  const auto shape_of = [](int session, int run) {
    return std::pair<int64_t, int64_t>(1 + (session + run) % 5, 3 + 7 * (run % 4) + session);
  };
  std::vector<std::vector<std::byte>> alone(kSessions * kRuns), together(kSessions * kRuns);
  const auto work = [&](int s, std::vector<std::vector<std::byte>>& results) {
    Session session(engine, {.threads = 2});
    for (int r = 0; r < kRuns; ++r) {
      const auto [batch, seq] = shape_of(s, r);
      const auto arrays = arrays_of(*engine, batch, seq, static_cast<uint64_t>(s));
      results[static_cast<size_t>(s * kRuns + r)] = bytes_of(session.run(refs(arrays)));
    }
  };
  for (int s = 0; s < kSessions; ++s) work(s, alone);
  std::vector<std::thread> threads;
  for (int s = 0; s < kSessions; ++s) threads.emplace_back([&, s] { work(s, together); });
  for (std::thread& t : threads) t.join();
  for (size_t i = 0; i < alone.size(); ++i) {
    EXPECT_FALSE(alone[i].empty());
    EXPECT_EQ(alone[i] == together[i], true) << "session " << i / kRuns << ", run " << i % kRuns;
  }
}

TEST(Weights, AreSoundAndLieInTheMappedFile) {
  EXPECT_GT(shared_engine()->weight_bytes(), 1u << 20);
  EXPECT_NO_THROW(shared_engine()->check_weights());
}

}  // namespace
}  // namespace vernier::test
