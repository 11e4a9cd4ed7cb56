// Another engine beside the one that is verified: see older_engine.h.
#include "verify/sweep/older_engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "verify/metrics.h"

namespace vernier::verify {
namespace {

std::string ports_text(const std::vector<Port>& ports) {
  std::string text;
  for (const Port& port : ports)
    text += (text.empty() ? "" : ", ") + port.name + " " + std::string(name(port.dtype));
  return text;
}

// Names and types; sizes may be others, of which the runs tell.
void check_ports(const std::string& file, const char* what, const std::vector<Port>& older,
                 const std::vector<Port>& here) {
  const auto same = [](const Port& a, const Port& b) {
    return a.name == b.name && a.dtype == b.dtype;
  };
  if (std::ranges::is_permutation(older, here, same)) return;
  throw Error(ErrorCode::kInput, fmt::format("--against '{}' has {} {}, the engine has {}: it is "
                                             "one of another model",
                                             file, what, ports_text(older), ports_text(here)));
}

}  // namespace

OlderEngine::OlderEngine(const Context& context) {
  const Subject& subject = context.subject;
  const std::string file = subject.request.against.string();
  const std::shared_ptr<const Engine> engine =
      Engine::open(file, {.kernels = subject.request.kernels, .limits = subject.limits});
  check_ports(file, "the inputs", engine->inputs(), subject.engine->inputs());
  check_ports(file, "the outputs", engine->outputs(), subject.engine->outputs());
  state_.all.file = file;
  state_.all.engine_hash = engine->content_hash();
  runs_ = std::make_unique<Runner>(
      engine, SessionOptions{.threads = subject.request.threads, .limits = subject.limits});
}

void OlderEngine::compare(const Context& context, const std::string& label, const CellRun& run) {
  const NamedTensors answers = runs_->run_unwatched(run.inputs);
  ++state_.all.cells;
  for (const auto& [output, older] : answers) {
    const Tensor* here = find(run.answers, output);
    VERNIER_ASSERT(here, output);
    auto place = std::ranges::find(state_.all.outputs, output, &AgainstOlder::OutputChange::name);
    if (place == state_.all.outputs.end()) {
      place = state_.all.outputs.insert(place, {.name = output});
      state_.sums.emplace_back();
    }
    if (same_bits(*here, older)) {
      ++place->equal_cells;
    } else if (place->first_cell.empty()) {
      place->first_cell = label;
    }
    if (here->shape() != older.shape()) continue;
    const EvalTensor got = EvalTensor::from(*here), want = EvalTensor::from(older);
    const int axis = context.inputs.axes.of(output);
    const Distance far = distance(got, want, axis);
    place->wrong_non_finite += far.wrong_non_finite;
    place->different_integers += far.different_integers;
    place->worst = std::max(place->worst, far.worst);
    Sums& sums = state_.sums[place - state_.all.outputs.begin()];
    if (got.is_float() && far.says_it_all()) {
      const auto elems = static_cast<double>(far.elems);
      sums.error += far.rms * far.rms * elems;
      sums.older += far.rms_reference * far.rms_reference * elems;
      sums.elems += far.elems;
    }
    for (const RowMetrics& row : row_metrics(got, want, axis)) {
      place->rankings += row.rankings;
      place->top1_changes += row.top1_changes;
      place->top5_changes += row.top5_changes;
      place->least_correlation = std::min(place->least_correlation, row.least_correlation);
    }
  }
}

AgainstOlder OlderEngine::result() const {
  AgainstOlder all = state_.all;
  for (size_t i = 0; i < all.outputs.size(); ++i) {
    if (state_.sums[i].elems > 0 && state_.sums[i].older > 0)
      all.outputs[i].rms = std::sqrt(state_.sums[i].error / state_.sums[i].older);
  }
  return all;
}

}  // namespace vernier::verify
