// Limits of sessions and of opening, and engines whose files change. Contract:
// include/vernier/limits.h, include/vernier/engine.h.
#include "vernier/limits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "core/thrown.h"
#include "engine/writer.h"
#include "runtime/engines.h"
#include "runtime/models.h"
#include "vernier/compile.h"

namespace vernier::test {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

// Two steps and more, so that there is something between them.
constexpr std::string_view kSteps =
    R"(graph steps(%x: f32[batch, 64]) {
  %w = const f32[64, 64] normal(seed=5, mean=0, std=1)
  %a = Linear(%x, %w)
  %b = Softmax(%a) {axis=1}
  %c = Linear(%b, %w)
  return %c as "y"
})";

TEST(SessionLimits, ARunThatNeedsMoreIsRefusedBeforeItsMemoryIsTaken) {
  const auto engine = engine_of(kSteps, "batch=1..4000000");
  SessionOptions options{.threads = 1};
  options.limits.max_bytes = 1 << 20;
  Session session(engine, options);
  const Arrays small{{"x", random_f32({4, 64}, 1)}};
  const Arrays before = run(session, small);
  const size_t arena = session.arena_bytes();
  const std::vector<InputShape> large{{"x", {4'000'000, 64}}};
  const Error error = thrown_by([&] { session.prepare(large); });
  EXPECT_EQ(error.code(), ErrorCode::kMachine);
  EXPECT_THAT(error.what(), AllOf(StartsWith("a run with batch=4000000 would take "),
                                  HasSubstr("but the memory limit (max-memory) is 1.0 MB")));
  EXPECT_EQ(session.arena_bytes(), arena);
  EXPECT_EQ(difference(run(session, small), before), "") << "the session stays usable";
}

// Resize keeps 8 bytes for each place of its result when it is asked for its workspace.
TEST(SessionLimits, TheValuesAreCountedBeforeKernelsTakeMemoryForThem) {
  if (device_under_test() != "cpu") GTEST_SKIP() << "SKIP: counts what a CPU takes";
  SessionOptions options{.threads = 1};
  options.limits.max_bytes = 1 << 20;
  Session session(engine_of(R"(graph g(%x: u8[1]) {
    %y = Resize(%x, _, _, i64[1]{8589934592})
    return %y as "y"
  })"),
                  options);
  const Error error = thrown_by([&] { session.prepare(std::vector<InputShape>{{"x", {1}}}); });
  EXPECT_EQ(error.code(), ErrorCode::kMachine);
  EXPECT_THAT(error.what(), StartsWith("a run with fixed sizes would take 8.6 GB"));
}

TEST(SessionLimits, MoreThanTheMachineHasIsRefusedWithoutALimit) {
  if (device_under_test() != "cpu") GTEST_SKIP() << "SKIP: counts what a CPU takes";
  Session session(engine_of(R"(graph g(%x: f32[batch, 1]) {
    %w = const f32[65536] normal(seed=6, mean=0, std=1)
    %y = Add(%x, %w)
    return %y as "y"
  })",
                            "batch=1..2147483647"),
                  {.threads = 1});
  const Error error = thrown_by([&] {
    session.prepare(std::vector<InputShape>{{"x", {2147483647, 1}}});
  });
  EXPECT_EQ(error.code(), ErrorCode::kMachine);
  EXPECT_THAT(error.what(), AllOf(StartsWith("out of memory: 562949953159168 bytes for activations "
                                             "of batch=2147483647, but this machine has "),
                                  HasSubstr(" of memory and swap; use smaller shapes")));
}

TEST(SessionLimits, TheLimitIsThatOfTheShape) {
  if (device_under_test() != "cpu") GTEST_SKIP() << "SKIP: counts what a CPU takes";
  const auto engine = engine_of(kSteps, "batch=1..64");
  Session unlimited(engine, {.threads = 1});
  const std::vector<InputShape> shape{{"x", {32, 64}}};
  unlimited.prepare(shape);
  constexpr uint64_t kArrayBytes = 32 * 64 * 4;
  SessionOptions options{.threads = 1};
  // The input, the caller's output, and the arena.
  options.limits.max_bytes = unlimited.arena_bytes() + 2 * kArrayBytes;
  EXPECT_NO_THROW(Session(engine, options).prepare(shape));
  --options.limits.max_bytes;
  EXPECT_THROW(Session(engine, options).prepare(shape), Error);
}

TEST(SessionLimits, TimeEndsARunBetweenSteps) {
  SessionOptions options{.threads = 1};
  options.limits.max_seconds = 1;
  options.limits.since = Limits::Clock::now() - std::chrono::hours(1);
  Session late(engine_of(kSteps), options);
  const Arrays inputs{{"x", random_f32({4, 64}, 1)}};
  const Error error = thrown_by([&] { run(late, inputs); });
  EXPECT_EQ(error.code(), ErrorCode::kMachine);
  EXPECT_THAT(error.what(), AllOf(StartsWith("the time limit of 1 s (max-seconds) was exceeded"),
                                  HasSubstr("while running step 0 of "), HasSubstr("batch=4")));
}

TEST(SessionLimits, EveryRunHasItsOwnTime) {
  SessionOptions options{.threads = 1};
  options.limits.max_seconds = 600;
  Session session(engine_of(kSteps), options);
  const Arrays inputs{{"x", random_f32({4, 64}, 1)}};
  EXPECT_NO_THROW(run(session, inputs));
  EXPECT_NO_THROW(run(session, inputs));
}

