// Sessions and the device they run on (VERNIER_TEST_DEVICE): the caller's own stream and memory,
// memory that there is not, recordings, sessions side by side. Contract: include/vernier/session.h.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <thread>

#include "plan/graphs.h"
#include "runtime/backends.h"
#include "runtime/engines.h"
#include "runtime/models.h"

namespace vernier::test {
namespace {

using testing::HasSubstr;

// y = |x|·w, shifted, with values in between that take some memory.
constexpr std::string_view kSmall =
    R"(graph small(%x: f32[batch, 16], %shift: f32[batch, 1]) {
  %a = Abs(%x)
  %w = const f32[16, 64] normal(seed=5, mean=0, std=1)
  %h = Linear(%a, %w)
  %s = Softmax(%h) {axis=-1}
  %m = Add(%s, %h)
  %y = Add(%m, %shift)
  return %y as "y"
})";
constexpr int64_t kWidth = 64;

Arrays small_inputs(int64_t batch, uint64_t seed = 1) {
  return {{"x", random_f32({batch, 16}, seed)}, {"shift", random_f32({batch, 1}, seed + 100)}};
}

const backend::Backend& backend_here() {
  return runtime::backend_named(device_under_test(), "the device under test");
}

// A caller with memory and a stream of its own, as a program around Vernier has them.
class Caller {
 public:
  Caller() : device_(backend_here().make_device({.threads = 1})) {}
  ~Caller() {
    for (std::byte* data : memory_) device_->free(data);
  }
  Caller(const Caller&) = delete;
  Caller& operator=(const Caller&) = delete;

  void* stream() { return device_->execution().stream; }
  bool has_host_memory() const { return device_->host_memory(); }
  std::byte* allocate(size_t bytes) {
    memory_.push_back(device_->allocate(bytes));
    return memory_.back();
  }
  /// These are enqueued on the caller's stream.
  void write(std::byte* to, const Tensor& t) {
    device_->copy_to_device(to, t.data(), t.bytes(), stream());
  }
  void copy(std::byte* to, const std::byte* from, size_t bytes) {
    device_->copy_on_device(to, from, bytes, stream());
  }
  void read(std::byte* to, const std::byte* from, size_t bytes) {
    device_->copy_to_host(to, from, bytes, stream());
  }
  void wait() { device_->synchronise(stream()); }

 private:
  std::unique_ptr<backend::Device> device_;
  std::vector<std::byte*> memory_;
};

class OnDevice : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!backend_here().available) return;
    if (const Support here = backend_here().available(); !here)
      GTEST_SKIP() << "SKIP: " << here.reason;
  }
};
using CallersStream = OnDevice;
using CallersMemory = OnDevice;
using OutOfMemory = OnDevice;
using Recordings = OnDevice;
using SideBySide = OnDevice;

size_t y_bytes(int64_t batch) { return static_cast<size_t>(batch * kWidth) * sizeof(float); }

std::vector<std::byte> bytes_of(const Tensor& t) { return {t.data(), t.data() + t.bytes()}; }

// The caller's slow work, new inputs, a run and a copy of its answer, many times over, with one
// wait at the end. A step on another stream would read what a former round left.
TEST_F(CallersStream, OrdersARunBetweenTheCallersOwnWork) {
  constexpr int kRounds = 24, kSlowCopies = 6;
  const auto engine = engine_of(kSmall);
  Caller caller;
  const size_t half = caller.has_host_memory() ? 1 << 10 : size_t{64} << 20;
  std::byte* slow = caller.allocate(2 * half);
  constexpr int64_t kMost = 48;
  std::byte* x = caller.allocate(kMost * 16 * sizeof(float));
  std::byte* shift = caller.allocate(kMost * sizeof(float));
  std::byte* y = caller.allocate(y_bytes(kMost));
  std::byte* kept = caller.allocate(kRounds * y_bytes(kMost));
  Session session(engine, {.threads = 1, .stream = caller.stream()});
  // Two shapes, each launched, recorded and replayed; the second makes the arena grow.
  const auto batch_of = [](int round) { return round % 4 < 2 ? int64_t{3} : kMost; };
  for (int round = 0; round < kRounds; ++round) {
    const int64_t batch = batch_of(round);
    const Arrays inputs = small_inputs(batch, static_cast<uint64_t>(round));
    for (int i = 0; i < kSlowCopies; ++i) caller.copy(slow, slow + half, half);
    caller.write(x, inputs.at("x"));
    caller.write(shift, inputs.at("shift"));
    const int64_t x_shape[] = {batch, 16}, shift_shape[] = {batch, 1};
    const Input refs[] = {{"x", DType::kF32, x_shape, x, Memory::kDevice},
                          {"shift", DType::kF32, shift_shape, shift, Memory::kDevice}};
    const OutputBuffer buffers[] = {{"y", y, y_bytes(batch), Memory::kDevice}};
    session.enqueue(refs, buffers);
    caller.copy(kept + static_cast<size_t>(round) * y_bytes(kMost), y, y_bytes(batch));
  }
  std::vector<std::byte> got(kRounds * y_bytes(kMost));
  caller.read(got.data(), kept, got.size());
  caller.wait();
  Session plain(engine, {.threads = 1});
  for (int round = 0; round < kRounds; ++round) {
    const Arrays want = run(plain, small_inputs(batch_of(round), static_cast<uint64_t>(round)));
    EXPECT_EQ(std::memcmp(got.data() + static_cast<size_t>(round) * y_bytes(kMost),
                          want.at("y").data(), want.at("y").bytes()),
              0)
        << "round " << round;
  }
}

