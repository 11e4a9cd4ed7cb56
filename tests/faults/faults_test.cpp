// Every allocation, thread start, write, fsync, rename, open and mmap of an operation fails once,
// in turn. The operation ends with Error(kMachine) or std::bad_alloc (exit code 3 of the program),
// or does without; nothing is left behind, an old file stays whole, and the next try succeeds.
#include "faults/faults.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <random>

#include "engine/reader.h"
#include "engine/writer.h"
#include "io/npz.h"
#include "onnx/model_builder.h"
#include "verify/verify.h"
#include "vernier/compile.h"
#include "vernier/session.h"

namespace vernier::test {
namespace {

namespace fs = std::filesystem;
using faults::Kind;

std::string contents(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::map<std::string, std::string> files_of(const fs::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::directory_iterator(folder))
    files[entry.path().filename()] = contents(entry.path());
  return files;
}

// y = relu(x·w + b)·v
std::string model_bytes() {
  onnx::ModelBuilder model(17);
  model.input("x", onnx::kFloat, {"n", 4}).output("y");
  model.initializer(onnx::f32_tensor("w", {4, 2}, {1, -2, 3, 4, -5, 6, 7, 8}));
  model.initializer(onnx::f32_tensor("b", {2}, {0.5, -0.5}));
  model.initializer(onnx::f32_tensor("v", {2, 3}, {1, 2, 3, 4, 5, 6}));
  model.node("MatMul", {"x", "w"}, {"xw"});
  model.node("Add", {"xw", "b"}, {"h"});
  model.node("Relu", {"h"}, {"r"});
  model.node("MatMul", {"r", "v"}, {"y"});
  return model.bytes();
}

class Faults : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("vernier_faults_" + std::to_string(::getpid()));
    fs::create_directories(folder_);
    std::ofstream(folder_ / "model.onnx", std::ios::binary) << model_bytes();
    compile(model_path(), engine_path());
    io::write_npz(arrays_path(), {{"x", Tensor::from(DType::kF32, {2, 4}, std::span(kInput))}});
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string model_path() const { return folder_ / "model.onnx"; }
  std::string engine_path() const { return folder_ / "model.vn"; }
  std::string arrays_path() const { return folder_ / "x.npz"; }

  // Runs `operation` until a call of this kind that fails is not reached any more. It must leave
  // the folder as it was, except that files it writes may be written.
  void fail_each(Kind kind, const std::function<void()>& operation) {
    for (int i = 0; i < 3; ++i) operation();  // what is made once is made
    const auto before = files_of(folder_);
    int64_t failures = 0, calls = 0;
    for (int64_t n = 0;; n = next(n)) {
      SCOPED_TRACE("call " + std::to_string(n) + " of kind " + std::string(faults::name(kind)));
      int64_t live = faults::live_allocations();
      faults::Seen seen = fail_one(kind, n, operation);
      if (faults::live_allocations() != live) {  // the first time something may be made for good
        live = faults::live_allocations();
        seen = fail_one(kind, n, operation);
      }
      EXPECT_EQ(faults::live_allocations(), live) << "allocations were left";
      EXPECT_EQ(files_of(folder_), before);
      if (HasFailure()) return;
      calls = seen.calls;
      if (seen.calls <= n) break;
      failures += seen.failed;
    }
    operation();
    RecordProperty("failures", static_cast<int>(failures));
    std::printf("%lld calls, %lld of them failed\n", static_cast<long long>(calls),
                static_cast<long long>(failures));
  }

  // Every one of the first thousands, then about one in a hundred: an operation repeats itself.
  static int64_t next(int64_t n) {
    constexpr int64_t kAll = 4000;
    return n < kAll ? n + 1 : n + 1 + n % 97 + (n - kAll) / 100;
  }

  static faults::Seen fail_one(Kind kind, int64_t n, const std::function<void()>& operation) {
    // Made before anything is short.
    std::string problem(1000, ' ');
    problem.clear();
    faults::arm(kind, n);
    try {
      operation();
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kMachine) problem = error.what();
    } catch (const std::bad_alloc&) {
      if (kind != Kind::kAllocation) problem = "bad_alloc";
    } catch (const std::exception& error) {
      problem = error.what();
    }
    const faults::Seen seen = faults::disarm();
    EXPECT_EQ(problem, "");
    return seen;
  }

  void fail_all_kinds(const std::function<void()>& operation) {
    for (const Kind kind : {Kind::kThread, Kind::kWrite, Kind::kSync, Kind::kRename, Kind::kOpen,
                            Kind::kMap, Kind::kAllocation}) {
      fail_each(kind, operation);
      if (HasFailure()) return;
    }
  }

  static constexpr std::array<double, 8> kInput{1, 2, 3, 4, -1, -2, -3, -4};
  fs::path folder_;
};

TEST_F(Faults, Build) {
  fail_all_kinds([&] { compile(model_path(), engine_path()); });
}

// A weight of so many elements that its conversion is worth a second thread.
TEST_F(Faults, ThreadsOfABuild) {
  const std::vector<float> values(size_t{1} << 21, 0.25f);
  onnx::ModelBuilder model(17);
  model.input("x", onnx::kFloat, {"n", 1024}).output("y");
  model.initializer(onnx::f32_tensor("w", {1024, 2048}, values));
  model.node("MatMul", {"x", "w"}, {"y"});
  std::ofstream(model_path(), std::ios::binary) << model.bytes();
  CompileOptions options;
  options.mode = "fp16";
  compile(model_path(), engine_path(), options);
  fail_each(Kind::kThread, [&] { compile(model_path(), engine_path(), options); });
}

TEST_F(Faults, OpenAndRun) {
  const std::vector<float> x(kInput.begin(), kInput.end());
  const std::array<int64_t, 2> shape{2, 4};
  const Input input{"x", DType::kF32, shape, x.data()};
  std::vector<float> expected;
  const auto run = [&] {
    Session session(Engine::open(engine_path()), {.threads = 3});
    const auto outputs = session.run({&input, 1});
    const auto* y = static_cast<const float*>(outputs[0].data);
    if (expected.empty()) expected.assign(y, y + 6);
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), y));
  };
  run();
  EXPECT_NE(expected[0], 0);
  fail_all_kinds(run);
}

TEST_F(Faults, WriteArrays) {
  const NamedTensors arrays = io::read_arrays(arrays_path());
  fail_all_kinds([&] { io::write_npz(arrays_path(), arrays); });
}

TEST_F(Faults, ReadArrays) {
  fail_all_kinds([&] { EXPECT_EQ(io::read_arrays(arrays_path()).size(), 1u); });
}

TEST_F(Faults, AnArchiveThatTheSystemRefusesIsNoWrongInput) {
  faults::arm(Kind::kOpen, 0);
  try {
    io::read_arrays(arrays_path());
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kMachine);
    EXPECT_THAT(error.what(), ::testing::HasSubstr("x.npz': cannot be opened as .npz: "));
    EXPECT_THAT(error.what(), ::testing::HasSubstr("Too many open files"));
  }
  faults::disarm();
}

TEST_F(Faults, VerifyAndStamp) {
  verify::Request request;
  request.model = model_path();
  request.engine = engine_path();
  request.batches = {2};
  request.threads = 2;
  fail_all_kinds([&] { EXPECT_EQ(verify::verify_and_stamp(request).verdict, "pass"); });
}

}  // namespace
}  // namespace vernier::test
