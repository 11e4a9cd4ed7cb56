// Localise on one cell of a sweep: the worst one of a verification, or the one that was asked for.
// See sweep.h and localise.h.
#include <fmt/format.h>

#include <algorithm>

#include "runtime/engine_impl.h"
#include "verify/localise.h"
#include "verify/sweep.h"

namespace vernier::verify {

Localisation Sweep::localise_group(const Group& group, int64_t batch) {
  const std::string label =
      fmt::format("batch {}{}{}", batch, group.label.empty() ? "" : ", ", group.label);
  stage(label + ": where the error comes from, in FP64");
  PlanEvaluator f(plan_, *engine_->impl().backend, watched());
  set_exact_constants(f);
  Localisation found =
      follow(*engine_, f, runner_, batch_of(group, first_rows(axes_.known() ? batch : 1)));
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
  for (Group& group : groups_) {
    for (size_t i = 0; i < batches_of(group).size(); ++i, ++at) {
      if (worst && !graver(report_.cells[at], *worst)) continue;
      worst = &report_.cells[at];
      found = {.group = &group, .batch = worst->batch};
    }
  }
  return found;
}

void Sweep::localise_worst() {
  const CellOf worst = worst_cell();
  if (worst.group) report_.localisation = localise_group(*worst.group, worst.batch);
}

Localisation Sweep::run_localise() {
  check_same_model();
  read_precision();
  read_domains();
  choose_axes();
  make_groups();
  const Group& group = groups_.back();  // the user's, or that of the largest length
  const std::vector<int64_t> batches = batches_of(group);
  return localise_group(group, *std::max_element(batches.begin(), batches.end()));
}

Localisation localise_model(const std::shared_ptr<const Engine>& engine, const ir::Graph& model,
                            const Request& request) {
  return Sweep(engine, model, request).run_localise();
}

}  // namespace vernier::verify
