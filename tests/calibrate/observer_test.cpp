// Which rows count: masks, padding ids, and values whose rows are something else. Checkpoints.
#include "calibrate/observer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "calibrate/checkpoint.h"

namespace vernier::calibration {
namespace {

using evaluate::InputDomain;

const Dim kBatch = Dim::symbol("batch"), kSeq = Dim::symbol("seq");

plan::Plan plan_with(const std::vector<std::string>& inputs) {
  plan::Plan plan;
  for (const std::string& name : inputs) {
    plan.inputs.push_back(static_cast<int32_t>(plan.values.size()));
    plan.input_names.push_back(name);
    plan.values.push_back({.name = name,
                           .dtype = DType::kI64,
                           .shape = {kBatch, kSeq},
                           .kind = plan::PlanValue::Kind::kInput});
  }
  return plan;
}

InputDomain domain(const std::string& name, InputDomain::Kind kind, std::optional<int64_t> pad) {
  InputDomain result;
  result.name = name;
  result.kind = kind;
  result.pad = pad;
  return result;
}

Tensor numbers(const std::vector<int64_t>& values) {
  return Tensor::from(DType::kI64, {2, 3}, std::span(values));
}

TEST(Padding, IsWhereTheMaskIsZero) {
  evaluate::Domains domains;
  domains.inputs = {domain("ids", InputDomain::Kind::kIds, 1),
                    domain("mask", InputDomain::Kind::kMask, {})};
  Padding padding(plan_with({"ids", "mask"}), domains);
  const int source = padding.source_of({kBatch, kSeq, Dim(8)});
  ASSERT_EQ(source, 0) << "the mask comes before the ids";
  EXPECT_EQ(padding.source_of({kBatch * kSeq, Dim(8)}), source);
  EXPECT_EQ(padding.source_of({kBatch, Dim(8)}), plan::kNone) << "one row for each sentence";
  EXPECT_EQ(padding.source_of({kBatch, Dim(1), Dim(8)}), plan::kNone);
  EXPECT_EQ(padding.source_of({}), plan::kNone);
  padding.begin({{"ids", numbers({5, 1, 1, 5, 5, 1})}, {"mask", numbers({1, 1, 0, 0, 1, 1})}});
  std::vector<bool> real;
  for (int64_t row = 0; row < 6; ++row) real.push_back(padding.is_real(source, row));
  EXPECT_THAT(real, testing::ElementsAre(true, true, false, false, true, true));
  EXPECT_TRUE(padding.is_real(plan::kNone, 100));
}

TEST(Padding, IsThePaddingIdWhereThereIsNoMask) {
  evaluate::Domains domains;
  domains.inputs = {domain("ids", InputDomain::Kind::kIds, 1)};
  Padding padding(plan_with({"ids"}), domains);
  padding.begin({{"ids", numbers({5, 1, 0, 5, 5, 1})}});
  const int source = padding.source_of({kBatch, kSeq, Dim(8)});
  EXPECT_TRUE(padding.is_real(source, 0));
  EXPECT_FALSE(padding.is_real(source, 1));
  EXPECT_TRUE(padding.is_real(source, 2));
}

TEST(Padding, IsNowhereWithoutMasksAndPaddingIds) {
  evaluate::Domains domains;
  domains.inputs = {domain("ids", InputDomain::Kind::kIds, {})};
  EXPECT_EQ(Padding(plan_with({"ids"}), domains).source_of({kBatch, kSeq, Dim(8)}), plan::kNone);
}

std::vector<SiteSample> samples() {
  std::vector<SiteSample> all{SiteSample(2, 4, 1), SiteSample(3, 2, 2)};
  for (int i = 0; i < 7; ++i) {
    const auto v = static_cast<float>(i);
    all[0].take(std::vector<float>{v, -v});
  }
  return all;
}

TEST(Checkpoint, ComesBackAsItWas) {
  const auto path = std::filesystem::temp_directory_path() / "vernier-checkpoint-test.npz";
  write_checkpoint(path, "about", {.files = 2, .pieces = 1, .batches = 9}, samples());
  std::vector<SiteSample> read{SiteSample(2, 4, 1), SiteSample(3, 2, 2)};
  Done done;
  ASSERT_EQ(read_checkpoint(path, "about", done, read), Resume::kGoesOn);
  EXPECT_EQ(done.files, 2);
  EXPECT_EQ(done.pieces, 1);
  EXPECT_EQ(done.batches, 9);
  const std::vector<SiteSample> written = samples();
  for (size_t s = 0; s < 2; ++s) {
    EXPECT_EQ(read[s].rows, written[s].rows);
    EXPECT_EQ(read[s].low, written[s].low);
    EXPECT_EQ(read[s].high, written[s].high);
    EXPECT_EQ(read[s].kept, written[s].kept);
  }
  std::vector<SiteSample> wider{SiteSample(2, 4, 1), SiteSample(4, 2, 2)};
  EXPECT_EQ(read_checkpoint(path, "about", done, wider), Resume::kOfOther);
  EXPECT_EQ(read_checkpoint(path, "other", done, read), Resume::kOfOther);
  std::filesystem::remove(path);
  EXPECT_EQ(read_checkpoint(path, "about", done, read), Resume::kNothing);
}

}  // namespace
}  // namespace vernier::calibration
