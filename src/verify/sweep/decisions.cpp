// Decisions: see decisions.h. Where FP64's own decision is a tie within what the engine's types
// explain, the engine's is taken, so that what follows is judged on the same path.
#include "verify/sweep/decisions.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <random>

#include "core/decisions.h"
#include "verify/metrics.h"
#include "verify/replay.h"
#include "verify/sweep/noise.h"
#include "verify/sweep/reference.h"
#include "verify/tolerance.h"

namespace vernier::verify {

namespace {

constexpr uint64_t kTrials = 4;     // ideal evaluations, which also show how far operands are off
constexpr int kPerturbations = 24;  // of a deciding step's operands, by up to
constexpr double kReach = 3;        // times that

// The outputs of a step that are decisions.
std::vector<size_t> decisions_of(const plan::Plan& plan, const plan::Step& step) {
  const auto type_of = [&](int32_t index) { return plan.value(index).dtype; };
  std::vector<DType> in;
  for (int32_t index : step.inputs) {
    if (index != plan::kNone) in.push_back(type_of(index));
  }
  std::vector<size_t> outputs;
  for (size_t o = 0; o < step.outputs.size(); ++o) {
    const int32_t index = step.outputs[o];
    if (index != plan::kNone && is_decision(step.op, in, type_of(index))) outputs.push_back(o);
  }
  return outputs;
}

// The outputs that a step makes.
std::vector<size_t> made_by(const plan::Step& step) {
  std::vector<size_t> outputs;
  for (size_t o = 0; o < step.outputs.size(); ++o)
    if (step.has_output(o)) outputs.push_back(o);
  return outputs;
}

// Does one of `draws` decide element `i` otherwise than `exact`? `values`: of a tensor, its floats
// or its integers.
template <class Values>
bool is_tie(const EvalTensor& exact, const std::vector<EvalTensor>& draws, const Values& values,
            size_t i) {
  return std::ranges::any_of(draws, [&](const EvalTensor& draw) {
    return draw.shape != exact.shape || values(draw)[i] != values(exact)[i];
  });
}

// Takes the decisions of `other` where one of `noisy` decides otherwise than `exact`, too. Returns
// how many.
int64_t take_ties(EvalTensor& exact, const EvalTensor& other,
                  const std::vector<EvalTensor>& noisy) {
  if (other.shape != exact.shape) return 0;
  int64_t ties = 0;
  const auto merge = [&](const auto& values) {
    for (size_t i = 0; i < values(exact).size(); ++i) {
      if (values(other)[i] == values(exact)[i] || !is_tie(exact, noisy, values, i)) continue;
      values(exact)[i] = values(other)[i];
      ++ties;
    }
  };
  if (exact.is_float())
    merge([](auto& t) -> auto& { return t.f; });
  else
    merge([](auto& t) -> auto& { return t.i; });
  return ties;
}

// The same of a value of `f`.
int64_t take_ties(int32_t index, const EvalTensor& other, const std::vector<EvalTensor>& noisy,
                  PlanEvaluator& f) {
  EvalTensor decided = f.value(index);
  const int64_t ties = take_ties(decided, other, noisy);
  f.set_value(static_cast<size_t>(index), std::move(decided));
  return ties;
}

// An operand, each element of which moves by up to three times its own spread.
class Operand {
 public:
  Operand(EvalTensor exact, std::vector<double> spread)
      : exact_(std::move(exact)), spread_(std::move(spread)) {}
  const EvalTensor& exact() const { return exact_; }
  EvalTensor draw(std::mt19937_64& random) const {
    std::uniform_real_distribution<double> share(-kReach, kReach);
    EvalTensor moved = exact_;
    for (size_t i = 0; i < moved.f.size(); ++i) moved.f[i] += share(random) * spread_[i];
    return moved;
  }

