// vernier verify --metric: the task of a reranker, its labels, and what is wrong with them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <numeric>

#include "cli/engine_fixture.h"

namespace vernier::test {
namespace {

using nlohmann::json;
using testing::HasSubstr;

class TaskMetric : public WithEngine {
 protected:
  static void SetUpTestSuite() {
    WithEngine::SetUpTestSuite();
    std::filesystem::create_directory(file("data"));
    for (const char* name : {"case_1", "case_2"}) {
      NamedTensors in;
      for (const auto& [of, tensor] : io::read_arrays(kModelFolder + name + ".npz"))
        if (of.starts_with("in.")) in.emplace_back(of.substr(3), tensor);
      rows_ += in.front().second.shape()[0];
      io::write_npz(file("data/") + name + ".npz", in);
    }
  }
  static std::string labels(
      const std::vector<std::pair<std::string, std::vector<double>>>& arrays) {
    NamedTensors named;
    for (const auto& [name, values] : arrays)
      named.emplace_back(
          name, Tensor::from(DType::kF32, {std::ssize(values)}, std::span<const double>(values)));
    io::write_npz(file("labels.npz"), named);
    return file("labels.npz");
  }
  static std::vector<double> ramp() {
    std::vector<double> values(static_cast<size_t>(rows_));
    std::iota(values.begin(), values.end(), 0.0);
    return values;
  }
  static Outcome verify(const std::string& of, std::vector<std::string> more) {
    std::vector<std::string> words{"verify", file(of), "--model", kModel, "--inputs", file("data")};
    std::ranges::move(more, std::back_inserter(words));
    return run_program(words);
  }
  static inline int64_t rows_ = 0;
};

TEST_F(TaskMetric, IsMeasuredOnAllRowsOfAFolder) {
  const Outcome outcome = verify(
      "model.vn", {"--metric", "spearman", "--labels", labels({{"labels", ramp()}}), "--json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const json task = json::parse(outcome.out).at("task");
  EXPECT_EQ(task.at("count"), rows_);
  EXPECT_EQ(task.at("engine"), task.at("reference")) << "f32 changes no order here";
  EXPECT_EQ(task.at("limit"), nullptr);
  EXPECT_LT(task.at("largest_shift").get<double>(), 1e-4);
}

TEST_F(TaskMetric, ALossBeyondItsLimitIsTheVerdict) {
  const std::string folder = "tests/models/bert_embedder_ts17/", model = folder + "model.onnx";
  ASSERT_EQ(run_program({"build", model, "-o", file("embedder.vn"), "--bf16"}).code, 0);
  NamedTensors in;
  for (const auto& [of, tensor] : io::read_arrays(folder + "case_2.npz"))
    if (of.starts_with("in.")) in.emplace_back(of.substr(3), tensor);
  io::write_npz(file("texts.npz"), in);
  const auto judged = [&](const std::string& limit) {
    return run_program({"verify", file("embedder.vn"), "--model", model, "--inputs",
                        file("texts.npz"), "--metric", "cosine", "--tolerance", limit, "--report",
                        file("task.html")});
  };
  EXPECT_EQ(judged("metric=0.01").code, 0);
  const Outcome lost = judged("metric=0");
  EXPECT_EQ(lost.code, 1) << lost.out;
  EXPECT_THAT(lost.out, HasSubstr("verdict: precision"));
  EXPECT_THAT(lost.out, HasSubstr(", and 1 in FP64: it loses "));
  EXPECT_THAT(read_file(file("task.html")), HasSubstr("<h3>Task</h3>\n<p>cosine of "));
}

TEST_F(TaskMetric, AStoredReportIsJudgedByItsLoss) {
  const auto stored = [&](const std::string& text) {
    write_file(file("report.json"), text);
    return run_program(
        {"verify", "--from-report", file("report.json"), "--tolerance", "metric=0.1"});
  };
  const Outcome measured = verify("model.vn", {"--metric", "cosine", "--json"});
  json report = json::parse(measured.out);
  EXPECT_EQ(stored(report.dump()).code, 0);
  report["task"]["loss"] = 0.2;
  const Outcome lost = stored(report.dump());
  EXPECT_EQ(lost.code, 1);
  EXPECT_THAT(lost.out, HasSubstr("loses 0.2, limit 0.1"));
  report["task"] = nullptr;
  const Outcome without = stored(report.dump());
  EXPECT_EQ(without.code, 2);
  EXPECT_THAT(without.err, HasSubstr("the report has none; verify the engine again with --metric"));
}

TEST_F(TaskMetric, OnlyATaskHasALoss) {
  const Outcome outcome =
      run_program({"bisect", engine(), "--model", kModel, "--tolerance", "metric=0.1"});
  EXPECT_EQ(outcome.code, 2) << outcome.out;
  EXPECT_THAT(outcome.err, HasSubstr("--tolerance metric= is the loss that --metric may show"));
}

TEST_F(TaskMetric, WhatIsMissingIsNamed) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases{
      {{"--metric", "spearman"}, "--labels: array 'labels' is missing, which --metric spearman"},
      {{"--metric", "mrr", "--labels", labels({{"labels", ramp()}})},
       "array 'groups' is missing, which --metric mrr needs; the file has labels"},
      {{"--tolerance", "metric=0.1"}, "--tolerance metric= is the loss that --metric may show"},
      {{"--metric", "cosine", "--from", "x"}, "leave out --from and --to"},
      {{"--metric", "cosine", "--metric-output", "logit"}, "--metric-output: 'logit' is no output"},
  };
  for (const auto& [words, message] : cases) {
    const Outcome outcome = verify("model.vn", words);
    EXPECT_EQ(outcome.code, 2) << testing::PrintToString(words) << outcome.out;
    EXPECT_THAT(outcome.err, HasSubstr(message));
  }
  const Outcome without =
      run_program({"verify", engine(), "--model", kModel, "--metric", "cosine"});
  EXPECT_EQ(without.code, 2);
  EXPECT_THAT(without.err, HasSubstr("add --inputs with .npz files or a folder"));
  const Outcome few =
      verify("model.vn", {"--metric", "spearman", "--labels", labels({{"labels", {1, 2}}})});
  EXPECT_EQ(few.code, 2);
  EXPECT_THAT(few.err, HasSubstr("--labels: 2 labels, expected " + std::to_string(rows_)));
}

}  // namespace
}  // namespace vernier::test
