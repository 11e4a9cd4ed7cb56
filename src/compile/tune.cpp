// Tuning records as JSON: {"target": "cuda sm_90 …", "choices": {problem: choice}}. See tune.h.
#include "compile/tune.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "compile/pipeline.h"
#include "core/whole_file.h"
#include "runtime/tuning.h"
#include "vernier/printable.h"

namespace vernier::compiler {
namespace {

using nlohmann::json;

[[noreturn]] void fail(const std::string& file, const std::string& what) {
  throw Error(ErrorCode::kInput, "--tuning: '" + file + "' " + what +
                                     "; delete it, or give another file, to have it made anew");
}

runtime::TuningRecord read(const std::string& file, const std::string& target) {
  runtime::TuningRecord record;
  if (file.empty() || !std::filesystem::exists(file)) return record;
  std::ifstream stream(file, std::ios::binary);
  const json parsed = json::parse(stream, nullptr, false);
  if (!parsed.is_object() || !parsed.contains("target") || !parsed["target"].is_string() ||
      !parsed.contains("choices") || !parsed["choices"].is_object())
    fail(file, "is not a tuning record");
  if (parsed["target"] != target)
    fail(file, "was made for '" + parsed["target"].get<std::string>() + "', and this is '" +
                   target + "'");
  for (const auto& [problem, choice] : parsed["choices"].items()) {
    if (!choice.is_string()) fail(file, "has no text for '" + problem + "'");
    record[problem] = choice.get<std::string>();
  }
  return record;
}

void write(const std::string& file, const std::string& target,
           const runtime::TuningRecord& record) {
  const std::string text = json{{"target", target}, {"choices", record}}.dump(
                               1, ' ', false, json::error_handler_t::replace) +
                           "\n";
  WholeFile whole({file, "tuning record", text.size()});
  whole.write(std::as_bytes(std::span(text)));
  whole.commit();
}

}  // namespace

void tune(plan::Plan& plan, const CompileOptions& options) {
  const backend::Backend& backend = backend_of(options);
  if (std::ranges::none_of(backend.kernels, [](const auto& row) { return row.tune != nullptr; }))
    return;
  runtime::TuningRecord record = read(options.tuning_file, plan.target);
  const int timed = runtime::tune_plan(
      plan, backend, record,
      [&options](const std::string& problem) { stage(options, "tuning " + problem); });
  const auto untuned = std::ranges::count_if(plan.steps, [&](const plan::Step& step) {
    const backend::KernelDef* kernel = backend::find_kernel(backend, step.kernel);
    return kernel && kernel->tune && step.tuning.empty();
  });
  if (untuned > 0) {
    plan.notes.push_back(counted(untuned, "step is", "steps are") +
                         " not tuned: there is no such device here; build on one, or give "
                         "--tuning a file made there");
  }
  if (timed > 0 && !options.tuning_file.empty()) write(options.tuning_file, plan.target, record);
}

}  // namespace vernier::compiler
