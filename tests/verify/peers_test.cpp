// Other projects' models keep their class: each builds or is refused, as tests/models/peers.tsv
// says (made by tools/classify_models.cpp). The models are not in this repository: SKIP where they
// are absent.
#include <gtest/gtest.h>

#include <cstdio>
#include <map>

#include "verify/model_classes.h"

namespace vernier::test {
namespace {

TEST(PeerModels, EachBuildsOrIsRefusedAsListed) {
  const std::filesystem::path folder = std::filesystem::path(VERNIER_SHARED_MODELS) / "peers";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "SKIP: " << folder << " is not here";
  std::map<std::string, ModelClass> listed;
  for (ModelClass& model : read_tsv(std::filesystem::path(VERNIER_TEST_MODELS) / "peers.tsv"))
    listed[model.path] = std::move(model);
  const std::vector<ModelClass> models = classify_models(folder, Verdicts::kNo);
  size_t builds = 0;
  for (const ModelClass& model : models) {
    builds += model.outcome == "builds";
    const auto found = listed.find(model.path);
    if (found == listed.end()) {
      ADD_FAILURE() << model.path << " is not listed; make tests/models/peers.tsv again";
      continue;
    }
    EXPECT_EQ(model.outcome, found->second.outcome) << model.path << ": " << model.why;
  }
  EXPECT_EQ(models.size(), listed.size());
  std::printf("%zu models: %zu build, %zu refused\n", models.size(), builds,
              models.size() - builds);
}

}  // namespace
}  // namespace vernier::test
