// Sessions on a device with memory of its own, as a GPU has: what is copied, waited for and freed,
// whose thread it is, and what its errors say. The device is the CPU with its memory declared not
// to be the host's, so that this runs everywhere. Contract: backend/kernel.h,
// include/vernier/session.h.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <optional>

#include "backend/cuda/target.h"
#include "plan/graphs.h"
#include "runtime/backends.h"
#include "runtime/engines.h"
#include "runtime/models.h"
#include "runtime/tuning.h"

namespace vernier::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// What all fake devices were asked.
struct Asked {
  int copies_from_host = 0, copies_on_device = 0, waits = 0, alive = 0;
  int entered = 0, most_entered = 0, left_wrong = 0;
  size_t most_bytes = SIZE_MAX;  ///< of one allocation
  bool copies_fail = false, recordings_fail = false;
  int recordings = 0;
  std::vector<std::string> tunings;
};
Asked asked;

class FakeDevice final : public backend::Device {
 public:
  FakeDevice() : cpu_(runtime::backend_named("cpu", "a test").make_device({.threads = 1})) {}
  std::byte* allocate(size_t bytes) override {
    if (bytes > asked.most_bytes)
      throw Error(ErrorCode::kMachine, "memory: needed " + std::to_string(bytes) + " bytes");
    ++asked.alive;
    return cpu_->allocate(bytes);
  }
  void free(std::byte* data) override {
    --asked.alive;
    cpu_->free(data);
  }
  void copy_to_device(std::byte* dst, const std::byte* src, size_t bytes, void* s) override {
    if (asked.copies_fail) throw Error(ErrorCode::kMachine, "copying failed");
    ++asked.copies_from_host;
    cpu_->copy_to_device(dst, src, bytes, s);
  }
  void copy_to_host(std::byte* dst, const std::byte* src, size_t bytes, void* s) override {
    cpu_->copy_to_host(dst, src, bytes, s);
  }
  void synchronise(void*) override { ++asked.waits; }
  bool host_memory() const override { return false; }
  size_t alignment() const override { return cpu_->alignment(); }
  backend::Execution execution() override { return cpu_->execution(); }
  void copy_on_device(std::byte* dst, const std::byte* src, size_t bytes, void* s) override {
    ++asked.copies_on_device;
    cpu_->copy_on_device(dst, src, bytes, s);
  }
  std::byte* allocate_staging(size_t bytes) override { return allocate(bytes); }
  void free_staging(std::byte* data) override { free(data); }
  std::unique_ptr<backend::Recording> record(
      const std::function<void(const backend::Execution&)>&) override {
    ++asked.recordings;
    if (asked.recordings_fail) throw Error(ErrorCode::kMachine, "no room for a recording");
    return nullptr;
  }
  std::unique_ptr<backend::Mark> mark(void* stream) override { return cpu_->mark(stream); }
  double milliseconds_between(const backend::Mark& a, const backend::Mark& b) override {
    return cpu_->milliseconds_between(a, b);
  }
  int enter() override {
    asked.most_entered = std::max(asked.most_entered, ++asked.entered);
    return 1000 + asked.entered;
  }
  void leave(int before) override { asked.left_wrong += before != 1000 + asked.entered--; }

 private:
  std::unique_ptr<backend::Device> cpu_;
};

// The CPU's rows, Linear's with a create() that notes what tuning it is told.
std::vector<backend::KernelDef> rows() {
  const auto cpu = runtime::backend_named("cpu", "a test").kernels;
  std::vector<backend::KernelDef> rows(cpu.begin(), cpu.end());
  for (backend::KernelDef& row : rows) {
    if (row.op == OpKind::kSoftplus) {
      row.prepare = [](const backend::PrepareCall&) -> std::unique_ptr<backend::ShapeState> {
        throw Error(ErrorCode::kInput, "3 columns are too few");
      };
    }
    if (row.op != OpKind::kAdd) continue;
    row.create = [](const backend::CreateCall& call) -> std::unique_ptr<backend::KernelState> {
      asked.tunings.emplace_back(call.tuning);
      return nullptr;
    };
  }
  return rows;
}

