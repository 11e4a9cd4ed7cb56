// The range audit of a build: see range_audit.h.
#include "compile/range_audit.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "evaluate/plan_work.h"
#include "evaluate/range_bounds.h"
#include "precision/ask.h"

namespace vernier::compiler {
namespace {

constexpr int kMaxRounds = 8;
constexpr uint64_t kSeed = 1;

std::string note_of(const evaluate::RangeRow& row) {
  const bool stored = row.point == "out";
  return fmt::format(
      "range audit: '{}' of node '{}' ({}) reaches {:.4g}, {} holds at most {:.6g}: {} in f32, "
      "as --rule 'name:{} {}=f32' would",
      row.point, row.name, row.op, row.peak, vernier::name(row.type), row.limit,
      stored ? "stored" : "computed", row.name, stored ? "store" : "compute");
}

// The plan of exact constants; where no product is quantized, these are what the engine stores,
// too.
void make(const ir::Graph& model, const Job& job, RangeAudit& audit) {
  constexpr auto kExact = plan::PlanOptions::Constants::kExact;
  Fused fused = fuse(model, job, {}, kExact);
  audit.exact = plan_fused(std::as_const(fused), job, kExact);
  const ir::Graph& graph = *fused.graph;
  const bool quantizes = std::ranges::any_of(graph.order(), [&](ir::NodeId id) {
    const OpKind op = graph.node(id).op;
    return op == OpKind::kQuantizedLinear || op == OpKind::kWeightOnlyLinear;
  });
  if (!quantizes) audit.fused = std::move(fused);
}

}  // namespace

RangeAudit promote_out_of_range(const ir::Graph& model, Job& job) {
  RangeAudit audit;
  if (!precision::may_have_short_range(model, job.policy)) return audit;
  CompileOptions& options = job.options;
  const backend::Backend& backend = backend_of(options);
  for (int round = 0; round < kMaxRounds; ++round) {
    make(model, job, audit);
    const plan::Plan& plan = *audit.exact;
    if (!evaluate::needs_range_audit(plan)) break;
    if (evaluate::range_audit_work(plan) > evaluate::kMostWork) {
      audit.notes.push_back(
          "warning: the range audit is left out: at its fixed sizes one run of the model takes "
          "more than 2^40 operations in FP64. 'vernier verify' finds what overflows");
      break;
    }
    stage(options, "range audit");
    if (!audit.domains) audit.domains = domains_of(model);
    if (evaluate::fits_by_bounds(plan, *audit.domains)) break;
    const size_t before = options.promotions.size();
    std::vector<evaluate::RangeRow> rows;
    try {
      rows = evaluate::audit_ranges(plan, backend, *audit.domains, kSeed, Watch(options.limits));
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kInput) throw;
      audit.notes.push_back(
          fmt::format("warning: the range audit is left out: the model refuses the seeded inputs "
                      "({}). 'vernier verify --inputs' on arrays of yours finds what overflows",
                      error.what()));
      break;
    }
    for (const evaluate::RangeRow& row : rows) {
      if (row.fits) continue;
      Promotion promotion = evaluate::promotion_for(plan, row);
      if (promotion.nodes.empty() ||
          std::ranges::find(options.promotions, promotion) != options.promotions.end())
        continue;
      options.promotions.push_back(std::move(promotion));
      audit.overflows.push_back(row);
    }
    if (options.promotions.size() == before) break;
    audit.exact.reset();
    audit.fused.reset();
  }
  for (const evaluate::RangeRow& row : audit.overflows) audit.notes.push_back(note_of(row));
  return audit;
}

}  // namespace vernier::compiler
