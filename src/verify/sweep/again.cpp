// A cell run again: see again.h. Several things that must not matter change in one run; only where
// bits differ is each of them tried alone.
#include "verify/sweep/again.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <mutex>
#include <utility>

#include "core/cpus.h"
#include "core/threads.h"
#include "evaluate/samples.h"
#include "verify/replay.h"
#include "verify/sweep/inputs.h"

namespace vernier::verify {
namespace {

// Each row of the group in the place of the one before it; where there is one row only, another
// seeded one. Empty where the only row is the user's.
std::optional<NamedTensors> other_rows(const Context& context, const Group& group,
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

// Other inputs of the same sizes. Masks whose tokens are a size stay as they are.
std::optional<NamedTensors> other_inputs(const Context& context, const Group& group,
                                         const CellRun& run) {
  std::optional<NamedTensors> inputs = other_rows(context, group, run);
  if (!inputs) return inputs;
  const plan::Plan& plan = context.subject.plan;
  for (const plan::TokenCount& count : plan.token_counts) {
    const std::string& mask = plan.input_names[count.input];
    for (auto& [name, tensor] : *inputs) {
      if (const Tensor* own = find(run.inputs, mask); name == mask && own != nullptr) tensor = *own;
    }
  }
  return inputs;
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

// Both at once: on one thread, with other numbers in memory.
std::vector<std::string> different_on_one_thread(Context& context, const Group& group,
                                                 const CellRun& run) {
  const auto known = group.on_one_thread.find(run.rows);
  if (known != group.on_one_thread.end()) return different_outputs(run.answers, known->second);
  Poison other(kOtherNumber);
  return different_outputs(run.answers, context.runs.single.run(run.inputs, other));
}

// The same, each alone where both differ.
void run_on_one_thread(Context& context, const Group& group, const CellRun& run,
                       RepeatedRuns& runs) {
  std::vector<std::string> together = different_on_one_thread(context, group, run);
  if (together.empty()) return;
  Poison other(kOtherNumber);
  runs.other_memory = different_outputs(run.answers, context.runs.several.run(run.inputs, other));
  runs.one_thread = different_outputs(run.answers, context.runs.single.run(run.inputs));
  if (!runs.other_memory.empty() || !runs.one_thread.empty())
    runs.again = different_outputs(run.answers, context.runs.several.run(run.inputs));
  else
    runs.one_thread = std::move(together);
}

// Rows of a group that are not those of before.
int64_t distinct_rows(const Group& group, int64_t rows) {
  return group.far ? std::min(rows, kDistinctFarRows) : rows;
}

// All placements in one run: most rows in reverse order, some of the first one, some poisoned. Rows
// repeat after the eighth: those of the next eight stand at other places.
Placements placed_together(const Context& context, const Group& group, const CellRun& run) {
  constexpr int64_t kPeriod = 4, kPoisoned = 1, kCopied = 2;
  Placements placements;
  auto& [reversed, copied, poisoned] = placements;
  std::vector<NamedTensors> rows;
  for (int64_t place = 0; place < run.rows; ++place) {
    const int64_t kind = (place + place / kDistinctFarRows) % kPeriod;
    const int64_t from = kind == kCopied ? 0 : run.rows - 1 - place;
    const NamedTensors& row = group.rows[from];
    if (kind == kPoisoned) {
      rows.push_back(poisoned_row(row, context.inputs.domains, context.inputs.axes));
      continue;
    }
    rows.push_back(row);
    poisoned.moves.push_back({from, place});
    (kind == kCopied ? copied : reversed).moves.push_back({from, place});
  }
  reversed.run.inputs = join_rows(rows, context.inputs.axes);
  for (Placement* placement : placements.all()) {
    placement->run.rows = run.rows;
    placement->run.inputs = reversed.run.inputs;
  }
  return placements;
}

// A cell on a device that records nothing, in as few runs as show everything at once: on one thread
// with other numbers in memory; then, unwatched and after other inputs, all placements, or the cell
// itself where rows cannot be compared. The outputs that differ anywhere: what makes the difference
// is not known.
std::vector<std::string> different_together(Context& context, const Group& group,
                                            Placements* placements, RepeatedRuns& runs) {
  const CellRun& run = runs.run;
  Runner& several = context.runs.several;
  std::vector<std::string> different = different_on_one_thread(context, group, run);
  const auto add = [&](const std::vector<std::string>& names) {
    different.insert(different.end(), names.begin(), names.end());
  };
  if (!placements) {
    const std::optional<NamedTensors> others = other_inputs(context, group, run);
    runs.has_others = others && run_if_taken(several, *others);
    add(different_outputs(run.answers, several.run_unwatched(run.inputs)));
    return different;
  }
  runs.has_others = true;
  *placements = placed_together(context, group, run);
  const NamedTensors answers = several.run_unwatched(placements->reversed.run.inputs);
  for (Placement* placement : placements->all()) placement->run.answers = answers;
  add(different_rows(context, run.answers, answers, placements->poisoned.moves));
  return different;
}

// A run of run_beside().
struct RunBeside {
  Group* group = nullptr;
  int64_t batch = 0;  // 0: a row alone
  int64_t row = 0;
  int64_t work() const { return std::max<int64_t>(1, group->length) * std::max<int64_t>(1, batch); }
};

}  // namespace

void run_beside(Context& context) {
  constexpr int64_t kMostSessions = 8;  // each has memory of its own for the largest cell
  scheduled_stage(context, "cells on one thread, and rows alone");
  const int64_t cpus = std::min<int64_t>(allowed_cpus(), kMostSessions);
  if (cpus == 1 || context.watch.limits_memory() || context.runs.several.records()) return;
  std::vector<RunBeside> wanted;
  for (Group& group : context.inputs.groups) {
    if (group.done) continue;
    for (const int64_t batch : batches_of(context, group)) wanted.push_back({&group, batch});
    const auto rows = std::ssize(group.rows);
    // On more CPUs a row is sooner done on all of them.
    const bool alone = runs_alone(context) && context.inputs.axes.known() && rows > 1 &&
                       allowed_cpus() <= kMostSessions;
    if (!alone) continue;
    group.alone.resize(static_cast<size_t>(distinct_rows(group, rows)));
    for (int64_t row = 0; row < std::ssize(group.alone); ++row)
      wanted.push_back({.group = &group, .row = row});
  }
  std::ranges::stable_sort(wanted, std::greater<>(), &RunBeside::work);
  std::mutex mutex;
  std::atomic<size_t> next{0};
  const auto run_next_ones = [&](int64_t, int64_t) {
    Runner runner(context.subject.engine, {.threads = 1, .limits = context.subject.limits});
    for (size_t i = next.fetch_add(1); i < wanted.size(); i = next.fetch_add(1)) {
      const auto& [group, batch, row] = wanted[i];
      const bool alone = batch == 0, rows_known = context.inputs.axes.known();
      Poison memory(alone ? kSignallingNan : kOtherNumber);
      NamedTensors answers = runner.run(
          alone ? group->rows[row] : batch_of(context, *group, first_rows(rows_known ? batch : 1)),
          memory);
      const std::lock_guard lock(mutex);
      (alone ? group->alone[row] : group->on_one_thread[batch]) = std::move(answers);
    }
  };
  in_parallel(std::min(cpus, std::ssize(wanted)), 1, run_next_ones);
}

void run_rows_alone(Context& context, Group& group, int64_t rows) {
  while (std::ssize(group.alone) < rows) {
    const auto row = std::ssize(group.alone);
    group.alone.push_back(row < distinct_rows(group, rows)
                              ? context.runs.several.run(group.rows[row])
                              : NamedTensors(group.alone[row - kDistinctFarRows]));
  }
}

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

namespace {

// Each change alone, as far as needed.
RepeatedRuns run_again_in_turn(Context& context, const Group& group, const CellRun& run,
                               Placements* placements) {
  RepeatedRuns runs{.group = group, .run = run};
  run_on_one_thread(context, group, run, runs);
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

bool found_nothing(const Context& context, const RepeatedRuns& runs, Placements* placements) {
  if (!runs.repeats() || !runs.other_memory.empty() || !runs.unwatched.empty() ||
      !runs.after_others.empty())
    return false;
  return !placements || std::ranges::all_of(placements->all(), [&](const Placement* placement) {
    return different_rows(context, runs.run.answers, placement->run.answers, placement->moves)
        .empty();
  });
}

}  // namespace

RepeatedRuns run_again(Context& context, const Group& group, const CellRun& run,
                       Placements* placements) {
  constexpr int64_t kEnoughRows = 3;  // for a row of each placement beside poisoned ones
  const bool together_shows_all = placements ? run.rows >= kEnoughRows : group.far;
  if (!together_shows_all || context.runs.several.records())
    return run_again_in_turn(context, group, run, placements);
  RepeatedRuns together{.group = group, .run = run};
  std::vector<std::string> different = different_together(context, group, placements, together);
  if (different.empty()) return together;
  if (placements) *placements = placements_of(context, group, run);
  RepeatedRuns in_turn = run_again_in_turn(context, group, run, placements);
  if (found_nothing(context, in_turn, placements)) in_turn.one_thread = std::move(different);
  return in_turn;
}

}  // namespace vernier::verify
