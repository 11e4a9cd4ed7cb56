// vernier run: right answers, the same bits for any number of threads, and every wrong input.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "cli/engine_fixture.h"

namespace vernier::test {
namespace {

using testing::HasSubstr;

class RunEngine : public WithEngine {
 protected:
  static Outcome run(const std::string& engine_file, const std::string& inputs_file,
                     const std::string& outputs_file) {
    return run_program({"run", engine_file, "--inputs", inputs_file, "--outputs", outputs_file});
  }
};

TEST_F(RunEngine, AnswersAreThoseOfTheModelInFp64) {
  const Outcome outcome = run(engine(), inputs(), file("out.npz"));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "");
  const NamedTensors got = io::read_arrays(file("out.npz")), want = io::read_arrays(expected());
  ASSERT_EQ(got.size(), want.size());
  ASSERT_EQ(got[0].first, want[0].first);
  ASSERT_EQ(got[0].second.shape(), want[0].second.shape());
  EXPECT_EQ(got[0].second.dtype(), DType::kF32);
  for (int64_t i = 0; i < want[0].second.elems(); ++i) {
    const double reference = want[0].second.float_at(i);
    EXPECT_NE(got[0].second.float_at(i), 0);
    EXPECT_NEAR(got[0].second.float_at(i), reference, 1e-5 * (1 + std::abs(reference)));
  }
}

TEST_F(RunEngine, PackedRowsGiveTheBitsOfPaddedOnes) {
  const std::vector<int64_t> ids{7, 8, 9, 6, 0, 0}, mask{1, 1, 1, 1, 0, 0};
  const NamedTensors whole{
      {"input_ids", Tensor::from(DType::kI64, {2, 3}, std::span<const int64_t>(ids))},
      {"attention_mask", Tensor::from(DType::kI64, {2, 3}, std::span<const int64_t>(mask))}};
  io::write_npz(file("padded.npz"), whole);
  io::write_npz(file("packed.npz"),
                {{"input_ids", Tensor::i64({7, 8, 9, 6})}, {"cu_seqlens", Tensor::i64({0, 3, 4})}});
  for (const char* name : {"padded", "packed"}) {
    const Outcome outcome =
        run(engine(), file(std::string(name) + ".npz"), file(std::string(name) + "_out.npz"));
    EXPECT_EQ(outcome.code, 0) << outcome.err;
  }
  const NamedTensors a = io::read_arrays(file("padded_out.npz")),
                     b = io::read_arrays(file("packed_out.npz"));
  ASSERT_EQ(b.size(), 2U);
  EXPECT_TRUE(std::ranges::equal(a[0].second.byte_span(), b[0].second.byte_span()));
  EXPECT_EQ(b[1].first, "cu_seqlens");
}

TEST_F(RunEngine, ADeviceThatTheEngineWasNotBuiltForIsRefused) {
  const std::vector<std::string> command{"run", engine(),           "--inputs", inputs(),
                                         "-o",  file("device.npz"), "--device"};
  for (const char* device : {"cuda", "abacus"}) {
    std::vector<std::string> arguments = command;
    arguments.emplace_back(device);
    const Outcome outcome = run_program(arguments);
    EXPECT_EQ(outcome.code, 2) << device;
    EXPECT_THAT(outcome.err, HasSubstr("was built for cpu"));
    EXPECT_FALSE(std::filesystem::exists(file("device.npz")));
  }
  std::vector<std::string> arguments = command;
  arguments.emplace_back("cpu");
  EXPECT_EQ(run_program(arguments).code, 0);
}

TEST_F(RunEngine, ThreadsDoNotChangeBits) {
  ASSERT_EQ(run(engine(), inputs(), file("all.npz")).code, 0);
  for (const char* threads : {"1", "2", "3"}) {
    const Outcome outcome = run_program(
        {"run", engine(), "--inputs", inputs(), "-o", file("some.npz"), "--threads", threads});
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(read_file(file("some.npz")), read_file(file("all.npz"))) << threads << " threads";
  }
}

// With too little address space for threads, the run does without them; with too little for the
// rest, it is an error of the machine (exit code 3).
TEST_F(RunEngine, ThreadsThatCannotStartAndMemoryThatIsShortAreTheMachines) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "SKIP: sanitizers reserve address space";
#endif
  ASSERT_EQ(run(engine(), inputs(), file("all.npz")).code, 0);
  int good = 0, without_threads = 0, refused = 0;
  for (uint64_t megabytes = 60; megabytes <= 400; megabytes += 4) {
    const Outcome outcome = run_program(
        {"run", engine(), "--inputs", inputs(), "-o", file("some.npz"), "--threads", "64"},
        {.memory_bytes = megabytes << 20});
    if (outcome.code == 127) continue;  // the program's own libraries do not fit
    const bool warned = outcome.err.find("could not be started") != std::string::npos;
    if (outcome.code == 0) {
      ++good;
      without_threads += warned;
      EXPECT_EQ(read_file(file("some.npz")), read_file(file("all.npz"))) << megabytes << " MB";
    } else {
      ++refused;
      EXPECT_EQ(outcome.code, 3) << megabytes << " MB: " << outcome.err;
      EXPECT_THAT(outcome.err, HasSubstr("memory")) << megabytes << " MB";
    }
  }
  EXPECT_GT(good, 0);
  std::printf("%d runs, %d of them without threads, %d refused\n", good, without_threads, refused);
}

