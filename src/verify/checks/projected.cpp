// Is every element of every product right, in every cell? A random projection of the result beside
// that of the operands, or some places of each row and column; a cell where they part is replayed,
// which names the element.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "verify/checks/table.h"
#include "verify/checks/wrong_step.h"

namespace vernier::verify::checks {
namespace {

Findings ask_projected(Context& context, const ProjectedProducts& run) {
  Findings findings;
  ProjectionReach& reach = context.reach;
  const auto add = [&](int32_t step, const std::string& why) {
    findings.push_back(why.empty() ? Finding{} : wrong_step(context.subject.plan, step, why));
  };
  reach.left_out = std::max(reach.left_out, run.left_out);
  reach.products = std::max(reach.products, std::ssize(run.products));
  reach.sampled = std::max(reach.sampled, std::ssize(run.sampled));
  for (const ProjectedProduct& product : run.products) {
    reach.element = std::max(reach.element, product.element);
    reach.factor = std::max(reach.factor, product.factor);
    add(product.step, product.why);
  }
  for (const SampledProduct& product : run.sampled) {
    reach.share = std::min(reach.share, product.share);
    reach.sampled_element = std::max(reach.sampled_element, product.element);
    add(product.step, product.why);
  }
  return findings;
}

// So many of equally many wrong elements, at places of their own, must be wrong for one of them to
// be among those of a sample, but for once in a hundred.
int64_t needed(double share) {
  constexpr double kMissed = 0.01;
  return share >= 1 ? 1 : static_cast<int64_t>(std::ceil(std::log(kMissed) / std::log1p(-share)));
}

// What the projection cannot miss, once for all cells.
Findings ask_reach(Context& context, const FinishedSweep&) {
  const ProjectionReach& reach = context.reach;
  const int64_t all = reach.products + reach.sampled + reach.left_out;
  if (reach.products + reach.sampled == 0) return {};
  std::string note;
  if (reach.products > 0) {
    note = fmt::format(
        "{} of {} products; sees one element that is off by {:.0e} of its row's rms, and all of "
        "them off by {:.0e}",
        reach.products, all, reach.element, reach.factor);
  }
  if (reach.sampled > 0) {
    note +=
        fmt::format("{}{} of {} in some places of each row and column: one of {} wrong elements",
                    note.empty() ? "" : "; ", reach.sampled, all, needed(reach.share));
    if (reach.sampled_element > 0)
      note += fmt::format(" that are off by {:.0e} of the result's rms", reach.sampled_element);
  }
  if (reach.left_out > 0) note += fmt::format("; not covered: {} of {}", reach.left_out, all);
  return {Finding{.note = note}};
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
