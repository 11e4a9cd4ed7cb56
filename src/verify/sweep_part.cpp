// A part of the model: between named values, on what the engine itself computed there. E's values
// at `from` go into R of the part, whose values at `to` are held against E's. See sweep.h.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "core/names.h"
#include "evaluate/plan_evaluator.h"
#include "ops/evaluate.h"
#include "runtime/engine_impl.h"
#include "verify/sweep.h"

namespace vernier::verify {

using namespace evaluate;
namespace {

// Names of the plan that a run can show: inputs, and what a step makes or a view of it.
std::vector<std::string> visible_names(const plan::Plan& plan) {
  std::vector<std::string> names = plan.input_names;
  for (const plan::PlanValue& value : plan.values) {
    using Kind = plan::PlanValue::Kind;
    if (!value.name.empty() && (value.kind == Kind::kArena || value.kind == Kind::kAlias))
      names.push_back(value.name);
  }
  return names;
}

size_t index_of(const plan::Plan& plan, const std::string& name) {
  for (size_t i = 0; i < plan.inputs.size(); ++i) {
    if (plan.input_names[i] == name) return static_cast<size_t>(plan.inputs[i]);
  }
  for (size_t i = 0; i < plan.outputs.size(); ++i) {
    if (plan.output_names[i] == name) return static_cast<size_t>(plan.outputs[i]);
  }
  for (size_t v = 0; v < plan.values.size(); ++v) {
    if (plan.values[v].name == name) return v;
  }
  return plan.values.size();
}

ir::ValueId model_value(const ir::Graph& model, const std::string& name) {
  for (size_t v = 0; v < model.num_values(); ++v) {
    if (model.value(static_cast<ir::ValueId>(v)).name == name) return static_cast<ir::ValueId>(v);
  }
  return ir::kNoValue;
}

// A value between steps may be stored in another float type than the model's.
EvalTensor in_type(EvalTensor value, DType type) {
  if (value.is_float() && is_float(type)) value.dtype = type;
  return value;
}

// The array that a run had at a plan value; empty where no step of the run made it.
std::optional<EvalTensor> value_of_run(const plan::Plan& plan, const Recorder& run,
                                       const NamedTensors& inputs, size_t index) {
  const plan::PlanValue& value = plan.values[index];
  const bool view = value.kind == plan::PlanValue::Kind::kAlias;
  const size_t base = view ? static_cast<size_t>(value.alias_of) : index;
  std::optional<EvalTensor> found;
  for (size_t i = 0; i < plan.inputs.size(); ++i) {
    if (static_cast<size_t>(plan.inputs[i]) == base)
      found = EvalTensor::from(*find(inputs, plan.input_names[i]));
  }
  for (const auto& [step, arrays] : run.steps()) {
    const std::vector<int32_t>& outputs = plan.steps[static_cast<size_t>(step)].outputs;
    for (size_t o = 0; o < outputs.size(); ++o) {
      if (outputs[o] == static_cast<int32_t>(base) && arrays[o].defined())
        found = EvalTensor::from(arrays[o]);
    }
  }
  if (!found || !view) return found;
  std::vector<Tensor> ordered;
  for (const std::string& name : plan.input_names) ordered.push_back(*find(inputs, name));
  return view_of(value, *found, bind_symbols(plan, ordered));
}

}  // namespace

void Sweep::check_part_names() const {
  const auto check = [&](const std::string& option, const std::vector<std::string>& names) {
    for (const std::string& name : names) {
      if (model_value(model_, name) == ir::kNoValue) {
        std::vector<std::string> known;
        for (size_t v = 0; v < model_.num_values(); ++v)
          known.push_back(model_.value(static_cast<ir::ValueId>(v)).name);
        throw Error(ErrorCode::kInput, option + ": the model has no value '" + name + "'" +
                                           nearest_names(name, known));
      }
      const std::vector<std::string> visible = visible_names(plan_);
      if (std::find(visible.begin(), visible.end(), name) != visible.end()) continue;
      throw Error(ErrorCode::kInput,
                  option + ": value '" + name +
                      "' is inside a fused step of this engine; build with --outputs " + name +
                      ", or take one that the engine has" + nearest_names(name, visible));
    }
  };
  check("--from", request_.from);
  check("--to", request_.to);
}

// I of the part: from the engine's own values at `from`, which are put in the place of I's. It is
// the engine's plan that is followed: the usual policy's need not have these values.
void Sweep::add_part_noise(const NamedTensors& inputs, const Recorder& run,
                           const NamedValues& reference) {
  const auto base_of = [this](size_t index) {
    const plan::PlanValue& v = plan_.values[index];
    return v.kind == plan::PlanValue::Kind::kAlias ? static_cast<size_t>(v.alias_of) : index;
  };
  std::set<size_t> given;
  for (const std::string& name : request_.from) given.insert(base_of(index_of(plan_, name)));
  std::vector<Tensor> ordered;
  for (const std::string& name : plan_.input_names) ordered.push_back(*find(inputs, name));
  PlanEvaluator ideal(plan_, *engine_->impl().backend, watched({.evaluation = Evaluation::kIdeal}));
  ideal.begin(ordered);
  for (size_t s = 0; s < plan_.steps.size(); ++s) {
    ideal.evaluate_step(s);
    const std::vector<int32_t>& outputs = plan_.steps[s].outputs;
    for (size_t o = 0; o < outputs.size(); ++o) {
      if (outputs[o] == plan::kNone) continue;
      const auto index = static_cast<size_t>(outputs[o]);
      for (const auto& [name, want] : reference) {
        const size_t at = index_of(plan_, name);
        if (base_of(at) != index || !want.is_float() || given.contains(index)) continue;
        const EvalTensor value = ideal.value(at);
        if (value.shape == want.shape) add_to_noise(name, distance(value, want));
      }
      if (given.contains(index))
        ideal.set_value(index, EvalTensor::from(run.steps().at(static_cast<int32_t>(s))[o]));
    }
    ideal.release_after(s);
  }
}

void Sweep::run_part_cell(Group& group, int64_t batch) {
  CellResult cell;
  cell.batch = batch;
  cell.length = group.length;
  cell.sizes = group.sizes_text;
  cell.label = fmt::format("batch {}{}{}", batch, group.label.empty() ? "" : ", ", group.label);
  stage(cell.label);
  const NamedTensors inputs = batch_of(group, first_rows(axes_.known() ? batch : 1));
  Recorder run;
  const NamedTensors answers = runner_.run(inputs, run);
  ops::EvaluateOptions options;
  options.watch = watch_;
  for (const std::string& name : request_.from) {
    const auto value = value_of_run(plan_, run, inputs, index_of(plan_, name));
    VERNIER_ASSERT(value.has_value(), name);
    const ir::ValueId id = model_value(model_, name);
    options.given[id] = in_type(*value, model_.value(id).dtype);
  }
  std::vector<std::string> wanted = request_.to;
  if (wanted.empty()) wanted = model_.output_names;
  for (size_t i = 0; i < wanted.size(); ++i) {
    ir::ValueId id = model_value(model_, wanted[i]);
    for (size_t o = 0; o < model_.outputs.size(); ++o) {
      if (model_.output_names[o] == wanted[i]) id = model_.outputs[o];
    }
    options.wanted.push_back(id);
  }
  const ops::Evaluation r = ops::evaluate(model_, {inputs.begin(), inputs.end()}, options);
  NamedValues reference;
  for (size_t i = 0; i < wanted.size(); ++i) reference[wanted[i]] = r.values.at(options.wanted[i]);
  add_part_noise(inputs, run, reference);
  for (const std::string& name : wanted) {
    const EvalTensor& want = reference.at(name);
    const Tensor* answer = find(answers, name);
    std::optional<Tensor> got;
    if (answer) {
      got = *answer;
    } else if (const auto value = value_of_run(plan_, run, inputs, index_of(plan_, name))) {
      got = in_type(*value, want.dtype).to_tensor();
    }
    judge_output(name, want, got ? &*got : nullptr, inputs, cell);
  }
  report_.cells.push_back(std::move(cell));
}

Report Sweep::run_part() {
  report_.tolerance = request_.tolerance;
  report_.engine_hash = engine_->content_hash();
  check_same_model();
  check_part_names();
  check(check_names::kAnswers);
  read_precision();
  read_domains();
  choose_axes();
  make_groups();
  const auto list = [](const std::vector<std::string>& names, const char* none) {
    std::string text;
    for (const std::string& name : names) text += (text.empty() ? "'" : ", '") + name + "'";
    return text.empty() ? std::string(none) : text;
  };
  report_.notes.push_back("only the part from " + list(request_.from, "the inputs") + " to " +
                          list(request_.to, "the outputs") +
                          ", on the engine's own values; rows and kernels are checked without "
                          "--from and --to");
  for (Group& group : groups_) {
    for (int64_t batch : batches_of(group)) run_part_cell(group, batch);
  }
  finish();
  return std::move(report_);
}

}  // namespace vernier::verify
