// Are the outputs close? E against R, each output of each cell by its elements, and what is no
// output of the model at all.
#include "verify/checks/table.h"
#include "verify/sweep/noise.h"
#include "verify/tolerance.h"

namespace vernier::verify::checks {
namespace {

Finding judge(const Context& context, const MeasuredOutput& output) {
  Finding finding{.output = output.name};
  if (!output.misfit.empty()) {
    finding.verdict = Verdict::kBug;
    finding.why = output.misfit;
    return finding;
  }
  finding.why = complaint(output.distance, context.subject.request.tolerance,
                          noise_limit(context, output.name));
  if (finding.why.empty()) return finding;
  finding.verdict = output.distance.wrong_non_finite > 0 ? Verdict::kNan : Verdict::kPrecision;
  return finding;
}

Findings ask_answers(Context& context, const MeasuredAnswers& measured) {
  Findings findings;
  for (const MeasuredOutput& output : measured.outputs) findings.push_back(judge(context, output));
  for (const std::string& name : measured.strangers)
    findings.push_back(failure(Verdict::kBug, "output '" + name + "' is not a value of the model"));
  return findings;
}

}  // namespace

constexpr Check answers{.ask = &ask_answers};

}  // namespace vernier::verify::checks