TEST_F(RunEngine, FilesThatAreNoEnginesAreRefused) {
  const std::string bytes = read_file(engine());
  write_file(file("short.vn"), bytes.substr(0, bytes.size() / 2));
  write_file(file("empty.vn"), "");
  std::string flipped = bytes;
  flipped[100] = static_cast<char>(flipped[100] ^ 0x10);
  write_file(file("flipped.vn"), flipped);
  for (const std::string& name : {file("none.vn"), file("short.vn"), file("empty.vn"),
                                  file("flipped.vn"), kModel, inputs()}) {
    const Outcome outcome = run(name, inputs(), file("refused.npz"));
    EXPECT_EQ(outcome.code, 2) << name << ": " << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(name));
    EXPECT_FALSE(std::filesystem::exists(file("refused.npz")));
  }
}

TEST_F(RunEngine, WrongInputsAreNamed) {
  struct Row {
    std::string file;
    std::vector<std::string> message;
  };
  write_file(file("text.npz"), "not an archive");
  const auto check = [](const std::string& inputs_file, const std::vector<std::string>& parts) {
    const Outcome outcome = run(engine(), inputs_file, file("refused.npz"));
    EXPECT_EQ(outcome.code, 2) << outcome.err;
    EXPECT_THAT(outcome.err, testing::StartsWith("vernier: error: "));
    for (const std::string& part : parts) EXPECT_THAT(outcome.err, HasSubstr(part));
  };
  check(file("text.npz"), {"text.npz"});
  check(changed_inputs([](NamedTensors& arrays) { arrays.pop_back(); }), {"attention_mask"});
  check(changed_inputs([](NamedTensors& arrays) { arrays[0].first = "ids"; }), {"ids"});
  check(changed_inputs([](NamedTensors& arrays) {
          arrays[0].second =
              Tensor::from(DType::kI32, arrays[0].second.shape(), arrays[0].second.integers());
        }),
        {"input_ids", "i32", "i64"});
  check(changed_inputs([](NamedTensors& arrays) {
          arrays[0].second = Tensor::from(DType::kI64, {2, 96}, arrays[0].second.integers());
        }),
        {"attention_mask"});
  check(
      changed_inputs([](NamedTensors& arrays) {
        std::vector<int64_t> ids = arrays[0].second.integers();
        ids[7] = 1'000'000;
        arrays[0].second = Tensor::from(DType::kI64, arrays[0].second.shape(), ids);
      }),
      {"input 'input_ids': element [0, 7] is 1000000, outside the table of 1000 entries that step",
       "reads (0..999, or -1000..-1 from its end); the engine takes i64 [batch=1..64, seq="});
}

TEST_F(RunEngine, AnOutputThatCannotBeWrittenIsTheMachines) {
  const Outcome outcome = run(engine(), inputs(), file("no/folder/out.npz"));
  EXPECT_EQ(outcome.code, 3);
  EXPECT_THAT(outcome.err, HasSubstr("no/folder/out.npz"));
}

TEST_F(RunEngine, MissingInputFileIsNamed) {
  const Outcome outcome = run(engine(), file("none.npz"), file("out.npz"));
  EXPECT_NE(outcome.code, 0);
  EXPECT_THAT(outcome.err, HasSubstr("none.npz"));
}

}  // namespace
}  // namespace vernier::test
