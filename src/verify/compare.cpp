// E against R and F against R on one input set: see verify.h.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "ops/evaluate.h"
#include "verify/plan_evaluator.h"
#include "verify/verify.h"

namespace vernier::verify {
namespace {

// Limit of rms(F − R) / rms(R): both are FP64, so a right rewrite differs by reordering only.
constexpr double kRewriteLimit = 1e-6;

const Tensor* find(const NamedTensors& tensors, const std::string& name) {
  for (const auto& [key, tensor] : tensors) {
    if (key == name) return &tensor;
  }
  return nullptr;
}

std::string number(double v) {
  char buffer[32];
  std::snprintf(buffer, sizeof(buffer), "%.3g", v);
  return buffer;
}

std::string names_of(const NamedTensors& tensors) {
  std::string list;
  for (const auto& [name, tensor] : tensors) list += (list.empty() ? "" : ", ") + name;
  return list;
}

// Why `got` fails against `want`, or empty.
std::string complaint(const Distance& d, const Tolerance& limit) {
  if (d.different_integers > 0) {
    return std::to_string(d.different_integers) + " of " + std::to_string(d.elems) +
           " integers differ";
  }
  if (d.wrong_non_finite > 0) {
    return std::to_string(d.wrong_non_finite) + " of " + std::to_string(d.elems) +
           " elements are NaN or infinite on one side only";
  }
  if (d.worst > limit.worst) {
    return "worst element is off by " + number(d.worst) + "·(1+|ref|), limit " +
           number(limit.worst) + " (row " + std::to_string(d.worst_row) + ")";
  }
  if (limit.max && d.max_abs > *limit.max) {
    return "largest error " + number(d.max_abs) + ", limit " + number(*limit.max);
  }
  if (limit.rms && d.rms > *limit.rms * d.rms_reference) {
    return "rms error " + number(d.rms / d.rms_reference) + " of rms, limit " + number(*limit.rms);
  }
  if (limit.cos && d.cosine < *limit.cos) {
    return "cosine " + number(d.cosine) + ", limit " + number(*limit.cos);
  }
  return "";
}

OutputResult judge(const std::string& name, const EvalTensor& got, const EvalTensor& want,
                   const Tolerance& limit) {
  OutputResult result{.name = name, .verdict = "", .distance = {}, .passed = false};
  if (got.shape != want.shape) {
    result.verdict = "shape " + str(got.shape) + ", expected " + str(want.shape);
    return result;
  }
  if (got.is_float() != want.is_float()) {
    result.verdict = "type " + std::string(vernier::name(got.dtype)) + ", expected " +
                     std::string(vernier::name(want.dtype));
    return result;
  }
  result.distance = distance(got, want);
  result.verdict = complaint(result.distance, limit);
  result.passed = result.verdict.empty();
  if (result.passed) result.verdict = "pass";
  return result;
}

// F against R, for every plan value that carries the name of an ONNX value.
void compare_values(const plan::Plan& plan, const backend::Backend& backend,
                    const std::vector<Tensor>& inputs,
                    const std::map<std::string, const EvalTensor*>& reference, Report& report) {
  std::map<size_t, std::vector<size_t>> aliases;  // base value → its named aliases
  for (size_t v = 0; v < plan.values.size(); ++v) {
    const plan::PlanValue& value = plan.values[v];
    if (value.kind == plan::PlanValue::Kind::kAlias && !value.name.empty()) {
      aliases[static_cast<size_t>(value.alias_of)].push_back(v);
    }
  }
  PlanEvaluator evaluator(plan, backend);
  const auto check = [&](size_t step, size_t index, const EvalTensor& got) {
    const auto it = reference.find(plan.values[index].name);
    if (plan.values[index].name.empty() || it == reference.end()) return;
    ValueResult row{.name = it->first,
                    .step = static_cast<int32_t>(step),
                    .kernel = plan.steps[step].kernel,
                    .step_name = plan.steps[step].name,
                    .distance = {},
                    .passed = false};
    if (got.shape == it->second->shape && got.is_float() == it->second->is_float()) {
      row.distance = distance(got, *it->second);
      row.passed = row.distance.different_integers == 0 && row.distance.wrong_non_finite == 0 &&
                   row.distance.rms <= kRewriteLimit * row.distance.rms_reference;
    }
    report.values.push_back(std::move(row));
  };
  evaluator.run(inputs, [&](size_t step, size_t index, const EvalTensor& got) {
    check(step, index, got);
    for (size_t alias : aliases[index]) check(step, alias, evaluator.value(alias));
  });
}

void explain(Report& report) {
  const auto wrong_value = std::find_if(report.values.begin(), report.values.end(),
                                        [](const ValueResult& v) { return !v.passed; });
  const auto wrong_output = std::find_if(report.outputs.begin(), report.outputs.end(),
                                         [](const OutputResult& o) { return !o.passed; });
  const auto wrong_expected = std::find_if(report.expected.begin(), report.expected.end(),
                                           [](const OutputResult& o) { return !o.passed; });
  if (wrong_value != report.values.end()) {
    report.verdict = "bug (rewrite)";
    report.explanation = "in FP64, value '" + wrong_value->name +
                         "' of the engine's plan differs from the model's by rms " +
                         number(wrong_value->distance.rms) + " of " +
                         number(wrong_value->distance.rms_reference) + "; it is made by step " +
                         std::to_string(wrong_value->step) + " (" + wrong_value->kernel + ", '" +
                         wrong_value->step_name +
                         "'). A pass rewrote the graph wrongly: please report it with the model";
  } else if (wrong_output != report.outputs.end()) {
    const bool non_finite = wrong_output->distance.wrong_non_finite > 0;
    report.verdict = non_finite ? "nan" : "precision";
    report.explanation = "output '" + wrong_output->name + "': " + wrong_output->verdict +
                         ". The plan itself is right in FP64, so a kernel or its rounding did this";
  } else if (wrong_expected != report.expected.end()) {
    report.verdict = "expectation";
    report.explanation = "the model's own FP64 value of '" + wrong_expected->name +
                         "' is not what was expected: " + wrong_expected->verdict +
                         ". The engine agrees with the model";
  } else {
    report.verdict = "pass";
    report.explanation = "the engine agrees with the FP64 evaluation of the original model";
  }
}

void compare_outputs(const std::map<std::string, EvalTensor>& reference,
                     const NamedTensors& answers, const Tolerance& limit, Report& report) {
  for (const auto& [name, want] : reference) {
    const Tensor* got = find(answers, name);
    if (got && got->dtype() != want.dtype) {
      report.outputs.push_back({.name = name,
                                .verdict = "type " + std::string(vernier::name(got->dtype())) +
                                           ", expected " + std::string(vernier::name(want.dtype)),
                                .distance = {},
                                .passed = false});
    } else if (got) {
      report.outputs.push_back(judge(name, EvalTensor::from(*got), want, limit));
    } else {
      report.outputs.push_back(
          {.name = name,
           .verdict = "missing in the engine's answers (" + names_of(answers) + ")",
           .distance = {},
           .passed = false});
    }
  }
}

}  // namespace

Report compare(const ir::Graph& model, const plan::Plan& plan, const backend::Backend& backend,
               const NamedTensors& inputs, const NamedTensors& answers, const Request& request) {
  std::map<std::string, Tensor> by_name(inputs.begin(), inputs.end());
  const ops::Evaluation r = ops::evaluate(model, by_name, {.keep = ops::Keep::kNamed});
  Report report;
  compare_outputs(r.outputs, answers, request.tolerance, report);
  for (const auto& [name, tensor] : request.expect) {
    const auto it = r.outputs.find(name);
    if (it == r.outputs.end()) {
      throw Error(ErrorCode::kInput, "--expect: array '" + name +
                                         "' is no output of the model; its outputs are " +
                                         names_of(answers));
    }
    report.expected.push_back(judge(name, EvalTensor::from(tensor), it->second, request.tolerance));
  }
  std::map<std::string, const EvalTensor*> reference;
  for (const auto& [id, value] : r.values) reference[model.value(id).name] = &value;
  std::vector<Tensor> ordered;
  for (const std::string& name : plan.input_names) {
    const Tensor* input = find(inputs, name);
    VERNIER_ASSERT(input, name);
    ordered.push_back(*input);
  }
  compare_values(plan, backend, ordered, reference, report);
  for (const auto& [name, tensor] : answers) {
    if (!r.outputs.contains(name) && !reference.contains(name)) {
      report.outputs.push_back(
          {.name = name, .verdict = "not a value of the model", .distance = {}, .passed = false});
    }
  }
  report.compared_values = static_cast<int64_t>(report.values.size());
  explain(report);
  return report;
}

}  // namespace vernier::verify
