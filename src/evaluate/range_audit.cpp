// The range audit: see range_audit.h.
#include "evaluate/range_audit.h"

#include <algorithm>

#include "evaluate/plan_evaluator.h"
#include "evaluate/plan_work.h"
#include "evaluate/samples.h"

namespace vernier::evaluate {
namespace {

constexpr int64_t kAuditRows = 2, kAuditLengths[] = {4, 48};

class Audit {
 public:
  Audit(const plan::Plan& plan, const backend::Backend& backend, const Watch& watch)
      : plan_(plan), backend_(backend), watch_(watch), ranges_(plan) {}

  std::vector<RangeRow> run(Domains domains, uint64_t seed) {
    ranges_.note_constants();
    order_domains(domains);
    for (int64_t length : kAuditLengths) evaluate(domains, length, seed);
    std::vector<RangeRow> rows = ranges_.rows();
    std::erase_if(rows, [](const RangeRow& row) { return !is_narrow(row.type); });
    return rows;
  }

 private:
  void order_domains(Domains& domains) const {
    std::vector<InputDomain> ordered;
    for (size_t i = 0; i < plan_.inputs.size(); ++i) {
      ordered.push_back(
          *std::ranges::find(domains.inputs, plan_.input_names[i], &InputDomain::name));
      ordered.back().shape = plan_.value(plan_.inputs[i]).shape;
    }
    domains.inputs = std::move(ordered);
  }

  void evaluate(const Domains& domains, int64_t length, uint64_t seed) {
    const std::string batch = batch_symbol(plan_);
    const BatchAxes axes = batch.empty() ? fixed_axes(plan_) : axes_of_symbol(plan_, batch);
    const std::map<std::string, int64_t> sizes = sizes_of_row(plan_, batch, length);
    // A model that fixes its batch takes that many rows, not one.
    const int64_t count = batch.empty() ? std::max<int64_t>(1, axes.fixed_rows) : kAuditRows;
    std::vector<NamedTensors> rows;
    for (int64_t r = 0; r < count; ++r) rows.push_back(sample_row(domains, axes, sizes, {seed, r}));
    const NamedTensors inputs = axes.known() ? join_rows(rows, axes) : rows[0];
    std::vector<Tensor> ordered;
    for (const std::string& name : plan_.input_names) ordered.push_back(*find(inputs, name));
    PlanEvaluator f(
        plan_, backend_,
        {.evaluation = Evaluation::kExact,
         .seed = seed,
         .peaks = [this](size_t step, const PointPeaks& peaks) { ranges_.note(step, peaks); },
         .watch = watch_});
    f.run(ordered);
  }

  const plan::Plan& plan_;
  const backend::Backend& backend_;
  Watch watch_;
  Ranges ranges_;
};

// bf16 has almost the range of f32: only values that constants bring near its end can leave it.
bool reaches_far(const plan::Plan& plan) {
  constexpr double kFar = 1e30;
  return std::ranges::any_of(plan.values, [&](const plan::PlanValue& value) {
    if (value.kind != plan::PlanValue::Kind::kConstant || !is_float(value.dtype)) return false;
    const Tensor& t = plan.blob(value.constant).bytes;
    return largest_finite_element(t) >= kFar;
  });
}

}  // namespace

bool needs_range_audit(const plan::Plan& plan) {
  const auto any = [&](const auto& is_meant) {
    return std::ranges::any_of(plan.steps, [&](const plan::Step& step) {
      return is_meant(step.numerics.store) || is_meant(step.numerics.compute);
    });
  };
  if (any([](DType type) { return is_narrow(type) && type != DType::kBF16; })) return true;
  return any([](DType type) { return type == DType::kBF16; }) && reaches_far(plan);
}

Promotion promotion_for(const plan::Plan& plan, const RangeRow& row) {
  const plan::Step& step = plan.step(row.step);
  const bool operand = row.point != "out" || (step.op == OpKind::kCast && step.origins.empty());
  const plan::Step* target = &step;
  // A Cast stands before the product whose operand it makes: that product computes in f32 then.
  if (step.op == OpKind::kCast && step.origins.empty()) {
    for (const plan::Step& user : plan.steps) {
      if (std::ranges::find(user.inputs, step.outputs[0]) != user.inputs.end()) target = &user;
    }
  }
  return {.nodes = target->origins, .compute = operand, .store = !operand};
}

double range_audit_work(const plan::Plan& plan) {
  const std::string batch = batch_symbol(plan);
  std::map<std::string, int64_t> sizes = sizes_of_row(plan, batch, kAuditLengths[1]);
  if (!batch.empty()) sizes[batch] = kAuditRows;
  return work_of(plan, sizes);
}

std::vector<RangeRow> audit_ranges(const plan::Plan& plan, const backend::Backend& backend,
                                   const Domains& domains, uint64_t seed, const Watch& watch) {
  return Audit(plan, backend, watch).run(domains, seed);
}

}  // namespace vernier::evaluate
