// --int8 and --fp8 quantize what they say, keep each row's bits, and are held to the verdict of
// every other type. Field case: the INT8 that changed nothing, slowly.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "compile/pipeline.h"
#include "core/hash.h"
#include "engine/writer.h"
#include "onnx/import.h"
#include "precision/requests.h"
#include "runtime/backends.h"
#include "runtime/engine_impl.h"
#include "runtime/models.h"
#include "verify/replay.h"
#include "verify/runner.h"
#include "verify/verify.h"

namespace vernier::verify {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;

bool is_int8(const plan::Step& step) { return step.op == OpKind::kQuantizedLinear; }

plan::Plan build(const std::string& model, const std::string& mode,
                 std::vector<std::string> rules = {}, double error = CompileOptions().int8_error) {
  CompileOptions options = test::options_here();
  options.mode = mode;
  options.rules = std::move(rules);
  options.int8_error = error;
  return compiler::run(test::example_model(model).path.string(), options).plan;
}

struct Example {
  const char *model, *mode;
};
void PrintTo(const Example& one, std::ostream* out) { *out << one.model << " " << one.mode; }

class Int8 : public ::testing::TestWithParam<Example> {
 protected:
  static std::string model() { return GetParam().model; }
  static std::string mode() { return GetParam().mode; }
  static DType type() { return mode() == "int8" ? DType::kQ8 : DType::kF8E4M3; }
};
INSTANTIATE_TEST_SUITE_P(
    Models, Int8,
    ::testing::Values(Example{"demo_reranker", "int8"}, Example{"bert_embedder_ts17", "int8"},
                      Example{"bge_reranker_dynamo", "int8"}, Example{"gpt2_ts17", "int8"},
                      Example{"vit_ts17", "int8"}, Example{"demo_reranker", "fp8"},
                      Example{"bert_embedder_ts17", "fp8"}, Example{"bge_reranker_dynamo", "fp8"},
                      Example{"gpt2_ts17", "fp8"}, Example{"vit_ts17", "fp8"}),
    [](const auto& one) { return std::string(one.param.model) + "_" + one.param.mode; });

TEST_P(Int8, QuantizesEveryProductWithAConstantWeightButTheHeads) {
  const plan::Plan plan = build(model(), mode(), {}, 1e3), wide = build(model(), "fp32");
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
    EXPECT_EQ(row.got_compute, type()) << row.node;
    EXPECT_EQ(row.got_accumulate, mode() == "int8" ? DType::kI32 : DType::kF32) << row.node;
  }
  size_t bytes = 0, wide_bytes = 0;
  for (const plan::Blob& blob : plan.blobs) bytes += blob.bytes.bytes();
  for (const plan::Blob& blob : wide.blobs) wide_bytes += blob.bytes.bytes();
  EXPECT_LT(bytes, wide_bytes * 2 / 3);
}

TEST_P(Int8, PassesAndEveryRowKeepsItsBits) {
  Request request;
  request.threads = 2;
  const auto path = test::example_model(model()).path;
  const Report report =
      verify_engine(Engine::from_bytes(engine::engine_bytes(build(model(), mode()))),
                    *onnx::import_model(path), request);
  EXPECT_EQ(report.verdict, "pass") << to_text(report);
  for (const CheckResult& check : report.checks) EXPECT_EQ(check.failed, 0) << check.name;
  double error = 0;
  for (const OutputResult& output : report.outputs) error = std::max(error, output.worst.rms);
  EXPECT_GT(error, 1e-5) << "it is quantized";
}

