// Do other inputs in between matter? A GPU replays what it recorded of a run, with whatever inputs
// come next: the same session is run on a cell's inputs and on others of the same sizes in turn,
// all of them unwatched (sweep/again.cpp). Each must be what it is when watched.
#include <fmt/format.h>

#include "verify/checks/table.h"

namespace vernier::verify::checks {
namespace {

Findings ask_after_others(Context&, const RepeatedRuns& runs) {
  if (!runs.repeats() || !runs.other_memory.empty() || !runs.unwatched.empty())
    return {};  // found already
  if (!runs.has_others) return {};
  if (runs.after_others.empty()) return {Finding{}};
  return {failure(Verdict::kRace,
                  fmt::format("output '{}' has other bits {}: a step keeps something of the runs "
                              "before, or was recorded wrongly",
                              runs.after_others.front(), runs.after_what))};
}

}  // namespace

constexpr Check after_others{.ask = &ask_after_others};

}  // namespace vernier::verify::checks
