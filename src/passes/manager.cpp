// Runs the passes of one phase and keeps the graph's invariants between them. Contract: pass.h.
#include <algorithm>
#include <chrono>
#include <map>
#include <unordered_map>

#include "ops/infer.h"
#include "passes/pass.h"

namespace vernier::passes {
namespace {

void check_options(const PassOptions& options) {
  for (const std::string& name : options.off) {
    std::string optional;
    bool found = false;
    for (const Pass& pass : pipeline()) {
      if (!pass.optional) continue;
      found = found || pass.name == name;
      optional += (optional.empty() ? "" : ", ") + std::string(pass.name);
    }
    if (!found) {
      throw Error(
          ErrorCode::kInput,
          "there is no pass '" + name + "' that can be switched off; passes that can: " + optional);
    }
  }
}

// Everything a node of the graph or a row of Graph::retired stands for, by key.
using Origins = std::unordered_map<std::string, ir::Origin>;
Origins origins_of(const ir::Graph& graph) {
  Origins origins;
  for (ir::NodeId id : graph.order()) {
    for (const ir::Origin& origin : graph.node(id).origins) origins.emplace(origin.key, origin);
  }
  for (const ir::Retired& row : graph.retired) origins.emplace(row.origin.key, row.origin);
  return origins;
}

// An ONNX node whose place was taken by an existing value: the ledger still has its row.
void retire_lost(ir::Graph& graph, std::string_view pass, Origins& before) {
  for (ir::NodeId id : graph.order()) {
    for (const ir::Origin& origin : graph.node(id).origins) before.erase(origin.key);
  }
  for (const ir::Retired& row : graph.retired) before.erase(row.origin.key);
  std::map<std::string, ir::Origin> lost(before.begin(), before.end());
  for (const auto& [key, origin] : lost)
    graph.retire({origin}, "removed", "does nothing after pass " + std::string(pass));
}

void restore_invariants(ir::Graph& graph, std::string_view pass, Origins& origins_before) {
  graph.remove_dead();
  retire_lost(graph, pass, origins_before);
  graph.sort();
  ops::infer_graph(graph);
  ir::check(graph, "after pass " + std::string(pass));
}

}  // namespace

std::vector<PassReport> run_passes(ir::Graph& graph, Phase phase, const PassOptions& options) {
  check_options(options);
  std::vector<PassReport> reports;
  for (const Pass& pass : pipeline()) {
    if (pass.phase != phase) continue;
    const bool off = pass.optional && options.off.contains(std::string(pass.name));
    const auto run = off ? pass.when_off : pass.run;
    const bool asks = !off && pass.run_where != nullptr && options.takes;
    if (run == nullptr && !asks) continue;
    const auto start = std::chrono::steady_clock::now();
    Origins origins = origins_of(graph);
    const uint64_t before = graph.changes();
    const int changes = asks ? pass.run_where(graph, options.takes) : run(graph);
    // The graph of a pass that found nothing is as the pass before it has left it.
    const bool untouched = changes == 0 && graph.changes() == before;
    if (!untouched || reports.empty()) restore_invariants(graph, pass.name, origins);
    const std::chrono::duration<double, std::milli> spent =
        std::chrono::steady_clock::now() - start;
    reports.push_back({pass.name, changes, spent.count()});
    if (changes > 0 && options.after) options.after(pass.name, graph);
  }
  return reports;
}

}  // namespace vernier::passes
