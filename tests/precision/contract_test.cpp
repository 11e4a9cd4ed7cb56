// The precision contract on random models under random policies: a plan honors every request, as
// this file works them out by itself from docs/precision.md ("mode, then rules in order"), or the
// build is refused with a node and a type. Models: random_model.h.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "compile/pipeline.h"
#include "engine/writer.h"
#include "ops/evaluate.h"
#include "precision/random_model.h"
#include "precision/requests.h"
#include "runtime/engine_impl.h"
#include "vernier/session.h"

namespace vernier::precision::testing {
namespace {

constexpr int kCases = 400;

// ---- what is asked, without precision/

struct Wish {
  DType type = DType::kUndefined;
  bool exact = false;
};
struct Wishes {
  Wish compute, accumulate, store;
};

// The lattice of docs/precision.md as far as these tests go.
bool holds(DType got, DType asked) {
  if (got == asked || got == DType::kF64) return true;
  if (got == DType::kF32) return asked != DType::kF64;
  return got == DType::kTF32 && (asked == DType::kF16 || asked == DType::kBF16);
}
bool met(DType got, const Wish& wish) {
  if (wish.type == DType::kUndefined) return true;
  return wish.exact ? got == wish.type : holds(got, wish.type);
}

struct RandomRule {
  std::string selector;  // "name:…" or "op:…"
  Wishes wishes;
  std::string text;
};

struct Policy {
  std::string mode;
  std::vector<RandomRule> rules;
  std::string text() const {
    std::string all = "--" + mode;
    for (const RandomRule& rule : rules) all += " --rule '" + rule.text + "'";
    return all;
  }
};

// What only moves values computes nothing.
bool computes(const RandomNode& node) {
  static const std::set<std::string> kMoves = {"Reshape", "Transpose", "Gather", "Concat"};
  return !kMoves.contains(node.op);
}

bool matches(const RandomRule& rule, const RandomNode& node) {
  if (rule.selector.starts_with("name:")) return rule.selector.substr(5) == node.name;
  const std::string op = rule.selector.substr(3);
  const bool norm = op == "LayerNorm" && node.op == "LayerNormalization";
  return op == node.op || op == node.composite || norm;
}

Wishes asked_of(const RandomNode& node, const Policy& policy) {
  static const std::map<std::string, std::pair<DType, DType>> kModes = {
      {"model", {DType::kF32, DType::kF32}},  {"fp32", {DType::kF32, DType::kF32}},
      {"tf32", {DType::kTF32, DType::kF32}},  {"fp16", {DType::kF16, DType::kF16}},
      {"bf16", {DType::kBF16, DType::kBF16}},
  };
  const auto [operand, store] = kModes.at(policy.mode);
  const bool product = node.op == "MatMul" || node.op == "Gemm";
  Wishes all;  // what only moves values keeps the type of what it moves, unless a rule speaks of it
  if (computes(node)) all = {{product ? operand : DType::kF32}, {DType::kF32}, {store}};
  for (const RandomRule& rule : policy.rules) {
    if (!matches(rule, node)) continue;
    for (Wish Wishes::*part : {&Wishes::compute, &Wishes::accumulate, &Wishes::store}) {
      if (part != &Wishes::store && !computes(node)) continue;
      if ((rule.wishes.*part).type != DType::kUndefined) all.*part = rule.wishes.*part;
    }
  }
  return all;
}

Policy random_policy(std::mt19937_64& random, const RandomModel& model) {
  const auto pick = [&](size_t count) { return static_cast<size_t>(random() % count); };
  Policy policy;
  policy.mode = std::vector{"model", "fp32", "tf32", "fp16", "fp16", "bf16", "bf16"}[pick(7)];
  const size_t count = pick(5);
  for (size_t i = 0; i < count; ++i) {
    const RandomNode& node = model.nodes[pick(model.nodes.size())];
    RandomRule rule;
    if (pick(2) == 0) {
      rule.selector = "name:" + node.name;
    } else {
      rule.selector = "op:" + (node.composite.empty() ? node.op : node.composite);
    }
    rule.text = rule.selector;
    const auto set = [&](Wish& wish, const char* spelling) {
      constexpr std::pair<const char*, DType> kTypes[] = {
          {"f32", DType::kF32}, {"f16", DType::kF16}, {"bf16", DType::kBF16}};
      const auto& [name, type] = kTypes[pick(3)];
      wish = {type, pick(2) == 0};
      rule.text += std::string(" ") + spelling + (wish.exact ? "==" : "=") + name;
    };
    const size_t part = pick(6);
    if (part < 2 || part == 5) set(rule.wishes.compute, "compute");
    if (part == 2) set(rule.wishes.accumulate, "acc");
    if (part >= 3) set(rule.wishes.store, "store");
    policy.rules.push_back(rule);
  }
  return policy;
}

// ---- one case

struct Case {
  RandomModel model;
  Policy policy;
  std::shared_ptr<ir::Graph> imported;
  plan::Plan plan;
  std::string refusal;  // why it was not built; empty: it was
};

Case make_case(uint64_t seed, bool with_rules) {
  std::mt19937_64 random(seed);
  Case one;
  one.model = random_model(random);
  one.policy = random_policy(random, one.model);
  if (!with_rules) one.policy.rules.clear();
  one.imported = one.model.builder.import();
  CompileOptions options;
  options.mode = one.policy.mode;
  for (const RandomRule& rule : one.policy.rules) options.rules.push_back(rule.text);
  try {
    one.plan = compiler::plan_of(*one.imported, options);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInput) << error.what();
    one.refusal = error.what();
  }
  return one;
}

bool names_a_node(const Case& one) {
  return std::ranges::any_of(one.model.nodes, [&](const RandomNode& node) {
    return one.refusal.find("'" + node.name + "'") != std::string::npos;
  });
}
bool names_a_type(const std::string& text) {
  return text.find("f16") != std::string::npos || text.find("f32") != std::string::npos;
}

void check_row(const plan::Plan& plan, const plan::LedgerRow& row, const Wishes& asked) {
  SCOPED_TRACE("ledger row of " + row.node + " (" + std::string(name(row.state)) + ", " +
               row.kernel + ", asked by " + row.asked.by + ")");
  if (row.state != LedgerState::kStep && row.state != LedgerState::kComposite) return;
  ASSERT_GE(row.step, 0);
  const plan::Step& step = plan.steps.at(static_cast<size_t>(row.step));
  EXPECT_EQ(row.kernel, step.kernel);
  EXPECT_TRUE(std::ranges::find(step.origins, row.key) != step.origins.end());
  EXPECT_TRUE(met(row.got_compute, asked.compute))
      << "compute " << name(row.got_compute) << " for " << name(asked.compute.type);
  EXPECT_TRUE(met(row.got_accumulate, asked.accumulate))
      << "accumulate " << name(row.got_accumulate) << " for " << name(asked.accumulate.type);
  // What never leaves registers meets a floor; who insists (==) must get it there too.
  const bool wider_register = row.in_register && represents(row.got_store, asked.store.type);
  EXPECT_TRUE(met(row.got_store, asked.store) || (row.in_register && !asked.store.exact) ||
              (wider_register && asked.store.type == DType::kF32))
      << "store " << name(row.got_store) << " for " << name(asked.store.type);
  EXPECT_EQ(row.got_accumulate, step.numerics.accumulate);
  EXPECT_TRUE(row.got_compute == step.numerics.compute || row.got_compute == step.numerics.inner);
  if (row.in_register) return;
  EXPECT_EQ(row.got_store, step.numerics.store);
}

// Arrays between steps are what numerics say, and what the rules ask, whatever the ledger says.
void check_values(const Case& one, const std::map<std::string, Wishes>& asked_by_output) {
  for (const plan::Step& step : one.plan.steps) {
    for (int32_t out : step.outputs) {
      if (out == plan::kNone) continue;
      const plan::PlanValue& value = one.plan.values.at(static_cast<size_t>(out));
      if (!is_float(value.dtype)) continue;
      EXPECT_EQ(value.dtype, step.numerics.store) << step.name << ", " << step.kernel;
    }
  }
  for (const plan::PlanValue& value : one.plan.values) {
    const auto asked = asked_by_output.find(value.name);
    if (asked == asked_by_output.end() || value.kind == plan::PlanValue::Kind::kInput) continue;
    EXPECT_TRUE(met(value.dtype, asked->second.store))
        << "value '" << value.name << "' is stored in " << name(value.dtype) << ", asked for "
        << name(asked->second.store.type);
  }
}

// Does the node of `row` make the value of that name, or is it a view?
bool makes(const plan::Plan& plan, const std::string& value, const plan::LedgerRow& row) {
  return std::ranges::none_of(plan.steps, [&](const plan::Step& step) {
    return std::ranges::any_of(step.outputs, [&](int32_t out) {
      return out != plan::kNone && plan.values.at(static_cast<size_t>(out)).name == value &&
             std::ranges::find(step.origins, row.key) == step.origins.end();
    });
  });
}

void check_plan(const Case& one) {
  std::map<std::string, Wishes> asked, asked_by_output;
  for (const RandomNode& node : one.model.nodes) asked[node.name] = asked_of(node, one.policy);
  std::map<std::string, int> rows;
  for (const plan::LedgerRow& row : one.plan.ledger) {
    ++rows[row.node];
    ASSERT_TRUE(asked.contains(row.node)) << row.node;
    check_row(one.plan, row, asked[row.node]);
    // A view that vanished or moved past an elementwise node leaves its name to its neighbor.
    if (row.step != plan::kNone && makes(one.plan, row.node + "_out", row))
      asked_by_output[row.node + "_out"] = asked[row.node];
  }
  for (const RandomNode& node : one.model.nodes) EXPECT_EQ(rows[node.name], 1) << node.name;
  check_values(one, asked_by_output);
}

// ---- running it

std::map<std::string, Tensor> inputs_of(uint64_t seed) {
  constexpr int64_t kRows = 3;
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  std::vector<double> x(kRows * kSeq * kWidth), mask(kRows * kSeq, 0);
  std::vector<int64_t> ids(kRows * kSeq);
  for (double& v : x) v = normal(random);
  for (int64_t& v : ids) v = static_cast<int64_t>(random() % kVocabulary);
  for (int64_t hidden = 1; hidden < 3; ++hidden)
    mask[mask.size() - static_cast<size_t>(hidden)] = -1e4;
  return {{"x", Tensor::from(DType::kF32, {kRows, kSeq, kWidth}, std::span<const double>(x))},
          {"mask", Tensor::from(DType::kF32, {kRows, 1, 1, kSeq}, std::span<const double>(mask))},
          {"ids", Tensor::from(DType::kI64, {kRows, kSeq}, std::span<const int64_t>(ids))}};
}

// rms(E − R) / rms(R) that nothing but a wrong type explains.
double loose_bound(const plan::Plan& plan) {
  double bound = 1e-4;
  const auto take = [&](DType type) {
    if (type == DType::kF16) bound = std::max(bound, 0.03);
    if (type == DType::kBF16) bound = std::max(bound, 0.25);
  };
  for (const plan::Step& step : plan.steps) {
    for (DType type : {step.numerics.store, step.numerics.compute, step.numerics.inner,
                       step.numerics.accumulate})
      take(type);
  }
  return bound;
}

void check_run(const Case& one, uint64_t seed) {
  const std::vector<std::byte> bytes = engine::engine_bytes(one.plan);
  const auto engine = Engine::from_bytes(bytes);
  EXPECT_EQ(engine::engine_bytes(engine->impl().plan), bytes) << "the engine does not round-trip";
  const std::map<std::string, Tensor> inputs = inputs_of(seed);
  const ops::Evaluation reference = ops::evaluate(*one.imported, inputs);
  std::vector<Input> arrays;
  for (const auto& [name, t] : inputs) arrays.push_back({name, t.dtype(), t.shape(), t.data()});
  Session session(engine, {.threads = 1});
  for (const Output& output : session.run(arrays)) {
    const EvalTensor& want = reference.outputs.at(std::string(output.name));
    ASSERT_EQ(output.dtype, DType::kF32) << output.name;
    ASSERT_EQ(Shape(output.shape.begin(), output.shape.end()), want.shape);
    double error = 0, scale = 0;
    for (size_t i = 0; i < want.f.size(); ++i) {
      const double got = static_cast<const float*>(output.data)[i];
      ASSERT_TRUE(std::isfinite(got)) << output.name << "[" << i << "]";
      error += (got - want.f[i]) * (got - want.f[i]);
      scale += want.f[i] * want.f[i];
    }
    EXPECT_LE(std::sqrt(error / scale), loose_bound(one.plan)) << output.name;
  }
}

TEST(Contract, RandomModelsUnderRandomPoliciesAreHonoredOrRefused) {
  int built = 0;
  std::map<std::string, int> refusals;  // by the words after the node's name
  for (uint64_t seed = 0; seed < kCases; ++seed) {
    const Case one = make_case(seed, true);
    SCOPED_TRACE("seed " + std::to_string(seed) + ": " + one.policy.text());
    if (!one.refusal.empty()) {
      if (one.refusal.find("matches nothing") != std::string::npos) continue;  // a dead branch
      EXPECT_TRUE(names_a_node(one)) << one.refusal;
      EXPECT_TRUE(names_a_type(one.refusal)) << one.refusal;
      const size_t nearest = one.refusal.find("nearest: ");
      ++refusals[nearest == std::string::npos ? one.refusal : one.refusal.substr(nearest)];
      continue;
    }
    ++built;
    check_plan(one);
    check_run(one, seed);
    if (HasFatalFailure()) break;
  }
  std::printf("%d of %d random cases were built; refusals:\n", built, kCases);
  for (const auto& [why, count] : refusals) std::printf("%5d  %s\n", count, why.c_str());
  EXPECT_GE(built * 10, kCases * 7) << "too many refusals: the test proves little";
}

TEST(Contract, AModeAloneIsNeverRefused) {
  for (uint64_t seed = 1000; seed < 1100; ++seed) {
    const Case one = make_case(seed, false);
    SCOPED_TRACE("seed " + std::to_string(seed) + ": " + one.policy.text());
    ASSERT_EQ(one.refusal, "");
    check_plan(one);
    check_run(one, seed);
    if (HasFatalFailure()) break;
  }
}

}  // namespace
}  // namespace vernier::precision::testing
