// Does a run without an observer differ? Nobody watches a user's runs: a GPU does not wait between
// the steps, and from the second run on it replays a recording of them.
#include <fmt/format.h>

#include "verify/checks/table.h"

namespace vernier::verify::checks {
namespace {

Findings ask_unwatched(Context&, const RepeatedRuns& runs) {
  if (!runs.repeats() || !runs.other_memory.empty()) return {};  // found already
  if (runs.unwatched.empty()) return {Finding{}};
  return {failure(Verdict::kRace,
                  fmt::format("output '{}' has other bits when nobody watches the run: a step does "
                              "not wait for what it reads, or was recorded wrongly",
                              runs.unwatched.front()))};
}

}  // namespace

constexpr Check unwatched{.ask = &ask_unwatched};

}  // namespace vernier::verify::checks
