// --int8 quantizes what it says, keeps each row's bits, and is held to the verdict of every other
// type. Field case: the INT8 that changed nothing, slowly.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "compile/pipeline.h"
#include "engine/writer.h"
#include "onnx/import.h"
#include "precision/requests.h"
#include "runtime/backends.h"
#include "runtime/engine_impl.h"
#include "runtime/models.h"
#include "verify/verify.h"

namespace vernier::verify {
namespace {

using testing::Contains;
using testing::HasSubstr;

bool is_int8(const plan::Step& step) { return step.op == OpKind::kQuantizedLinear; }

plan::Plan build(const std::string& model, const std::string& mode,
                 std::vector<std::string> rules = {}) {
  CompileOptions options = test::options_here();
  options.mode = mode;
  options.rules = std::move(rules);
  return compiler::run(test::example_model(model).path.string(), options).plan;
}

class Int8 : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Models, Int8,
                         ::testing::Values("demo_reranker", "bert_embedder_ts17",
                                           "bge_reranker_dynamo", "gpt2_ts17", "vit_ts17"),
                         [](const auto& one) { return std::string(one.param); });

TEST_P(Int8, QuantizesEveryProductWithAConstantWeightButTheHeads) {
  const plan::Plan plan = build(GetParam(), "int8"), wide = build(GetParam(), "fp32");
  EXPECT_THAT(plan.notes, Contains(HasSubstr("100.0 % of their operations")));
  const auto products = std::ranges::count_if(
      wide.steps, [](const plan::Step& s) { return s.op == OpKind::kLinear; });
  const auto quantized = std::ranges::count_if(plan.steps, &is_int8);
  const auto others = std::ranges::count_if(
      plan.steps, [](const plan::Step& s) { return s.op == OpKind::kLinear; });
  EXPECT_EQ(quantized + others, products);
  EXPECT_LE(others, 2) << "the head's";
  for (const plan::LedgerRow& row : plan.ledger) {
    if (row.kernel.find(".quantized_linear.") == std::string::npos ||
        !precision::is_product(row.op))
      continue;
    EXPECT_EQ(row.got_compute, DType::kQ8) << row.node;
    EXPECT_EQ(row.got_accumulate, DType::kI32) << row.node;
  }
  size_t bytes = 0, wide_bytes = 0;
  for (const plan::Blob& blob : plan.blobs) bytes += blob.bytes.bytes();
  for (const plan::Blob& blob : wide.blobs) wide_bytes += blob.bytes.bytes();
  EXPECT_LT(bytes, wide_bytes * 2 / 3);
}

TEST_P(Int8, PassesAndEveryRowKeepsItsBits) {
  Request request;
  request.threads = 2;
  const auto path = test::example_model(GetParam()).path;
  const Report report =
      verify_engine(Engine::from_bytes(engine::engine_bytes(build(GetParam(), "int8"))),
                    *onnx::import_model(path), request);
  EXPECT_EQ(report.verdict, "pass") << to_text(report);
  for (const CheckResult& check : report.checks) EXPECT_EQ(check.failed, 0) << check.name;
  double error = 0;
  for (const OutputResult& output : report.outputs) error = std::max(error, output.worst.rms);
  EXPECT_GT(error, 1e-5) << "it is quantized";
}

TEST_P(Int8, RulesComeFirst) {
  const plan::Plan plan = build(GetParam(), "int8", {"layer:0 compute=f32"});
  const auto count = [&](DType type) {
    return std::ranges::count_if(plan.steps, [&](const plan::Step& s) {
      const bool product = s.op == OpKind::kLinear || s.op == OpKind::kQuantizedLinear;
      return product && s.numerics.compute == type;
    });
  };
  EXPECT_GE(count(DType::kF32), 3);
  for (const plan::Step& step : plan.steps) {
    if (!is_int8(step)) continue;
    EXPECT_EQ(step.asked.by, "mode int8") << step.name;
  }
  const plan::Plan one = build(GetParam(), "fp32", {"role:ffn.up compute=int8"});
  EXPECT_THAT(one.steps, Contains(testing::Truly(&is_int8)));
}

// Each step alone has the same bits: the check "runs that nobody watches" of the test above.
TEST_P(Int8, NormsQuantizeTheirRowsInOneLaunch) {
  const auto engine = Engine::from_bytes(engine::engine_bytes(build(GetParam(), "int8")));
  const Engine::Impl& impl = engine->impl();
  int norms = 0, joint = 0;
  for (size_t s = 0; s + 1 < impl.plan.steps.size(); ++s) {
    const plan::Step &step = impl.plan.steps[s], &next = impl.plan.steps[s + 1];
    // Not where only the first row of each sequence is quantized.
    const bool quantized = step.op == OpKind::kAddLayerNorm && next.op == OpKind::kQuantizeRows &&
                           next.inputs[0] == step.outputs[0];
    norms += quantized;
    joint += quantized && impl.joins[s] != Engine::Impl::Joins::kNo;
  }
  EXPECT_GT(norms, 0);
  EXPECT_EQ(joint, norms);
}

TEST(Int8Build, SaysWhatItQuantizes) {
  const plan::Plan plan = build("bert_embedder_ts17", "int8");
  EXPECT_THAT(plan.notes, Contains(HasSubstr("int8: 8 of 8 products with a constant weight")));
  const plan::Plan off = build("bert_embedder_ts17", "int8", {"op:Linear compute=f16"});
  EXPECT_THAT(off.notes, Contains(HasSubstr("nothing is quantized")));
}

TEST(Int8Build, IsRefusedWhereTheDeviceHasNoKernelForIt) {
  backend::Backend other = runtime::backend_named("cpu", "the test's device");
  std::vector<backend::KernelDef> rows;
  for (const backend::KernelDef& row : other.kernels) {
    if (!row.name.starts_with("cpu.quantized_linear.panels")) rows.push_back(row);
  }
  other.kernels = rows;
  CompileOptions options;
  options.mode = "int8";
  options.kernels = &other;
  try {
    compiler::run(test::example_model("bert_embedder_ts17").path.string(), options);
    FAIL() << "nothing was refused";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInput);
    EXPECT_THAT(error.what(), HasSubstr("mode int8: this version has no cpu kernel"));
  }
}

}  // namespace
}  // namespace vernier::verify
