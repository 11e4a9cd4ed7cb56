// --w8 and --w4 quantize what they say, keep each row's bits, and are held to the verdict of every
// other type.
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

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;

constexpr double kKeepAll = 1e3;  // of int8_error: every product stays quantized

bool is_weight_only_step(const plan::Step& step) { return step.op == OpKind::kWeightOnlyLinear; }

plan::Plan build(const std::string& model, const std::string& mode,
                 std::vector<std::string> rules = {}, double error = CompileOptions().int8_error) {
  CompileOptions options = test::options_here();
  options.mode = mode;
  options.rules = std::move(rules);
  options.int8_error = error;
  return compiler::run(test::example_model(model).path.string(), options).plan;
}

size_t weight_bytes(const plan::Plan& plan) {
  size_t bytes = 0;
  for (const plan::Blob& blob : plan.blobs) bytes += blob.bytes.bytes();
  return bytes;
}

using Row = std::tuple<const char*, const char*>;  // model, mode

class WeightOnly : public ::testing::TestWithParam<Row> {
 protected:
  static std::string model() { return std::get<0>(GetParam()); }
  static std::string mode() { return std::get<1>(GetParam()); }
  static DType type() { return mode() == "w8" ? DType::kW8 : DType::kW4; }
};
INSTANTIATE_TEST_SUITE_P(Models, WeightOnly,
                         ::testing::Combine(::testing::Values("demo_reranker", "bert_embedder_ts17",
                                                              "bge_reranker_dynamo", "gpt2_ts17",
                                                              "vit_ts17"),
                                            ::testing::Values("w8", "w4")),
                         [](const auto& one) {
                           return std::string(std::get<0>(one.param)) + "_" +
                                  std::get<1>(one.param);
                         });

TEST_P(WeightOnly, QuantizesEveryProductWithAConstantWeightButTheHeads) {
  const plan::Plan plan = build(model(), mode(), {}, kKeepAll), bf16 = build(model(), "bf16");
  EXPECT_THAT(plan.notes, Contains(HasSubstr("100.0 % of their operations")));
  const auto linear = [](const plan::Step& s) { return s.op == OpKind::kLinear; };
  const auto products = std::ranges::count_if(bf16.steps, linear);
  EXPECT_EQ(std::ranges::count_if(plan.steps, &is_weight_only_step) +
                std::ranges::count_if(plan.steps, linear),
            products);
  EXPECT_LE(std::ranges::count_if(plan.steps, linear), 2) << "the head's";
  for (const plan::LedgerRow& row : plan.ledger) {
    if (row.kernel.find(".weight_only_linear.") == std::string::npos ||
        !precision::is_product(row.op))
      continue;
    EXPECT_EQ(row.got_compute, type()) << row.node;
    EXPECT_EQ(row.got_accumulate, DType::kF32) << row.node;
  }
  EXPECT_LT(weight_bytes(plan), weight_bytes(bf16));
}

TEST_P(WeightOnly, PassesAndEveryRowKeepsItsBits) {
  Request request;
  request.threads = 2;
  const auto path = test::example_model(model()).path;
  const Report report =
      verify_engine(Engine::from_bytes(engine::engine_bytes(build(model(), mode()))),
                    *onnx::import_model(path), request);
  EXPECT_EQ(report.verdict, "pass") << to_text(report);
  for (const CheckResult& check : report.checks) EXPECT_EQ(check.failed, 0) << check.name;
}

TEST_P(WeightOnly, RulesComeFirst) {
  const plan::Plan plan = build(model(), mode(), {"layer:0 compute=f32"});
  const auto f32 = std::ranges::count_if(plan.steps, [](const plan::Step& s) {
    return s.op == OpKind::kLinear && s.numerics.compute == DType::kF32;
  });
  EXPECT_GE(f32, 3);
  const plan::Plan one = build(model(), "fp32", {"role:ffn.up compute=" + mode()});
  EXPECT_THAT(one.steps, Contains(testing::Truly(&is_weight_only_step)));
  for (const plan::Step& step : one.steps) {
    if (is_weight_only_step(step)) {
      EXPECT_EQ(step.numerics.store, DType::kF32) << step.name;
    }
  }
}

