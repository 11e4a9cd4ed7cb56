// Tuning and its record: steps alike are timed once, a build from the record times nothing and
// gives the same bytes. The CPU's kernels have one way each, so they are given ways here.
#include "compile/tune.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "backend/cpu/cpu.h"
#include "runtime/tuning.h"
#include "vernier/error.h"

namespace vernier::test {
namespace {

namespace fs = std::filesystem;

const std::string kModel = std::string(VERNIER_TEST_MODELS) + "/bert_ts11/model.onnx";

// A function pointer of a kernel row has no state of its own.
int calls = 0;
std::string other_way_each_time(const backend::TuneCall&) {
  return "way " + std::to_string(++calls);
}

class Tuning : public ::testing::Test {
 protected:
  Tuning()
      : kernels_(backend::cpu_backend().kernels.begin(), backend::cpu_backend().kernels.end()) {
    for (backend::KernelDef& row : kernels_) {
      if (row.op == OpKind::kLinear) row.tune = &other_way_each_time;
    }
    backend_ = backend::cpu_backend();
    backend_.kernels = kernels_;
    folder_ = fs::path(::testing::TempDir()) / ("tuning_" + std::to_string(getpid()));
    fs::create_directories(folder_);
    calls = 0;
  }
  ~Tuning() override { fs::remove_all(folder_); }

  std::vector<std::byte> build(const std::string& record) {
    CompileOptions options;
    options.kernels = &backend_;
    if (!record.empty()) options.tuning_file = (folder_ / record).string();
    return compile_to_bytes(kModel, options);
  }

  std::vector<backend::KernelDef> kernels_;
  backend::Backend backend_;
  fs::path folder_;
};

TEST_F(Tuning, ABuildFromTheRecordGivesTheSameBytes) {
  const std::vector<std::byte> first = build("record.json");
  const int timed = calls;
  EXPECT_GT(timed, 0);
  EXPECT_TRUE(build("record.json") == first);
  EXPECT_EQ(calls, timed) << "all was in the record";
  EXPECT_FALSE(build("") == first) << "without a record it is timed anew, here with other results";
  EXPECT_GT(calls, timed);
}

TEST_F(Tuning, StepsAlikeAreTimedOnce) {
  build("record.json");
  EXPECT_LE(calls, 6) << "of a layer's products, and the head's";
  std::ifstream file(folder_ / "record.json");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  for (int call = 1; call <= calls; ++call) {
    const std::string way = "\"way " + std::to_string(call) + "\"";
    EXPECT_NE(text.find(way), std::string::npos) << way;
  }
}

TEST_F(Tuning, ARecordOfAnotherMachineIsRefused) {
  std::ofstream(folder_ / "other.json") << R"({"target": "cuda sm_80", "choices": {}})";
  try {
    build("other.json");
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("was made for 'cuda sm_80'"), std::string::npos)
        << error.what();
  }
}

TEST_F(Tuning, ARecordThatCannotBeWrittenIsAnError) {
  try {
    build("no/such/folder.json");
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kMachine);
    EXPECT_NE(std::string(error.what()).find("tuning record"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace vernier::test
