// R, F and I of all groups, before their cells are run: independent evaluations, on all threads.
// See sweep.h.
#include <algorithm>
#include <functional>
#include <iterator>
#include <set>

#include "core/tasks.h"
#include "ops/evaluate.h"
#include "verify/sweep/inputs.h"
#include "verify/sweep/noise.h"
#include "verify/sweep/reference.h"
#include "verify/sweep/sweep.h"

namespace vernier::verify {
namespace {

// Rows of a group that are evaluated as one batch. The first ones are R by name, beside which F and
// I are evaluated; of the others only R's outputs are wanted.
struct Batch {
  size_t group = 0;
  int64_t begin = 0, end = 0;
  double work = 0;
  std::vector<NamedValues> rows = {};  // R of each
};

// May R of rows be taken from R of a batch? Not where the model mixes them, or an output has none.
bool batches_rows(const Context& context) {
  const BatchAxes& axes = context.inputs.axes;
  return !axes.symbol.empty() && axes.fixed_rows <= 1 && context.inputs.mixed.empty() &&
         std::ranges::all_of(context.subject.model.output_names,
                             [&](const std::string& name) { return axes.of(name) != kNoAxis; });
}

std::vector<NamedValues> rows_of(const Context& context, const NamedValues& batch, int64_t count) {
  std::vector<NamedValues> rows(static_cast<size_t>(count));
  for (const auto& [name, value] : batch) {
    for (int64_t row = 0; row < count; ++row)
      rows[row][name] = take_row(value, context.inputs.axes.of(name), row);
  }
  return rows;
}

NamedTensors rows_of(const Context& context, const Group& group, int64_t begin, int64_t end) {
  std::vector<int64_t> rows = first_rows(end - begin);
  for (int64_t& row : rows) row += begin;
  return batch_of(context, group, rows);
}

// The first rows of a group: two, all of a batch that the model fixes.
int64_t num_first_rows(const Context& context, const Group& group) {
  const BatchAxes& axes = context.inputs.axes;
  if (axes.fixed_rows > 1) return axes.fixed_rows;
  return axes.known() ? std::min<int64_t>(2, std::ssize(group.rows)) : 1;
}

// The batches of all groups, those that take longest first.
std::vector<Batch> batches_of_groups(const Context& context) {
  constexpr int64_t kTokens = 256;  // of a batch: enough for products to be fast
  constexpr double kFirst = 4;      // evaluations of the first rows: R, F, and I twice the work
  std::vector<Batch> batches;
  const std::vector<Group>& groups = context.inputs.groups;
  for (size_t g = 0; g < groups.size(); ++g) {
    const int64_t length = std::max<int64_t>(1, groups[g].length);
    const int64_t first = num_first_rows(context, groups[g]);
    batches.push_back({g, 0, first, kFirst * static_cast<double>(first * length)});
    if (!batches_rows(context)) continue;
    auto rows = static_cast<int64_t>(groups[g].rows.size());
    if (groups[g].far) rows = std::min<int64_t>(rows, kDistinctFarRows);
    const int64_t step = std::max<int64_t>(1, kTokens / length);
    for (int64_t begin = first; begin < rows; begin += step) {
      const int64_t end = std::min(rows, begin + step);
      batches.push_back({g, begin, end, static_cast<double>((end - begin) * length)});
    }
  }
  std::ranges::stable_sort(batches, std::greater<>(), &Batch::work);
  return batches;
}

// Names of values that F can be compared at.
std::set<std::string> names_of(const plan::Plan& plan) {
  std::set<std::string> names(plan.output_names.begin(), plan.output_names.end());
  for (const plan::PlanValue& value : plan.values)
    if (!value.name.empty()) names.insert(value.name);
  return names;
}

// On all threads, unless memory is limited: estimates are those of one evaluation.
void run_all(const Context& context, int64_t count, const std::function<void(int64_t)>& body) {
  if (!context.watch.limits_memory()) return for_each_task(count, body);
  for (int64_t i = 0; i < count; ++i) body(i);
}

// The noise of the rows that are judged, by group and draw.
std::vector<std::vector<NoiseDraw>> draws_of_rows(Context& context) {
  std::vector<Group>& groups = context.inputs.groups;
  std::vector<NoisyRows> rows(groups.size());
  std::vector<std::vector<NoiseDraw>> draws(groups.size());
  std::vector<std::pair<size_t, size_t>> places;  // of every draw
  for (size_t g = groups.size(); g-- > 0;) {      // the longest first
    if (!groups[g].far) rows[g] = noisy_rows(context, groups[g]);
    draws[g].resize(rows[g].draws);
    for (size_t d = 0; d < draws[g].size(); ++d) places.emplace_back(g, d);
  }
  run_all(context, std::ssize(places), [&](int64_t i) {
    const auto& [g, d] = places[i];
    draws[g][d] = draw_noise(context, rows[g].inputs, rows[g].reference, d + 1);
  });
  return draws;
}

}  // namespace

void Sweep::evaluate_groups() {
  scheduled_stage(context_, "plan and model in FP64");
  std::vector<Group>& groups = context_.inputs.groups;
  const std::set<std::string> names = names_of(context_.subject.plan);
  std::vector<Batch> batches = batches_of_groups(context_);
  struct OfGroup {
    Found found;
    NoiseDraw noise;
  };
  std::vector<OfGroup> results(groups.size());
  run_all(context_, std::ssize(batches), [&](int64_t i) {
    Batch& batch = batches[i];
    Group& group = groups[batch.group];
    const NamedTensors inputs = rows_of(context_, group, batch.begin, batch.end);
    if (batch.begin > 0) {
      batch.rows = rows_of(context_, reference_of(context_, inputs), batch.end - batch.begin);
      return;
    }
    ops::EvaluateOptions named;
    named.keep = ops::Keep::kNamed;
    named.names = &names;
    named.watch = context_.watch;
    named.constants = context_.in_fp64.get();
    const ops::Evaluation r =
        ops::evaluate(context_.subject.model, {inputs.begin(), inputs.end()}, named);
    results[batch.group] = {
        .found = found_about(GroupValues{.group = group, .inputs = inputs, .r = r}),
        .noise = draw_noise(context_, inputs, r.outputs, 0)};
    if (batches_rows(context_)) batch.rows = rows_of(context_, r.outputs, batch.end);
  });
  std::ranges::sort(batches, std::less<>(), &Batch::begin);
  for (Batch& batch : batches)
    std::ranges::move(batch.rows, std::back_inserter(groups[batch.group].reference));
  const std::vector<std::vector<NoiseDraw>> draws = draws_of_rows(context_);
  for (size_t g = 0; g < groups.size(); ++g) {
    for (const auto& [row, findings] : results[g].found) report_.add(*row, findings, nullptr);
    add_noise(context_, results[g].noise);
    for (const NoiseDraw& draw : draws[g]) add_noise(context_, draw);
  }
}

}  // namespace vernier::verify