TEST(WeightOnlyBuild, SaysWhatItQuantizes) {
  EXPECT_THAT(build("bert_embedder_ts17", "w8").notes,
              Contains(HasSubstr("w8: 8 of 8 products with a constant weight")));
  EXPECT_THAT(build("bert_embedder_ts17", "w4", {"op:Linear compute=bf16"}).notes,
              Contains(HasSubstr("w4: nothing is quantized")));
  const plan::Plan both = build("bert_embedder_ts17", "w8", {"role:ffn.up compute=w4"}, kKeepAll);
  EXPECT_THAT(both.notes, Contains(HasSubstr("w4: 2 of 2 products that rules ask for it")));
  EXPECT_THAT(both.notes, Contains(AllOf(HasSubstr("w8: 6 of 8 products with a constant weight"),
                                         HasSubstr("other types are asked for at 2"))));
}

TEST(WeightOnlyBuild, KeepsProductsOfFourBitsInEightWhereTheyCostTooMuch) {
  const plan::Plan plan = build("bert_embedder_ts17", "w4", {}, 1e-2);
  EXPECT_THAT(plan.notes, Contains(HasSubstr("' kept in w8: w4 is off by ")));
  const auto in = [&](DType type) {
    return std::ranges::count_if(plan.steps,
                                 [&](const plan::Step& s) { return s.numerics.compute == type; });
  };
  EXPECT_GT(in(DType::kW8), 0);
  EXPECT_THAT(plan.build.policy, HasSubstr("compute=w8"));
  EXPECT_EQ(engine::engine_bytes(plan),
            engine::engine_bytes(build("bert_embedder_ts17", "w4", {}, 1e-2)))
      << "two builds give the same bytes";
}

// A scale that is twice what it should be is no rounding.
TEST(WeightOnlyBuild, AWrongScaleIsNoPass) {
  for (const char* mode : {"w8", "w4"}) {
    plan::Plan plan = build("bert_embedder_ts17", mode);
    const auto step = std::ranges::find_if(plan.steps, &is_weight_only_step);
    ASSERT_NE(step, plan.steps.end());
    const auto blob = static_cast<size_t>(plan.value(step->inputs[2]).constant);
    std::vector<double> scales;
    const Tensor before = plan.blobs[blob].bytes;
    for (int64_t i = 0; i < before.elems(); ++i) scales.push_back(before.float_at(i));
    scales[scales.size() / 2] *= 2;
    plan.blobs[blob].bytes =
        Tensor::from(DType::kF32, before.shape(), std::span<const double>(scales));
    Request request;
    request.batches = {1};
    request.lengths = {16};
    const Report report =
        verify_engine(Engine::from_bytes(engine::engine_bytes(plan)),
                      *onnx::import_model(test::example_model("bert_embedder_ts17").path), request);
    EXPECT_NE(report.verdict, "pass") << mode;
    EXPECT_THAT(to_text(report), HasSubstr("has scale ")) << mode;
  }
}

TEST(WeightOnlyBuild, IsRefusedWhereTheDeviceHasNoKernelForIt) {
  backend::Backend other = runtime::backend_named("cpu", "the test's device");
  std::vector<backend::KernelDef> rows;
  for (const backend::KernelDef& row : other.kernels) {
    if (!row.name.starts_with("cpu.weight_only_linear.panels")) rows.push_back(row);
  }
  other.kernels = rows;
  CompileOptions options;
  options.mode = "w4";
  options.kernels = &other;
  try {
    compiler::run(test::example_model("bert_embedder_ts17").path.string(), options);
    FAIL() << "nothing was refused";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInput);
    EXPECT_THAT(error.what(), HasSubstr("mode w4: this version has no cpu kernel"));
  }
}

}  // namespace
}  // namespace vernier::verify
