// Do other inputs in between matter? A GPU replays what it recorded of a run, with whatever inputs
// come next: the same session is run on a cell's inputs A, then three times on others, B, and on A
// again, all of them unwatched. B must be what it is when watched, and A the same each time.
#include <fmt/format.h>

#include <optional>

#include "evaluate/samples.h"
#include "verify/checks/table.h"

namespace vernier::verify::checks {
namespace {

constexpr int kReplays = 3;

// Other inputs of the same sizes: each row of the group in the place of the one before it; where
// there is one row only, another seeded one. Empty where the only row is the user's.
std::optional<NamedTensors> other_inputs(const Context& context, const RepeatedRuns& runs) {
  const Group& group = runs.group;
  const auto count = static_cast<int64_t>(group.rows.size());
  if (count > 1) {
    std::vector<int64_t> rows = first_rows(runs.run.rows);
    for (int64_t& row : rows) row = (row + 1) % count;
    return batch_of(context, group, rows);
  }
  if (!group.seeded) return std::nullopt;
  const BatchAxes& axes = context.inputs.axes;
  std::map<std::string, int64_t> sizes = group.sizes;
  if (!axes.symbol.empty()) sizes[axes.symbol] = 1;
  return sample_row(context.inputs.domains, axes, sizes, {context.subject.request.seed, 1});
}

// The engine may refuse the values of seeded rows that no cell has.
std::optional<NamedTensors> run_if_taken(Runner& runner, const NamedTensors& inputs) {
  try {
    return runner.run(inputs);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kInput) throw;
    return std::nullopt;
  }
}

Finding differs(const std::string& output, const std::string& how) {
  return failure(Verdict::kRace,
                 fmt::format("output '{}' has other bits {}: a step keeps "
                             "something of the runs before, or was recorded wrongly",
                             output, how));
}

Findings ask_after_others(Context& context, const RepeatedRuns& runs) {
  if (!runs.repeats() || !runs.other_memory.empty()) return {};  // found already
  const std::optional<NamedTensors> others = other_inputs(context, runs);
  Runner& runner = context.runs.several;
  const std::optional<NamedTensors> watched = others ? run_if_taken(runner, *others) : std::nullopt;
  if (!watched) return {};
  runner.run_unwatched(runs.run.inputs);
  for (int run = 1; run <= kReplays; ++run) {
    const auto wrong = different_outputs(*watched, runner.run_unwatched(*others));
    if (!wrong.empty())
      return {differs(wrong.front(),
                      fmt::format("when other inputs of these sizes were run before it, in run {} "
                                  "of {}",
                                  run, kReplays))};
    const auto different =
        different_outputs(runs.run.answers, runner.run_unwatched(runs.run.inputs));
    if (!different.empty())
      return {differs(different.front(),
                      fmt::format("in run {} of {} after other inputs", run, kReplays))};
  }
  return {Finding{}};
}

}  // namespace

constexpr Check after_others{.ask = &ask_after_others};

}  // namespace vernier::verify::checks
