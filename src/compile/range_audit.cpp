// The range audit of a build: see range_audit.h.
#include "compile/range_audit.h"

#include <fmt/format.h>

#include <algorithm>

#include "evaluate/plan_work.h"
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

}  // namespace

RangeAudit promote_out_of_range(const ir::Graph& model, Job& job) {
  RangeAudit audit;
  if (!precision::may_have_short_range(model, job.policy)) return audit;
  CompileOptions& options = job.options;
  const backend::Backend& backend = backend_of(options);
  std::optional<evaluate::Domains> domains;
  for (int round = 0; round < kMaxRounds; ++round) {
    const plan::Plan plan = plan_of(model, job, plan::PlanOptions::Constants::kExact);
    if (!evaluate::needs_range_audit(plan)) break;
    if (evaluate::range_audit_work(plan) > evaluate::kMostWork) {
      audit.notes.push_back(
          "warning: the range audit is left out: at its fixed sizes one run of the model takes "
          "more than 2^40 operations in FP64. 'vernier verify' finds what overflows");
      break;
    }
    stage(options, "range audit");
    if (!domains) domains = domains_of(model);
    const size_t before = options.promotions.size();
    std::vector<evaluate::RangeRow> rows;
    try {
      rows = evaluate::audit_ranges(plan, backend, *domains, kSeed, Watch(options.limits));
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
  }
  for (const evaluate::RangeRow& row : audit.overflows) audit.notes.push_back(note_of(row));
  return audit;
}

}  // namespace vernier::compiler
