// Helpers of the pass tests: see pass_testing.h.
#include "passes/pass_testing.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <set>

#include "ir/text.h"
#include "ops/evaluate.h"
#include "ops/infer.h"

namespace vernier::passes::testing {

std::shared_ptr<ir::Graph> graph_of(std::string_view text) {
  auto graph = ir::parse(text, &ops::infer_node);
  ops::infer_graph(*graph);
  ir::check(*graph, "test");
  return graph;
}

std::string graph_text(std::string_view inputs, std::string_view lines) {
  return "graph g(" + std::string(inputs) + ") {\n" + std::string(lines) + "\nreturn %y as \"y\" }";
}

std::string structure(const ir::Graph& graph) {
  ir::PrintOptions options;
  options.names = ir::PrintOptions::Names::kNumbers;
  options.types = ir::PrintOptions::Types::kHide;
  return ir::print(graph, options);
}

int count(const ir::Graph& graph, std::string_view op) {
  int found = 0;
  for (ir::NodeId id : graph.order()) found += name(graph.node(id).op) == op;
  return found;
}

namespace {

Tensor random_tensor(DType dtype, const Shape& shape, std::mt19937& generator) {
  const auto n = static_cast<size_t>(num_elems(shape));
  if (is_float(dtype)) {
    std::normal_distribution<double> normal;
    std::vector<double> values(n);
    for (double& v : values) v = normal(generator);
    return Tensor::from(dtype, shape, std::span<const double>(values));
  }
  std::vector<int64_t> values(n);
  const uint32_t limit = dtype == DType::kBool ? 2 : 3;
  for (int64_t& v : values) v = static_cast<int64_t>(generator() % limit);
  // The first of every row is set: a mask that hides a whole row is its own test.
  for (size_t i = 0; i < n && !shape.empty() && shape.back() > 0;
       i += static_cast<size_t>(shape.back()))
    values[i] = 1;
  return Tensor::from(dtype, shape, std::span<const int64_t>(values));
}

}  // namespace

std::map<std::string, Tensor> random_inputs(const ir::Graph& graph,
                                            const std::map<std::string, int64_t>& sizes) {
  std::mt19937 generator(7);
  std::map<std::string, int64_t> binding = sizes;
  int64_t next = 3;
  std::map<std::string, Tensor> inputs;
  for (ir::ValueId id : graph.inputs) {
    const ir::Value& v = graph.value(id);
    Shape shape;
    for (const Dim& d : v.shape) {
      for (const std::string& symbol : d.symbols()) {
        if (binding.try_emplace(symbol, next).second) next += 2;
      }
      shape.push_back(d.evaluate(binding));
    }
    inputs[v.name] = random_tensor(v.dtype, shape, generator);
  }
  return inputs;
}

void expect_same_results(const ir::Graph& before, const ir::Graph& after, double tolerance,
                         const std::map<std::string, int64_t>& sizes) {
  const auto inputs = random_inputs(before, sizes);
  const auto a = ops::evaluate(before, inputs), b = ops::evaluate(after, inputs);
  ASSERT_EQ(a.outputs.size(), b.outputs.size());
  for (const auto& [name, x] : a.outputs) {
    const EvalTensor& y = b.outputs.at(name);
    ASSERT_EQ(x.shape, y.shape) << name;
    EXPECT_EQ(x.dtype, y.dtype) << name;
    std::set<double> distinct;
    for (int64_t i = 0; i < x.elems(); ++i) {
      const double u = x.value(i), v = y.value(i);
      distinct.insert(u);
      if (u == v || (std::isnan(u) && std::isnan(v))) continue;
      ASSERT_LE(std::abs(u - v), tolerance * (1 + std::abs(u))) << name << " element " << i;
    }
    EXPECT_TRUE(x.elems() < 2 || !is_float(x.dtype) || distinct.size() > 1)
        << name << " is constant: the test shows nothing";
  }
}

namespace {

void run(PassFn pass, ir::Graph& graph) {
  pass(graph);
  graph.remove_dead();
  graph.sort();
  ops::infer_graph(graph);
  ir::check(graph, "pass");
}

}  // namespace

void expect_rewrite(const Rewrite& rewrite) {
  const auto before = graph_of(rewrite.before);
  const auto after = before->clone();
  run(rewrite.pass, *after);
  EXPECT_EQ(structure(*after), structure(*graph_of(rewrite.after)));
  expect_same_results(*before, *after, rewrite.tolerance, rewrite.sizes);
}

void expect_no(PassFn pass, std::string_view op, const std::string& text) {
  const auto before = graph_of(text);
  const auto after = before->clone();
  run(pass, *after);
  EXPECT_EQ(count(*after, op), 0) << structure(*after);
  expect_same_results(*before, *after, 1e-12);
}

}  // namespace vernier::passes::testing
