// One thread at a time may use a session: a second one gets an error that says so, and the first
// run is not affected.
// Contract: include/vernier/session.h.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "plan/graphs.h"
#include "runtime/engines.h"

namespace vernier::test {
namespace {

using testing::HasSubstr;

constexpr std::string_view kSum =
    R"(graph sum(%x: f32[batch, 16]) {
  %h = Mul(%x, %x)
  %y = Add(%h, %x)
  return %y as "y"
})";

Arrays inputs_for(int64_t batch) { return {{"x", random_f32({batch, 16}, 7)}}; }

// Stops in the middle of a run until it may go on.
class Halt final : public RunObserver {
 public:
  void after_step(int32_t, const backend::LaunchCall&) override {
    halted = true;
    while (!go_on) std::this_thread::yield();
  }
  std::atomic<bool> halted{false}, go_on{false};
};

// `second` runs while a run of the session stands still in another thread.
void during_a_run(Session& session, const std::function<void()>& second) {
  Halt halt;
  const Arrays inputs = inputs_for(3);
  const Arrays alone = run(session, inputs);
  std::thread first([&] { EXPECT_EQ(difference(run(session, inputs, &halt), alone), ""); });
  while (!halt.halted) std::this_thread::yield();
  second();
  halt.go_on = true;
  first.join();
  EXPECT_EQ(difference(run(session, inputs), alone), "");
}

TEST(SessionUse, ASecondThreadIsToldSoByEveryCall) {
  Session session(engine_of(kSum), {.threads = 2});
  const Arrays inputs = inputs_for(5);
  const std::vector<Input> refs = inputs_of(inputs);
  const std::vector<InputShape> shapes{{"x", {5, 16}}};
  const std::vector<std::function<void()>> calls{
      [&] { session.run(refs); },          [&] { session.run(refs, {}); },
      [&] { session.enqueue(refs, {}); },  [&] { session.wait(); },
      [&] { session.prepare(shapes); },    [&] { session.device_milliseconds(refs, 1); },
      [&] { session.check_inputs(refs); },
  };
  during_a_run(session, [&] {
    for (const auto& call : calls) {
      EXPECT_THAT(error_of(call, ErrorCode::kInput),
                  HasSubstr("the session is running in another thread; a session is one thread's "
                            "at a time: make one per thread from the same engine"));
    }
  });
  for (const auto& call : calls) EXPECT_NO_THROW(call());
}

TEST(SessionUse, ACallThatFailsLeavesItFree) {
  Session session(engine_of(kSum), {.threads = 2});
  const Arrays wrong{{"x", random_f32({3, 15}, 7)}};
  for (int i = 0; i < 2; ++i)
    EXPECT_THAT(error_of([&] { run(session, wrong); }, ErrorCode::kInput), HasSubstr("'x'"));
  EXPECT_NO_THROW(run(session, inputs_for(3)));
}

#if !defined(__SANITIZE_THREAD__)  // which ends children of a program with threads
// A thread of the child may lie where the one that ran the session lay.
TEST(SessionUse, NoThreadOfAChildIsTakenForTheOneThatRanIt) {
  Session session(engine_of(kSum), {.threads = 2});
  during_a_run(session, [&] {
    const pid_t child = fork();
    if (child == 0) {
      int refused = 0;
      for (int i = 0; i < 8; ++i) {
        std::thread([&] {
          const std::string what =
              error_of([&] { run(session, inputs_for(3)); }, ErrorCode::kInput);
          refused += what.find("when this process was forked") != std::string::npos;
        }).join();
      }
      _exit(refused == 8 ? 0 : 1);
    }
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 0);
  });
}

// The thread that ran it is not in the child, and never ends its run there.
TEST(SessionUse, OneThatRanDuringAForkIsToldApart) {
  Session session(engine_of(kSum), {.threads = 2});
  during_a_run(session, [&] {
    const pid_t child = fork();
    if (child == 0) {
      const std::string what = error_of([&] { run(session, inputs_for(3)); }, ErrorCode::kInput);
      _exit(what.find("was running in another thread when this process was forked; make a new "
                      "one") != std::string::npos
                ? 0
                : 1);
    }
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 0);
  });
}

// What a product's library compiles is kept for the whole process: a child does not wait for what
// a thread of its parent had begun.
TEST(SessionUse, AChildPreparesWhatItsParentWasPreparing) {
  for (int round = 0; round < 20; ++round) {
    const int64_t k = 64 + 16 * round;  // not compiled before
    const auto engine = engine_of(linear_text(k, 256, 1));
    Session own(engine, {.threads = 1}), others(engine, {.threads = 1});
    const std::vector<InputShape> shapes{{"x", {37, k}}};
    std::atomic<bool> begun{false};
    std::thread other([&] {
      begun = true;
      others.prepare(shapes);
    });
    while (!begun) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::microseconds(50 * round));
    const pid_t child = fork();
    if (child == 0) {
      alarm(30);
      own.prepare(shapes);
      _exit(0);
    }
    other.join();
    int status = 0;
    waitpid(child, &status, 0);
    ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "round " << round;
  }
}
#endif

}  // namespace
}  // namespace vernier::test
