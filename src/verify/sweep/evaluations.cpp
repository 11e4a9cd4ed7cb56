// R, F and I of all groups, before their cells are run: independent evaluations, on all threads.
// See sweep.h.
#include <algorithm>
#include <functional>
#include <iterator>

#include "core/tasks.h"
#include "verify/sweep/model_and_plan.h"
#include "verify/sweep/noise.h"
#include "verify/sweep/sweep.h"

namespace vernier::verify {
namespace {

// Rows of a group that are evaluated as one batch.
struct Batch {
  size_t group = 0;
  std::vector<int64_t> rows;
  double work = 0;
  RowsInFp64 in_fp64 = {};
};

// The batches of all groups, those that take longest first.
std::vector<Batch> batches_of_groups(const Context& context) {
  std::vector<Batch> batches;
  const std::vector<Group>& groups = context.inputs.groups;
  for (size_t g = 0; g < groups.size(); ++g) {
    const auto length = static_cast<double>(std::max<int64_t>(1, groups[g].length));
    for (std::vector<int64_t>& rows : batches_in_fp64(context, groups[g])) {
      const double work = length * static_cast<double>(rows.size());
      batches.push_back({.group = g, .rows = std::move(rows), .work = work});
    }
  }
  std::ranges::stable_sort(batches, std::greater<>(), &Batch::work);
  return batches;
}

// On all threads, unless memory is limited: estimates are those of one evaluation.
void run_all(const Context& context, int64_t count, const std::function<void(int64_t)>& body) {
  if (!context.watch.limits_memory()) return for_each_task(count, body);
  for (int64_t i = 0; i < count; ++i) body(i);
}

// The noise of every group, in the order of its draws: of all rows that are judged, or, where these
// are not drawn, of the first.
std::vector<std::vector<NoiseDraw>> draws_of_groups(const Context& context) {
  const std::vector<Group>& groups = context.inputs.groups;
  struct Wanted {
    NoisyRows first, all;
  };
  struct Place {
    size_t group;
    int64_t draw;
  };
  std::vector<Wanted> wanted(groups.size());
  std::vector<std::vector<NoiseDraw>> draws(groups.size());
  std::vector<Place> places;
  for (size_t g = groups.size(); g-- > 0;) {  // the longest first
    wanted[g].all = noisy_rows(context, groups[g]);
    if (wanted[g].all.draws == 0) wanted[g].first = first_noisy_rows(context, groups[g]);
    draws[g].resize(1 + static_cast<size_t>(wanted[g].all.draws));
    for (int64_t draw = wanted[g].first.draws > 0 ? 0 : 1; draw <= wanted[g].all.draws; ++draw)
      places.push_back({g, draw});
  }
  run_all(context, std::ssize(places), [&](int64_t i) {
    const auto& [g, draw] = places[i];
    const NoisyRows& rows = draw == 0 ? wanted[g].first : wanted[g].all;
    draws[g][draw] = draw_noise(context, rows, static_cast<uint64_t>(draw));
  });
  return draws;
}

}  // namespace

void Sweep::evaluate_groups() {
  scheduled_stage(context_, "plan and model in FP64");
  std::vector<Group>& groups = context_.inputs.groups;
  std::vector<Batch> batches = batches_of_groups(context_);
  run_all(context_, std::ssize(batches), [&](int64_t i) {
    Batch& batch = batches[i];
    batch.in_fp64 = evaluate_rows(context_, groups[batch.group], batch.rows);
  });
  const auto begin = [](const Batch& batch) { return batch.rows.front(); };
  std::ranges::stable_sort(batches, std::less<>(), begin);
  std::vector<std::vector<ComparedValue>> compared(groups.size());
  for (Batch& batch : batches) {
    Group& group = groups[batch.group];
    context_.ties_of_rewrites += batch.in_fp64.ties;
    std::ranges::move(batch.in_fp64.compared, std::back_inserter(compared[batch.group]));
    std::ranges::move(batch.in_fp64.reference, std::back_inserter(group.reference));
    std::ranges::move(batch.in_fp64.exact, std::back_inserter(group.exact));
  }
  const std::vector<std::vector<NoiseDraw>> draws = draws_of_groups(context_);
  for (size_t g = 0; g < groups.size(); ++g) {
    for (const NoiseDraw& draw : draws[g]) add_noise(context_, draw);
    ask(GroupValues{.group = groups[g], .compared = compared[g]});
  }
}

}  // namespace vernier::verify