const backend::Backend& fake() {
  static const std::vector<backend::KernelDef> kRows = rows();
  static const backend::Backend kFake{
      .name = "cpu",
      .kernels = kRows,
      .make_device = [](const backend::DeviceOptions&) -> std::unique_ptr<backend::Device> {
        return std::make_unique<FakeDevice>();
      },
      .target = [] { return std::string("a fake"); },
      .runs_engine_of = [](std::string_view built_for) -> Support {
        if (built_for == "another chip") return no("its kernels are another chip's");
        return yes();
      },
  };
  return kFake;
}

constexpr std::string_view kSum =
    R"(graph sum(%x: f32[batch, 16], %shift: f32[batch, 1]) {
  %w = const f32[16] normal(seed=5, mean=0, std=1)
  %h = Mul(%x, %w)
  %y = Add(%h, %shift)
  return %y as "y"
})";
Arrays sum_inputs(int64_t batch, uint64_t seed = 1) {
  return {{"x", random_f32({batch, 16}, seed)}, {"shift", random_f32({batch, 1}, seed + 100)}};
}

class OwnMemory : public ::testing::Test {
 protected:
  void SetUp() override {
    if (device_under_test() != "cpu") GTEST_SKIP() << "SKIP: a CPU that plays a device";
    asked = {};
  }
  /// An engine of the graph on the fake device; `change` sees its plan first.
  std::shared_ptr<const Engine> engine(
      std::string_view text, const std::function<void(plan::Plan&)>& change = [](plan::Plan&) {}) {
    plan::Plan plan = engine_of(text)->impl().plan;
    change(plan);
    return Engine::Impl::engine_of(std::move(plan), fake());
  }
};

TEST_F(OwnMemory, GivesTheBitsOfTheHostsMemory) {
  Session plain(engine_of(kSum), {.threads = 1});
  Session session(engine(kSum), {.threads = 1});
  for (const int64_t batch : {3, 17, 3}) {
    const Arrays inputs = sum_inputs(batch, static_cast<uint64_t>(batch));
    EXPECT_EQ(difference(run(plain, inputs), run(session, inputs)), "");
  }
}

