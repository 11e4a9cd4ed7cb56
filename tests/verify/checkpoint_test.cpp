// A verification that is stopped goes on from its checkpoint, and reports what it would have
// reported in one go.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "io/npz.h"
#include "runtime/models.h"
#include "vernier/compile.h"
#include "vernier/verify.h"

namespace vernier::verify {
namespace {

namespace fs = std::filesystem;

class Resumed : public ::testing::Test {
 protected:
  void SetUp() override {
    folder = fs::temp_directory_path() / ("vernier_checkpoint." + std::to_string(::getpid()));
    fs::create_directories(folder);
    request.model = test::example_model("bge_reranker_ts17").path;
    request.engine = folder / "model.vn";
    compile(request.model.string(), request.engine.string(), {.mode = "fp16"});
    request.checkpoint = folder / "model.vn.checkpoint.npz";
    request.batches = {1, 3};
    request.lengths = {4, 9};
    request.threads = 2;
  }
  void TearDown() override { fs::remove_all(folder); }

  // Stops where a stage that contains `where` begins; its message.
  std::string stopped_at(const std::string& where, Request stopped) const {
    bool now = false;
    stopped.progress = [&](const std::string& stage) {
      now = now || stage.find(where) != std::string::npos;
    };
    stopped.limits.stop = [&] { return now; };
    try {
      verify(stopped);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kMachine);
      return error.what();
    }
    return "";
  }
  Report resumed() const {
    Request again = request;
    again.resume = true;
    return verify(again);
  }
  static nlohmann::json without_time(const Report& report) {
    auto json = nlohmann::json::parse(to_json(report));
    for (const char* field : {"ms", "cost", "resumed"}) json.erase(field);
    return json;
  }

  fs::path folder;
  Request request;
};

TEST_F(Resumed, AfterEachStepGivesTheReportOfOneGo) {
  const nlohmann::json whole = without_time(verify(request));
  EXPECT_EQ(whole.at("verdict"), "pass");
  EXPECT_FALSE(fs::exists(request.checkpoint)) << "a file is left after the end";
  for (const char* where : {"batch 1, length 4", "batch 3, length 4", "batch 1, length 9",
                            "batch 3, length 9", "length 9: steps on extreme operands"}) {
    const std::string message = stopped_at(where, request);
    EXPECT_NE(message.find("are done and kept in"), std::string::npos) << where << ": " << message;
    ASSERT_TRUE(fs::exists(request.checkpoint)) << where;
    const Report report = resumed();
    EXPECT_EQ(without_time(report), whole) << where;
    EXPECT_TRUE(report.resumed.starts_with("went on after ")) << report.resumed;
    EXPECT_FALSE(fs::exists(request.checkpoint)) << where;
  }
}

TEST_F(Resumed, DoesNotDoAgainWhatWasDone) {
  stopped_at("batch 1, length 9", request);
  std::set<std::string> stages;
  Request again = request;
  again.resume = true;
  again.progress = [&](const std::string& stage) { stages.insert(stage); };
  verify(again);
  for (const std::string& stage : stages) {
    EXPECT_EQ(stage.find("plan and model in FP64"), std::string::npos) << stage;
    EXPECT_EQ(stage.find("length 4"), std::string::npos) << stage;
  }
}

TEST_F(Resumed, KeepsAFailureThatCameBeforeTheStop) {
  request.tolerance = parse_tolerance("rms=1e-9,max=1e-9");
  const nlohmann::json whole = without_time(verify(request));
  EXPECT_EQ(whole.at("verdict"), "precision");
  stopped_at("batch 3, length 9", request);
  EXPECT_EQ(without_time(resumed()), whole);
}

TEST_F(Resumed, GoesOnWithAnotherEngineAndABudget) {
  const fs::path older = folder / "older.vn";
  compile(request.model.string(), older.string());
  request.against = older;
  request.batches = request.lengths = {};
  request.budget_seconds = 60;  // enough for all cells, however fast the machine is
  const Report whole = verify(request);
  stopped_at("batch 2, length 16", request);
  const Report report = resumed();
  EXPECT_TRUE(report.resumed.starts_with("went on after ")) << report.resumed;
  ASSERT_TRUE(report.against);
  EXPECT_EQ(report.against->cells, whole.against->cells);
  EXPECT_GT(report.against->outputs.at(0).rms, 0);
}

TEST_F(Resumed, NothingIsTakenFromAnotherRequestOrADamagedFile) {
  stopped_at("batch 3, length 9", request);
  request.seed = 2;
  EXPECT_NE(resumed().resumed.find("of another engine, model or machine, or of a request"),
            std::string::npos);
  request.seed = 1;

  stopped_at("batch 3, length 9", request);
  fs::resize_file(request.checkpoint, fs::file_size(request.checkpoint) / 2);
  EXPECT_NE(resumed().resumed.find("it is damaged"), std::string::npos);
  std::ofstream(request.checkpoint) << "no archive";
  EXPECT_NE(resumed().resumed.find("it is damaged"), std::string::npos);
  io::write_npz(request.checkpoint, {{"x", Tensor::i64({1})}});
  const Report report = resumed();
  EXPECT_NE(report.resumed.find("it is no checkpoint of verify"), std::string::npos);
  EXPECT_EQ(report.verdict, Verdict::kPass) << "it was verified anew";
}

// Bytes of the state that are not what they were: the archive's checksum is right.
TEST_F(Resumed, AStateThatMeansNothingIsRefused) {
  stopped_at("batch 3, length 9", request);
  NamedTensors arrays = io::read_arrays(request.checkpoint);
  const Tensor good = arrays.at(1).second;
  ASSERT_EQ(arrays.at(1).first, "state");
  int refused = 0;
  for (int64_t at = 0; at < good.elems(); at += good.elems() / 40 + 1) {
    std::vector<std::byte> bytes(good.byte_span().begin(), good.byte_span().end());
    bytes[static_cast<size_t>(at)] ^= std::byte{0x5a};
    arrays.at(1).second = Tensor::from_bytes(DType::kU8, good.shape(), bytes);
    io::write_npz(request.checkpoint, arrays);
    Request once = request;
    once.resume = true;
    once.limits.stop = [] { return true; };  // reading it is enough
    try {
      verify(once);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kMachine) << error.what();
      ++refused;
    }
  }
  EXPECT_GT(refused, 0);
}

TEST_F(Resumed, WithoutAFileItBeginsAnewAndSaysSo) {
  const Report report = resumed();
  EXPECT_EQ(report.verdict, Verdict::kPass);
  EXPECT_NE(report.resumed.find("to go on from"), std::string::npos) << report.resumed;
}

TEST_F(Resumed, AStopBeforeAnythingIsDoneKeepsNothing) {
  const std::string message = stopped_at("plan and model in FP64", request);
  EXPECT_EQ(message.find("--resume"), std::string::npos) << message;
  EXPECT_FALSE(fs::exists(request.checkpoint));
}

TEST_F(Resumed, PartsAreRefused) {
  request.from = {"anything"};
  try {
    resumed();
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInput);
    EXPECT_NE(std::string(error.what()).find("--from"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace vernier::verify
