// The range audit: see range_audit.h.
#include "verify/range_audit.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "compile/pipeline.h"
#include "engine/writer.h"
#include "passes/pass.h"
#include "verify/domain.h"
#include "verify/localise.h"
#include "verify/plan_evaluator.h"
#include "verify/plan_work.h"
#include "verify/samples.h"

namespace vernier::verify {
namespace {

constexpr int64_t kAuditRows = 2, kAuditLengths[] = {4, 48};
constexpr int kMaxRounds = 8;
// Of one run: minutes; models with symbolic sizes are far below.
constexpr double kMostWork = 0x1p40;

bool is_narrow(DType type) {
  return is_float(type) && type != DType::kTF32 && size_bytes(type) < size_bytes(DType::kF32);
}

// Of one row.
std::map<std::string, int64_t> sizes_at(const plan::Plan& plan, const std::string& batch,
                                        int64_t length) {
  std::map<std::string, int64_t> sizes;
  for (const plan::Symbol& symbol : plan.symbols)
    sizes[symbol.name] = std::clamp(symbol.name == batch ? 1 : length, symbol.min, symbol.max);
  return sizes;
}

class Audit {
 public:
  Audit(const plan::Plan& plan, const ir::Graph& model, const Watch& watch)
      : plan_(plan), model_(model), watch_(watch), ranges_(plan) {}

  std::vector<RangeRow> run(uint64_t seed) {
    ranges_.note_constants();
    const std::shared_ptr<ir::Graph> raised = model_.clone();
    passes::run_passes(*raised, passes::Phase::kRaise, {});
    Domains domains = infer_domains(*raised);
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
      ordered.back().shape = plan_.values[static_cast<size_t>(plan_.inputs[i])].shape;
    }
    domains.inputs = std::move(ordered);
  }

  void evaluate(const Domains& domains, int64_t length, uint64_t seed) {
    const std::vector<std::string> candidates = batch_candidates(plan_);
    const std::string batch = candidates.empty() ? "" : candidates.front();
    const BatchAxes axes = batch.empty() ? fixed_axes(plan_) : axes_of_symbol(plan_, batch);
    const std::map<std::string, int64_t> sizes = sizes_at(plan_, batch, length);
    // A model that fixes its batch takes that many rows, not one.
    const int64_t count = batch.empty() ? std::max<int64_t>(1, axes.fixed_rows) : kAuditRows;
    std::vector<NamedTensors> rows;
    for (int64_t r = 0; r < count; ++r) rows.push_back(sample_row(domains, axes, sizes, {seed, r}));
    const NamedTensors inputs = axes.known() ? join_rows(rows, axes) : rows[0];
    std::vector<Tensor> ordered;
    for (const std::string& name : plan_.input_names) ordered.push_back(*find(inputs, name));
    PlanEvaluator f(
        plan_, compiler::backend_named(plan_.device),
        {.evaluation = Evaluation::kExact,
         .seed = seed,
         .peaks = [this](size_t step, const PointPeaks& peaks) { ranges_.note(step, peaks); },
         .watch = watch_});
    f.run(ordered, [](size_t, size_t, const EvalTensor&) {});
  }

  const plan::Plan& plan_;
  const ir::Graph& model_;
  Watch watch_;
  Ranges ranges_;
};

// bf16 reaches almost as far as f32 does: only what constants bring near its end can leave it.
bool reaches_far(const plan::Plan& plan) {
  constexpr double kFar = 1e30;
  return std::ranges::any_of(plan.values, [&](const plan::PlanValue& value) {
    if (value.kind != plan::PlanValue::Kind::kConstant || !is_float(value.dtype)) return false;
    const Tensor& t = plan.blobs[static_cast<size_t>(value.constant)].bytes;
    return largest_finite_element(t) >= kFar;
  });
}

bool needs_audit(const plan::Plan& plan) {
  const auto any = [&](const auto& is_meant) {
    return std::ranges::any_of(plan.steps, [&](const plan::Step& step) {
      return is_meant(step.numerics.store) || is_meant(step.numerics.compute);
    });
  };
  if (any([](DType type) { return is_narrow(type) && type != DType::kBF16; })) return true;
  return any([](DType type) { return type == DType::kBF16; }) && reaches_far(plan);
}

// The result must be stored, or the product computed, in f32.
Promotion promotion_for(const plan::Plan& plan, const RangeRow& row) {
  const plan::Step& step = plan.steps[static_cast<size_t>(row.step)];
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

}  // namespace

std::vector<RangeRow> audit_ranges(const plan::Plan& plan, const ir::Graph& model, uint64_t seed,
                                   const Watch& watch) {
  return Audit(plan, model, watch).run(seed);
}

std::vector<RangeRow> promote_out_of_range(const ir::Graph& model, CompileOptions& options,
                                           std::vector<std::string>& notes) {
  std::vector<RangeRow> found;
  if (!compiler::may_have_short_range(model, options)) return found;
  for (int round = 0; round < kMaxRounds; ++round) {
    const plan::Plan plan = compiler::plan_of(model, options, plan::PlanOptions::Constants::kExact);
    if (!needs_audit(plan)) return found;
    if (work_of(plan, sizes_at(plan, "", kAuditLengths[1])) > kMostWork) {
      notes.push_back(
          "warning: the range audit is left out: at its fixed sizes one run of the model takes "
          "more than 2^40 operations in FP64. 'vernier verify' finds what overflows");
      return found;
    }
    compiler::stage(options, "range audit");
    const size_t before = options.promotions.size();
    for (const RangeRow& row : audit_ranges(plan, model, 1, Watch(options.limits))) {
      if (row.fits()) continue;
      Promotion promotion = promotion_for(plan, row);
      if (promotion.nodes.empty() ||
          std::ranges::find(options.promotions, promotion) != options.promotions.end())
        continue;
      options.promotions.push_back(std::move(promotion));
      found.push_back(row);
    }
    if (options.promotions.size() == before) return found;
  }
  return found;
}

CompileReport compile_audited(const std::string& model_path, const std::string& engine_path,
                              const CompileOptions& asked) {
  const auto start = std::chrono::steady_clock::now();
  const CompileOptions options = compiler::begun(asked);
  if (!options.backend) compiler::backend_named(options.device);  // refused before the work
  CompileOptions audited = options;
  compiler::Compiled imported;
  const std::shared_ptr<ir::Graph> model = compiler::import(model_path, options, imported);
  const std::vector<RangeRow> found = promote_out_of_range(*model, audited, imported.plan.notes);
  const compiler::Compiled compiled = compiler::run(*model, std::move(imported), audited);
  compiler::stage(options, "write");
  engine::write_engine(engine_path, compiled.plan, Watch(options.limits));
  CompileReport report = compiler::report_of(
      compiled,
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
  for (const RangeRow& row : found) {
    const bool stored = row.point == "out";
    report.notes.push_back(fmt::format(
        "range audit: '{}' of node '{}' ({}) reaches {:.4g}, {} holds at most {:.6g}: {} in f32, "
        "as --rule 'name:{} {}=f32' would",
        row.point, row.name, row.op, row.peak, vernier::name(row.type), row.limit,
        stored ? "stored" : "computed", row.name, stored ? "store" : "compute"));
  }
  return report;
}

}  // namespace vernier::verify
