// Is every element of every product right, in every cell? A random projection of the result beside
// that of the operands; a cell where they part is replayed, which names the element.
#include <fmt/format.h>

#include <algorithm>

#include "verify/checks/table.h"
#include "verify/runner.h"

namespace vernier::verify::checks {
namespace {

Findings ask_projected(Context& context, const ProjectedProducts& run) {
  Findings findings;
  ProjectionReach& reach = context.reach;
  reach.left_out = std::max(reach.left_out, run.left_out);
  for (const ProjectedProduct& product : run.products) {
    reach.element = std::max(reach.element, product.element);
    reach.factor = std::max(reach.factor, product.factor);
    reach.products = std::max(reach.products, static_cast<int64_t>(run.products.size()));
    findings.push_back(
        product.why.empty()
            ? Finding{}
            : failure(Verdict::kBug,
                      fmt::format("{} is wrong on its own inputs: {}",
                                  step_text(context.subject.plan, product.step), product.why)));
  }
  return findings;
}

// What the projection cannot miss, once for all cells.
Findings ask_reach(Context& context, const FinishedSweep&) {
  const ProjectionReach& reach = context.reach;
  if (reach.products == 0) return {};
  Finding finding;
  finding.note = fmt::format(
      "{} of {} products; sees one element that is off by {:.0e} of its row's rms, and all of them "
      "off by {:.0e}",
      reach.products, reach.products + reach.left_out, reach.element, reach.factor);
  return {finding};
}

std::string why_not(const Context& context) {
  return std::ranges::any_of(context.subject.plan.steps,
                             [](const plan::Step& step) {
                               return step.op != OpKind::kAttention &&
                                      (flags(step.op) & kProduct) != 0;
                             })
             ? ""
             : "the engine has no products";
}

}  // namespace

constexpr Check projected{.ask = &ask_projected, .why_not = &why_not};
constexpr Check projection_reach{.ask = &ask_reach, .why_not = &why_not};

}  // namespace vernier::verify::checks
