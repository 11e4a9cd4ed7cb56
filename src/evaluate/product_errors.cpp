// Errors of quantized products: see product_errors.h.
#include "evaluate/product_errors.h"

#include <algorithm>
#include <cmath>

#include "evaluate/plan_evaluator.h"
#include "evaluate/plan_work.h"
#include "evaluate/rows.h"
#include "evaluate/samples.h"

namespace vernier::evaluate {
namespace {

constexpr uint64_t kMostConstantBytes = uint64_t{1} << 29;  // kept in FP64 between evaluations
constexpr int64_t kLengths[] = {4, 16, 48}, kTypicalLength = 16, kRows = 2;

// Sums of squares.
struct Squares {
  double error = 0, right = 0, count = 0;
  void add(const EvalTensor& value, const EvalTensor& expected) {  // nothing where integers are
    for (size_t i = 0; i < expected.f.size(); ++i) {
      const double e = value.f[i] - expected.f[i];
      if (!std::isfinite(e)) continue;  // what is not finite is the range audit's
      error += e * e;
      right += expected.f[i] * expected.f[i];
      ++count;
    }
  }
  double rms_right() const { return count > 0 ? std::sqrt(right / count) : 0; }
  // As a part of what is right, here or, where that is more, elsewhere: a score near 0 has no
  // relative error that says anything.
  double relative(double elsewhere = 0) const {
    const double scale = std::max(rms_right(), elsewhere);
    return scale > 0 && count > 0 ? std::sqrt(error / count) / scale : 0;
  }
};

// The domains with the shapes of the plan's inputs, in their order.
Domains in_plan_order(Domains domains, const plan::Plan& plan) {
  std::vector<InputDomain> ordered;
  for (size_t i = 0; i < plan.inputs.size(); ++i) {
    ordered.push_back(*std::ranges::find(domains.inputs, plan.input_names[i], &InputDomain::name));
    ordered.back().shape = plan.value(plan.inputs[i]).shape;
  }
  domains.inputs = std::move(ordered);
  return domains;
}

}  // namespace

ProductErrorMeter::ProductErrorMeter(const plan::Plan& exact, const backend::Backend& backend,
                                     const Domains& domains, uint64_t seed, const Watch& watch)
    : exact_(exact),
      backend_(backend),
      seed_(seed),
      watch_(watch),
      in_fp64_(std::make_unique<ConstantCache>(kMostConstantBytes)) {
  const Domains in_order = in_plan_order(domains, exact);
  const std::string batch = batch_symbol(exact);
  const BatchAxes axes = batch.empty() ? fixed_axes(exact) : axes_of_symbol(exact, batch);
  for (const int64_t length : kLengths) {
    const std::map<std::string, int64_t> sizes = sizes_of_row(exact, batch, length);
    const auto row = [&](int64_t index) {
      return sample_row(in_order, axes, sizes, {seed_, index});
    };
    if (length == kTypicalLength) typical_ = runs_.size();
    if (!batch.empty()) {
      for (int64_t r = 0; r < kRows; ++r) add_run(row(r), r == 0);
      continue;
    }
    std::vector<NamedTensors> rows;
    for (int64_t r = 0; r < std::max<int64_t>(1, axes.fixed_rows); ++r) rows.push_back(row(r));
    add_run(axes.known() ? join_rows(rows, axes) : rows[0], true);
  }
  for (size_t o = 0; o < exact.outputs.size(); ++o) {
    Squares all;
    for (const Run& run : runs_) all.add(run.right[o], run.right[o]);
    scales_.push_back(all.rms_right());
  }
}

EvaluatorOptions ProductErrorMeter::options(Evaluation evaluation, ConstantCache* constants) const {
  return {.evaluation = evaluation,
          .seed = seed_,
          .peaks = {},
          .watch = watch_,
          .constants = constants};
}

void ProductErrorMeter::add_run(const NamedTensors& inputs, bool starts_batch) {
  Run run{.inputs = {}, .right = {}, .starts_batch = starts_batch};
  for (const std::string& name : exact_.input_names) run.inputs.push_back(*find(inputs, name));
  PlanEvaluator f(exact_, backend_, options(Evaluation::kExact, in_fp64_.get()));
  f.run(run.inputs);
  for (const int32_t output : exact_.outputs) run.right.push_back(f.value(output));
  runs_.push_back(std::move(run));
}

double ProductErrorMeter::answers(const plan::Plan& stored) const {
  double largest = 0;
  std::vector<Squares> cell;
  ConstantCache constants(kMostConstantBytes);
  for (const Run& run : runs_) {
    if (run.starts_batch) cell.assign(run.right.size(), {});
    PlanEvaluator ideal(stored, backend_, options(Evaluation::kIdeal, &constants));
    ideal.run(run.inputs);
    for (size_t o = 0; o < run.right.size(); ++o) {
      cell[o].add(ideal.value(stored.outputs[o]), run.right[o]);
      largest = std::max(largest, cell[o].relative(scales_[o]));
    }
  }
  return largest;
}

std::map<size_t, ProductError> ProductErrorMeter::products(const plan::Plan& stored) const {
  VERNIER_ASSERT(
      std::ranges::equal(stored.steps, exact_.steps, {}, &plan::Step::op, &plan::Step::op),
      "the plan of exact constants has other steps");
  const Run& run = runs_[typical_];
  // `own` rounds as I does but goes on from F's values: what it is off by after a product is this
  // product's own.
  PlanEvaluator f(exact_, backend_, options(Evaluation::kExact, in_fp64_.get()));
  PlanEvaluator own(stored, backend_, options(Evaluation::kIdeal, nullptr));
  f.begin(run.inputs);
  own.begin(run.inputs);
  std::map<size_t, ProductError> errors;
  for (size_t s = 0; s < stored.steps.size(); ++s) {
    const plan::Step &step = stored.steps[s], &twin = exact_.steps[s];
    f.evaluate_step(s);
    own.evaluate_step(s);
    if (step.op == OpKind::kQuantizedLinear || is_weight_only(step.numerics.compute)) {
      EvalTensor rounded = own.value(step.outputs[0]);
      Squares squares;
      squares.add(rounded, f.value(twin.outputs[0]));
      errors[s].result = squares.relative();
      PlanEvaluator on = f;
      on.set_value(static_cast<size_t>(twin.outputs[0]), std::move(rounded));
      on.release_after(s);
      for (size_t next = s + 1; next < exact_.steps.size(); ++next) {
        on.evaluate_step(next);
        on.release_after(next);
      }
      for (size_t o = 0; o < run.right.size(); ++o) {
        Squares answer;
        answer.add(on.value(exact_.outputs[o]), run.right[o]);
        errors[s].answers = std::max(errors[s].answers, answer.relative(scales_[o]));
      }
    }
    if (step.op != OpKind::kQuantizeRows) {
      for (size_t o = 0; o < step.outputs.size(); ++o) {
        if (step.outputs[o] == plan::kNone) continue;
        own.set_value(static_cast<size_t>(step.outputs[o]), f.value(twin.outputs[o]));
      }
    }
    f.release_after(s);
    own.release_after(s);
  }
  return errors;
}

double product_errors_work(const plan::Plan& plan) {
  return work_of(plan, sizes_of_row(plan, "", std::ranges::max(kLengths)));
}

}  // namespace vernier::evaluate
