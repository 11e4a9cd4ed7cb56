// Stored cases in ONNX's layout: <case>/model.onnx with test_data_set_<n>/{input,output}_<i>.pb.
// run_case() imports the model, computes its outputs (in FP64 unless told) and compares them with
// the stored ones.
#pragma once
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "core/tensor.h"
#include "ir/graph.h"

namespace vernier::onnx {

enum class Outcome { kPassed, kRefused, kWrong };
struct CaseResult {
  std::string name;
  Outcome outcome = Outcome::kWrong;
  std::string why;  ///< the refusal's message, or what is wrong
};

/// Reads an input_<i>.pb. Throws Error if it is no tensor.
Tensor read_stored_tensor(const std::filesystem::path& path);

/// What a case's outputs are computed by: from the imported graph (which it may rewrite) and the
/// inputs by name, the outputs by name.
using Answer = std::map<std::string, EvalTensor> (*)(ir::Graph& graph,
                                                     const std::map<std::string, Tensor>& inputs);
/// The FP64 evaluation of the graph.
std::map<std::string, EvalTensor> answer_in_fp64(ir::Graph& graph,
                                                 const std::map<std::string, Tensor>& inputs);

/// Where a model needs small inputs when it is imported (shapes, axes, scales), inputs of at most
/// one dimension are fixed to their stored values.
/// Refused: import throws Error(kInput), or evaluation does (a violated guard). Wrong: any other
/// failure and any output that differs by more than 1e-3 relative + 1e-5: stored outputs are
/// float32 results of other programs.
CaseResult run_case(const std::filesystem::path& model, const std::filesystem::path& data_set,
                    Answer answer = &answer_in_fp64);

/// Every case below `root`, sorted; a model without data sets is left out.
std::vector<CaseResult> run_cases(const std::filesystem::path& root,
                                  Answer answer = &answer_in_fp64);

/// Prints the counts and one line per refused and wrong case.
void print_table(const std::string& title, const std::vector<CaseResult>& results);
int count(const std::vector<CaseResult>& results, Outcome outcome);

}  // namespace vernier::onnx
