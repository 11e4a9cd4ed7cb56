// Watching a run: see observer.h.
#include "calibrate/observer.h"

#include <algorithm>

#include "backend/operands.h"
#include "evaluate/rows.h"

namespace vernier::calibration {
namespace {

using Kind = evaluate::InputDomain::Kind;

// Rows of a value of this shape are the elements of a mask of that one.
bool counts_rows(const SymShape& mask, const SymShape& value) {
  if (value.empty()) return false;
  const SymShape outer(value.begin(), value.end() - 1);
  if (std::ranges::equal(outer, mask, [](const Dim& a, const Dim& b) { return a == b; }))
    return true;
  Dim positions(1);
  for (const Dim& d : mask) positions = positions * d;
  return outer.size() == 1 && outer[0] == positions;
}

}  // namespace

Padding::Padding(const plan::Plan& plan, const evaluate::Domains& domains) {
  for (const bool masks : {true, false}) {
    for (const evaluate::InputDomain& domain : domains.inputs) {
      const auto at = std::ranges::find(plan.input_names, domain.name);
      if (at == plan.input_names.end()) continue;
      if (masks ? domain.kind != Kind::kMask : !domain.pad.has_value()) continue;
      const auto index = static_cast<size_t>(at - plan.input_names.begin());
      sources_.push_back({domain.name, plan.value(plan.inputs[index]).shape, domain.pad});
    }
  }
}

int Padding::source_of(const SymShape& shape) const {
  for (size_t i = 0; i < sources_.size(); ++i) {
    if (counts_rows(sources_[i].shape, shape)) return static_cast<int>(i);
  }
  return plan::kNone;
}

void Padding::begin(const NamedTensors& inputs) {
  real_.assign(sources_.size(), {});
  for (size_t i = 0; i < sources_.size(); ++i) {
    const EvalTensor values = EvalTensor::from(*evaluate::find(inputs, sources_[i].input));
    const auto padding = static_cast<double>(sources_[i].pad.value_or(0));
    for (int64_t e = 0; e < values.elems(); ++e) real_[i].push_back(values.value(e) != padding);
  }
}

RowObserver::RowObserver(std::vector<Watched> watched, const Padding& padding,
                         std::vector<SiteSample>& samples)
    : watched_(std::move(watched)), padding_(padding), samples_(samples) {
  for (size_t i = 0; i < watched_.size(); ++i) by_step_.emplace(watched_[i].step, i);
}

void RowObserver::after_step(int32_t step, const backend::LaunchCall& call) {
  const auto [begin, end] = by_step_.equal_range(step);
  if (begin == end) return;
  const backend::TensorArg& x = call.in[0];
  const backend::Rows rows(x);
  const int64_t count = backend::elems_between(x, 0, x.rank - 1);
  for (auto at = begin; at != end; ++at) {
    SiteSample& sample = samples_[at->second];
    VERNIER_ASSERT(x.dtype == DType::kF32 && x.dim(-1) == sample.channels, "a product's operand");
    for (int64_t r = 0; r < count; ++r) {
      if (!padding_.is_real(watched_[at->second].source, r)) continue;
      const std::span row(x.as<const float>() + rows.offset(r),
                          static_cast<size_t>(sample.channels));
      if (!sample.take(row))
        throw Error(ErrorCode::kInput,
                    "an operand of a product holds NaN or infinity; calibration needs data on "
                    "which the model computes finite numbers");
    }
  }
}

}  // namespace vernier::calibration
