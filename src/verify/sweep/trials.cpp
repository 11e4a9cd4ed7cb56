// Other engines of the same model under the limits of a sweep that failed: the cells to try them on
// and the judgement. For bisect. See sweep.h.
#include <fmt/format.h>

#include <algorithm>

#include "verify/sweep/inputs.h"
#include "verify/sweep/measure.h"
#include "verify/sweep/noise.h"
#include "verify/sweep/reference.h"
#include "verify/sweep/sweep.h"
#include "verify/tolerance.h"

namespace vernier::verify {

Trial Sweep::trial_of(const CellOf& cell) {
  const int64_t rows = context_.inputs.axes.known() ? cell.batch : 1;
  Trial trial{.label = cell_of(*cell.group, cell.batch).label,
              .batch = cell.batch,
              .inputs = batch_of(context_, *cell.group, first_rows(rows)),
              .reference = {}};
  trial.reference = reference_for(context_, *cell.group, rows, trial.inputs);
  return trial;
}

std::vector<Trial> Sweep::failing_trials() {
  std::vector<Trial> worst{trial_of(worst_cell())};
  if (!complaint_about(worst, {context_.runs.several.run(worst[0].inputs)}).empty()) return worst;
  std::vector<Trial> all;
  for (Group& group : context_.inputs.groups) {
    for (int64_t batch : batches_of(context_, group))
      all.push_back(trial_of({.group = &group, .batch = batch}));
  }
  return all;
}

Trial Sweep::smallest_failing_trial() {
  CellOf found;
  int64_t fewest = 0;
  size_t at = 0;
  for (Group& group : context_.inputs.groups) {
    for (size_t i = 0; i < batches_of(context_, group).size(); ++i, ++at) {
      const CellResult& cell = report_.report.cells[at];
      const int64_t size = cell.batch * std::max<int64_t>(1, cell.length);
      if (cell.verdict == Verdict::kPass || (found.group && size >= fewest)) continue;
      found = {.group = &group, .batch = cell.batch};
      fewest = size;
    }
  }
  return trial_of(found.group ? found : worst_cell());
}

std::string Sweep::complaint_about(const std::vector<Trial>& trials,
                                   const std::vector<NamedTensors>& answers) {
  const Tolerance& tolerance = context_.subject.request.tolerance;
  std::map<std::string, Pool> pools;
  std::map<std::string, OutputResult> rankings;
  for (size_t t = 0; t < trials.size(); ++t) {
    for (const auto& [name, want] : trials[t].reference) {
      const Answer answer{.name = name,
                          .want = want,
                          .got = find(answers[t], name),
                          .inputs = trials[t].inputs,
                          .batch = trials[t].batch};
      const MeasuredOutput one = measure_alone(context_, answer, pools[name], rankings[name]);
      const std::string why = !one.misfit.empty()
                                  ? "is missing or of another type or shape"
                                  : complaint(one.distance, tolerance, noise_limit(context_, name));
      if (!why.empty()) return fmt::format("{}: output '{}': {}", trials[t].label, name, why);
    }
  }
  for (const auto& [name, pool] : pools) {
    if (pool.elems == 0 || pool.reference <= 0) continue;
    std::string why = pooled_complaint(context_, pool, noise_rms(context_.precision.pools[name]));
    if (why.empty()) why = flips_complaint(tolerance, rankings[name]);
    if (!why.empty()) return fmt::format("output '{}': {}", name, why);
  }
  return "";
}

}  // namespace vernier::verify