// A GPU's context does not survive a fork: the child gets an error that says so, and frees nothing.
TEST_F(OwnMemory, ASessionOfTheParentIsAnErrorInAForkedChild) {
  const auto opened = engine(kSum);
  std::optional<Session> session(std::in_place, opened, SessionOptions{.threads = 1});
  const Arrays inputs = sum_inputs(5);
  run(*session, inputs);
  const pid_t child = fork();
  if (child == 0) {
    const int alive = asked.alive;
    const std::string of_run = error_of([&] { run(*session, inputs); }, ErrorCode::kInput);
    const std::string of_wait = error_of([&] { session->wait(); }, ErrorCode::kInput);
    const std::string of_engine = error_of([&] { Session own(opened); }, ErrorCode::kInput);
    session.reset();
    const bool told =
        of_run.find("was made before this process was forked") != std::string::npos &&
        of_wait == of_run &&
        of_engine.find("weights were put on device 'cpu' before this process was forked") !=
            std::string::npos;
    _exit(told && asked.alive == alive ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  run(*session, inputs);
}

TEST_F(OwnMemory, InputsOnTheDeviceAreNeitherStagedNorWaitedFor) {
  Session session(engine(kSum), {.threads = 1});
  const Arrays inputs = sum_inputs(5);
  std::vector<Input> refs = inputs_of(inputs);
  std::vector<std::byte> y(5 * 16 * 4);
  const OutputBuffer buffers[] = {{"y", y.data(), y.size(), Memory::kDevice}};
  for (Input& input : refs) input.memory = Memory::kDevice;
  asked = {};
  for (int i = 0; i < 3; ++i) session.enqueue(refs, buffers);
  EXPECT_EQ(asked.copies_from_host, 0);
  EXPECT_EQ(asked.waits, 0);
  EXPECT_EQ(asked.copies_on_device, 3 * 3);
  Session plain(engine_of(kSum), {.threads = 1});
  EXPECT_EQ(std::memcmp(y.data(), run(plain, inputs).at("y").data(), y.size()), 0);
}

TEST_F(OwnMemory, OfMixedInputsOnlyTheHostsAreStaged) {
  Session session(engine(kSum), {.threads = 1});
  const Arrays inputs = sum_inputs(5);
  std::vector<Input> refs = inputs_of(inputs);
  for (Input& input : refs) input.memory = input.name == "x" ? Memory::kDevice : Memory::kHost;
  asked = {};
  const std::span<const Output> outputs = session.run(refs);
  EXPECT_EQ(asked.copies_from_host, 1);
  EXPECT_EQ(asked.copies_on_device, 1);
  Session plain(engine_of(kSum), {.threads = 1});
  EXPECT_EQ(std::memcmp(outputs[0].data, run(plain, inputs).at("y").data(), outputs[0].bytes), 0);
}

TEST_F(OwnMemory, EveryCallWorksOnTheDeviceAndLeavesItAgain) {
  const auto opened = engine(kSum);
  const Arrays inputs = sum_inputs(5);
  const std::vector<Input> refs = inputs_of(inputs);
  const auto expect_balanced = [](const char* call) {
    EXPECT_GE(asked.most_entered, 1) << call;
    EXPECT_EQ(asked.entered, 0) << call;
    EXPECT_EQ(asked.left_wrong, 0) << call;
    asked = {};
  };
  Session session(opened, {.threads = 1});
  expect_balanced("Session");
  session.prepare(std::vector<InputShape>{{"x", {5, 16}}, {"shift", {5, 1}}});
  expect_balanced("prepare");
  session.run(refs);
  expect_balanced("run");
  session.enqueue(refs, {});
  expect_balanced("enqueue");
  session.device_milliseconds(refs, 1);
  expect_balanced("device_milliseconds");
  session.impl().time_steps(refs);
  expect_balanced("time_steps");
  EXPECT_NE(error_of([&] { session.run({}); }), "no error");
  expect_balanced("run that fails");
}

TEST_F(OwnMemory, WeightsThatCannotBeCopiedAreFreed) {
  const auto opened = engine(kSum);
  asked.copies_fail = true;
  EXPECT_THAT(error_of([&] { Session session(opened, {.threads = 1}); }, ErrorCode::kMachine),
              HasSubstr("copying"));
  EXPECT_EQ(asked.alive, 0);
  asked.copies_fail = false;
  Session session(opened, {.threads = 1});
  run(session, sum_inputs(2));
}

TEST_F(OwnMemory, RunsThatCannotBeRecordedAreLaunchedStepByStep) {
  Session session(engine(kSum), {.threads = 1});
  const Arrays inputs = sum_inputs(4);
  const Arrays first = run(session, inputs);
  asked.recordings_fail = true;
  ::testing::internal::CaptureStderr();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(difference(run(session, inputs), first), "");
  EXPECT_EQ(asked.recordings, 1);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("runs of batch=4 are not recorded and take longer: no room"));
}

TEST_F(OwnMemory, ErrorsSayWhatTheMemoryIsFor) {
  const auto opened = engine(kSum);
  asked.most_bytes = 8;
  EXPECT_THAT(error_of([&] { Session session(opened, {.threads = 1}); }, ErrorCode::kMachine),
              AllOf(HasSubstr("memory: needed"), HasSubstr("it was for the engine's weights")));
  asked.most_bytes = SIZE_MAX;
  Session session(opened, {.threads = 1});
  run(session, sum_inputs(3));
  asked.most_bytes = session.arena_bytes();
  EXPECT_THAT(error_of([&] { run(session, sum_inputs(60)); }, ErrorCode::kMachine),
              AllOf(HasSubstr("memory: needed"), HasSubstr("for activations of batch=60")));
  run(session, sum_inputs(3));  // the session goes on
}

TEST_F(OwnMemory, AnEngineOfAnotherChipIsRefused) {
  const auto opened = engine(kSum, [](plan::Plan& plan) { plan.target = "another chip"; });
  EXPECT_THAT(error_of([&] { Session session(opened, {.threads = 1}); }, ErrorCode::kMachine),
              AllOf(HasSubstr("was built for 'another chip' and cannot run here"),
                    HasSubstr("build it again on this machine")));
}

TEST_F(OwnMemory, WhatTuningFoundElsewhereIsLeftAside) {
  for (const char* target : {"a fake", "an older fake"}) {
    asked = {};
    const auto opened = engine(kSum, [&](plan::Plan& plan) {
      plan.target = target;
      for (plan::Step& step : plan.steps) step.tuning = "64x32";
    });
    Session session(opened, {.threads = 1});
    ASSERT_EQ(asked.tunings.size(), 1u);
    EXPECT_EQ(asked.tunings[0], target == std::string("a fake") ? "64x32" : "") << target;
  }
}

// The record of a step holds for all of its kind, so the one with the most rows is timed.
TEST_F(OwnMemory, OfStepsAlikeTheLargestIsTimed) {
  plan::Plan plan = engine_of(R"(graph two(%q: f32[10, 16], %x: f32[seq, 16], %z: f32[3, 16]) {
  %w = const f32[16, 32] normal(seed=5, mean=0, std=1)
  %a = Linear(%q, %w)
  %b = Linear(%x, %w)
  %c = Linear(%z, %w)
  return %a as "a", %b as "b", %c as "c"
})",
                              "seq=1..70")
                        ->impl()
                        .plan;
  std::vector<backend::KernelDef> ways(fake().kernels.begin(), fake().kernels.end());
  for (backend::KernelDef& row : ways) {
    if (row.op != OpKind::kLinear) continue;
    row.tune = [](const backend::TuneCall& call) {
      asked.tunings.push_back(std::to_string(call.in[0].dim(0)) + " rows");
      return asked.tunings.back();
    };
  }
  backend::Backend tunes = fake();
  tunes.kernels = ways;
  runtime::TuningRecord record;
  EXPECT_EQ(runtime::tune_plan(plan, tunes, record, {}), 1);
  EXPECT_THAT(asked.tunings, testing::ElementsAre("70 rows"));
  for (const plan::Step& step : plan.steps) EXPECT_EQ(step.tuning, "70 rows") << step.name;
}

