// Bisect: see bisect.h. Steps are tried first, by their share of the error, then the nodes of the
// steps that are needed.
#include "verify/bisect.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <numeric>
#include <optional>
#include <set>

#include "compile/pipeline.h"
#include "plan/kept_constants.h"
#include "precision/policy_file.h"
#include "runtime/engine_impl.h"
#include "verify/build_options.h"
#include "verify/minimise.h"
#include "verify/sweep/sweep.h"
#include "vernier/printable.h"

namespace vernier::verify {
namespace {

using Rows = std::vector<const plan::LedgerRow*>;
using Clock = std::chrono::steady_clock;

double ms_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

// What a node would store counts too, where a fusion keeps it in registers: raising its neighbors
// may end the fusion.
bool is_candidate(const plan::LedgerRow& row) {
  const bool narrow = below_f32(row.got_compute) || below_f32(row.got_accumulate) ||
                      below_f32(row.got_store) || below_f32(row.asked.store.type) ||
                      below_f32(row.asked.inner.type);
  return row.step != plan::kNone && !row.asked.by.empty() && narrow;
}

// Builds of one model with some of its nodes raised, run on the cells that fail.
class Probes {
 public:
  Probes(Sweep& sweep, const Engine& engine, const ir::Graph& model, const Request& request)
      : sweep_(sweep),
        backend_(*engine.impl().backend),
        job_(compiler::planned_again(model, job_of(engine, request))),
        model_(model),
        request_(request),
        trials_(sweep.failing_trials()) {
    kept_.expect(*job_.known->raised);
  }

  std::string inputs() const {
    return trials_.size() == 1 ? trials_[0].label : "all " + counted(trials_.size(), "cell");
  }
  int builds() const { return builds_; }
  /// Why the last build that was tried does not pass.
  const std::string& complaint() const { return complaint_; }

  /// Does the engine pass with the nodes of these keys at f32? A set is built once.
  bool passes_with(const std::set<std::string>& raised) {
    const auto known = tried_.find(raised);
    if (known != tried_.end()) return known->second;
    return tried_[raised] = passes(job_, raised, counted(raised.size(), "node") + " raised");
  }
  /// … with these rules behind the engine's own?
  bool passes_with_rules(const std::vector<std::string>& rules) {
    CompileOptions options = job_.options;
    options.rules = rules;
    compiler::Job job(options);
    job.known = job_.known;
    return passes(job, {}, "with the rules for it");
  }

 private:
  static compiler::Job job_of(const Engine& engine, const Request& request) {
    CompileOptions options = compiler::options_of(engine.impl().plan);
    options.kernels = engine.impl().backend;
    options.limits = request.limits;
    return options;
  }
  bool passes(const compiler::Job& job, const std::set<std::string>& raised,
              const std::string& what) {
    ++builds_;
    try {
      plan::Plan plan =
          compiler::plan_of(model_, job, plan::PlanOptions::Constants::kStored, raised, &kept_);
      Runner runner(Engine::Impl::engine_of(std::move(plan), backend_),
                    {.threads = request_.threads, .limits = request_.limits});
      std::vector<NamedTensors> answers;
      for (const Trial& trial : trials_) answers.push_back(runner.run(trial.inputs));
      complaint_ = sweep_.complaint_about(trials_, answers);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kInput) throw;
      complaint_ = std::string("cannot be built: ") + error.what();
    }
    if (request_.progress) {
      request_.progress(fmt::format("build {}, {}: {}", builds_, what,
                                    complaint_.empty() ? "passes" : complaint_));
    }
    return complaint_.empty();
  }

