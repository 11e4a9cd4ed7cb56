// Runs the passes of one phase and keeps the graph's invariants between them. Contract: pass.h.
#include <algorithm>
#include <chrono>

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

void restore_invariants(ir::Graph& graph, std::string_view pass) {
  graph.remove_dead();
  graph.sort();
  ops::infer_graph(graph);
  ir::check(graph, "after pass " + std::string(pass));
}

}  // namespace

std::vector<PassReport> run_passes(ir::Graph& graph, Phase phase, const PassOptions& options) {
  check_options(options);
  std::vector<PassReport> reports;
  for (const Pass& pass : pipeline()) {
    if (pass.phase != phase || options.off.contains(std::string(pass.name))) continue;
    const auto start = std::chrono::steady_clock::now();
    const int changes = pass.run(graph);
    restore_invariants(graph, pass.name);
    const std::chrono::duration<double, std::milli> spent =
        std::chrono::steady_clock::now() - start;
    reports.push_back({pass.name, changes, spent.count()});
    if (changes > 0 && options.after) options.after(pass.name, graph);
  }
  return reports;
}

}  // namespace vernier::passes
