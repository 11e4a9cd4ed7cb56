// A part of the model: between named values, on what the engine itself computed there. E's values
// at `from` go into R of the part, whose values at `to` are held against E's. See sweep.h.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "core/names.h"
#include "ops/evaluate.h"
#include "verify/replay.h"
#include "verify/sweep/constants.h"
#include "verify/sweep/inputs.h"
#include "verify/sweep/measure.h"
#include "verify/sweep/noise.h"
#include "verify/sweep/sweep.h"

namespace vernier::verify {

namespace {

// Names of the plan that a run can show: inputs, and what a step makes or a view of it, but where
// it has no padding.
std::vector<std::string> visible_names(const plan::Plan& plan) {
  std::vector<std::string> names = plan.input_names;
  for (size_t v = 0; v < plan.values.size(); ++v) {
    using Kind = plan::PlanValue::Kind;
    const plan::PlanValue& value = plan.values[v];
    const bool made = value.kind == Kind::kArena || value.kind == Kind::kAlias;
    if (!value.name.empty() && made && plan.tokens_of(static_cast<int32_t>(v)) == nullptr)
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

// All sizes of a run: those that data say, too.
std::map<std::string, int64_t> sizes_of_run(const plan::Plan& plan, const Recorder& run,
                                            const NamedTensors& inputs) {
  std::vector<Tensor> ordered;
  for (const std::string& name : plan.input_names) ordered.push_back(*find(inputs, name));
  std::map<std::string, int64_t> sizes = bind_symbols(plan, ordered);
  for (const plan::DataSize& data : plan.data_sizes) {
    const auto made = run.steps().find(data.step);
    if (made == run.steps().end()) continue;
    const Tensor& output = made->second[static_cast<size_t>(data.output)];
    if (output.defined()) sizes[data.name] = output.shape()[static_cast<size_t>(data.axis)] + 1;
  }
  return sizes;
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
    const std::vector<int32_t>& outputs = plan.step(step).outputs;
    for (size_t o = 0; o < outputs.size(); ++o) {
      if (outputs[o] == static_cast<int32_t>(base) && arrays[o].defined())
        found = EvalTensor::from(arrays[o]);
    }
  }
  if (!found || !view) return found;
  return view_of(value, *found, sizes_of_run(plan, run, inputs));
}

void check_part_names(const Subject& subject) {
  const plan::Plan& plan = subject.plan;
  const ir::Graph& model = subject.model;
  const auto check = [&](const std::string& option, const std::vector<std::string>& names) {
    for (const std::string& name : names) {
      if (model_value(model, name) == ir::kNoValue) {
        std::vector<std::string> known;
        for (size_t v = 0; v < model.num_values(); ++v)
          known.push_back(model.value(static_cast<ir::ValueId>(v)).name);
        throw Error(ErrorCode::kInput, option + ": the model has no value '" + name + "'" +
                                           nearest_names(name, known));
      }
      const std::vector<std::string> visible = visible_names(plan);
      if (std::find(visible.begin(), visible.end(), name) != visible.end()) continue;
      throw Error(ErrorCode::kInput,
                  option + ": value '" + name +
                      "' is inside a fused step of this engine, or without its padding; build "
                      "with --outputs " +
                      name + ", or take one that the engine has" + nearest_names(name, visible));
    }
  };
  check("--from", subject.request.from);
  check("--to", subject.request.to);
}

// I − F of the part: from the engine's own values at `from`, which are put in the place of both's.
// It is the engine's plan that is followed: the usual policy's need not have these values.
void add_part_noise(Context& context, const NamedTensors& inputs, const Recorder& run,
                    const NamedValues& reference) {
  const plan::Plan& plan = context.subject.plan;
  const auto base_of = [&](size_t index) {
    const plan::PlanValue& v = plan.values[index];
    return v.kind == plan::PlanValue::Kind::kAlias ? static_cast<size_t>(v.alias_of) : index;
  };
  std::set<size_t> given;
  for (const std::string& name : context.subject.request.from)
    given.insert(base_of(index_of(plan, name)));
  PlanEvaluator ideal(plan, context.subject.backend,
                      watched(context, {.evaluation = Evaluation::kIdeal}));
  PlanEvaluator exact = f_of(context);
  ideal.begin(in_plan_order(context, inputs));
  exact.begin(in_plan_order(context, inputs));
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    ideal.evaluate_step(s);
    exact.evaluate_step(s);
    const std::vector<int32_t>& outputs = plan.steps[s].outputs;
    for (size_t o = 0; o < outputs.size(); ++o) {
      if (outputs[o] == plan::kNone) continue;
      const auto index = static_cast<size_t>(outputs[o]);
      for (const auto& [name, want] : reference) {
        const size_t at = index_of(plan, name);
        if (base_of(at) != index || !want.is_float() || given.contains(index)) continue;
        const EvalTensor value = ideal.value(at);
        if (value.shape == want.shape)
          add_to_noise(context, name, distance(value, exact.value(at)));
      }
      if (!given.contains(index)) continue;
      const EvalTensor own = EvalTensor::from(run.steps().at(static_cast<int32_t>(s))[o]);
      ideal.set_value(index, own);
      exact.set_value(index, own);
    }
    ideal.release_after(s);
    exact.release_after(s);
  }
}

}  // namespace

void Sweep::run_part_cell(Group& group, int64_t batch) {
  const auto& [engine, plan, backend, model, request, limits] = context_.subject;
  CellResult cell = cell_of(group, batch);
  stage(context_, cell.label);
  const int64_t rows = context_.inputs.axes.known() ? batch : 1;
  const NamedTensors inputs = batch_of(context_, group, first_rows(rows));
  Recorder run;
  const NamedTensors answers = context_.runs.several.run(inputs, run);
  ops::EvaluateOptions options;
  options.watch = context_.watch;
  for (const std::string& name : request.from) {
    const auto value = value_of_run(plan, run, inputs, index_of(plan, name));
    VERNIER_ASSERT(value.has_value(), name);
    const ir::ValueId id = model_value(model, name);
    options.given[id] = in_type(*value, model.value(id).dtype);
  }
  std::vector<std::string> wanted = request.to;
  if (wanted.empty()) wanted = model.output_names;
  for (const std::string& name : wanted) {
    ir::ValueId id = model_value(model, name);
    for (size_t o = 0; o < model.outputs.size(); ++o) {
      if (model.output_names[o] == name) id = model.outputs[o];
    }
    options.wanted.push_back(id);
  }
  const ops::Evaluation r = ops::evaluate(model, {inputs.begin(), inputs.end()}, options);
  NamedValues reference;
  for (size_t i = 0; i < wanted.size(); ++i) reference[wanted[i]] = r.values.at(options.wanted[i]);
  add_part_noise(context_, inputs, run, reference);
  MeasuredAnswers measured;
  for (const std::string& name : wanted) {
    const EvalTensor& want = reference.at(name);
    std::optional<Tensor> got;
    if (const Tensor* answer = find(answers, name)) {
      got = *answer;
    } else if (const auto value = value_of_run(plan, run, inputs, index_of(plan, name))) {
      got = in_type(*value, want.dtype).to_tensor();
    }
    const Answer answer{
        .name = name, .want = want, .got = got ? &*got : nullptr, .inputs = inputs, .batch = batch};
    measured.outputs.push_back(measure(context_, answer, cell, report_.output(name)));
  }
  ask(measured, &cell);
  report_.report.cells.push_back(std::move(cell));
}

Report Sweep::run_part() {
  const Request& request = context_.subject.request;
  for (const CheckRow& row : check_table()) {
    if (std::holds_alternative<AskedAbout<MeasuredAnswers>>(row.check->ask)) report_.list(row);
  }
  make_inputs(context_);
  check_part_names(context_.subject);
  hold_constants(context_);
  read_precision(context_);
  for (const std::string& name : context_.inputs.mixed) report_.output(name);
  const auto list = [](const std::vector<std::string>& names, const char* none) {
    std::string text;
    for (const std::string& name : names) text += (text.empty() ? "'" : ", '") + name + "'";
    return text.empty() ? std::string(none) : text;
  };
  context_.notes.push_back("only the part from " + list(request.from, "the inputs") + " to " +
                           list(request.to, "the outputs") +
                           ", on the engine's own values; rows and kernels are checked without "
                           "--from and --to");
  for (Group& group : context_.inputs.groups) {
    for (int64_t batch : batches_of(context_, group)) run_part_cell(group, batch);
  }
  finish();
  return report_.report;
}

}  // namespace vernier::verify