  Sweep& sweep_;
  const backend::Backend& backend_;
  compiler::Job job_;
  const ir::Graph& model_;
  const Request& request_;
  std::vector<Trial> trials_;
  plan::KeptConstants kept_;
  std::map<std::set<std::string>, bool> tried_;
  std::string complaint_;
  int builds_ = 0;
};

// Candidates by step; steps in the order in which they are likely to matter.
std::vector<Rows> candidate_steps(const plan::Plan& plan,
                                  const std::optional<Localisation>& where) {
  std::map<int32_t, Rows> by_step;
  for (const plan::LedgerRow& row : plan.ledger) {
    if (is_candidate(row)) by_step[row.step].push_back(&row);
  }
  std::vector<int32_t> order;
  for (const auto& [step, rows] : by_step) order.push_back(step);
  const auto weight = [&](int32_t step) {
    if (!where || static_cast<size_t>(step) >= where->steps.size()) return 0.0;
    constexpr double kFirst = 2;  // above every share
    return step == where->first_non_finite ? kFirst : where->steps[step].share;
  };
  std::ranges::stable_sort(order, std::ranges::greater{}, weight);
  std::vector<Rows> steps;
  for (int32_t step : order) steps.push_back(by_step[step]);
  return steps;
}

std::set<std::string> keys_of(const std::vector<Rows>& groups, const Chosen& chosen) {
  std::set<std::string> keys;
  for (size_t i : chosen) {
    for (const plan::LedgerRow* row : groups[i]) keys.insert(row->key);
  }
  return keys;
}

std::vector<Rows> minimal_groups(const std::vector<Rows>& groups, Probes& probes) {
  const Chosen chosen = minimise(
      groups.size(), [&](const Chosen& some) { return probes.passes_with(keys_of(groups, some)); });
  std::vector<Rows> kept;
  for (size_t i : chosen) kept.push_back(groups[i]);
  return kept;
}

// "rule 2 (over rule 1)" -> the text of rule 2.
std::string rule_text(const precision::Policy& policy, const std::string& by) {
  constexpr std::string_view kWord = "rule ";
  if (!by.starts_with(kWord)) return "";
  const size_t number = std::stoul(by.substr(kWord.size()));
  return number >= 1 && number <= policy.rules.size() ? policy.rules[number - 1].text : "";
}

void add_nodes(Bisection& found, const std::vector<Rows>& groups, const plan::Plan& plan,
               Probes& probes) {
  precision::Policy policy;
  if (!plan.build.policy.empty())
    policy = precision::load_policy(plan.build.policy, "the engine's policy");
  std::vector<std::string> rules;
  for (const Rows& rows : groups) {
    for (const plan::LedgerRow* row : rows) {
      BisectedNode node{.node = row->node,
                        .key = row->key,
                        .op = row->op,
                        .composite = row->composite,
                        .store = row->got_store,
                        .compute = row->got_compute,
                        .accumulate = row->got_accumulate,
                        .step = row->step,
                        .kernel = row->kernel,
                        .by = row->asked.by,
                        .rule = rule_text(policy, row->asked.by),
                        .raising = raising_rules(*row)};
      rules.insert(rules.end(), node.raising.begin(), node.raising.end());
      found.nodes.push_back(std::move(node));
    }
  }
  std::ranges::stable_sort(found.nodes, {}, &BisectedNode::step);
  found.rules_pass = probes.passes_with_rules(rules);
}

// Findings that no number of bits changes.
bool is_other_matter(Verdict verdict) {
  return verdict != Verdict::kPrecision && verdict != Verdict::kOverflow &&
         verdict != Verdict::kNan;
}

}  // namespace

Bisection bisect_engine(const std::shared_ptr<const Engine>& engine, const ir::Graph& model,
                        const Request& request) {
  const auto start = Clock::now();
  const plan::Plan& plan = engine->impl().plan;
  Request whole = request;
  whole.localise = true;
  whole.from.clear();
  whole.to.clear();
  Sweep sweep(engine, model, whole);
  const Report report = sweep.run();
  Bisection found;
  found.verdict = report.verdict;
  found.explanation = report.explanation;
  found.verify_ms = ms_since(start);
  std::vector<Rows> steps = candidate_steps(plan, report.localisation);
  found.candidate_steps = steps.size();
  for (const Rows& rows : steps) found.candidates += rows.size();
  found.outcome = report.passed() ? BisectOutcome::kPasses : BisectOutcome::kNotPrecision;
  if (report.passed() || is_other_matter(report.verdict) || steps.empty()) {
    found.ms = ms_since(start);
    return found;
  }
  Probes probes(sweep, *engine, model, whole);
  found.inputs = probes.inputs();
  Chosen everything(steps.size());
  std::iota(everything.begin(), everything.end(), size_t{0});
  if (probes.passes_with(std::set<std::string>{})) {
    found.notes.push_back(
        "the engine built again with the options it records passes: it was "
        "built by another version or from another model");
  } else if (!probes.passes_with(keys_of(steps, everything))) {
    found.notes.push_back("with all of them raised: " + probes.complaint());
  } else {
    found.outcome = BisectOutcome::kFound;
    std::vector<Rows> nodes;  // each alone
    for (const Rows& rows : minimal_groups(steps, probes)) {
      for (const plan::LedgerRow* row : rows) nodes.push_back({row});
    }
    add_nodes(found, minimal_groups(nodes, probes), plan, probes);
  }
  found.builds = probes.builds();
  found.ms = ms_since(start);
  return found;
}

Bisection bisect(const Request& asked) {
  Request request = asked;
  request.limits = asked.limits.begun();
  const Opened opened = open_checked(request);
  return bisect_engine(opened.engine, *opened.model, request);
}

}  // namespace vernier::verify
