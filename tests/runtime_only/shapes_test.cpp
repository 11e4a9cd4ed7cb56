// New shapes and many sessions, in a program without the compiler.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <thread>

#include "core/cpus.h"
#include "core/threads.h"
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

// As many parts as threads, done by whoever comes, with other programs on every CPU: the same bits,
// always.
TEST(Threads, AnyNumberGivesTheSameBitsUnderLoad) {
  const PretendCpus cpus(4);
  const auto engine = shared_engine();
  std::atomic<bool> stop{false};
  std::vector<std::thread> load;
  for (int i = 0; i < 2 * allowed_cpus(); ++i) {
    load.emplace_back([&] {
      while (!stop) {
      }
    });
  }
  for (const auto& [batch, seq] : {std::pair{1, 7}, {3, 33}, {5, 16}}) {
    const auto arrays = arrays_of(*engine, batch, seq, 3);
    std::vector<std::byte> alone;
    for (const int threads : {1, 2, 3, 4, 7}) {
      Session session(engine, {.threads = threads});
      for (int run = 0; run < 5; ++run) {
        const std::vector<std::byte> bytes = bytes_of(session.run(refs(arrays)));
        if (alone.empty()) alone = bytes;
        EXPECT_EQ(bytes == alone, true) << batch << " x " << seq << ", " << threads << " threads";
      }
    }
    EXPECT_FALSE(alone.empty());
  }
  stop = true;
  for (std::thread& thread : load) thread.join();
}

#if !defined(__SANITIZE_THREAD__)  // which ends children of a program with threads
TEST(Threads, ASessionWorksInAChildByFork) {
  const auto engine = shared_engine();
  Session session(engine, {.threads = 2});
  const auto arrays = arrays_of(*engine, 3, 20, 3), unseen = arrays_of(*engine, 2, 31, 3);
  const auto first = bytes_of(session.run(refs(arrays)));
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);  // ends a child that hangs
    if (bytes_of(session.run(refs(arrays))) != first) _exit(1);
    if (bytes_of(session.run(refs(unseen))).empty()) _exit(2);
    Session own(engine, {.threads = 2});
    _exit(bytes_of(own.run(refs(arrays))) == first ? 0 : 3);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_EQ(bytes_of(session.run(refs(arrays))) == first, true);
}
#endif

TEST(Weights, AreSoundAndLieInTheMappedFile) {
  EXPECT_GT(shared_engine()->weight_bytes(), 1u << 20);
  EXPECT_NO_THROW(shared_engine()->check_weights());
}

}  // namespace
}  // namespace vernier::test
