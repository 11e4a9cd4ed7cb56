// Stored cases in ONNX's layout: <case>/model.onnx with test_data_set_<n>/{input,output}_<i>.pb.
// run_case() imports the model, evaluates it in FP64 and compares with the stored outputs.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "core/tensor.h"

namespace vernier::onnx {

enum class Outcome { kPassed, kRefused, kWrong };
struct CaseResult {
  std::string name;
  Outcome outcome = Outcome::kWrong;
  std::string why;  ///< the refusal's message, or what is wrong
};

/// Reads an input_<i>.pb. Throws Error if it is no tensor.
Tensor read_stored_tensor(const std::filesystem::path& path);

/// Where a model needs small inputs when it is imported (shapes, axes, scales), inputs of at most
/// one dimension are fixed to their stored values.
/// Refused: import throws Error(kInput), or evaluation does (a violated guard). Wrong: any other
/// failure and any output that differs by more than 1e-3 relative + 1e-5: stored outputs are
/// float32 results of other programs.
CaseResult run_case(const std::filesystem::path& model, const std::filesystem::path& data_set);

/// Every case below `root`, sorted; a model without data sets is left out.
std::vector<CaseResult> run_cases(const std::filesystem::path& root);

/// Prints the counts and one line per refused and wrong case.
void print_table(const std::string& title, const std::vector<CaseResult>& results);
int count(const std::vector<CaseResult>& results, Outcome outcome);

}  // namespace vernier::onnx
