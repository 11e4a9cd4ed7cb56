// Is the precision good enough? What the engine's types are expected to do to the answers, and the
// limits that follow. Contract: docs/verification.md "Limits". See sweep.h.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "compile/pipeline.h"
#include "evaluate/plan_evaluator.h"
#include "precision/policy_file.h"
#include "runtime/engine_impl.h"
#include "verify/sweep.h"

namespace vernier::verify {

using namespace evaluate;
namespace {

// The type of fewest significant bits that a step holds results or operands in.
DType narrowest_of(const plan::Plan& plan) {
  DType narrowest = DType::kF32;
  const auto take = [&](DType type) {
    if (below_f32(type) && ulp(type, 1) > ulp(narrowest, 1)) narrowest = type;
  };
  for (const plan::Step& step : plan.steps) {
    take(step.numerics.store);
    take(step.numerics.compute);
    take(step.numerics.inner);
    take(step.numerics.accumulate);
    for (const PointRounding& point : step.numerics.points) take(point.type);
  }
  return narrowest;
}

// What a constant input of a step holds, in the engine.
std::optional<EvalTensor> constant_input(const plan::Plan& plan, const backend::Backend& backend,
                                         const plan::Step& step, size_t input) {
  for (const plan::PackedInput& packed : step.packed) {
    if (static_cast<size_t>(packed.input) == input) return unpacked(plan, backend, step, packed);
  }
  if (input >= step.inputs.size() || step.inputs[input] == plan::kNone) return std::nullopt;
  const plan::PlanValue& v = plan.values[static_cast<size_t>(step.inputs[input])];
  if (v.kind != plan::PlanValue::Kind::kConstant) return std::nullopt;
  return EvalTensor::from(plan.blobs[static_cast<size_t>(v.constant)].bytes);
}

// Is `stored` what `exact` becomes when it is rounded to the type it is stored in?
bool is_rounding_of(const EvalTensor& stored, const Tensor& exact) {
  if (!stored.is_float() || !is_float(exact.dtype()) || stored.shape != exact.shape()) return false;
  for (size_t i = 0; i < stored.f.size(); ++i) {
    const double value = round_to(stored.dtype, exact.float_at(static_cast<int64_t>(i)));
    if (value != stored.f[i] && !same_non_finite(value, stored.f[i])) return false;
  }
  return true;
}

// rms(E − R) / rms(R) that is never accepted, however noisy the type is.
double cap_of(DType type) {
  constexpr double kF16Cap = 1e-2, kBf16Cap = 5e-2;
  if (type == DType::kF32) return std::numeric_limits<double>::infinity();  // tolerance.rms holds
  return type == DType::kF16 || type == DType::kTF32 ? kF16Cap : kBf16Cap;
}

}  // namespace

// Weights are stored rounded; F is the plan on the model's own. An engine constant is replaced only
// where it is exactly the rounding of what the compiler makes of the model: a wrong one stays, and
// shows.
void Sweep::read_precision() {
  narrowest_ = narrowest_of(plan_);
  const bool stores_narrow = std::ranges::any_of(
      plan_.blobs, [](const plan::Blob& blob) { return below_f32(blob.dtype); });
  if (plan_.build.policy.empty() || (narrowest_ == DType::kF32 && !stores_narrow)) return;
  const CompileOptions options = compiler::options_of(plan_);
  if (stores_narrow) {
    stage("the weights as the model has them");
    exact_constants(compiler::plan_of(model_, options, plan::PlanOptions::Constants::kExact));
  }
  precision::Policy policy = precision::load_policy(options.policy, options.policy_file);
  if (policy.rules.empty()) return;
  policy.rules.clear();
  CompileOptions usual = options;
  usual.policy = precision::save_policy(policy);
  usual_plan_ = compiler::plan_of(model_, usual);
}

void Sweep::exact_constants(const plan::Plan& twin) {
  const backend::Backend& backend = *engine_->impl().backend;
  if (twin.steps.size() != plan_.steps.size()) return;
  for (size_t s = 0; s < plan_.steps.size(); ++s) {
    const plan::Step &step = plan_.steps[s], &other = twin.steps[s];
    if (step.op != other.op || step.origins != other.origins) continue;
    for (size_t i = 0; i < other.inputs.size(); ++i) {
      if (other.inputs[i] == plan::kNone) continue;
      const plan::PlanValue& v = twin.values[static_cast<size_t>(other.inputs[i])];
      if (v.kind != plan::PlanValue::Kind::kConstant) continue;
      const Tensor& exact = twin.blobs[static_cast<size_t>(v.constant)].bytes;
      const auto stored = constant_input(plan_, backend, step, i);
      if (!stored || !below_f32(stored->dtype) || !is_rounding_of(*stored, exact)) continue;
      exact_.push_back({s, i, exact});
    }
  }
}

void Sweep::set_exact_constants(PlanEvaluator& f) const {
  for (const ExactConstant& constant : exact_)
    f.set_exact_constant(constant.step, constant.input, constant.contents);
}

// I0 on the path of F's decisions: noise is what roundings do, not what another path would.
void Sweep::run_on_decisions_of_f(const plan::Plan& plan, const std::vector<Tensor>& inputs,
                                  PlanEvaluator& ideal) const {
  if (!decides(plan)) return ideal.run(inputs, [](size_t, size_t, const EvalTensor&) {});
  PlanEvaluator exact(plan, *engine_->impl().backend, watched());
  if (&plan == &plan_) set_exact_constants(exact);
  exact.begin(inputs);
  ideal.begin(inputs);
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    exact.evaluate_step(s);
    ideal.evaluate_step(s);
    follow_decisions(plan, s, exact, ideal);
    exact.release_after(s);
    ideal.release_after(s);
  }
}

