// Do two runs without an observer differ? Nobody watches a user's runs: a GPU does not wait between
// the steps, and from the second run on it replays a recording of them.
#include <fmt/format.h>

#include "verify/checks/table.h"

namespace vernier::verify::checks {
namespace {

Findings ask_unwatched(Context& context, const RepeatedRuns& runs) {
  if (!runs.repeats() || !runs.other_memory.empty()) return {};  // found already
  for (const char* how : {"when nobody watches the run", "when a run is repeated unwatched"}) {
    const auto different =
        different_outputs(runs.run.answers, context.runs.several.run_unwatched(runs.run.inputs));
    if (different.empty()) continue;
    return {failure(Verdict::kRace,
                    fmt::format("output '{}' has other bits {}: a step does not wait for what it "
                                "reads, or was recorded wrongly",
                                different.front(), how))};
  }
  return {Finding{}};
}

}  // namespace

constexpr Check unwatched{.ask = &ask_unwatched};

}  // namespace vernier::verify::checks
