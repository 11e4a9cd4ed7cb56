// Other projects' models keep their class: each builds or is refused, and a sample verifies, as
// tests/models/peers.tsv says (made by tools/classify_models.cpp). The models are not in this
// repository: SKIP where they are absent.
#include <gtest/gtest.h>

#include <cstdio>
#include <map>

#include "verify/model_classes.h"

namespace vernier::test {
namespace {

const std::filesystem::path kFolder = std::filesystem::path(VERNIER_SHARED_MODELS) / "peers";

std::map<std::string, ModelClass> listed_models() {
  std::map<std::string, ModelClass> listed;
  for (ModelClass& model : read_tsv(std::filesystem::path(VERNIER_TEST_MODELS) / "peers.tsv"))
    listed[model.path] = std::move(model);
  return listed;
}

TEST(PeerModels, EachBuildsOrIsRefusedAsListed) {
  if (!std::filesystem::exists(kFolder)) GTEST_SKIP() << "SKIP: " << kFolder << " is not here";
  const std::map<std::string, ModelClass> listed = listed_models();
  ClassifyOptions options;
  for (const auto& [path, model] : listed) {
    if (model.kind == "invalid") options.invalid.insert(path);
  }
  const std::vector<ModelClass> models = classify_models(kFolder, models_below(kFolder), options);
  for (const ModelClass& model : models) {
    const auto found = listed.find(model.path);
    if (found == listed.end()) {
      ADD_FAILURE() << model.path << " is not listed; make tests/models/peers.tsv again";
      continue;
    }
    EXPECT_EQ(model.kind, found->second.kind) << model.path;
    EXPECT_EQ(model.outcome, found->second.outcome) << model.path << ": " << model.why;
  }
  EXPECT_EQ(models.size(), listed.size());
}

TEST(PeerModels, ASampleVerifiesAsListed) {
  constexpr size_t kEvery = 8;
  if (!std::filesystem::exists(kFolder)) GTEST_SKIP() << "SKIP: " << kFolder << " is not here";
  const std::map<std::string, ModelClass> listed = listed_models();
  std::vector<std::string> sample;
  size_t count = 0;
  for (const auto& [path, model] : listed) {
    const bool verified = model.outcome == "builds" && !model.why.starts_with("not verified");
    if (verified && count++ % kEvery == 0) sample.push_back(path);
  }
  for (const ModelClass& model : classify_models(kFolder, sample, {.verdicts = Verdicts::kYes}))
    EXPECT_EQ(model.why, listed.at(model.path).why) << model.path;
}

// docs/verification_fitting.md "Other projects' models" says which do not, and why.
TEST(PeerModels, NearlyAllNumericOnesThatBuildVerify) {
  // Of some, drawn values ask for a shape that the model does not have.
  constexpr double kShare = 0.97;
  std::vector<ModelClass> models;
  double build = 0, pass = 0;
  for (const auto& [path, model] : listed_models()) {
    models.push_back(model);
    const bool counts = model.kind == "ai.onnx" && model.outcome == "builds";
    build += counts;
    pass += counts && model.why == "pass";
  }
  std::puts(summary(models).c_str());
  EXPECT_GE(pass, kShare * build);
}

}  // namespace
}  // namespace vernier::test