TEST_P(Int8, RulesComeFirst) {
  const plan::Plan plan = build(model(), mode(), {"layer:0 compute=f32"});
  const auto count = [&](DType type) {
    return std::ranges::count_if(plan.steps, [&](const plan::Step& s) {
      const bool product = s.op == OpKind::kLinear || s.op == OpKind::kQuantizedLinear;
      return product && s.numerics.compute == type;
    });
  };
  EXPECT_GE(count(DType::kF32), 3);
  for (const plan::Step& step : plan.steps) {
    if (!is_int8(step)) continue;
    EXPECT_EQ(step.asked.by, "mode " + mode()) << step.name;
  }
  const plan::Plan one = build(model(), "fp32", {"role:ffn.up compute=" + mode()});
  EXPECT_THAT(one.steps, Contains(testing::Truly(&is_int8)));
}

// Each step alone has the same bits: the check "plain runs (steps not inspected)" of the test
// above.
TEST_P(Int8, NormsQuantizeTheirRowsInOneLaunch) {
  const auto engine = Engine::from_bytes(engine::engine_bytes(build(model(), mode(), {}, 1e3)));
  const Engine::Impl& impl = engine->impl();
  int norms = 0, joint = 0;
  for (size_t s = 0; s + 1 < impl.plan.steps.size(); ++s) {
    const plan::Step &step = impl.plan.steps[s], &next = impl.plan.steps[s + 1];
    // Not where only the first row of each sequence is quantized.
    const bool quantized = step.op == OpKind::kAddLayerNorm && next.op == OpKind::kQuantizeRows &&
                           next.inputs[0] == step.outputs[0];
    norms += quantized;
    joint += quantized && impl.joins[s] != runtime::Joins::kNo;
  }
  EXPECT_GT(norms, 0);
  EXPECT_EQ(joint, norms);
}

// Scales with one range for all operands of the model that mode int8 quantizes.
std::string scales_of(const std::string& model, double low, double high) {
  CompileOptions options = test::options_here();
  options.mode = "int8";
  compiler::Compiled compiled;
  const auto path = test::example_model(model).path.string();
  const auto imported = compiler::import(path, options, compiled);
  compiler::Scales scales;
  scales.model_hash = file_hash(path);
  for (const compiler::QuantizedProduct& product :
       compiler::quantized_products(*imported, options)) {
    compiler::ScalesSite& site = scales.sites.emplace_back();
    for (const passes::ProductName& name : product.names) site.products.push_back(name.key);
    site.factors.assign(static_cast<size_t>(product.weight.shape()[product.trans_w ? 1 : 0]), 1);
    site.low = low;
    site.high = high;
  }
  return compiler::save_scales(scales);
}

plan::Plan build_static(const std::string& model, double low, double high,
                        const std::string& mode = "int8") {
  CompileOptions options = test::options_here();
  options.mode = mode;
  options.scales = scales_of(model, low, high);
  options.scales_file = "the test's scales";
  options.static_scales = true;
  options.int8_error = 1e3;  // every product stays quantized
  return compiler::run(test::example_model(model).path.string(), options).plan;
}

Report verified(const std::string& model, const std::shared_ptr<const Engine>& engine,
                const backend::Backend* kernels = nullptr) {
  Request request;
  request.threads = 2;
  request.batches = {1, 2};
  request.lengths = {16};
  request.kernels = kernels;
  return verify_engine(engine, *onnx::import_model(test::example_model(model).path), request);
}

int failed_steps(const Report& report) {
  return static_cast<int>(std::ranges::count(report.steps, false, &StepResult::passed));
}

// Numbers beyond a range that is given saturate. Replay expects the largest number, not a larger
// one.
class StaticScalesOf : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Modes, StaticScalesOf, ::testing::Values("int8", "fp8"),
                         [](const auto& one) { return std::string(one.param); });

TEST_P(StaticScalesOf, SaturateWithoutAStepThatFails) {
  const plan::Plan plan = build_static("bert_embedder_ts17", -0.25, 0.5, GetParam());
  EXPECT_THAT(plan.steps, Contains(testing::Truly([](const plan::Step& step) {
                return step.op == OpKind::kQuantizeRows && step.has_input(2);
              })));
  const Report report =
      verified("bert_embedder_ts17", Engine::from_bytes(engine::engine_bytes(plan)));
  EXPECT_EQ(failed_steps(report), 0) << to_text(report);
  EXPECT_NE(report.verdict, Verdict::kBug) << to_text(report);
  double error = 0;
  for (const OutputResult& output : report.outputs)
    error = std::max(error, output.worst.rms / output.worst.rms_reference);
  EXPECT_GT(error, 0.1) << "most of the numbers saturate";
}

