// Are the outputs close over all cells together? rms(E − R) and the rankings that change. Outputs
// that pass here are not counted: the report counts them by cell.
#include <algorithm>

#include "verify/checks/table.h"
#include "verify/sweep/noise.h"

namespace vernier::verify::checks {
namespace {

Findings ask_all_answers(Context& context, const FinishedSweep& sweep) {
  Findings findings;
  for (const auto& [name, pool] : context.precision.pools) {
    if (pool.elems == 0 || pool.reference <= 0) continue;
    const auto output = std::ranges::find(sweep.outputs, name, &OutputResult::name);
    std::string why = flips_complaint(context.subject.request.tolerance, *output);
    if (why.empty()) why = pooled_complaint(context, pool, output->noise_rms);
    if (why.empty()) continue;
    Finding finding = failure(Verdict::kPrecision, why);
    finding.output = name;
    findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace

constexpr Check all_answers{.ask = &ask_all_answers};

}  // namespace vernier::verify::checks
