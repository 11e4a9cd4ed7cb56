// A cell run again: see again.h. Several things that must not matter change in one run; only where
// bits differ is each of them tried alone.
#include "verify/sweep/again.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "evaluate/samples.h"
#include "verify/replay.h"
#include "verify/sweep/inputs.h"

namespace vernier::verify {
namespace {

// Other inputs of the same sizes: each row of the group in the place of the one before it; where
// there is one row only, another seeded one. Empty where the only row is the user's.
std::optional<NamedTensors> other_inputs(const Context& context, const Group& group,
                                         const CellRun& run) {
  const auto count = static_cast<int64_t>(group.rows.size());
  if (count > 1) {
    std::vector<int64_t> rows = first_rows(run.rows);
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

// Outputs of which a row that was moved has other bits.
std::vector<std::string> different_rows(const Context& context, const NamedTensors& base,
                                        const NamedTensors& other,
                                        const std::vector<RowMove>& moves) {
  std::vector<std::string> names;
  for (const auto& output : base) {
    const int axis = context.inputs.axes.of(output.first);
    const Tensor* there = find(other, output.first);
    const bool same = there && std::ranges::all_of(moves, [&](const RowMove& move) {
                        return same_bits(take_row(output.second, axis, move.from),
                                         take_row(*there, axis, move.to));
                      });
    if (!same) names.push_back(output.first);
  }
  return names;
}

// On one thread, and with other numbers in memory; beyond the grid both in one run, unless it
// differs.
void run_on_one_thread(Context& context, const CellRun& run, bool far, RepeatedRuns& runs) {
  Poison other(kOtherNumber);
  std::vector<std::string> together;
  if (far) {
    together = different_outputs(run.answers, context.runs.single.run(run.inputs, other));
    if (together.empty()) return;
  }
  runs.other_memory = different_outputs(run.answers, context.runs.several.run(run.inputs, other));
  runs.one_thread = different_outputs(run.answers, context.runs.single.run(run.inputs));
  if (!runs.other_memory.empty() || !runs.one_thread.empty())
    runs.again = different_outputs(run.answers, context.runs.several.run(run.inputs));
  else
    runs.one_thread = std::move(together);
}

}  // namespace

bool compares_rows(const Context& context, const NamedTensors& answers) {
  const BatchAxes& axes = context.inputs.axes;
  return !axes.symbol.empty() && axes.fixed_rows <= 1 && context.inputs.mixed.empty() &&
         std::ranges::all_of(answers,
                             [&](const auto& named) { return axes.of(named.first) != kNoAxis; });
}

Placements placements_of(const Context& context, const Group& group, const CellRun& run) {
  const BatchAxes& axes = context.inputs.axes;
  const int64_t batch = run.rows;
  std::vector<int64_t> reversed = first_rows(batch);
  std::ranges::reverse(reversed);
  std::vector<NamedTensors> poisoned;
  Placements placements;
  for (int64_t r = 0; r < batch; ++r) {
    const NamedTensors& row = group.rows[r];
    poisoned.push_back(r == 0 ? row : poisoned_row(row, context.inputs.domains, axes));
    placements.reversed.moves.push_back({r, batch - 1 - r});
    placements.copied.moves.push_back({0, r});
  }
  placements.poisoned.moves = {{0, 0}};
  placements.reversed.run.inputs = batch_of(context, group, reversed);
  placements.copied.run.inputs =
      batch_of(context, group, std::vector<int64_t>(static_cast<size_t>(batch), 0));
  placements.poisoned.run.inputs = join_rows(poisoned, axes);
  for (Placement* placement : placements.all()) placement->run.rows = batch;
  return placements;
}

RepeatedRuns run_again(Context& context, const Group& group, const CellRun& run,
                       Placements* placements) {
  RepeatedRuns runs{.group = group, .run = run};
  run_on_one_thread(context, run, group.far, runs);
  Runner& runner = context.runs.several;
  runs.unwatched = different_outputs(run.answers, runner.run_unwatched(run.inputs));
  if (!runs.unwatched.empty() && runs.repeats())
    runs.again = different_outputs(run.answers, runner.run(run.inputs));
  const bool goes_on = runs.repeats() && runs.other_memory.empty() && runs.unwatched.empty();
  int number = 1;  // of the unwatched runs
  const auto differs = [&](std::vector<std::string> different, const char* what) {
    if (different.empty() || !runs.after_others.empty()) return;
    runs.after_others = std::move(different);
    runs.after_what = fmt::format("in unwatched run {}, {}", number, what);
  };
  constexpr const char* kOthers = "of other inputs of these sizes";
  const auto run_self = [&] {
    ++number;
    differs(different_outputs(run.answers, runner.run_unwatched(run.inputs)),
            "after other inputs of these sizes");
  };
  if (placements) {
    for (Placement* placement : placements->all()) {
      ++number;
      NamedTensors& answers = placement->run.answers;
      if (goes_on) answers = runner.run_unwatched(placement->run.inputs);
      const bool same =
          goes_on && different_rows(context, run.answers, answers, placement->moves).empty();
      if (same) continue;
      // Placed so, or because nobody watched? Rows are judged by the run that was watched.
      const NamedTensors unwatched = std::exchange(answers, runner.run(placement->run.inputs));
      std::vector<std::string> wrong =
          different_rows(context, run.answers, answers, placement->moves);
      if (goes_on && wrong.empty())
        differs(different_rows(context, run.answers, unwatched, placement->moves), kOthers);
    }
    runs.has_others = true;
    if (goes_on) run_self();
    return runs;
  }
  if (!goes_on) return runs;
  const std::optional<NamedTensors> others = other_inputs(context, group, run);
  const std::optional<NamedTensors> watched = others ? run_if_taken(runner, *others) : std::nullopt;
  if (!watched) {
    runs.unwatched = different_outputs(run.answers, runner.run_unwatched(run.inputs));
    return runs;
  }
  runs.has_others = true;
  constexpr int kRounds = 2;
  for (int round = 0; round < kRounds; ++round) {
    ++number;
    differs(different_outputs(*watched, runner.run_unwatched(*others)), kOthers);
    run_self();
  }
  return runs;
}

}  // namespace vernier::verify