const backend::KernelDef* right_rows = nullptr;
// Values beyond the range come around from below.
void wraps_around(const backend::LaunchCall& call) {
  right_rows->launch(call);
  const backend::TensorArg& q = call.out[0];
  for (int64_t i = 0; i < q.elems(); ++i) {
    auto& value = q.as<int8_t>()[i];
    if (value == 127) value = -127;
  }
}

TEST(StaticScales, AKernelThatWrapsAroundIsABug) {
  backend::Backend wrong = runtime::backend_named("cpu", "the test's device");
  std::vector<backend::KernelDef> rows(wrong.kernels.begin(), wrong.kernels.end());
  for (backend::KernelDef& row : rows) {
    if (row.name != "cpu.quantize_rows.rows") continue;
    static const backend::KernelDef kRight = row;
    right_rows = &kRight;
    row.launch = &wraps_around;
    row.may_be_joined = false;
  }
  ASSERT_NE(right_rows, nullptr);
  wrong.kernels = rows;
  const plan::Plan plan = build_static("bert_embedder_ts17", -0.25, 0.5);
  const Report report =
      verified("bert_embedder_ts17", Engine::from_bytes(engine::engine_bytes(plan), wrong), &wrong);
  EXPECT_EQ(report.verdict, Verdict::kBug) << to_text(report);
  EXPECT_GT(failed_steps(report), 0);
}

// No byte carries NaN: with a given scale it becomes some number, and no step is blamed for which.
TEST_P(StaticScalesOf, NaNFailsNoStep) {
  const auto engine =
      Engine::from_bytes(engine::engine_bytes(build_static("vit_ts17", -1, 1, GetParam())));
  const Port& pixels = engine->inputs()[0];
  std::vector<int64_t> shape;
  for (const PortDim& dim : pixels.dims) shape.push_back(dim.min);
  std::vector<double> values(static_cast<size_t>(num_elems(shape)), 0.5);
  values[7] = std::numeric_limits<double>::quiet_NaN();
  Replay replay(engine->impl().plan, *engine->impl().backend, kSignallingNan);
  const NamedTensors inputs{
      {pixels.name, Tensor::from(DType::kF32, shape, std::span<const double>(values))}};
  Runner(engine, {.threads = 2}).run(inputs, replay);
  for (const StepResult& step : replay.steps()) EXPECT_TRUE(step.passed) << step.name << step.why;
}

TEST(Int8Build, SaysWhatItQuantizes) {
  const plan::Plan plan = build("bert_embedder_ts17", "int8");
  EXPECT_THAT(plan.notes, Contains(HasSubstr("int8: 8 of 8 products with a constant weight")));
  const plan::Plan part = build("bert_embedder_ts17", "int8", {"layer:0 compute=f16"});
  EXPECT_THAT(
      part.notes,
      Contains(AllOf(HasSubstr("int8: 4 of "),
                     HasSubstr(": 50.0 % of their operations; other types are asked for"))));
  const plan::Plan off = build("bert_embedder_ts17", "int8", {"op:Linear compute=f16"});
  EXPECT_THAT(off.notes, Contains(HasSubstr("nothing is quantized: other types are asked for")));
}

TEST(Int8Build, IsRefusedWhereTheDeviceHasNoKernelForIt) {
  backend::Backend other = runtime::backend_named("cpu", "the test's device");
  std::vector<backend::KernelDef> rows;
  for (const backend::KernelDef& row : other.kernels) {
    if (!row.name.starts_with("cpu.quantized_linear.")) rows.push_back(row);
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
