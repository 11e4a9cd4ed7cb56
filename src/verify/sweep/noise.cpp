// Noise: see noise.h.
#include "verify/sweep/noise.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "compile/pipeline.h"
#include "precision/policy_file.h"
#include "verify/sweep/constants.h"
#include "verify/sweep/decisions.h"
#include "verify/sweep/model_and_plan.h"

namespace vernier::verify {

namespace {

// One unit of a type's numbers as a part of its largest (of 8 and 4 bits), or of a number (a
// float).
double unit_of(DType type) {
  if (type == DType::kQ8) return 1.0 / 127;
  if (type == DType::kQ4) return 1.0 / 7;
  return ulp(type, 1);
}

// The type of fewest significant bits that a step holds results or operands in.
DType narrowest_of(const plan::Plan& plan) {
  DType narrowest = DType::kF32;
  const auto take = [&](DType type) {
    if (below_f32(type) && unit_of(type) > unit_of(narrowest)) narrowest = type;
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

// rms(E − R) / rms(R) that is never accepted, however noisy the type is.
double cap_of(DType type) {
  constexpr double kF16Cap = 1e-2, kBf16Cap = 5e-2, kF8Cap = 0.1, kQ4Cap = 0.15;
  if (type == DType::kQ4) return kQ4Cap;
  if (type == DType::kF8E4M3) return kF8Cap;
  if (type == DType::kF32) return std::numeric_limits<double>::infinity();  // tolerance.rms holds
  return type == DType::kF16 || type == DType::kTF32 ? kF16Cap : kBf16Cap;
}

// A right rewrite differs by the order of its sums only, since R and F are both FP64. A model in 16
// bits writes GELU's √2 as 1.4141, and raising takes it for √2: where single numbers are in 16
// bits, the limit is a quarter of what rounding to them once does.
double rewrite_limit_of(const ir::Graph& model) {
  constexpr double kRewriteLimit = 1e-6;
  double limit = kRewriteLimit;
  for (size_t i = 0; i < model.num_values(); ++i) {
    const ir::Value& v = model.value(static_cast<ir::ValueId>(i));
    const bool number = v.is_constant() && v.constant.elems() == 1;
    if (!number || (v.dtype != DType::kF16 && v.dtype != DType::kBF16)) continue;
    limit = std::max(limit, ulp(v.dtype, 1) / 8);
  }
  return limit;
}

// I0 on the path of F0's decisions: noise is what roundings do, not what another path would.
void run_on_decisions_of_f(const Context& context, const std::vector<Tensor>& inputs,
                           PlanEvaluator& ideal) {
  const plan::Plan& plan = noise_plan(context);
  if (!decides(plan)) return ideal.run(inputs);
  PlanEvaluator exact = noise_f_of(context);
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

// F0's outputs on the first `count` rows of a group, whose batch is `inputs`: the engine's F has
// been evaluated on each row (model_and_plan.h).
NamedValues exact_of(const Context& context, const Group& group, int64_t count,
                     const NamedTensors& inputs) {
  const auto rows = static_cast<size_t>(count);
  if (!context.precision.usual_plan && rows <= group.exact.size()) {
    std::vector<const NamedValues*> parts;
    for (size_t row = 0; row < rows; ++row) parts.push_back(&group.exact[row]);
    return join_rows(parts, context.inputs.axes);
  }
  PlanEvaluator exact = noise_f_of(context);
  exact.run(in_plan_order(context, inputs));
  return answers_of(context, noise_plan(context), exact);
}

}  // namespace

void read_precision(Context& context) {
  const plan::Plan& plan = context.subject.plan;
  Precision& precision = context.precision;
  precision.rewrite_limit = rewrite_limit_of(context.subject.model);
  precision.narrowest = narrowest_of(plan);
  const bool stores_narrow =
      std::ranges::any_of(plan.blobs, [](const plan::Blob& blob) { return below_f32(blob.dtype); });
  if (plan.build.policy.empty() || (precision.narrowest == DType::kF32 && !stores_narrow)) return;
  const CompileOptions options = compiler::options_of(plan);
  const ir::Graph& model = context.subject.model;
  vernier::precision::Policy policy =
      vernier::precision::load_policy(options.policy, options.policy_file);
  if (policy.rules.empty()) return;
  policy.rules.clear();
  CompileOptions usual = options;
  usual.policy = vernier::precision::save_policy(policy);
  precision.usual_plan = compiler::plan_of(model, usual);
  precision.usual_exact = exact_constants(context, *precision.usual_plan);
}

NoiseDraw draw_noise(const Context& context, const NoisyRows& rows, uint64_t seed) {
  const plan::Plan& plan = noise_plan(context);
  PlanEvaluator ideal(plan, context.subject.backend,
                      watched(context, {.evaluation = Evaluation::kIdeal, .seed = seed}));
  run_on_decisions_of_f(context, in_plan_order(context, rows.inputs), ideal);
  NoiseDraw draw;
  for (const auto& [name, value] : answers_of(context, plan, ideal)) {
    const auto it = rows.exact.find(name);
    if (it == rows.exact.end() || !value.is_float() || value.shape != it->second.shape) continue;
    draw.emplace_back(name, distance(value, it->second));
  }
  return draw;
}

void add_noise(Context& context, const NoiseDraw& draw) {
  for (const auto& [name, d] : draw) add_to_noise(context, name, d);
}

NoisyRows first_noisy_rows(const Context& context, const Group& group) {
  constexpr int64_t kFirstRows = 2;
  const BatchAxes& axes = context.inputs.axes;
  int64_t count = axes.known() ? std::min<int64_t>(kFirstRows, std::ssize(group.rows)) : 1;
  if (axes.fixed_rows > 1) count = axes.fixed_rows;
  NoisyRows noisy{.inputs = batch_of(context, group, first_rows(count)), .exact = {}, .draws = 1};
  noisy.exact = exact_of(context, group, count, noisy.inputs);
  return noisy;
}

// Drawn several times: rows differ in scale by orders of magnitude (a reranker's saturated scores
// against its doubtful ones), and f32's noise below makes the roundings of each draw fall
// differently.
NoisyRows noisy_rows(const Context& context, const Group& group) {
  constexpr int64_t kEnoughValues = 256, kLeastDraws = 2, kMostDraws = 12, kMostTokens = 1500;
  if (group.far || context.precision.narrowest == DType::kF32 || !context.inputs.axes.known())
    return {};
  const auto rows = static_cast<int64_t>(group.rows.size());
  NoisyRows noisy;
  noisy.inputs = batch_of(context, group, first_rows(rows));
  noisy.exact = exact_of(context, group, rows, noisy.inputs);
  int64_t fewest = kEnoughValues;
  for (const auto& [name, value] : noisy.exact) {
    if (value.is_float()) fewest = std::min(fewest, std::max<int64_t>(1, value.elems()));
  }
  const int64_t groups =
      std::ranges::count_if(context.inputs.groups, [](const Group& g) { return !g.far; });
  const int64_t tokens = rows * std::max<int64_t>(1, group.length);
  const int64_t affordable = std::max(kLeastDraws, kMostTokens / std::max<int64_t>(1, tokens));
  noisy.draws =
      std::clamp(kEnoughValues / (fewest * groups), kLeastDraws, std::min(kMostDraws, affordable));
  return noisy;
}

void add_to_noise(Context& context, const std::string& name, const Distance& d) {
  const auto finite = static_cast<double>(d.elems - d.wrong_non_finite);
  Pool& pool = context.precision.pools[name];
  pool.noise += d.rms * d.rms * finite;
  pool.exact += d.rms_reference * d.rms_reference * finite;
  pool.noise_elems += d.elems - d.wrong_non_finite;
  pool.noise_max = std::max(pool.noise_max, d.max_abs);
}

double noise_rms(const Pool& pool) {
  return pool.noise_elems > 0 ? std::sqrt(pool.noise / static_cast<double>(pool.noise_elems)) : 0;
}

double noise_limit(const Context& context, const std::string& name) {
  constexpr double kDeviations = 6;  // the largest of 10^6 normal values is below 5
  // Rows and channels differ in scale: of the largest one seen. In f32 it is drawn once, but what
  // sums are granted is several times what they lose.
  constexpr double kLargest = 4, kLargestF32 = 2;
  const auto it = context.precision.pools.find(name);
  if (it == context.precision.pools.end() || it->second.noise_elems == 0) return 0;
  const Pool& pool = it->second;
  // rms(F − R) may be this, and an element of it as much larger as one of the noise.
  const double rewrite = context.precision.rewrite_limit *
                         std::sqrt(pool.exact / static_cast<double>(pool.noise_elems));
  const bool is_f32 = context.precision.narrowest == DType::kF32;
  const double largest = (is_f32 ? kLargestF32 : kLargest) * pool.noise_max;
  return std::max(kDeviations * noise_rms(pool), largest) + kDeviations * rewrite;
}

namespace {

// The most that rms(E − R) may be: without a cap, and with it.
struct RmsLimits {
  double limit = 0, cap = 0;
};
RmsLimits rms_limits(const Context& context, const Pool& pool, double noise) {
  constexpr double kNoises = 3;  // docs/verification.md "Limits": three times rms(I0 − F0)
  const double scale = std::sqrt(pool.reference / static_cast<double>(pool.elems));
  const Tolerance& tolerance = context.subject.request.tolerance;
  RmsLimits limits{.limit = tolerance.rms * scale, .cap = std::numeric_limits<double>::infinity()};
  if (!tolerance.above_noise) return limits;
  // The rms of few values strays farther from its expectation than that of many.
  limits.limit = std::max(limits.limit,
                          kNoises * noise * (1 + 1 / std::sqrt(static_cast<double>(pool.elems))) +
                              context.precision.rewrite_limit * scale);
  limits.cap = cap_of(context.precision.narrowest) * scale;
  return limits;
}

}  // namespace

AppliedLimits applied_limits(const Context& context, const std::string& name, const Pool& pool) {
  const Tolerance& tolerance = context.subject.request.tolerance;
  AppliedLimits applied{.worst = tolerance.worst,
                        .element = tolerance.above_noise ? noise_limit(context, name) : 0,
                        .max = tolerance.max,
                        .cos = tolerance.cos,
                        .flips = tolerance.flips};
  if (pool.elems == 0 || pool.reference <= 0) return applied;
  const RmsLimits rms = rms_limits(context, pool, noise_rms(pool));
  applied.rms = std::min(rms.limit, rms.cap);
  return applied;
}

std::string pooled_complaint(const Context& context, const Pool& pool, double noise) {
  const double error = std::sqrt(pool.error / static_cast<double>(pool.elems));
  const double scale = std::sqrt(pool.reference / static_cast<double>(pool.elems));
  const Tolerance& tolerance = context.subject.request.tolerance;
  const DType narrowest = context.precision.narrowest;
  const RmsLimits limits = rms_limits(context, pool, noise);
  if (error > limits.cap) {
    return fmt::format(
        "rms error {:.3g} is {:.2g} of the answer's rms, more than {} may ever be "
        "off: {:g}",
        error, error / scale, vernier::name(narrowest), cap_of(narrowest));
  }
  if (error <= limits.limit) return "";
  return fmt::format(
      "rms error {:.3g} over all cells, limit {:.3g}{}", error, limits.limit,
      tolerance.above_noise && narrowest != DType::kF32
          ? fmt::format(" (three times what {} is expected to do here)", vernier::name(narrowest))
          : "");
}

std::string flips_complaint(const Tolerance& tolerance, const OutputResult& output) {
  const double share = output.rankings > 0 ? static_cast<double>(output.top1_changes) /
                                                 static_cast<double>(output.rankings)
                                           : 0;
  if (!tolerance.flips || share <= *tolerance.flips) return "";
  return fmt::format("{} of {} rankings change their first place, limit {:g}", output.top1_changes,
                     output.rankings, *tolerance.flips);
}

}  // namespace vernier::verify
