// Localise: see localise.h. E and F go through the plan side by side: the engine runs, and after
// each of its steps F takes the same one, so that only live values are held.
#include "verify/localise.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <deque>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <set>

#include "core/evaluator.h"
#include "evaluate/plan_evaluator.h"
#include "evaluate/ranges.h"
#include "reference/cut_tables.h"
#include "runtime/engine_impl.h"
#include "verify/metrics.h"
#include "verify/non_finite.h"

namespace vernier::verify {

using namespace evaluate;  // NOLINT(google-build-using-namespace): its words are ours
namespace {

using Inputs = std::vector<std::optional<EvalTensor>>;
using Tables = std::vector<PlanEvaluator::LargeTable>;

// A sum of squares and how many terms it has.
struct Power {
  double squares = 0;
  int64_t elems = 0;
  void add(const Power& other) {
    squares += other.squares;
    elems += other.elems;
  }
  double rms() const { return elems > 0 ? std::sqrt(squares / static_cast<double>(elems)) : 0; }
};

Power power_of(const EvalTensor& t) {
  Power power;
  for (int64_t i = 0; i < t.elems(); ++i) {
    const double v = t.value(i);
    if (!std::isfinite(v)) continue;
    power.squares += v * v;
    ++power.elems;
  }
  return power;
}

Power difference(const EvalTensor& a, const EvalTensor& b) {
  Power power;
  for (int64_t i = 0; i < a.elems(); ++i) {
    const double d = a.value(i) - b.value(i);
    if (!std::isfinite(d)) continue;
    power.squares += d * d;
    ++power.elems;
  }
  return power;
}

int64_t wrong_non_finite(const EvalTensor& got, const EvalTensor& want) {
  int64_t count = 0;
  for (size_t i = 0; i < got.f.size(); ++i) {
    const bool finite = std::isfinite(got.f[i]) && std::isfinite(want.f[i]);
    count += !finite && !same_non_finite(got.f[i], want.f[i]);
  }
  return count;
}

// What one output of a step owes to the step and to each of its inputs, in error power.
struct Debt {
  int32_t value = plan::kNone;
  double own = 0;
  std::map<size_t, double> from;  // by plan value
};

class Follower final : public RunObserver {
 public:
  Follower(const plan::Plan& plan, const backend::Backend& backend, PlanEvaluator& f)
      : plan_(plan), backend_(backend), f_(f), ranges_(plan), trace_(plan) {}
  void after_step(int32_t step, const backend::LaunchCall& call) override;
  Localisation finish();

 private:
  // A value that the engine computed, so that it may differ from F's.
  struct Changed {
    std::vector<size_t> slots;  // the inputs of the step that read it
    std::vector<EvalTensor> values;
    Power error, reference;
  };
  using Changes = std::map<size_t, Changed>;  // by the plan value that holds the memory
  Changes changed_inputs(const plan::Step& step, const backend::LaunchCall& call,
                         const Inputs& f_inputs) const;
  // Of a large table the slot alone.
  Changed rounded_weights(int32_t step, const backend::LaunchCall& call,
                          const Tables& tables) const;
  // What a step reads in F.
  struct Read {
    Inputs inputs;
    Tables tables;
  };
  std::vector<EvalTensor> evaluate(const plan::Step& step, const backend::LaunchCall& call,
                                   const Read& read,
                                   const std::vector<const Changed*>& changes) const;
  // One step in FP64 on F's inputs, some of them replaced by E's.
  struct Evaluations {
    std::vector<EvalTensor> on_inputs, on_own;
    std::vector<EvalTensor> on_weights;  // empty where E's are F's
    std::map<size_t, std::vector<EvalTensor>> alone;
  };
  Evaluations evaluations(const plan::Step& step, const backend::LaunchCall& call, const Read& read,
                          const Changes& changed, const Changed& weights) const;
  void follow_sizes(const plan::Step& step, const backend::LaunchCall& call);
  void judge_outputs(StepError& row, const backend::LaunchCall& call, const Evaluations& made);