// I0 − R on one set of inputs: I0 is the ideal evaluation of the mode's usual policy, so that a
// policy of the user's is not measured by itself.
void Sweep::add_noise(const std::vector<Tensor>& inputs, const NamedValues& reference,
                      uint64_t seed) {
  const plan::Plan& plan = usual_plan_ ? *usual_plan_ : plan_;
  PlanEvaluator ideal(plan, *engine_->impl().backend,
                      watched({.evaluation = Evaluation::kIdeal, .seed = seed}));
  run_on_decisions_of_f(plan, inputs, ideal);
  for (size_t i = 0; i < plan.outputs.size(); ++i) {
    const auto it = reference.find(plan.output_names[i]);
    if (it == reference.end() || !it->second.is_float()) continue;
    const EvalTensor value = ideal.value(static_cast<size_t>(plan.outputs[i]));
    if (value.shape != it->second.shape) continue;
    add_to_noise(it->first, distance(value, it->second));
  }
}

void Sweep::add_to_noise(const std::string& name, const Distance& d) {
  const auto finite = static_cast<double>(d.elems - d.wrong_non_finite);
  Pool& pool = pools_[name];
  pool.noise += d.rms * d.rms * finite;
  pool.noise_elems += d.elems - d.wrong_non_finite;
  pool.noise_max = std::max(pool.noise_max, d.max_abs);
}

// The noise of the very rows that are judged, drawn several times: rows differ in scale by orders
// of magnitude (a reranker's saturated scores against its doubtful ones), and f32's noise below
// makes the roundings of each draw fall differently.
void Sweep::add_noise_rows(Group& group) {
  constexpr int64_t kEnoughValues = 256, kLeastDraws = 2, kMostDraws = 12, kMostTokens = 1500;
  if (narrowest_ == DType::kF32 || !axes_.known()) return;
  const std::vector<int64_t> rows = first_rows(static_cast<int64_t>(group.rows.size()));
  const NamedTensors inputs = batch_of(group, rows);
  const NamedValues reference = reference_for(group, rows, inputs);
  int64_t fewest = kEnoughValues;
  for (const auto& [name, value] : reference) {
    if (value.is_float()) fewest = std::min(fewest, std::max<int64_t>(1, value.elems()));
  }
  const auto groups = static_cast<int64_t>(groups_.size());
  const int64_t tokens = static_cast<int64_t>(rows.size()) * std::max<int64_t>(1, group.length);
  const int64_t affordable = std::max(kLeastDraws, kMostTokens / std::max<int64_t>(1, tokens));
  const int64_t draws =
      std::clamp(kEnoughValues / (fewest * groups), kLeastDraws, std::min(kMostDraws, affordable));
  std::vector<Tensor> ordered;
  for (const std::string& name : plan_.input_names) ordered.push_back(*find(inputs, name));
  for (int64_t draw = 1; draw <= draws; ++draw)
    add_noise(ordered, reference, static_cast<uint64_t>(draw));
}

// The largest error of one element that the engine's types explain.
double Sweep::noise_limit(const std::string& name) const {
  constexpr double kDeviations = 6;  // the largest of 10^6 normal values is below 5
  constexpr double kLargest = 4;     // rows and channels differ in scale: of the largest one seen
  const auto it = pools_.find(name);
  if (it == pools_.end() || it->second.noise_elems == 0) return 0;
  const Pool& pool = it->second;
  const double rms = std::sqrt(pool.noise / static_cast<double>(pool.noise_elems));
  if (narrowest_ == DType::kF32) return kDeviations * rms;
  return std::max(kDeviations * rms, kLargest * pool.noise_max);
}

// Is the error over all cells too large? Empty if not.
std::string Sweep::pooled_complaint(const Pool& pool, double noise_rms) const {
  constexpr double kNoises = 3;  // design "Verify": limit 3·rms(I0 − R)
  const double error = std::sqrt(pool.error / static_cast<double>(pool.elems));
  const double scale = std::sqrt(pool.reference / static_cast<double>(pool.elems));
  const Tolerance& tolerance = request_.tolerance;
  double limit = tolerance.rms * scale;
  // The rms of few values strays farther from its expectation than that of many.
  if (tolerance.above_noise)
    limit =
        std::max(limit, kNoises * noise_rms * (1 + 1 / std::sqrt(static_cast<double>(pool.elems))));
  if (tolerance.above_noise && error > cap_of(narrowest_) * scale) {
    return fmt::format(
        "rms error {:.3g} is {:.2g} of the answer's rms, more than {} may ever be "
        "off: {:g}",
        error, error / scale, vernier::name(narrowest_), cap_of(narrowest_));
  }
  if (error <= limit) return "";
  return fmt::format(
      "rms error {:.3g} over all cells, limit {:.3g}{}", error, limit,
      tolerance.above_noise && narrowest_ != DType::kF32
          ? fmt::format(" (three times what {} is expected to do here)", vernier::name(narrowest_))
          : "");
}

}  // namespace vernier::verify
