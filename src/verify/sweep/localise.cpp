// Localise on one cell of a sweep: the worst one of a verification, or the one that was asked for.
// See sweep.h and localise.h.
#include "verify/localise.h"

#include <algorithm>

#include "verify/sweep/constants.h"
#include "verify/sweep/inputs.h"
#include "verify/sweep/noise.h"
#include "verify/sweep/sweep.h"

namespace vernier::verify {

Localisation Sweep::localise_group(const Group& group, int64_t batch) {
  const std::string label = cell_of(group, batch).label;
  stage(context_, label + ": where the error comes from, in FP64");
  PlanEvaluator f = f_of(context_);
  const std::vector<int64_t> rows = first_rows(context_.inputs.axes.known() ? batch : 1);
  Localisation found =
      follow(*context_.subject.engine, f, context_.runs.several, batch_of(context_, group, rows));
  found.inputs = label;
  return found;
}

// The cell with the largest error among those with the gravest verdict.
Sweep::CellOf Sweep::worst_cell() {
  CellOf found;
  const CellResult* worst = nullptr;
  const auto graver = [](const CellResult& a, const CellResult& b) {
    const bool a_failed = a.verdict != Verdict::kPass, b_failed = b.verdict != Verdict::kPass;
    return a_failed != b_failed ? a_failed : a.worst > b.worst;
  };
  size_t at = 0;
  for (Group& group : context_.inputs.groups) {
    for (size_t i = 0; i < batches_of(context_, group).size(); ++i, ++at) {
      const CellResult& cell = report_.report.cells[at];
      if (worst && !graver(cell, *worst)) continue;
      worst = &cell;
      found = {.group = &group, .batch = cell.batch};
    }
  }
  return found;
}

Localisation Sweep::run_localise() {
  make_inputs(context_);
  hold_constants(context_);
  read_precision(context_);
  const Group& group = context_.inputs.groups.back();  // the user's, or that of the largest length
  return localise_group(group, std::ranges::max(batches_of(context_, group)));
}

Localisation localise_model(const std::shared_ptr<const Engine>& engine, const ir::Graph& model,
                            const Request& request) {
  return Sweep(engine, model, request).run_localise();
}

}  // namespace vernier::verify