// Host arrays may be used again as soon as enqueue() is back only where they were copied; wait()
// says when the buffers are complete.
TEST_F(CallersStream, WaitCompletesHostBuffers) {
  const auto engine = engine_of(kSmall);
  Caller caller;
  Session session(engine, {.threads = 1, .stream = caller.stream()});
  Session plain(engine, {.threads = 1});
  for (int round = 0; round < 6; ++round) {
    const Arrays inputs = small_inputs(5, static_cast<uint64_t>(round));
    std::vector<std::byte> y(y_bytes(5));
    const OutputBuffer buffers[] = {{"y", y.data(), y.size()}};
    session.enqueue(inputs_of(inputs), buffers);
    session.wait();
    EXPECT_EQ(y, bytes_of(run(plain, inputs).at("y"))) << "round " << round;
  }
}

TEST_F(CallersStream, OneForTwoSessions) {
  const auto engine = engine_of(kSmall);
  Caller caller;
  Session a(engine, {.threads = 1, .stream = caller.stream()});
  Session b(engine, {.threads = 1, .stream = caller.stream()});
  const Arrays inputs_a = small_inputs(7, 1), inputs_b = small_inputs(9, 2);
  const Arrays want_a = run(a, inputs_a), want_b = run(b, inputs_b);
  for (int round = 0; round < 5; ++round) {
    std::vector<std::byte> y_a(y_bytes(7)), y_b(y_bytes(9));
    const OutputBuffer to_a[] = {{"y", y_a.data(), y_a.size()}},
                       to_b[] = {{"y", y_b.data(), y_b.size()}};
    a.enqueue(inputs_of(inputs_a), to_a);
    b.enqueue(inputs_of(inputs_b), to_b);
    caller.wait();
    EXPECT_EQ(y_a, bytes_of(want_a.at("y")));
    EXPECT_EQ(y_b, bytes_of(want_b.at("y")));
  }
}

TEST_F(CallersMemory, HostAndDeviceMayMeetInOneRun) {
  const auto engine = engine_of(kSmall);
  Caller caller;
  Session session(engine, {.threads = 1});
  constexpr int64_t kBatch = 6;
  const Arrays inputs = small_inputs(kBatch);
  const Arrays want = run(session, inputs);
  std::byte* on_device = caller.allocate(inputs.at("x").bytes());
  std::byte* y_device = caller.allocate(y_bytes(kBatch));
  caller.write(on_device, inputs.at("x"));
  caller.wait();  // another stream than the session's
  std::vector<Input> refs = inputs_of(inputs);
  for (Input& input : refs) {
    if (input.name != "x") continue;
    input.data = on_device;
    input.memory = Memory::kDevice;
  }
  std::vector<std::byte> y_host(y_bytes(kBatch)), y_back(y_bytes(kBatch));
  const OutputBuffer to_host[] = {{"y", y_host.data(), y_host.size()}};
  const OutputBuffer to_device[] = {{"y", y_device, y_bytes(kBatch), Memory::kDevice}};
  session.run(refs, to_host);
  session.run(refs, to_device);
  caller.read(y_back.data(), y_device, y_back.size());
  caller.wait();
  EXPECT_EQ(y_host, bytes_of(want.at("y")));
  EXPECT_EQ(y_back, bytes_of(want.at("y")));
}

TEST_F(CallersMemory, ABufferThatIsTooSmallIsRefusedBeforeAnythingRuns) {
  Caller caller;
  Session session(engine_of(kSmall), {.threads = 1});
  const Arrays inputs = small_inputs(3);
  std::byte* y = caller.allocate(sizeof(float));
  const OutputBuffer small[] = {{"y", y, sizeof(float), Memory::kDevice}};
  EXPECT_THAT(error_of([&] { session.enqueue(inputs_of(inputs), small); }),
              HasSubstr("the buffer has 4 bytes"));
  const std::vector<double> ms = session.impl().time_steps(inputs_of(inputs));
  EXPECT_EQ(ms.size(), session.impl().parts.plan.steps.size());
  EXPECT_GT(session.device_milliseconds(inputs_of(inputs), 3), 0);
}

