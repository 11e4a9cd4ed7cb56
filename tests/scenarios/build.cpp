// Runs of field cases: see build.h.
#include "scenarios/build.h"

#include <algorithm>
#include <cmath>

#include "core/random.h"
#include "evaluate/plan_evaluator.h"
#include "ops/evaluate.h"
#include "runtime/engine_impl.h"
#include "vernier/session.h"

namespace vernier::verify::field {
namespace {

void add(const EvalTensor& got, const EvalTensor& want, double& squares) {
  for (size_t i = 0; i < want.f.size(); ++i) {
    const double off = got.f[i] - want.f[i];
    if (std::isfinite(want.f[i])) squares += off * off;
  }
}

}  // namespace

Errors errors_of(const ir::Graph& model, const plan::Plan& plan,
                 const std::map<std::string, Tensor>& inputs) {
  const auto engine = engine_of(plan);
  const ops::Evaluation r = ops::evaluate(model, inputs);
  std::vector<Input> arrays;
  std::vector<Tensor> ordered;
  for (const std::string& name : plan.input_names) {
    const Tensor& t = inputs.at(name);
    arrays.push_back({name, t.dtype(), t.shape(), t.data()});
    ordered.push_back(t);
  }
  Session session(engine, {.threads = 2});
  Errors errors;
  for (const Output& output : session.run(arrays)) {
    errors.answers[std::string(output.name)] = EvalTensor::from(
        Tensor::from_bytes(output.dtype, {output.shape.begin(), output.shape.end()},
                           {static_cast<const std::byte*>(output.data), output.bytes}));
  }
  const plan::Plan& kept = engine->impl().plan;
  // The largest of some draws: a softmax of large logits may be off in a single row that is near a
  // tie, and one draw need not be off there.
  constexpr uint64_t kDraws = 6;
  for (uint64_t seed = 1; seed <= kDraws; ++seed) {
    PlanEvaluator ideal(kept, *engine->impl().backend,
                        {.evaluation = Evaluation::kIdeal, .seed = seed, .peaks = {}});
    ideal.run(ordered, [](size_t, size_t, const EvalTensor&) {});
    double squares = 0;
    for (size_t i = 0; i < kept.outputs.size(); ++i) {
      const auto want = r.outputs.find(kept.output_names[i]);
      if (want == r.outputs.end()) continue;
      add(ideal.value(static_cast<size_t>(kept.outputs[i])), want->second, squares);
    }
    errors.ideal = std::max(errors.ideal, squares);
  }
  size_t count = 0;
  for (size_t i = 0; i < kept.outputs.size(); ++i) {
    const auto want = r.outputs.find(kept.output_names[i]);
    if (want == r.outputs.end()) continue;
    const EvalTensor& got = errors.answers.at(kept.output_names[i]);
    add(got, want->second, errors.engine);
    for (size_t e = 0; e < want->second.f.size(); ++e) {
      const double value = want->second.f[e];
      if (std::isfinite(value)) {
        errors.reference += value * value;
        ++count;
      }
      errors.finite_where_r_is &= !std::isfinite(value) || std::isfinite(got.f[e]);
      errors.nan_where_r_is &= !std::isnan(value) || std::isnan(got.f[e]);
    }
  }
  const double n = std::max<double>(1, static_cast<double>(count));
  errors.engine = std::sqrt(errors.engine / n);
  errors.ideal = std::sqrt(errors.ideal / n);
  errors.reference = std::sqrt(errors.reference / n);
  return errors;
}

Tensor normal_values(Shape shape, uint64_t seed, double scale, double mean) {
  SplitMix random(seed);
  std::vector<double> values(static_cast<size_t>(num_elems(shape)));
  for (double& v : values) v = mean + scale * random.normal();
  return Tensor::from(DType::kF32, std::move(shape), std::span<const double>(values));
}

}  // namespace vernier::verify::field
