// Sessions and engines in a child by fork(): on the CPU they work and give the parent's bits; on a
// GPU, which a child of a process that used CUDA cannot use, every way in is refused with a text
// that says what to do, and nothing of the parent's is touched.
// Contract: include/vernier/session.h, docs/serving.md.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <functional>
#include <optional>

#include "plan/graphs.h"
#include "runtime/engines.h"
#include "runtime/models.h"

namespace vernier::test {
namespace {

constexpr int64_t kDepth = 64;

Arrays inputs_for(int64_t rows) { return {{"x", random_f32({rows, kDepth}, 11)}}; }

// What `body` says in a child: "" where all is well. A child that ends otherwise, or not within a
// minute, says so.
std::string in_child(const std::function<std::string()>& body) {
  int ends[2];
  if (pipe(ends) != 0) return "no pipe";
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    std::string said;
    try {
      said = body();
    } catch (const std::exception& error) {
      said = std::string("threw: ") + error.what();
    }
    const bool whole = write(ends[1], said.data(), said.size()) == ssize_t(said.size());
    _exit(whole ? 0 : 1);
  }
  close(ends[1]);
  std::string said;
  char part[512];
  for (ssize_t count; (count = read(ends[0], part, sizeof part)) > 0;) said.append(part, count);
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    said += " (the child ended with status " + std::to_string(status) + ")";
  return said;
}

// What `body` throws.
std::string refusal_of(const std::function<Arrays()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

#if !defined(__SANITIZE_THREAD__)  // which ends children of a program with threads

class Fork : public testing::Test {
 protected:
  void SetUp() override {
    session_.emplace(engine_, SessionOptions{.threads = 2});
    expected_ = run(*session_, inputs_);
  }
  // Nothing that the child did reaches the parent.
  void TearDown() override { EXPECT_EQ(difference(run(*session_, inputs_), expected_), ""); }

  // On the CPU `body` gives the parent's bits; elsewhere its refusal holds `refusal`.
  void expect(const std::function<Arrays()>& body, const std::string& refusal) {
    const std::string said = in_child([&] {
      if (device_under_test() == "cpu") return difference(body(), expected_);
      return refusal_of(body);
    });
    if (device_under_test() == "cpu") {
      EXPECT_EQ(said, "");
    } else {
      EXPECT_THAT(said, testing::HasSubstr(refusal));
      EXPECT_THAT(said, testing::HasSubstr("forked"));
      EXPECT_THAT(said, testing::HasSubstr("(multiprocessing: 'spawn')"));
    }
  }

  std::shared_ptr<const Engine> engine_ = engine_of(linear_text(kDepth, 128, 1));
  std::optional<Session> session_;
  Arrays inputs_ = inputs_for(37), expected_;
};

TEST_F(Fork, ASessionRunsInAChildOrIsRefused) {
  expect([&] { return run(*session_, inputs_); }, "was made before this process was forked");
}

TEST_F(Fork, ANewSessionOfTheParentsEngineRunsInAChildOrIsRefused) {
  expect(
      [&] {
        Session own(engine_, {.threads = 2});
        return run(own, inputs_);
      },
      "the engine's weights were put on device 'cuda' before this process was forked");
}

TEST_F(Fork, AnEngineThatTheChildOpensRunsOrIsRefused) {
  expect(
      [&] {
        Session own(engine_of(linear_text(kDepth, 128, 1)), {.threads = 2});
        return run(own, inputs_);
      },
      "this process was forked");
}

TEST_F(Fork, AChildMayDestroyWhatItsParentMade) {
  EXPECT_EQ(in_child([&] {
              session_.reset();
              engine_.reset();
              return std::string();
            }),
            "");
}

#endif

}  // namespace
}  // namespace vernier::test
