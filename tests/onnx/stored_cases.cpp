// Running cases in ONNX's layout: see stored_cases.h.
#include "onnx/stored_cases.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <map>
#include <set>

#include "core/error.h"
#include "onnx/import.h"
#include "onnx/onnx.pb.h"
#include "onnx/tensor_reader.h"
#include "ops/evaluate.h"

namespace vernier::onnx {
namespace {

namespace fs = std::filesystem;

// The first difference between a computed and a stored output, or "".
std::string difference(const EvalTensor& got, const Tensor& expected) {
  if (got.dtype != expected.dtype()) {
    return "type " + std::string(name(got.dtype)) + ", stored " +
           std::string(name(expected.dtype()));
  }
  if (got.shape != expected.shape())
    return "shape " + str(got.shape) + ", stored " + str(expected.shape());
  for (int64_t i = 0; i < expected.elems(); ++i) {
    if (!got.is_float()) {
      if (got.i[static_cast<size_t>(i)] != expected.integer_at(i))
        return "integer " + std::to_string(i);
      continue;
    }
    const double want = expected.float_at(i);
    const double have = round_to(expected.dtype(), got.value(i));
    if (std::isnan(want) && std::isnan(have)) continue;
    if (want == have) continue;
    const double unit = expected.dtype() == DType::kF16    ? 1e-3
                        : expected.dtype() == DType::kBF16 ? 8e-3
                                                           : 0;
    if (!(std::abs(want - have) <= 1e-5 + (1e-3 + unit) * std::abs(want))) {
      return "element " + std::to_string(i) + " is " + std::to_string(have) + ", stored " +
             std::to_string(want);
    }
  }
  return "";
}

fs::path numbered(const fs::path& folder, const char* stem, size_t i) {
  return folder / (stem + std::to_string(i) + ".pb");
}

// Stored inputs by the model's input names; initializers listed as inputs are not counted.
std::map<std::string, Tensor> stored_inputs(const fs::path& model, const fs::path& data_set) {
  std::ifstream file(model, std::ios::binary);
  proto::ModelProto parsed;
  if (!parsed.ParseFromIstream(&file)) throw Error(ErrorCode::kInput, "model does not parse");
  std::set<std::string> initializers;
  for (const auto& tensor : parsed.graph().initializer()) initializers.insert(tensor.name());
  std::map<std::string, Tensor> inputs;
  for (const auto& input : parsed.graph().input()) {
    if (initializers.contains(input.name())) continue;
    inputs[input.name()] = read_stored_tensor(numbered(data_set, "input_", inputs.size()));
  }
  return inputs;
}

std::string compare(const std::vector<std::string>& output_names,
                    const std::map<std::string, EvalTensor>& outputs, const fs::path& data_set) {
  for (size_t i = 0; i < output_names.size(); ++i) {
    const fs::path path = numbered(data_set, "output_", i);
    if (!fs::exists(path)) return "no stored output " + std::to_string(i);
    const std::string what = difference(outputs.at(output_names[i]), read_stored_tensor(path));
    if (!what.empty()) return "output " + output_names[i] + ": " + what;
  }
  return "";
}

// What is wrong, or "". Throws what import and evaluation throw.
std::string run_once(const fs::path& model, const fs::path& data_set, Answer answer,
                     bool fix_small_inputs) {
  std::map<std::string, Tensor> inputs;
  ImportOptions options;
  if (fix_small_inputs) {
    inputs = stored_inputs(model, data_set);
    for (const auto& [name, tensor] : inputs) {
      const bool small = tensor.rank() <= 1 && tensor.elems() <= 16;
      if (small) options.fixed_inputs[name] = tensor;
    }
  }
  const auto graph = import_model(model, options);
  inputs = stored_inputs(model, data_set);
  std::erase_if(inputs, [&](const auto& row) { return options.fixed_inputs.contains(row.first); });
  const std::vector<std::string> output_names = graph->output_names;
  return compare(output_names, answer(*graph, inputs), data_set);
}

}  // namespace

std::map<std::string, EvalTensor> answer_in_fp64(ir::Graph& graph,
                                                 const std::map<std::string, Tensor>& inputs) {
  return ops::evaluate(graph, inputs).outputs;
}

Tensor read_stored_tensor(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  proto::TensorProto tensor;
  if (!file || !tensor.ParseFromIstream(&file)) {
    throw Error(ErrorCode::kInput, path.string() + " is no stored tensor");
  }
  return TensorReader("", MissingWeights::kError).read(tensor, path.string());
}

CaseResult run_case(const fs::path& model, const fs::path& data_set, Answer answer) {
  CaseResult result{.name = model.parent_path().filename().string() + "/" + model.stem().string(),
                    .outcome = Outcome::kRefused,
                    .why = ""};
  try {
    std::string what;
    try {
      what = run_once(model, data_set, answer, false);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kInput) throw;
      what = run_once(model, data_set, answer, true);
    }
    result.outcome = what.empty() ? Outcome::kPassed : Outcome::kWrong;
    result.why = what;
  } catch (const Error& error) {
    result.why = error.what();
    if (error.code() != ErrorCode::kInput) result.outcome = Outcome::kWrong;
  }
  return result;
}

std::vector<CaseResult> run_cases(const fs::path& root, Answer answer) {
  std::vector<fs::path> models;
  for (const auto& entry : fs::recursive_directory_iterator(root)) {
    if (entry.path().extension() == ".onnx") models.push_back(entry.path());
  }
  std::sort(models.begin(), models.end());
  std::vector<CaseResult> results;
  for (const fs::path& model : models) {
    for (int set = 0;; ++set) {
      const fs::path data = model.parent_path() / ("test_data_set_" + std::to_string(set));
      if (!fs::exists(data)) break;
      results.push_back(run_case(model, data, answer));
    }
  }
  return results;
}

int count(const std::vector<CaseResult>& results, Outcome outcome) {
  return static_cast<int>(std::count_if(results.begin(), results.end(),
                                        [&](const CaseResult& r) { return r.outcome == outcome; }));
}

void print_table(const std::string& title, const std::vector<CaseResult>& results) {
  std::printf("%s: %zu cases, %d passed, %d refused, %d wrong\n", title.c_str(), results.size(),
              count(results, Outcome::kPassed), count(results, Outcome::kRefused),
              count(results, Outcome::kWrong));
  for (const CaseResult& result : results) {
    if (result.outcome == Outcome::kPassed) continue;
    std::printf("  %s %s: %s\n", result.outcome == Outcome::kWrong ? "WRONG" : "refused",
                result.name.c_str(), result.why.c_str());
  }
}

}  // namespace vernier::onnx
