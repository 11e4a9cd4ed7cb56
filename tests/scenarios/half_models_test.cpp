// Models that arrive in 16 bits, as .half() and mixed-precision tools write them: what they hold is
// what they ask for, and a mode asks for more. They are made from two example models by
// tools/make_half_models.py, which needs the PyPI package onnx: SKIP where it is not in .venv.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "cli/program.h"
#include "compile/pipeline.h"
#include "engine/writer.h"
#include "onnx/import.h"
#include "runtime/models.h"
#include "verify/verify.h"
#include "vernier/session.h"

namespace vernier::verify {
namespace {

struct Variant {
  std::string source, name;
  DType operand;     ///< of the model's products
  DType elsewhere;   ///< what the model's norms and softmaxes are in
  DType in_and_out;  ///< of its float inputs and outputs
};
void PrintTo(const Variant& variant, std::ostream* out) {
  *out << variant.source << " " << variant.name;
}

class HalfModel : public ::testing::TestWithParam<Variant> {
 protected:
  void SetUp() override {
    const std::string python = ".venv/bin/python";
    if (!std::filesystem::exists(python) ||
        test::run_command(python, {"-c", "import onnx, ml_dtypes"}).code != 0)
      GTEST_SKIP() << "SKIP: onnx of requirements.txt is not in .venv";
    const test::Outcome made = test::run_command(
        python, {"tools/make_half_models.py", test::example_model(GetParam().source).path.string(),
                 folder_ / "", GetParam().name});
    ASSERT_EQ(made.code, 0) << made.err;
    model_ = folder_ / (GetParam().name + ".onnx");
  }

  plan::Plan build(const std::string& mode) {
    CompileOptions options;
    options.mode = mode;
    return compiler::run(model_, options).plan;
  }

  void expect_pass(const plan::Plan& plan) {
    Request request;
    request.batches = {1, 4};
    request.lengths = {4, 16};
    request.threads = 2;
    const Report report = verify_engine(Engine::from_bytes(engine::engine_bytes(plan)),
                                        *onnx::import_model(model_), request);
    EXPECT_EQ(report.verdict, "pass") << to_text(report);
    for (const plan::PlanValue& value : plan.values) {
      if (value.kind == plan::PlanValue::Kind::kInput && is_float(value.dtype)) {
        EXPECT_EQ(value.dtype, GetParam().in_and_out) << value.name;
      }
    }
    for (int32_t output : plan.outputs)
      EXPECT_EQ(plan.values[static_cast<size_t>(output)].dtype, GetParam().in_and_out);
  }

  test::TemporaryFolder folder_;
  std::string model_;
};

bool is_product(const plan::LedgerRow& row) { return row.op == "MatMul" || row.op == "Gemm"; }

// Does a step take operands, or hold results other than the engine's outputs, in this type?
int64_t steps_in(const plan::Plan& plan, DType type) {
  int64_t count = 0;
  for (const plan::Step& step : plan.steps)
    count +=
        step.op != OpKind::kCast && (step.numerics.compute == type || step.numerics.store == type);
  return count;
}

TEST_P(HalfModel, AsksForItsOwnTypes) {
  const plan::Plan plan = build("");
  int products = 0, norms = 0;
  for (const plan::LedgerRow& row : plan.ledger) {
    const bool norm = row.composite.find("LayerNorm") != std::string::npos;
    if (row.asked.by.empty() || row.step == plan::kNone) continue;
    EXPECT_EQ(row.asked.by, "model") << row.node;
    if (is_product(row)) {
      EXPECT_EQ(row.asked.compute.type, GetParam().operand) << row.node;
      ++products;
    }
    if (norm && row.op != "Add") {
      EXPECT_EQ(row.asked.compute.type, DType::kF32) << row.node;
      // The last norm's result is cast to the model's output.
      EXPECT_TRUE(row.asked.store.type == GetParam().elsewhere ||
                  row.asked.store.type == GetParam().in_and_out)
          << row.node;
      ++norms;
    }
  }
  EXPECT_GT(products, 10);
  EXPECT_GT(norms, 3);
  expect_pass(plan);
}

// A Cast between steps is there for an operand that is stored wider, never twice for one value, and
// where everything is in one type there is none.
TEST_P(HalfModel, CastsOnlyWhatProductsNeedNarrower) {
  const plan::Plan plan = build("");
  std::set<int32_t> seen;
  for (const plan::Step& step : plan.steps) {
    if (step.op != OpKind::kCast) continue;
    const DType from = plan.values[static_cast<size_t>(step.inputs[0])].dtype,
                to = plan.values[static_cast<size_t>(step.outputs[0])].dtype;
    if (!is_float(from)) continue;
    EXPECT_TRUE(seen.insert(step.inputs[0]).second) << step.name;
    const bool at_output = std::ranges::find(plan.outputs, step.outputs[0]) != plan.outputs.end();
    EXPECT_TRUE(at_output || (from == DType::kF32 && to == GetParam().operand)) << step.name;
    if (GetParam().elsewhere == GetParam().operand) {
      EXPECT_TRUE(at_output || GetParam().in_and_out == DType::kF32) << step.name;
    }
  }
}

TEST_P(HalfModel, Fp32Overrides) {
  const plan::Plan plan = build("fp32");
  for (const plan::Step& step : plan.steps) {
    if (step.op == OpKind::kCast) continue;  // to the model's outputs
    EXPECT_FALSE(step.op == OpKind::kLinear && step.kernel.ends_with("_widened")) << step.name;
    EXPECT_TRUE(represents(step.numerics.compute, DType::kF32)) << step.name;
    for (int32_t out : step.outputs) {
      const plan::PlanValue& value = plan.values[static_cast<size_t>(out)];
      EXPECT_TRUE(!is_float(value.dtype) || value.dtype == DType::kF32) << step.name;
    }
  }
  expect_pass(plan);
}

TEST_P(HalfModel, AnotherTypeOverrides) {
  const bool half = GetParam().operand == DType::kF16;
  const plan::Plan plan = build(half ? "bf16" : "fp16");
  const DType asked = half ? DType::kBF16 : DType::kF16;
  EXPECT_EQ(steps_in(plan, GetParam().operand), 0);
  EXPECT_GT(steps_in(plan, asked), 10);
  for (const plan::Step& step : plan.steps) {
    const bool linear = step.op == OpKind::kLinear;
    EXPECT_FALSE(linear && step.kernel.ends_with("_widened")) << step.name << ": " << step.kernel;
  }
  expect_pass(plan);
}

constexpr DType kHalf = DType::kF16, kSingle = DType::kF32, kBrain = DType::kBF16;
INSTANTIATE_TEST_SUITE_P(
    Variants, HalfModel,
    ::testing::Values(Variant{"bert_ts11", "half", kHalf, kHalf, kHalf},
                      Variant{"bert_ts11", "autocast", kHalf, kSingle, kSingle},
                      Variant{"bert_sdpa_dynamo", "half_io32", kHalf, kHalf, kSingle},
                      Variant{"bert_sdpa_dynamo", "islands_bf16", kBrain, kSingle, kSingle},
                      Variant{"vit_ts17", "half_io32", kHalf, kHalf, kSingle},
                      Variant{"vit_ts17", "islands", kHalf, kSingle, kSingle},
                      Variant{"vit_ts17", "islands_bf16", kBrain, kSingle, kSingle}),
    [](const auto& one) { return one.param.source + "_" + one.param.name; });

}  // namespace
}  // namespace vernier::verify
