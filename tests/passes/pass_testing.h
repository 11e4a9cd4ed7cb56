// Tests of passes: graphs as text, before and after, and both through the FP64 evaluator.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "core/tensor.h"
#include "ir/graph.h"

namespace vernier::passes::testing {

using PassFn = int (*)(ir::Graph&);

/// The graph that the text describes, inferred.
std::shared_ptr<ir::Graph> graph_of(std::string_view text);
/// `lines` between "graph g(<inputs>) {" and "return %y as "y" }".
std::string graph_text(std::string_view inputs, std::string_view lines);
/// Structure only: values numbered, types and origins left out.
std::string structure(const ir::Graph& graph);
/// How often an operator occurs.
int count(const ir::Graph& graph, std::string_view op);

/// Seeded inputs of the graph for the given sizes of its symbols (default 3, 5, 7, … in order of
/// appearance). Integers lie in [0, 3), bools are mixed, floats are normal.
std::map<std::string, Tensor> random_inputs(const ir::Graph& graph,
                                            const std::map<std::string, int64_t>& sizes = {});

/// Both graphs give the same outputs on random inputs: |a − b| ≤ tolerance · (1 + |a|), NaN equal.
void expect_same_results(const ir::Graph& before, const ir::Graph& after, double tolerance,
                         const std::map<std::string, int64_t>& sizes = {});

/// `pass` turns `before` into `after` (compared by structure()), and both mean the same.
struct Rewrite {
  PassFn pass;
  std::string before, after;
  double tolerance = 1e-12;
  std::map<std::string, int64_t> sizes = {};
};
void expect_rewrite(const Rewrite& rewrite);
/// `pass` leaves no `op` in the graph, and its meaning stays.
void expect_no(PassFn pass, std::string_view op, const std::string& text);

}  // namespace vernier::passes::testing