TEST(SessionLimits, WhoAsksToStopIsHeardBetweenSteps) {
  int left = 1000;
  SessionOptions options{.threads = 1};
  options.limits.stop = [&] { return --left < 0; };
  Session session(engine_of(kSteps), options);
  const Arrays inputs{{"x", random_f32({4, 64}, 1)}};
  const Arrays before = run(session, inputs);
  left = 1;
  EXPECT_THAT(thrown_by([&] { run(session, inputs); }).what(),
              StartsWith("stopped while running step 1 of "));
  left = 1000;
  EXPECT_EQ(difference(run(session, inputs), before), "");
}

TEST(CompileLimits, EndABuildAndWriteNothing) {
  const std::string model = example_model("bge_reranker_ts17").path;
  int asked = 0, stops_at = -1;
  CompileOptions options;
  options.limits.stop = [&] { return asked++ == stops_at; };
  compile_to_bytes(model, options);
  const int total = asked;
  std::set<std::string> places;
  for (int part = 1; part <= 16; ++part) {  // everywhere between the beginning and the end
    asked = 0;
    stops_at = total * part / 16 - 1;
    const Error error = thrown_by([&] { compile_to_bytes(model, options); });
    EXPECT_EQ(error.code(), ErrorCode::kMachine);
    const std::string what = error.what();
    ASSERT_THAT(what, HasSubstr("stopped while "));
    const size_t at = what.find("stopped while ") + 14;
    places.insert(what.substr(at, what.find(' ', at) - at));
  }
  EXPECT_THAT(places, testing::IsSupersetOf({"importing", "folding", "planning"}));
  CompileOptions small;
  small.limits.max_bytes = 1000;
  EXPECT_THAT(thrown_by([&] { compile_to_bytes(model, small); }).what(),
              HasSubstr("reading the model's file would take "));
}

class EngineFile : public testing::Test {
 protected:
  void SetUp() override {
    path_ = (fs::temp_directory_path() / ("vernier_file_" + std::to_string(::getpid()) + ".vn"))
                .string();
    const std::string model = example_model("bge_reranker_ts17").path;
    compile(model, path_, options_here());
    std::ifstream file(path_, std::ios::binary);
    bytes_.assign(std::istreambuf_iterator<char>(file), {});
    case_ = example_model("bge_reranker_ts17").cases().front();
  }
  void TearDown() override { fs::remove(path_); }
  std::vector<double> answer(Session& session) const {
    const Tensor output = copy(session.run(refs(case_.inputs)).front());
    std::vector<double> values;
    for (int64_t i = 0; i < output.elems(); ++i) values.push_back(output.float_at(i));
    return values;
  }
  // In place, as `cp` does it.
  void write_over() const {
    std::ofstream(path_, std::ios::binary | std::ios::trunc) << std::string(bytes_.size(), 'x');
  }
  std::string path_, bytes_;
  ModelCase case_;
};

TEST_F(EngineFile, ThatIsWrittenOverIsRefusedByTheNextSession) {
  const auto engine = Engine::open(path_);
  EXPECT_NO_THROW(engine->check_unchanged());
  EXPECT_NO_THROW(Session(engine, {.threads = 1}));
  write_over();
  const Error error = thrown_by([&] { Session(engine, {.threads = 1}); });
  EXPECT_EQ(error.code(), ErrorCode::kMachine);
  EXPECT_THAT(error.what(), AllOf(HasSubstr(path_), HasSubstr("was written to since it was opened"),
                                  HasSubstr("open it again")));
  EXPECT_THROW(engine->check_unchanged(), Error);
}

TEST_F(EngineFile, ThatWasReadIntoMemoryMayBeWrittenOver) {
  const auto engine = Engine::open(path_, {.read_into_memory = true});
  Session session(engine, {.threads = 1});
  const std::vector<double> before = answer(session);
  write_over();
  EXPECT_NO_THROW(engine->check_unchanged());
  EXPECT_NO_THROW(engine->check_weights());
  Session again(engine, {.threads = 1});
  EXPECT_EQ(answer(again), before);
  fs::resize_file(path_, 0);
  EXPECT_EQ(answer(session), before);
}

TEST_F(EngineFile, ThatIsReplacedIsStillTheOldOneForWhoHasIt) {
  const auto engine = Engine::open(path_);
  Session session(engine, {.threads = 1});
  const std::vector<double> before = answer(session);
  CompileOptions other = options_here();
  other.mode = "bf16";
  compile(example_model("bge_reranker_ts17").path, path_, other);
  Session again(engine, {.threads = 1});
  EXPECT_EQ(answer(session), before);
  EXPECT_EQ(answer(again), before);
}

TEST_F(EngineFile, WhatIsReadCountsInTheLimit) {
  if (device_under_test() != "cpu") GTEST_SKIP() << "SKIP: counts what a CPU takes";
  EngineOptions options;
  options.limits.max_bytes = bytes_.size() - 1;
  EXPECT_NO_THROW(Engine::open(path_, options)) << "mapped";
  options.read_into_memory = true;
  EXPECT_THAT(thrown_by([&] { Engine::open(path_, options); }).what(),
              HasSubstr("into memory would take "));
  ++options.limits.max_bytes;
  const auto engine = Engine::open(path_, options);
  SessionOptions session{.threads = 1};
  session.limits.max_bytes = bytes_.size() + 1000;
  Session limited(engine, session);
  EXPECT_THAT(thrown_by([&] { limited.run(refs(case_.inputs)); }).what(),
              StartsWith("a run with "));
}

}  // namespace
}  // namespace vernier::test
