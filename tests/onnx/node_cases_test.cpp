// The ONNX node cases of the PyPI package `onnx`, evaluated in FP64. The cases are written into the
// build folder by tools/node_cases.py with the Python of .venv (see ./dev); without it: SKIP.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <set>

#include "onnx/model_file.h"
#include "onnx/onnx.pb.h"
#include "onnx/stored_cases.h"
#include "onnx/translations.h"

namespace vernier::onnx {
namespace {

namespace fs = std::filesystem;

// The evaluator follows the operator's text, which divides by the length of the resized tensor;
// the stored outputs divide by scale times length, which differs where that is no integer.
const std::set<std::string> kKnownDifferences{
    "test_resize_downsample_scales_cubic_align_corners/model",
    "test_resize_downsample_scales_linear_align_corners/model"};

// Every node of the case is an operator of ours, and no tensor type is foreign.
bool is_covered(const fs::path& model) {
  std::ifstream file(model, std::ios::binary);
  proto::ModelProto parsed;
  if (!parsed.ParseFromIstream(&file)) return false;
  const auto& nodes = parsed.graph().node();
  return parsed.functions_size() == 0 && std::all_of(nodes.begin(), nodes.end(), [](const auto& n) {
           return find_translation(canonical_domain(n.domain()), n.op_type()) != nullptr;
         });
}

// Refusals for tensor types that have no counterpart here say so.
bool is_numeric(const CaseResult& result) {
  return result.why.find("element type") == std::string::npos &&
         result.why.find("is no tensor") == std::string::npos;
}

TEST(NodeCases, CoveredOperatorsComputeTheStoredOutputs) {
  const fs::path python = fs::path(VERNIER_SOURCE_DIR) / ".venv" / "bin" / "python";
  const fs::path folder = fs::path(VERNIER_BINARY_DIR) / "node_cases";
  if (!fs::exists(python)) {
    GTEST_SKIP() << "SKIP: no " << python << "; ./dev test makes it where PyPI can be reached";
  }
  const std::string command = python.string() + " " + VERNIER_SOURCE_DIR + "/tools/node_cases.py " +
                              folder.string() + " 2>&1";
  if (std::system(command.c_str()) != 0) {
    GTEST_SKIP() << "SKIP: " << command << " failed: the package onnx is not installed";
  }
  std::vector<CaseResult> covered;
  for (const CaseResult& result : run_cases(folder)) {
    const fs::path model = folder / (result.name + ".onnx");
    if (is_covered(model) && is_numeric(result)) covered.push_back(result);
  }
  print_table("ONNX node cases of covered operators", covered);
  const int passed = count(covered, Outcome::kPassed);
  EXPECT_GT(passed, 1000);
  EXPECT_GE(passed * 10, static_cast<int>(covered.size()) * 8);
  for (const CaseResult& result : covered) {
    if (result.outcome != Outcome::kWrong) continue;
    EXPECT_TRUE(kKnownDifferences.contains(result.name)) << result.name << ": " << result.why;
  }
}

}  // namespace
}  // namespace vernier::onnx
