// The ONNX node tests of the PyPI package onnx, written as files by tools/write_node_tests.py
// (`./dev test` does it): every case is imported, evaluated in FP64 and compared with its stored
// outputs. A case may be refused with a reason; none may be wrong but those of kOtherMeaning, and
// of the cases whose operators are covered at least 80 % must pass.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>

#include "onnx/model_file.h"
#include "onnx/stored_cases.h"
#include "onnx/translations.h"

namespace vernier::onnx {
namespace {

namespace fs = std::filesystem;

constexpr double kPassedShare = 0.8;
// dynamicquantizelinear: an element lies halfway between two integers, by ONNX's reference only
// after the scale is rounded to f32 not quite; FP64 rounds it to even. Engines round the scale.
constexpr std::array<std::string_view, 2> kOtherMeaning{"test_dynamicquantizelinear",
                                                        "test_dynamicquantizelinear_expanded"};

struct Counts {
  int passed = 0, refused = 0, wrong = 0, not_covered = 0;
  void add(Outcome outcome) {
    passed += outcome == Outcome::kPassed;
    refused += outcome == Outcome::kRefused;
    wrong += outcome == Outcome::kWrong;
  }
};

// Whether every operator of the model has a row in the import tables (Constant and If have none:
// the importer knows them itself).
bool is_covered(const fs::path& model) {
  std::ifstream file(model, std::ios::binary);
  proto::ModelProto parsed;
  EXPECT_TRUE(parsed.ParseFromIstream(&file)) << model << " is damaged; write the node tests again";
  const auto& nodes = parsed.graph().node();
  return std::all_of(nodes.begin(), nodes.end(), [](const auto& node) {
    return node.op_type() == "Constant" || node.op_type() == "If" ||
           find_translation(canonical_domain(node.domain()), node.op_type()) != nullptr;
  });
}

// The operator under test: the one line of operator.txt.
std::string operator_of(const fs::path& folder) {
  std::ifstream file(folder / "operator.txt");
  std::string name;
  std::getline(file, name);
  return name;
}

void print_counts(const std::map<std::string, Counts>& by_operator, const Counts& total) {
  std::printf("%-28s %7s %7s %7s %11s\n", "operator", "passed", "refused", "wrong", "not covered");
  const auto line = [](const std::string& name, const Counts& c) {
    std::printf("%-28s %7d %7d %7d %11d\n", name.c_str(), c.passed, c.refused, c.wrong,
                c.not_covered);
  };
  for (const auto& [name, counts] : by_operator) line(name, counts);
  line("all", total);
}

std::string shortened(const std::string& text) {
  constexpr size_t kWidth = 200;
  std::string line = text.substr(0, kWidth);
  std::replace(line.begin(), line.end(), '\n', ' ');
  return line;
}

std::vector<fs::path> sorted_folders(const fs::path& root) {
  std::vector<fs::path> folders;
  for (const auto& entry : fs::directory_iterator(root)) folders.push_back(entry.path());
  std::sort(folders.begin(), folders.end());
  return folders;
}

TEST(OnnxNode, StoredOutputsAgree) {
  const fs::path root = fs::path(VERNIER_BINARY_DIR) / "node_tests";
  if (!fs::is_directory(root)) {
    GTEST_SKIP() << "SKIP: " << root.string() << " is absent; write it with\n"
                 << "  .venv/bin/python tools/write_node_tests.py " << root.string();
  }
  std::map<std::string, Counts> by_operator;
  Counts total;
  for (const fs::path& folder : sorted_folders(root)) {
    Counts& counts = by_operator[operator_of(folder)];
    if (!is_covered(folder / "model.onnx")) {
      ++counts.not_covered;
      ++total.not_covered;
      continue;
    }
    const CaseResult result = run_case(folder / "model.onnx", folder / "test_data_set_0");
    counts.add(result.outcome);
    total.add(result.outcome);
    if (result.outcome == Outcome::kRefused)
      std::printf("refused %s: %s\n", result.name.c_str(), shortened(result.why).c_str());
    const bool other_meaning = std::find(kOtherMeaning.begin(), kOtherMeaning.end(),
                                         folder.filename().string()) != kOtherMeaning.end();
    EXPECT_EQ(result.outcome == Outcome::kWrong, other_meaning)
        << result.name << ": " << shortened(result.why);
  }
  print_counts(by_operator, total);
  const int covered = total.passed + total.refused + total.wrong;
  EXPECT_GT(covered, 0) << root.string() << " holds no case of a covered operator";
  EXPECT_GE(total.passed, kPassedShare * covered) << covered << " cases have covered operators";
}

}  // namespace
}  // namespace vernier::onnx
