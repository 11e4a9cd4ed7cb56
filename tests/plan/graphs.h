// Graphs from text, plans from graphs, and a small backend whose kernels say yes and no on purpose.
// The text form: ir/text.h.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "backend/kernel.h"
#include "ir/graph.h"
#include "plan/planner.h"

namespace vernier::test {

/// Parsed and inferred.
std::shared_ptr<ir::Graph> graph_of(std::string_view text);

/// Kernels that are planned but never run:
///   toy.abs.dense        takes no strides          toy.neg.strided       takes strides in input 0
///   toy.add.strided      takes strides in both     toy.exp.half          computes in f16
///   toy.exp.f32          after it                  toy.linear.packed     needs K % 16 == 0; packs
///   toy.linear.plain     any K                     toy.<view>.copy       for every view operator
///   toy.erf.mapped       takes strides, but not 0
/// and none for Tanh.
const backend::Backend& toy_backend();

/// The plan of a graph for the toy backend, requests of mode fp32 included.
plan::Plan toy_plan(std::string_view text, const std::string& shapes = "");
/// The same for a device's kernels; cpu_plan(): the CPU's.
plan::Plan plan_for(const backend::Backend& backend, const ir::Graph& graph,
                    const std::string& shapes = "");
plan::Plan cpu_plan(const ir::Graph& graph, const std::string& shapes = "");

/// What a kLinear-and-weights graph needs: "graph g(…) {…}" with weights [k, n] from `seed`.
std::string linear_text(int64_t k, int64_t n, int seed);

/// The steps by operator, then every alias: "Abs Neg; [b, 4] at 2 by (8, 1)". The strides are left
/// out where the alias is dense.
std::string outline(const plan::Plan& plan);

/// What `body` throws, or "no error". Fails the test if it is not of `code`.
std::string error_of(const std::function<void()>& body, ErrorCode code = ErrorCode::kInput);

}  // namespace vernier::test