 private:
  EvalTensor exact_;
  std::vector<double> spread_;
};

// About as far as the trials find the operand off: at least as far, relatively, as the other
// elements are on average, since four trials may all come near.
Operand moved_as_trials(EvalTensor exact, const std::vector<EvalTensor>& trials) {
  std::vector<double> spread(exact.f.size());
  double squares = 0, noise = 0;
  for (size_t i = 0; i < spread.size(); ++i) {
    squares += exact.f[i] * exact.f[i];
    for (const EvalTensor& trial : trials) {
      const double d = std::abs(trial.f[i] - exact.f[i]);
      noise += d * d;
      spread[i] = std::max(spread[i], d);
    }
  }
  const double relative =
      squares > 0 ? std::sqrt(noise / static_cast<double>(trials.size()) / squares) : 0;
  for (size_t i = 0; i < spread.size(); ++i)
    spread[i] = std::max(spread[i], relative * std::abs(exact.f[i]));
  return {std::move(exact), std::move(spread)};
}

// By a part of its rms.
Operand moved_by(EvalTensor exact, double part) {
  double squares = 0;
  for (const double x : exact.f) squares += std::isfinite(x) ? x * x : 0;
  const double rms = std::sqrt(squares / static_cast<double>(std::max<size_t>(exact.f.size(), 1)));
  std::vector<double> spread(exact.f.size(), part * rms);
  return {std::move(exact), std::move(spread)};
}

using Operands = std::map<size_t, Operand>;  // by value

// The float operands of a step that are no constants, as `make` has them moved.
template <class Make>
Operands operands_of(const plan::Plan& plan, size_t s, const PlanEvaluator& exact,
                     const Make& make) {
  Operands operands;
  for (int32_t input : plan.steps[s].inputs) {
    if (input == plan::kNone) continue;
    const auto index = static_cast<size_t>(input);
    EvalTensor value = exact.value(index);
    if (!value.is_float() || plan.values[index].kind == plan::PlanValue::Kind::kConstant) continue;
    operands.try_emplace(index, make(index, std::move(value)));
  }
  return operands;
}

// Does a draw decide each element otherwise than `own` where `other` does?
bool shows_all_ties(const EvalTensor& own, const EvalTensor& other,
                    const std::vector<EvalTensor>& draws) {
  const auto all = [&](const auto& values) {
    for (size_t i = 0; i < values(own).size(); ++i) {
      if (values(own)[i] != values(other)[i] && !is_tie(own, draws, values, i)) return false;
    }
    return true;
  };
  if (own.is_float()) return all([](const EvalTensor& t) -> const auto& { return t.f; });
  return all([](const EvalTensor& t) -> const auto& { return t.i; });
}

using Draws = std::vector<std::vector<EvalTensor>>;  // of each output that is looked at

// Adds to `decided` what the step decides when its operands are moved, for each of `outputs`.
// `others`: other decisions about them, of the same shapes; it ends when all of their ties are
// shown. Empty: all draws. `exact` is left as it was.
void decide_nearby(const plan::Plan& plan, size_t s, const std::vector<size_t>& outputs,
                   const std::vector<EvalTensor>& others, const Operands& operands,
                   PlanEvaluator& exact, Draws& decided) {
  std::vector<EvalTensor> own;
  for (const size_t o : outputs)
    own.push_back(exact.value(static_cast<size_t>(plan.steps[s].outputs[o])));
  const auto shown = [&] {
    for (size_t o = 0; o < others.size(); ++o)
      if (!shows_all_ties(own[o], others[o], decided[o])) return false;
    return !others.empty();
  };
  const plan::Step& step = plan.steps[s];
  std::mt19937_64 random(s);
  for (int trial = 0; trial < kPerturbations && !operands.empty() && !shown(); ++trial) {
    for (const auto& [index, operand] : operands) exact.set_value(index, operand.draw(random));
    exact.evaluate_step(s);
    for (size_t o = 0; o < outputs.size(); ++o)
      decided[o].push_back(exact.value(static_cast<size_t>(step.outputs[outputs[o]])));
  }
  for (const auto& [index, operand] : operands) exact.set_value(index, operand.exact());
  exact.evaluate_step(s);
}

}  // namespace

bool decides(const plan::Plan& plan) {
  return std::ranges::any_of(
      plan.steps, [&](const plan::Step& step) { return !decisions_of(plan, step).empty(); });
}

int64_t take_ties_of_model(const plan::Plan& plan, size_t step, double limit,
                           const ModelValue& wanted, PlanEvaluator& f) {
  constexpr double kGranted = 6;  // docs/verification.md "Limits"
  std::vector<size_t> outputs;
  std::vector<EvalTensor> models;
  for (const size_t o : decisions_of(plan, plan.steps[step])) {
    const auto index = static_cast<size_t>(plan.steps[step].outputs[o]);
    const EvalTensor own = f.value(index);
    const EvalTensor* model = wanted(index, own);
    if (!model || model->shape != own.shape || model->is_float() != own.is_float() ||
        (model->i == own.i && model->f == own.f))
      continue;
    outputs.push_back(o);
    models.push_back(*model);
  }
  if (outputs.empty() || plan.begins_segment(static_cast<int32_t>(step))) return 0;
  const Operands operands = operands_of(plan, step, f, [&](size_t, EvalTensor value) {
    return moved_by(std::move(value), limit * kGranted / kReach);
  });
  Draws nearby(outputs.size());
  decide_nearby(plan, step, outputs, models, operands, f, nearby);
  int64_t ties = 0;
  for (size_t at = 0; at < outputs.size(); ++at)
    ties += take_ties(plan.steps[step].outputs[outputs[at]], models[at], nearby[at], f);
  return ties;
}

void follow_decisions(const plan::Plan& plan, size_t step, const PlanEvaluator& leader,
                      PlanEvaluator& follower) {
  if (plan.begins_segment(static_cast<int32_t>(step))) {
    for (int32_t out : plan.steps[step].outputs) {
      if (out != plan::kNone)
        follower.set_value(static_cast<size_t>(out), leader.value(static_cast<size_t>(out)));
    }
    return;
  }
  for (size_t o : decisions_of(plan, plan.steps[step])) {
    const auto index = static_cast<size_t>(plan.steps[step].outputs[o]);
    follower.set_value(index, leader.value(index));
  }
}

namespace {

// Takes all that the engine found at a step, if its sizes are not those of `exact` and a trial's
// are not either: how many there are is a tie then.
bool take_found(const plan::Plan& plan, size_t s, const std::vector<Tensor>& engine,
                const std::vector<std::vector<EvalTensor>>& trials, PlanEvaluator& exact) {
  const plan::Step& step = plan.steps[s];
  const auto made = [&](size_t o) { return exact.value(static_cast<size_t>(step.outputs[o])); };
  bool differs = false, is_tie = false;
  for (size_t o = 0, at = 0; o < step.outputs.size(); ++o) {
    if (!step.has_output(o)) continue;
    const Shape shape = made(o).shape;
    differs = differs || (engine[o].defined() && engine[o].shape() != shape);
    is_tie = is_tie || std::ranges::any_of(trials[at++], [&](const EvalTensor& other) {
               return other.shape != shape;
             });
  }
  if (!differs || !is_tie) return false;
  for (size_t o = 0; o < step.outputs.size(); ++o) {
    if (step.has_output(o))
      exact.set_value(static_cast<size_t>(step.outputs[o]), EvalTensor::from(engine[o]));
  }
  return true;
}

// Does the engine decide otherwise than F, of the same sizes?
bool differs(const Tensor& engine, const EvalTensor& exact) {
  if (!engine.defined() || engine.shape() != exact.shape) return false;
  const EvalTensor other = EvalTensor::from(engine);
  return other.i != exact.i || other.f != exact.f;
}

// Step `s` of F, just evaluated beside `noisy`, takes the engine's decisions that are ties. Returns
// how many.
int64_t take_ties_of_engine(const plan::Plan& plan, size_t s, const std::vector<Tensor>& engine,
                            const std::vector<PlanEvaluator>& noisy, PlanEvaluator& exact) {
  const plan::Step& step = plan.steps[s];
  const auto index_of = [&](size_t o) { return static_cast<size_t>(step.outputs[o]); };
  const std::vector<size_t> decisions = decisions_of(plan, step);
  const auto other = [&](size_t o) { return differs(engine[o], exact.value(index_of(o))); };
  // What a step finds is judged as a whole first.
  const bool finds = plan.begins_segment(static_cast<int32_t>(s));
  std::vector<size_t> tried = finds ? made_by(step) : decisions;
  if (!finds) std::erase_if(tried, [&](size_t o) { return !other(o); });
  if (tried.empty()) return 0;
  const Operands operands = operands_of(plan, s, exact, [&](size_t index, EvalTensor value) {
    std::vector<EvalTensor> trials;
    for (const PlanEvaluator& one : noisy) trials.push_back(one.value(index));
    return moved_as_trials(std::move(value), trials);
  });
  std::vector<EvalTensor> others;
  for (const size_t o : tried)
    if (!finds) others.push_back(EvalTensor::from(engine[o]));
  Draws nearby(tried.size());
  for (size_t at = 0; at < tried.size(); ++at)
    for (const PlanEvaluator& one : noisy) nearby[at].push_back(one.value(index_of(tried[at])));
  decide_nearby(plan, s, tried, others, operands, exact, nearby);
  if (finds && take_found(plan, s, engine, nearby, exact)) return 1;
  int64_t ties = 0;
  for (size_t at = 0; at < tried.size(); ++at) {
    const size_t o = tried[at];
    if (std::ranges::find(decisions, o) == decisions.end()) continue;
    ties += take_ties(step.outputs[o], EvalTensor::from(engine[o]), nearby[at], exact);
  }
  return ties;
}

// F on the path of the engine's decisions, as far as they are ties: R's values for it.
NamedValues reference_on_ties(Context& context, const NamedTensors& inputs, NamedValues reference) {
  const plan::Plan& plan = context.subject.plan;
  Recorder run;
  context.runs.several.run(inputs, run);
  const std::vector<Tensor> ordered = in_plan_order(context, inputs);
  PlanEvaluator exact = f_of(context);
  exact.begin(ordered);
  std::vector<PlanEvaluator> noisy;
  for (uint64_t seed = 1; seed <= kTrials; ++seed) {
    noisy.emplace_back(plan, context.subject.backend,
                       watched(context, {.evaluation = Evaluation::kIdeal, .seed = seed}));
    noisy.back().begin(ordered);
  }
  int64_t ties = 0;
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    exact.evaluate_step(s);
    for (PlanEvaluator& one : noisy) one.evaluate_step(s);
    ties += take_ties_of_engine(plan, s, run.steps().at(static_cast<int32_t>(s)), noisy, exact);
    for (PlanEvaluator& one : noisy) follow_decisions(plan, s, exact, one);
    exact.release_after(s);
    for (PlanEvaluator& one : noisy) one.release_after(s);
  }
  context.ties += ties;
  if (ties == 0 && context.ties_of_rewrites == 0) return reference;
  for (size_t i = 0; i < plan.outputs.size(); ++i) {
    const auto it = reference.find(plan.output_names[i]);
    EvalTensor value = exact.value(static_cast<size_t>(plan.outputs[i]));
    const bool fits = it != reference.end() && it->second.dtype == value.dtype &&
                      (it->second.shape == value.shape || !plan.data_sizes.empty());
    if (fits) it->second = std::move(value);
  }
  return reference;
}

bool answers_agree(const Context& context, const NamedValues& reference,
                   const NamedTensors& answers) {
  return std::ranges::all_of(reference, [&](const auto& pair) {
    const auto& [name, want] = pair;
    const Tensor* got = find(answers, name);
    if (!got || got->dtype() != want.dtype) return true;
    // Where data say sizes, another size is another decision.
    if (got->shape() != want.shape) return context.subject.plan.data_sizes.empty();
    const Distance d = distance(EvalTensor::from(*got), want, context.inputs.axes.of(name));
    return complaint(d, context.subject.request.tolerance, noise_limit(context, name)).empty();
  });
}

// The rows of a batch whose answers are outside the limits; nullopt: rows cannot be taken apart.
std::optional<std::vector<int64_t>> rows_to_follow(const Context& context,
                                                   const NamedValues& reference,
                                                   const NamedTensors& answers) {
  const BatchAxes& axes = context.inputs.axes;
  if (!axes.known() || axes.fixed_rows > 1 || !runs_alone(context) ||
      !context.inputs.mixed.empty() || !context.subject.plan.data_sizes.empty())
    return std::nullopt;
  int64_t count = 0;
  for (const auto& [name, value] : reference) {
    const int axis = axes.of(name);
    const Tensor* got = find(answers, name);
    if (axis == kNoAxis || !got || got->shape() != value.shape) return std::nullopt;
    count = value.shape[static_cast<size_t>(axis)];
  }
  std::vector<int64_t> rows;
  for (int64_t row = 0; row < count; ++row) {
    if (!answers_agree(context, take_row(reference, axes, row), take_row(answers, axes, row)))
      rows.push_back(row);
  }
  return rows;
}

}  // namespace

