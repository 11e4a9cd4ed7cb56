// Is stale memory read? The same inputs with other numbers in the arena, the workspaces and the
// outputs before each step wrote them.
#include <fmt/format.h>

#include "verify/checks/table.h"
#include "verify/replay.h"

namespace vernier::verify::checks {
namespace {

Findings ask_memory(Context& context, const RepeatedRuns& runs) {
  if (!runs.repeats()) return {};  // a race is found, which this would find again
  if (runs.other_memory.empty()) return {Finding{}};
  Recorder with_nan(kSignallingNan), with_number(kOtherNumber);
  context.runs.several.run(runs.run.inputs, with_nan);
  context.runs.several.run(runs.run.inputs, with_number);
  return {failure(Verdict::kUninitialisedRead,
                  fmt::format("output '{}' depends on what the memory held before the run; the "
                              "first step that does is {}",
                              runs.other_memory.front(),
                              first_difference(context.subject.plan, with_nan, with_number)))};
}

}  // namespace

constexpr Check memory{.ask = &ask_memory};

}  // namespace vernier::verify::checks
