// Graphs, plans and the toy backend of the planner's tests: see graphs.h.
#include "plan/graphs.h"

#include <gtest/gtest.h>

#include <deque>

#include "backend/cpu/cpu.h"
#include "core/attrs.h"
#include "ir/text.h"
#include "ops/infer.h"
#include "precision/requests.h"

namespace vernier::test {
namespace {

using backend::KernelDef;
using backend::Problem;

Numerics f32_numerics(const Problem&) { return {}; }
Numerics half_numerics(const Problem&) { return {.compute = DType::kF16}; }
Support always(const Problem&) { return yes(); }

Support linear_of_sixteens(const Problem& problem) {
  const Tensor* weight = problem.inputs[1].constant;
  if (!weight) return no("the weight is not a constant");
  return weight->shape()[0] % 16 == 0 ? yes() : no("K is not a multiple of 16");
}

// "Packs" by reversing the bytes.
std::vector<backend::PackedConstant> pack_weight(const Problem& problem) {
  const auto bytes = problem.inputs[1].constant->byte_span();
  return {{.input = 1, .layout = "reversed", .bytes = {bytes.rbegin(), bytes.rend()}}};
}

KernelDef row(std::string_view name, OpKind op) {
  return {{.supports = &always, .numerics = &f32_numerics}, name, op};
}

struct Table {
  std::deque<std::string> names;
  std::vector<KernelDef> rows;
  Table() {
    rows.push_back(row("toy.abs.dense", OpKind::kAbs));
    rows.push_back(row("toy.neg.strided", OpKind::kNeg));
    rows.back().strided_inputs = 1;
    rows.push_back(row("toy.add.strided", OpKind::kAdd));
    rows.back().strided_inputs = 3;
    rows.push_back(row("toy.exp.half", OpKind::kExp));
    rows.back().numerics = &half_numerics;
    rows.push_back(row("toy.exp.f32", OpKind::kExp));
    rows.push_back(row("toy.sqrt.half", OpKind::kSqrt));
    rows.back().numerics = &half_numerics;
    rows.push_back(row("toy.erf.mapped", OpKind::kErf));
    rows.back().strided_inputs = 1;
    rows.back().repeating_inputs = 0;
    rows.push_back(row("toy.linear.packed", OpKind::kLinear));
    rows.back().supports = &linear_of_sixteens;
    rows.back().pack = &pack_weight;
    rows.push_back(row("toy.linear.plain", OpKind::kLinear));
    for (size_t i = 0; i < num_op_kinds(); ++i) {
      const auto op = static_cast<OpKind>(i);
      if (!(flags(op) & kView)) continue;
      names.push_back("toy." + std::string(name(op)) + ".copy");
      rows.push_back(row(names.back(), op));
      rows.back().strided_inputs = 1;
    }
  }
};

std::string alias_text(const plan::PlanValue& value) {
  std::string text = str(value.shape);
  if (!(value.offset_elems == Dim(0))) text += " at " + value.offset_elems.str();
  if (value.strides.empty()) return text;
  std::string strides;
  for (const Dim& d : value.strides) strides += (strides.empty() ? "" : ", ") + d.str();
  return text + " by (" + strides + ")";
}

}  // namespace

std::shared_ptr<ir::Graph> graph_of(std::string_view text) {
  auto graph = ir::parse(text, &ops::infer_node);
  ops::infer_graph(*graph);
  return graph;
}

const backend::Backend& toy_backend() {
  static const Table table;
  static const backend::Backend backend{
      .name = "toy", .kernels = table.rows, .make_device = nullptr, .target = [] {
        return std::string("toy machine");
      }};
  return backend;
}

plan::Plan toy_plan(std::string_view text, const std::string& shapes) {
  const auto graph = graph_of(text);
  precision::ask_mode(*graph, precision::Mode::kFp32);
  precision::join_requests(*graph);
  return plan::make_plan(*graph, toy_backend(), {.shapes = shapes, .progress = nullptr});
}

plan::Plan plan_for(const backend::Backend& backend, const ir::Graph& graph,
                    const std::string& shapes) {
  const auto typed = graph.clone();
  precision::ask_mode(*typed, precision::Mode::kFp32);
  precision::join_requests(*typed);
  return plan::make_plan(*typed, backend, {.shapes = shapes, .progress = nullptr});
}
plan::Plan cpu_plan(const ir::Graph& graph, const std::string& shapes) {
  return plan_for(backend::cpu_backend(), graph, shapes);
}

std::string linear_text(int64_t k, int64_t n, int seed) {
  const std::string ks = std::to_string(k), ns = std::to_string(n);
  return "graph g(%x: f32[batch, " + ks + "]) { %w = const f32[" + ks + ", " + ns +
         "] normal(seed=" + std::to_string(seed) +
         ", mean=0, std=1) %y = Linear(%x, %w) return %y as \"y\" }";
}

std::string outline(const plan::Plan& plan) {
  std::string text;
  for (const plan::Step& step : plan.steps)
    text += (text.empty() ? "" : " ") + std::string(name(step.op));
  for (const plan::PlanValue& value : plan.values) {
    if (value.kind == plan::PlanValue::Kind::kAlias) text += "; " + alias_text(value);
  }
  return text;
}

std::string error_of(const std::function<void()>& body, ErrorCode code) {
  try {
    body();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  return "no error";
}

}  // namespace vernier::test