  const plan::Plan& plan_;
  const backend::Backend& backend_;
  PlanEvaluator& f_;
  Localisation found_;
  Ranges ranges_;
  NonFiniteTrace trace_;
  std::vector<std::vector<Debt>> debts_;  // by step
};

// Arrays that no step made (inputs, constants, sizes) are the same in E and F.
Follower::Changes Follower::changed_inputs(const plan::Step& step, const backend::LaunchCall& call,
                                           const Inputs& f_inputs) const {
  using Kind = plan::PlanValue::Kind;
  Changes changed;
  for (size_t slot = 0; slot < step.inputs.size(); ++slot) {
    if (step.inputs[slot] == plan::kNone || !call.in[slot].data) continue;
    auto base = static_cast<size_t>(step.inputs[slot]);
    if (plan_.values[base].kind == Kind::kAlias)
      base = static_cast<size_t>(plan_.values[base].alias_of);
    if (plan_.values[base].kind != Kind::kArena) continue;
    EvalTensor value = EvalTensor::from(copy_of(call.in[slot]));
    if (value.f == f_inputs[slot]->f && value.i == f_inputs[slot]->i) continue;
    Changed& one = changed[base];
    one.error.add(difference(value, *f_inputs[slot]));
    one.reference.add(power_of(*f_inputs[slot]));
    one.slots.push_back(slot);
    one.values.push_back(std::move(value));
  }
  return changed;
}

// The constants that F has as the model holds them, as the engine holds them.
Follower::Changed Follower::rounded_weights(int32_t index, const backend::LaunchCall& call,
                                            const Tables& tables) const {
  const plan::Step& step = plan_.step(index);
  Changed weights;
  weights.slots = f_.exact_inputs(static_cast<size_t>(index));
  for (size_t slot : weights.slots) {
    if (std::ranges::find(tables, slot, &PlanEvaluator::LargeTable::table) != tables.end()) {
      weights.values.emplace_back();
      continue;
    }
    const auto packed =
        std::ranges::find(step.packed, static_cast<int32_t>(slot), &plan::PackedInput::input);
    weights.values.push_back(packed != step.packed.end()
                                 ? unpacked(plan_, backend_, step, *packed)
                                 : EvalTensor::from(copy_of(call.in[slot])));
  }
  return weights;
}

// The step in FP64 on F's inputs with some of them replaced by E's.
std::vector<EvalTensor> Follower::evaluate(const plan::Step& step, const backend::LaunchCall& call,
                                           const Read& read,
                                           const std::vector<const Changed*>& changes) const {
  std::vector<const EvalTensor*> in;
  for (const auto& t : read.inputs) in.push_back(t ? &*t : nullptr);
  std::set<size_t> of_engine;
  for (const Changed* change : changes) {
    for (size_t i = 0; i < change->slots.size(); ++i) {
      in[change->slots[i]] = &change->values[i];
      of_engine.insert(change->slots[i]);
    }
  }
  // The rows of a table are numbered by the ids of this evaluation.
  std::deque<reference::CutTable> cuts;
  for (const PlanEvaluator::LargeTable& large : read.tables) {
    const Tensor& table = of_engine.contains(large.table)
                              ? plan_.blob_of(plan_.value(step.inputs[large.table])).bytes
                              : *large.contents;
    auto cut = reference::cut_table(table, *in[large.ids]);
    VERNIER_ASSERT(cut.has_value(), step.name);  // the engine has read these rows
    cuts.push_back(std::move(*cut));
    in[large.table] = &cuts.back().table;
  }
  for (size_t i = 0; i < cuts.size(); ++i) in[read.tables[i].ids] = &cuts[i].ids;
  std::vector<EvalTensor> out;
  for (const backend::TensorArg& arg : call.out) {
    if (!arg.data)
      out.emplace_back();
    else
      out.emplace_back(arg.dtype, Shape(arg.shape.begin(), arg.shape.begin() + arg.rank));
  }
  evaluator(step.op)({step.attrs, in, out, Rounding{}});
  return out;
}

// What the step makes of E's inputs, of each of them alone, of E's weights, and of all that.
Follower::Evaluations Follower::evaluations(const plan::Step& step, const backend::LaunchCall& call,
                                            const Read& read, const Changes& changed,
                                            const Changed& weights) const {
  std::vector<const Changed*> all;
  for (const auto& [base, one] : changed) all.push_back(&one);
  Evaluations made;
  made.on_inputs = evaluate(step, call, read, all);
  for (const auto& [base, one] : changed)
    made.alone[base] = changed.size() > 1 ? evaluate(step, call, read, {&one}) : made.on_inputs;
  if (weights.slots.empty()) {
    made.on_own = made.on_inputs;
    return made;
  }
  made.on_weights = evaluate(step, call, read, {&weights});
  all.push_back(&weights);
  made.on_own = evaluate(step, call, read, all);
  return made;
}

// One output at a time: what the step does to it, what its weights do, and what its inputs bring
// in.
void Follower::judge_outputs(StepError& row, const backend::LaunchCall& call,
                             const Evaluations& made) {
  const plan::Step& step = plan_.step(row.step);
  Power reference, total, local, weights, carried;
  for (size_t o = 0; o < call.out.size(); ++o) {
    if (!call.out[o].data || step.outputs[o] == plan::kNone) continue;
    const EvalTensor e = EvalTensor::from(copy_of(call.out[o]));
    const EvalTensor f = f_.value(static_cast<size_t>(step.outputs[o]));
    if (!is_float(row.store)) row.store = e.dtype;
    const Power added = difference(e, made.on_own[o]),
                rounded = made.on_weights.empty() ? Power{} : difference(made.on_weights[o], f);
    reference.add(power_of(f));
    total.add(difference(e, f));
    local.add(added);
    weights.add(rounded);
    carried.add(difference(made.on_inputs[o], f));
    row.non_finite += wrong_non_finite(e, f);
    trace_.note(step.outputs[o], unlike(e, f));
    row.own_non_finite += wrong_non_finite(e, made.on_own[o]);
    Debt debt{.value = step.outputs[o], .own = added.squares + rounded.squares, .from = {}};
    for (const auto& [base, alone] : made.alone) debt.from[base] = difference(alone[o], f).squares;
    debts_.back().push_back(std::move(debt));
  }
  row.reference_rms = reference.rms();
  row.total_rms = total.rms();
  row.local_rms = local.rms();
  row.weights_rms = weights.rms();
  row.carried_rms = carried.rms();
}

// F goes on with the engine's arrays where it found other sizes in its data: nothing behind could
// be compared otherwise.
void Follower::follow_sizes(const plan::Step& step, const backend::LaunchCall& call) {
  const auto value_of = [&](size_t o) { return static_cast<size_t>(step.outputs[o]); };
  bool differs = false;
  for (size_t o = 0; o < step.outputs.size(); ++o) {
    if (step.has_output(o) && call.out[o].data)
      differs = differs || copy_of(call.out[o]).shape() != f_.value(value_of(o)).shape;
  }
  if (!differs) return;
  for (size_t o = 0; o < step.outputs.size(); ++o) {
    if (step.has_output(o) && call.out[o].data)
      f_.set_value(value_of(o), EvalTensor::from(copy_of(call.out[o])));
  }
}

void Follower::after_step(int32_t index, const backend::LaunchCall& call) {
  const plan::Step& step = plan_.step(index);
  PointPeaks peaks{};
  f_.evaluate_step(static_cast<size_t>(index), &peaks);
  if (plan_.begins_segment(index)) follow_sizes(step, call);
  const Read read{f_.inputs_of(static_cast<size_t>(index)),
                  f_.large_tables(static_cast<size_t>(index))};
  const Changes changed = changed_inputs(step, call, read.inputs);
  StepError row;
  row.step = index;
  row.name = step.name;
  row.kernel = step.kernel;
  debts_.emplace_back();
  judge_outputs(row, call,
                evaluations(step, call, read, changed, rounded_weights(index, call, read.tables)));
  double input_error = 0;  // relative, of the worst input
  for (const auto& [base, one] : changed) {
    if (one.reference.squares > 0)
      input_error = std::max(input_error, one.error.rms() / one.reference.rms());
  }
  if (input_error > 0 && row.reference_rms > 0)
    row.amplification = row.carried_rms / row.reference_rms / input_error;
  if (row.own_non_finite > 0) trace_.note_own(index);
  ranges_.note(static_cast<size_t>(index), peaks);
  found_.steps.push_back(std::move(row));
  f_.release_after(static_cast<size_t>(index));
}

// From the outputs back: each value's error power is divided among the step that made it and that
// step's inputs, in proportion to what each brings in alone.
Localisation Follower::finish() {
  std::vector<double> weight(plan_.values.size(), 0.0);
  for (int32_t output : plan_.outputs) {
    auto value = static_cast<size_t>(output);
    if (plan_.values[value].kind == plan::PlanValue::Kind::kAlias)
      value = static_cast<size_t>(plan_.values[value].alias_of);
    weight[value] += 1;
  }
  double sum = 0;
  for (size_t s = debts_.size(); s-- > 0;) {
    for (const Debt& debt : debts_[s]) {
      double owed = debt.own;
      for (const auto& [base, part] : debt.from) owed += part;
      const double passed_on = weight[debt.value];
      if (!(owed > 0) || passed_on == 0) continue;
      found_.steps[s].share += passed_on * (debt.own / owed);
      for (const auto& [base, part] : debt.from) weight[base] += passed_on * (part / owed);
    }
    sum += found_.steps[s].share;
  }
  for (StepError& step : found_.steps) step.share = sum > 0 ? step.share / sum : 0;
  found_.ranges = ranges_.rows();
  if (const auto began = trace_.find()) found_.first_non_finite = began->step;
  return std::move(found_);
}

}  // namespace

std::vector<size_t> Localisation::by_share(double least) const {
  std::vector<size_t> order(steps.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, std::ranges::greater{}, [&](size_t s) { return steps[s].share; });
  std::erase_if(order, [&](size_t s) { return !(steps[s].share >= least); });
  return order;
}

Localisation follow(const Engine& engine, PlanEvaluator& f, Runner& runner,
                    const NamedTensors& inputs) {
  const plan::Plan& plan = engine.impl().plan;
  runner.run(inputs);  // refuses what does not fit, naming input and range
  std::vector<Tensor> ordered;
  for (const std::string& name : plan.input_names) ordered.push_back(*find(inputs, name));
  f.begin(ordered);
  Follower follower(plan, *engine.impl().backend, f);
  runner.run(inputs, follower);
  return follower.finish();
}

}  // namespace vernier::verify
