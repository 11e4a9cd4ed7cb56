// Is R what the user expects of the first of --inputs?
#include <fmt/format.h>

#include "verify/checks/table.h"
#include "verify/sweep/reference.h"
#include "verify/tolerance.h"
#include "vernier/nearest.h"

namespace vernier::verify::checks {
namespace {

// Why R is not this array, which another tool stored in f32; empty if it is.
std::string complaint_about(const EvalTensor& r, const EvalTensor& want) {
  if (want.shape != r.shape) return "shape " + str(r.shape) + ", expected " + str(want.shape);
  if (want.is_float() != r.is_float()) {
    return fmt::format("type {}, expected {}", vernier::name(r.dtype), vernier::name(want.dtype));
  }
  Tolerance limit;
  limit.worst = limit.rms = 1e-4;
  return complaint(distance(r, want), limit);
}

[[noreturn]] void refuse(const std::string& name, const NamedValues& reference) {
  std::string listed;
  std::vector<std::string> known;
  for (const auto& [output_name, value] : reference) {
    listed += (listed.empty() ? "" : ", ") + output_name;
    known.push_back(output_name);
  }
  throw Error(ErrorCode::kInput, "--expect: array '" + name +
                                     "' is not an output of the model; its outputs are " + listed +
                                     did_you_mean(name, known));
}

Findings ask_expected(Context& context, const GroupValues& values) {
  Findings findings;
  const Request& request = context.subject.request;
  if (request.expect.empty() || &values.group != &context.inputs.groups.front()) return findings;
  const auto rows = static_cast<int64_t>(values.group.rows.size());
  const NamedTensors inputs = batch_of(context, values.group, first_rows(rows));
  const NamedValues reference = reference_of(context, inputs);
  for (const auto& [name, tensor] : request.expect) {
    const auto it = reference.find(name);
    if (it == reference.end()) refuse(name, reference);
    const std::string why = complaint_about(
        it->second, EvalTensor::from(with_zero_fill(context, name, inputs, tensor)));
    if (why.empty()) {
      findings.emplace_back();
      continue;
    }
    findings.push_back(failure(Verdict::kReference, "the model's own FP64 value of '" + name +
                                                        "' is not what was expected: " + why));
  }
  return findings;
}

bool requested(const Request& request) { return !request.expect.empty(); }

}  // namespace

constexpr Check expected{.ask = &ask_expected, .requested = &requested};

}  // namespace vernier::verify::checks