TEST_F(OwnMemory, ErrorsOfPreparingNameTheNode) {
  const auto opened = engine(R"(graph top(%x: f32[batch, seq]) {
  %v = Softplus(%x)
  return %v as "v"
})");
  Session session(opened, {.threads = 1});
  EXPECT_THAT(error_of([&] {
                run(session, {{"x", random_f32({2, 3}, 1)}});
              }),
              AllOf(HasSubstr("node '"), HasSubstr("cpu.softplus."), HasSubstr("too few")));
}

TEST(CudaTarget, CodeRunsOnItsChipAndWithoutSuffixOnLaterMinorOnes) {
  using backend::cuda::has_code_for;
  EXPECT_TRUE(has_code_for("90a", 9, 0));
  EXPECT_TRUE(has_code_for("80", 8, 0));
  EXPECT_TRUE(has_code_for("80", 8, 9));
  for (const auto& [code, major, minor] : {std::tuple{"90a", 8, 0},
                                           {"90a", 10, 0},
                                           {"90a", 9, 1},
                                           {"86", 8, 0},
                                           {"80", 9, 0},
                                           {"100a", 9, 0},
                                           {"75", 12, 0}}) {
    const Support here = has_code_for(code, major, minor);
    EXPECT_FALSE(here) << code << " " << major << minor;
    EXPECT_THAT(here.reason, HasSubstr("has code for sm_" + std::string(code) + " only"));
  }
  EXPECT_THAT(has_code_for("90a", 8, 0).reason, HasSubstr("-DVERNIER_CUDA_ARCH=80"));
  EXPECT_THAT(has_code_for("80", 10, 0).reason, HasSubstr("-DVERNIER_CUDA_ARCH=100a"));
}

TEST(CudaTarget, AnEngineRunsOnTheChipItWasBuiltFor) {
  using backend::cuda::runs_on;
  EXPECT_TRUE(runs_on("cuda sm_90 cuBLASLt 130101", "cuda sm_90 cuBLASLt 130200"));
  const Support other = runs_on("cuda sm_90 cuBLASLt 130101", "cuda sm_80 cuBLASLt 130101");
  EXPECT_FALSE(other);
  EXPECT_EQ(other.reason, "its kernels are those of sm_90, and this GPU is sm_80");
}

}  // namespace
}  // namespace vernier::test
