// Runs the passes of one phase and keeps the graph's invariants between them. Contract: pass.h.
#include <algorithm>
#include <chrono>
#include <map>
#include <unordered_map>

#include "core/names.h"
#include "ops/infer.h"
#include "passes/pass.h"

namespace vernier::passes {
namespace {

void check_options(const PassOptions& options) {
  for (const std::string& name : options.off) {
    std::vector<std::string> known;
    std::string listed;
    for (const Pass& pass : pipeline()) {
      if (!pass.optional) continue;
      known.emplace_back(pass.name);
      listed += (listed.empty() ? "" : ", ") + known.back();
    }
    if (std::ranges::find(known, name) != known.end()) continue;
    const std::string meant = did_you_mean(name, known);
    throw Error(ErrorCode::kInput, "there is no pass '" + name + "' that can be switched off" +
                                       (meant.empty() ? "; passes that can: " + listed : meant));
  }
}

// All origins of the graph's nodes and of rows of Graph::retired, by key.
class Ledger {
 public:
  explicit Ledger(const ir::Graph& graph) {
    each_origin(graph, [this](const ir::Origin& origin) { rows_.try_emplace(origin.key, origin); });
  }

  // An ONNX node that was replaced by an existing value still gets a row.
  void retire_lost(ir::Graph& graph, std::string_view pass) {
    ++round_;
    each_origin(graph, [this](const ir::Origin& origin) {
      Row& row = rows_.try_emplace(origin.key, origin).first->second;
      row.seen = round_;
      if (row.origin.part != origin.part) row.origin.part = origin.part;
    });
    std::map<std::string, const ir::Origin*> lost;
    for (const auto& [key, row] : rows_) {
      if (row.seen != round_) lost.emplace(key, &row.origin);
    }
    for (const auto& [key, origin] : lost)
      graph.retire({*origin}, LedgerState::kRemoved, "not needed after pass " + std::string(pass));
  }

 private:
  struct Row {
    explicit Row(const ir::Origin& from) : origin(from) {}
    ir::Origin origin;
    int seen = 0;  // the last round in which it was found
  };

  template <class Visit>
  static void each_origin(const ir::Graph& graph, const Visit& visit) {
    for (ir::NodeId id : graph.order()) std::ranges::for_each(graph.node(id).origins, visit);
    for (const ir::Retired& row : graph.retired) visit(row.origin);
  }

  std::unordered_map<std::string, Row> rows_;
  int round_ = 0;
};

void restore_invariants(ir::Graph& graph, std::string_view pass, Ledger& ledger) {
  graph.remove_dead();
  ledger.retire_lost(graph, pass);
  graph.sort();
  ops::infer_graph(graph);
  ir::check(graph, "after pass " + std::string(pass));
}

}  // namespace

std::vector<PassReport> run_passes(ir::Graph& graph, Phase phase, const PassOptions& options) {
  check_options(options);
  std::vector<PassReport> reports;
  Ledger ledger(graph);
  for (const Pass& pass : pipeline()) {
    if (pass.phase != phase) continue;
    const bool off = pass.optional && options.off.contains(std::string(pass.name));
    const auto run = off ? pass.when_off : pass.run;
    const bool asks = !off && pass.run_where != nullptr && options.takes;
    const bool watched = !off && pass.run_watched != nullptr;
    if (run == nullptr && !asks && !watched) continue;
    options.watch.check_time([&] { return "in pass " + std::string(pass.name); });
    const auto start = std::chrono::steady_clock::now();
    const uint64_t before = graph.changes();
    const int changes = watched ? pass.run_watched(graph, options.watch)
                        : asks  ? pass.run_where(graph, options)
                                : run(graph);
    // A pass that changed nothing leaves the invariants as they were.
    const bool untouched = changes == 0 && graph.changes() == before;
    if (!untouched || reports.empty()) restore_invariants(graph, pass.name, ledger);
    const std::chrono::duration<double, std::milli> spent =
        std::chrono::steady_clock::now() - start;
    reports.push_back({pass.name, changes, spent.count()});
    if (changes > 0 && options.after) options.after(pass.name, graph);
  }
  return reports;
}

}  // namespace vernier::passes