// y is nearly 2^49 bytes for the largest batch.
constexpr std::string_view kWide = R"(graph wide(%x: f32[batch, 1]) {
  %w = const f32[65536] normal(seed=6, mean=0, std=1)
  %y = Add(%x, %w)
  return %y as "y"
})";
constexpr int64_t kTooMany = (int64_t{1} << 31) - 1;

TEST_F(OutOfMemory, IsAnErrorThatSaysHowMuchAndTheSessionGoesOn) {
  Session session(engine_of(kWide, "batch=1..2147483647"), {.threads = 1});
  const Arrays inputs{{"x", random_f32({3, 1}, 1)}};
  const Arrays want = run(session, inputs);
  const size_t arena = session.arena_bytes();
  const float one = 0;
  const int64_t shape[] = {kTooMany, 1};
  const Input too_much[] = {{"x", DType::kF32, shape, &one, Memory::kHost}};
  const auto needed = [](const std::string& error) {
    const size_t at = error.find_first_of("0123456789");
    return at == std::string::npos ? 0.0 : std::stod(error.substr(at));
  };
  for (int round = 0; round < 3; ++round) {
    const std::string prepared = error_of(
        [&] {
          session.prepare(std::vector<InputShape>{{"x", {kTooMany, 1}}});
        },
        ErrorCode::kMachine);
    EXPECT_GE(needed(prepared), 0x1p48) << prepared;
    const std::string ran = error_of([&] { session.run(too_much); }, ErrorCode::kMachine);
    EXPECT_GE(needed(ran), 0x1p48) << ran;
    // Refused before anything is given up, or given up for what the device then did not have.
    EXPECT_TRUE(session.arena_bytes() == arena || session.arena_bytes() == 0);
    for (int again = 0; again < 3; ++again) EXPECT_EQ(difference(run(session, inputs), want), "");
  }
  std::printf("%s\n", error_of([&] { session.run(too_much); }, ErrorCode::kMachine).c_str());
}

TEST_F(Recordings, AreBoundedAsShapesAreAndRight) {
  constexpr int64_t kShapes = 40;  // more than are remembered
  Session session(engine_of(kSmall), {.threads = 1});
  std::vector<Arrays> first(1);
  for (int64_t batch = 1; batch <= kShapes; ++batch)
    first.push_back(run(session, small_inputs(batch)));
  // Of all shapes: workspace need not grow with the batch.
  const size_t arena = session.arena_bytes();
  for (int round = 0; round < 2; ++round) {
    for (int64_t batch = kShapes; batch >= 1; --batch) {
      for (int again = 0; again < 3; ++again) {
        EXPECT_EQ(difference(run(session, small_inputs(batch)), first[static_cast<size_t>(batch)]),
                  "")
            << "batch " << batch;
      }
    }
    size_t recorded = 0;
    for (const auto& entry : session.impl().shapes) recorded += entry->recording.made();
    const bool records = !Caller().has_host_memory();
    EXPECT_EQ(recorded, records ? Session::Impl::kMaxShapes : 0);
    EXPECT_EQ(session.impl().shapes.size(), Session::Impl::kMaxShapes);
    EXPECT_EQ(session.arena_bytes(), arena);
  }
}

// A larger shape moves the arena; what was recorded before has addresses in the old one.
TEST_F(Recordings, AreForgottenWhenTheArenaMoves) {
  Session session(engine_of(kSmall), {.threads = 1});
  const Arrays small = small_inputs(2), large = small_inputs(60);
  const Arrays want = run(session, small);
  run(session, small);
  const Arrays want_large = run(session, large);
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ(difference(run(session, small), want), "");
    EXPECT_EQ(difference(run(session, large), want_large), "");
  }
}

TEST_F(SideBySide, SessionsInThreadsGiveTheirOwnBits) {
  constexpr int kThreads = 4, kRuns = 100;
  const auto engine = engine_of(kSmall);
  std::vector<Arrays> inputs, want;
  for (int t = 0; t < kThreads; ++t) {
    inputs.push_back(small_inputs(5 + 8 * t, static_cast<uint64_t>(t)));
    Session alone(engine, {.threads = 1});
    want.push_back(run(alone, inputs.back()));
  }
  std::vector<int> wrong(kThreads, -1);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      Session session(engine, {.threads = 1});
      int different = 0;
      for (int i = 0; i < kRuns; ++i)
        different += !difference(run(session, inputs[t]), want[t]).empty();
      wrong[t] = different;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(kThreads, 0));
}

}  // namespace
}  // namespace vernier::test
