// Other engines of the same model under the limits of a sweep that failed: the cells to try them on
// and the judgement. For bisect. See sweep.h.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "verify/sweep.h"

namespace vernier::verify {

Trial Sweep::trial_of(const CellOf& cell) {
  const std::vector<int64_t> rows = first_rows(axes_.known() ? cell.batch : 1);
  const Group& group = *cell.group;
  Trial trial{.label = fmt::format("batch {}{}{}", cell.batch, group.label.empty() ? "" : ", ",
                                   group.label),
              .batch = cell.batch,
              .inputs = batch_of(group, rows),
              .reference = {}};
  trial.reference = reference_for(*cell.group, rows, trial.inputs);
  return trial;
}

std::vector<Trial> Sweep::failing_trials() {
  std::vector<Trial> worst{trial_of(worst_cell())};
  if (!complaint_about(worst, {runner_.run(worst[0].inputs)}).empty()) return worst;
  std::vector<Trial> all;
  for (Group& group : groups_) {
    for (int64_t batch : batches_of(group))
      all.push_back(trial_of({.group = &group, .batch = batch}));
  }
  return all;
}

Trial Sweep::smallest_failing_trial() {
  CellOf found;
  int64_t fewest = 0;
  size_t at = 0;
  for (Group& group : groups_) {
    for (size_t i = 0; i < batches_of(group).size(); ++i, ++at) {
      const CellResult& cell = report_.cells[at];
      const int64_t size = cell.batch * std::max<int64_t>(1, cell.length);
      if (cell.verdict == Verdict::kPass || (found.group && size >= fewest)) continue;
      found = {.group = &group, .batch = cell.batch};
      fewest = size;
    }
  }
  return trial_of(found.group ? found : worst_cell());
}

// The same questions as judge_output() asks, of an answer that leaves no mark in the report.
std::string Sweep::complaint_about_output(const std::string& name, const EvalTensor& want,
                                          const Tensor* got, const Trial& trial,
                                          OutputResult& rankings, Pool& pool) {
  if (!got || got->dtype() != want.dtype || got->shape() != want.shape)
    return "is missing or of another type or shape";
  EvalTensor answer = EvalTensor::from(*got);
  const int axis = axes_.of(name);
  Distance d = distance(answer, want, axis);
  if (d.different_integers > 0) {
    forgive_ties(name, want, answer, trial.inputs);
    d = distance(answer, want, axis);
  }
  const auto finite = static_cast<double>(d.elems - d.wrong_non_finite);
  pool.error += d.rms * d.rms * finite;
  pool.reference += d.rms_reference * d.rms_reference * finite;
  pool.elems += d.elems;
  count_rankings(rankings, {.answer = answer, .want = want, .axis = axis, .batch = trial.batch});
  return complaint(d, request_.tolerance, noise_limit(name));
}

std::string Sweep::complaint_about(const std::vector<Trial>& trials,
                                   const std::vector<NamedTensors>& answers) {
  std::map<std::string, Pool> pools;
  std::map<std::string, OutputResult> rankings;
  for (size_t t = 0; t < trials.size(); ++t) {
    for (const auto& [name, want] : trials[t].reference) {
      const std::string why = complaint_about_output(name, want, find(answers[t], name), trials[t],
                                                     rankings[name], pools[name]);
      if (!why.empty()) return fmt::format("{}: output '{}': {}", trials[t].label, name, why);
    }
  }
  for (const auto& [name, pool] : pools) {
    if (pool.elems == 0 || pool.reference <= 0) continue;
    const Pool& measured = pools_[name];
    const double noise = measured.noise_elems > 0
                             ? std::sqrt(measured.noise / static_cast<double>(measured.noise_elems))
                             : 0;
    std::string why = pooled_complaint(pool, noise);
    if (why.empty()) why = flips_complaint(rankings[name]);
    if (!why.empty()) return fmt::format("output '{}': {}", name, why);
  }
  return "";
}

}  // namespace vernier::verify