NamedValues reference_beside(Context& context, NamedValues reference, const NamedTensors& inputs,
                             const NamedTensors& answers) {
  if (!decides(context.subject.plan) || answers_agree(context, reference, answers))
    return reference;
  const auto rows = rows_to_follow(context, reference, answers);
  if (!rows || rows->empty()) return reference_on_ties(context, inputs, std::move(reference));
  // Only these rows, as a batch of their own: a check of its own sees that they keep their bits.
  const BatchAxes& axes = context.inputs.axes;
  std::vector<NamedTensors> inputs_of_rows;
  std::vector<NamedValues> of_rows, all;
  for (const int64_t row : *rows) {
    inputs_of_rows.push_back(take_row(inputs, axes, row));
    of_rows.push_back(take_row(reference, axes, row));
  }
  const NamedValues followed =
      reference_on_ties(context, join_rows(inputs_of_rows, axes), join_rows(of_rows, axes));
  const auto& [name, value] = *reference.begin();
  const int64_t count = value.shape[static_cast<size_t>(axes.of(name))];
  for (int64_t row = 0, next = 0; row < count; ++row) {
    const bool is_followed = next < std::ssize(*rows) && (*rows)[next] == row;
    all.push_back(is_followed ? take_row(followed, axes, next++) : take_row(reference, axes, row));
  }
  return join_rows(all, axes);
}

}  // namespace vernier::verify
