// Does a run on one thread, or again, differ?
#include <fmt/format.h>

#include "verify/checks/table.h"
#include "verify/replay.h"

namespace vernier::verify::checks {
namespace {

Findings ask_threads(Context& context, const RepeatedRuns& runs) {
  if (runs.repeats()) return {Finding{}};
  const bool again = runs.again.empty();  // equal on several threads, so one thread differs
  Recorder first, second;
  (again ? context.runs.single : context.runs.several).run(runs.run.inputs, first);
  context.runs.several.run(runs.run.inputs, second);
  const std::string where = first_difference(context.subject.plan, first, second);
  return {failure(Verdict::kRace,
                  fmt::format("output '{}' has other bits {}; {}",
                              again ? runs.one_thread.front() : runs.again.front(),
                              again ? "on one thread" : "when the same run is repeated",
                              where.empty() ? "the step did not show itself in one more run"
                                            : "the first step that differs is " + where))};
}

}  // namespace

constexpr Check threads{.ask = &ask_threads};

}  // namespace vernier::verify::checks
