// Context: see context.h.
#include "verify/sweep/context.h"

#include <algorithm>
#include <numeric>

#include "core/allowed_memory.h"
#include "runtime/engine_impl.h"

namespace vernier::verify {
namespace {

Subject subject_of(std::shared_ptr<const Engine> engine, const ir::Graph& model,
                   const Request& request) {
  const Engine::Impl& parts = engine->impl();
  return {.engine = std::move(engine),
          .plan = parts.plan,
          .backend = *parts.backend,
          .model = model,
          .request = request,
          .limits = request.limits.begun()};
}

// Of shared constants: a sixteenth of the memory, and a quarter of what the user allows.
uint64_t most_constant_bytes(const Limits& limits) {
  constexpr uint64_t kLeast = uint64_t{1} << 30;
  const uint64_t most = std::max(kLeast, allowed_memory() / 16);
  return limits.max_bytes > 0 ? std::min(most, limits.max_bytes / 4) : most;
}

PlanEvaluator exact_evaluator(const Context& context, const plan::Plan& plan,
                              const std::vector<ExactConstant>& constants) {
  PlanEvaluator f(plan, context.subject.backend, watched(context));
  for (const ExactConstant& constant : constants)
    f.set_exact_constant(constant.step, constant.input, constant.contents);
  return f;
}

}  // namespace

Context::Context(std::shared_ptr<const Engine> engine, const ir::Graph& model,
                 const Request& request)
    : subject(subject_of(std::move(engine), model, request)),
      watch(subject.limits),
      runs{.several = {subject.engine, {.threads = request.threads, .limits = subject.limits}},
           .single = {subject.engine, {.threads = 1, .limits = subject.limits}}},
      in_fp64(std::make_unique<ConstantCache>(most_constant_bytes(subject.limits))) {}

void stage(const Context& context, const std::string& text) {
  context.watch.check_time(text);
  if (context.subject.request.progress) context.subject.request.progress(text);
}

void scheduled_stage(Context& context, const std::string& text) {
  const std::string where = context.schedule.begin();
  stage(context, where.empty() ? text : where + ": " + text);
}

EvaluatorOptions watched(const Context& context, EvaluatorOptions options) {
  options.watch = context.watch;
  options.constants = context.in_fp64.get();
  return options;
}

PlanEvaluator f_of(const Context& context) {
  return exact_evaluator(context, context.subject.plan, context.precision.exact);
}

const plan::Plan& noise_plan(const Context& context) {
  const std::optional<plan::Plan>& usual = context.precision.usual_plan;
  return usual ? *usual : context.subject.plan;
}

PlanEvaluator noise_f_of(const Context& context) {
  if (!context.precision.usual_plan) return f_of(context);
  return exact_evaluator(context, *context.precision.usual_plan, context.precision.usual_exact);
}

std::vector<Tensor> in_plan_order(const Context& context, const NamedTensors& inputs) {
  std::vector<Tensor> ordered;
  for (const std::string& name : context.subject.plan.input_names)
    ordered.push_back(*find(inputs, name));
  return ordered;
}

std::vector<int64_t> first_rows(int64_t count) {
  std::vector<int64_t> rows(static_cast<size_t>(count));
  std::iota(rows.begin(), rows.end(), int64_t{0});
  return rows;
}

NamedTensors batch_of(const Context& context, const Group& group,
                      const std::vector<int64_t>& rows) {
  std::vector<NamedTensors> parts;
  for (int64_t row : rows) parts.push_back(group.rows[row]);
  return context.inputs.axes.known() ? join_rows(parts, context.inputs.axes) : parts[0];
}

bool runs_alone(const Context& context) {
  const std::vector<plan::Symbol>& symbols = context.subject.plan.symbols;
  const auto symbol = std::ranges::find(symbols, context.inputs.axes.symbol, &plan::Symbol::name);
  return symbol != symbols.end() && symbol->min <= 1;
}

}  // namespace vernier::verify
