// Whole models: the exported ones of tests/models against their FP64 outputs, and every model of
// the shared folder, where it is present: each imports or is refused, none crashes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <set>

#include "core/error.h"
#include "io/npz.h"
#include "onnx/import.h"
#include "onnx/stored_cases.h"
#include "ops/evaluate.h"

namespace vernier::onnx {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> models_below(const fs::path& root) {
  std::vector<fs::path> models;
  for (const auto& entry : fs::recursive_directory_iterator(root)) {
    if (entry.path().extension() == ".onnx") models.push_back(entry.path());
  }
  std::sort(models.begin(), models.end());
  return models;
}

// The shared folder of models, or empty where this checkout has none.
fs::path shared_models() {
  const fs::path path(VERNIER_SHARED_MODELS);
  return fs::exists(path) ? path : fs::path();
}
#define SKIP_WITHOUT_SHARED_MODELS()                                       \
  if (shared_models().empty()) {                                           \
    GTEST_SKIP() << "SKIP: no shared models at " << VERNIER_SHARED_MODELS; \
  }

class ExportedModelTest : public ::testing::TestWithParam<fs::path> {};

// The models hold float32 constants (1/sqrt(64), sqrt(2)) where PyTorch computed in double: up to
// 2^-24 relative each, a few of them in a row.
constexpr double kConstantsTolerance = 1e-6;

TEST_P(ExportedModelTest, EvaluatesToTheStoredFp64Outputs) {
  // Of large arrays the repository has one case; the shared folder has them all.
  const fs::path shared = shared_models() / "exported" / GetParam().filename();
  const bool has_all = !shared_models().empty() && fs::exists(shared);
  const fs::path folder = has_all ? shared : GetParam();
  const auto graph = import_model(folder / "model.onnx");
  int cases = 0;
  for (;; ++cases) {
    const fs::path file = folder / ("case_" + std::to_string(cases) + ".npz");
    if (!fs::exists(file)) break;
    std::map<std::string, Tensor> inputs, expected;
    for (auto& [name, tensor] : io::read_arrays(file)) {
      (name.starts_with("in.") ? inputs : expected)[name.substr(name.find('.') + 1)] = tensor;
    }
    const auto result = ops::evaluate(*graph, inputs);
    ASSERT_EQ(result.outputs.size(), expected.size());
    for (const auto& [name, want] : expected) {
      const EvalTensor& got = result.outputs.at(name);
      ASSERT_EQ(got.shape, want.shape()) << name;
      double worst = 0;
      for (int64_t i = 0; i < want.elems(); ++i) {
        const double error = std::abs(got.value(i) - want.float_at(i));
        worst = std::max(worst, error / (1 + std::abs(want.float_at(i))));
        ASSERT_TRUE(std::isfinite(error)) << name << " element " << i;
      }
      EXPECT_LE(worst, kConstantsTolerance) << file << " output " << name;
    }
  }
  EXPECT_GE(cases, has_all ? 2 : 1);
}

TEST_P(ExportedModelTest, EveryNodeOfTheFileIsAccountedForOnce) {
  ImportReport report;
  const auto graph = import_model(GetParam() / "model.onnx", {}, &report);
  std::multiset<std::string> keys;
  for (ir::NodeId id : graph->order()) {
    std::set<std::string> own;
    for (const auto& origin : graph->node(id).origins) own.insert(origin.key);
    keys.insert(own.begin(), own.end());
  }
  for (const auto& row : graph->retired) keys.insert(row.origin.key);
  EXPECT_EQ(std::set<std::string>(keys.begin(), keys.end()).size(), keys.size());
  EXPECT_EQ(static_cast<int64_t>(keys.size()), report.nodes);
}

std::vector<fs::path> exported_folders() {
  std::vector<fs::path> folders;
  for (const auto& entry : fs::directory_iterator(VERNIER_TEST_MODELS)) {
    if (fs::exists(entry.path() / "model.onnx")) folders.push_back(entry.path());
  }
  std::sort(folders.begin(), folders.end());
  return folders;
}
INSTANTIATE_TEST_SUITE_P(Models, ExportedModelTest, ::testing::ValuesIn(exported_folders()),
                         [](const auto& row) { return row.param.filename().string(); });

TEST(SharedModels, ExportedTrainedAndGraphsAllImport) {
  SKIP_WITHOUT_SHARED_MODELS();
  int count = 0;
  for (const char* folder : {"exported", "trained", "graphs"}) {
    for (const fs::path& path : models_below(shared_models() / folder)) {
      // A graph whose weights are absent is there for its structure.
      const ImportOptions options{.missing_weights = std::string(folder) == "graphs"
                                                         ? MissingWeights::kSeeded
                                                         : MissingWeights::kError};
      EXPECT_NO_THROW(import_model(path, options)) << path;
      ++count;
    }
  }
  EXPECT_GE(count, 16);
}

TEST(SharedModels, StoredCasesOfPeersPassOrAreRefused) {
  SKIP_WITHOUT_SHARED_MODELS();
  for (const char* folder : {"onnx", "onnxruntime-2020"}) {
    const auto results = run_cases(shared_models() / "peers" / folder);
    print_table(folder, results);
    EXPECT_EQ(count(results, Outcome::kWrong), 0);
    EXPECT_GT(count(results, Outcome::kPassed) * 10, static_cast<int>(results.size()) * 8);
  }
}

TEST(SharedModels, EveryModelOfPeersImportsOrIsRefused) {
  SKIP_WITHOUT_SHARED_MODELS();
  int imported = 0, refused = 0;
  for (const fs::path& path : models_below(shared_models() / "peers")) {
    try {
      import_model(path);
      ++imported;
      EXPECT_FALSE(path.filename().string().starts_with("bad_graph")) << path;
    } catch (const Error& error) {
      ++refused;
      EXPECT_EQ(error.code(), ErrorCode::kInput) << path << ": " << error.what();
    }
  }
  std::printf("peers: %d models import, %d are refused\n", imported, refused);
  EXPECT_GT(imported, 600);
}

}  // namespace
}  // namespace vernier::onnx
