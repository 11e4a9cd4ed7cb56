// Runs the passes of one phase and keeps the graph's invariants between them. Contract: pass.h.
#include <algorithm>
#include <chrono>
#include <map>

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
std::map<std::string, ir::Origin> origins_of(const ir::Graph& graph) {
  std::map<std::string, ir::Origin> origins;
  for (ir::NodeId id : graph.order()) {
    for (const ir::Origin& origin : graph.node(id).origins) origins.emplace(origin.key, origin);
  }
  for (const ir::Retired& row : graph.retired) origins.emplace(row.origin.key, row.origin);
  return origins;
}

void restore_invariants(ir::Graph& graph, std::string_view pass,
                        const std::map<std::string, ir::Origin>& origins_before) {
  graph.remove_dead();
  // An ONNX node whose place was taken by an existing value: the ledger still has its row.
  const std::map<std::string, ir::Origin> origins = origins_of(graph);
  for (const auto& [key, origin] : origins_before) {
    if (!origins.contains(key))
      graph.retire({origin}, "removed", "does nothing after pass " + std::string(pass));
  }
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
    const bool watched = !off && pass.run_watched != nullptr;
    if (run == nullptr && !asks && !watched) continue;
    options.watch.check_time([&] { return "in pass " + std::string(pass.name); });
    const auto start = std::chrono::steady_clock::now();
    const std::map<std::string, ir::Origin> origins = origins_of(graph);
    const int changes = watched ? pass.run_watched(graph, options.watch)
                        : asks  ? pass.run_where(graph, options.takes)
                                : run(graph);
    restore_invariants(graph, pass.name, origins);
    const std::chrono::duration<double, std::milli> spent =
        std::chrono::steady_clock::now() - start;
    reports.push_back({pass.name, changes, spent.count()});
    if (changes > 0 && options.after) options.after(pass.name, graph);
  }
  return reports;
}

}  // namespace vernier::passes
