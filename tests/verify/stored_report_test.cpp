// Stored reports judged by other limits: the same verdict as a verification with these limits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "vernier/verify.h"

namespace vernier::verify {
namespace {

Report report_of(Verdict verdict) {
  Report report;
  report.verdict = verdict;
  report.explanation = "the first explanation";
  OutputResult good;
  good.name = "good";
  good.worst = {.max_abs = 1e-7, .worst = 1e-7};
  good.all_rms = 1e-8;
  good.all_rms_reference = 1;
  good.largest_abs = 1e-7;
  OutputResult coarse = good;
  coarse.name = "coarse";
  coarse.worst = {.max_abs = 2e-3, .worst = 1e-3};
  coarse.all_rms = 3e-4;
  coarse.all_rms_reference = 2;
  coarse.largest_abs = 5e-3;  // in another cell than the worst one
  coarse.least_cosine = 0.9999;
  coarse.rankings = 100;
  coarse.top1_changes = 3;
  report.outputs = {good, coarse};
  return report;
}

StoredJudgement judged(const Report& report, const std::string& tolerance) {
  return judge_stored(to_json(report), parse_tolerance(tolerance));
}

TEST(StoredReport, IsJudgedByEachLimit) {
  const Report report = report_of(Verdict::kPrecision);
  struct Case {
    const char* tolerance;
    bool passes;
  };
  for (const auto& [tolerance, passes] :
       {Case{"worst=1e-3", true}, Case{"worst=9e-4", false}, Case{"max=5e-3", true},
        Case{"max=4e-3", false}, Case{"rms=1.5e-4", true}, Case{"rms=1.4e-4", false},
        Case{"cos=0.9999", true}, Case{"cos=0.99995", false}, Case{"flips=0.03", true},
        Case{"flips=0.02", false}, Case{"worst=1,rms=1,max=1", true}}) {
    const StoredJudgement judgement = judged(report, tolerance);
    EXPECT_EQ(judgement.verdict == Verdict::kPass, passes) << tolerance << to_text(judgement);
    ASSERT_EQ(judgement.outputs.size(), 2u);
    EXPECT_EQ(judgement.outputs[0].why, "");
    EXPECT_EQ(judgement.outputs[1].why.empty(), passes) << tolerance;
  }
}

TEST(StoredReport, NoToleranceChangesABug) {
  const StoredJudgement judgement = judged(report_of(Verdict::kRace), "rms=1");
  EXPECT_EQ(judgement.verdict, Verdict::kRace);
  EXPECT_EQ(judgement.explanation, "no tolerance changes it: the first explanation");
}

TEST(StoredReport, NanHasNoTolerance) {
  Report report = report_of(Verdict::kNan);
  report.outputs[0].worst.wrong_non_finite = 2;
  const StoredJudgement judgement = judged(report, "rms=1");
  EXPECT_EQ(judgement.verdict, Verdict::kNan);
  EXPECT_NE(judgement.outputs[0].why, "");
}

std::string error_of(const std::string& json, const std::string& tolerance) {
  try {
    judge_stored(json, parse_tolerance(tolerance));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInput);
    return error.what();
  }
  return "";
}

TEST(StoredReport, SaysWhatItNeeds) {
  using ::testing::HasSubstr;
  const std::string stored = to_json(report_of(Verdict::kPass));
  EXPECT_THAT(error_of(stored, ""), HasSubstr("add --tolerance"));
  EXPECT_THAT(error_of("{}", "rms=1"), HasSubstr("no report that verify --json"));
  EXPECT_THAT(error_of("nothing", "rms=1"), HasSubstr("verify the engine again"));
  EXPECT_THAT(error_of(R"({"verdict": "fine", "outputs": []})", "rms=1"), HasSubstr("'fine'"));
}

}  // namespace
}  // namespace vernier::verify
