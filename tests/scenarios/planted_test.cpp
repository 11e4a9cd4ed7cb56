// Planted defects in 16-bit engines: wrong kernels, values out of range, spoilt outputs and noise
// beyond the type's own are never a pass, on the device under test (VERNIER_TEST_DEVICE). Contract:
// docs/verification_fitting.md "Planted defects".
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <deque>
#include <filesystem>
#include <fstream>

#include "core/evaluator.h"
#include "core/random.h"
#include "engine/writer.h"
#include "onnx/import.h"
#include "plants/plants.h"
#include "scenarios/build.h"
#include "verify/metrics.h"
#include "verify/replay.h"

namespace vernier::verify::field {
namespace {

using backend::KernelDef;
using backend::LaunchCall;
using backend::TensorArg;

/// A file of this process below the tests' temporary folder, removed at the end.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& name)
      : path_(testing::TempDir() + "/" + std::to_string(getpid()) + "_" + name) {}
  ~TemporaryFile() { std::filesystem::remove(path_); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

Report verify_planted(const ir::Graph& model, const plan::Plan& plan, const test::Plant* plant,
                      uint64_t seed = 1) {
  const TemporaryFile file("planted_16.vn");
  engine::write_engine(file.path(), plan);
  Request request;
  request.batches = {1, 4};
  request.lengths = {16};
  request.threads = 2;
  request.seed = seed;
  return verify_engine(
      Engine::open(file.path(), test::planted_backend(plant, test::device_under_test())), model,
      request);
}

std::string kernel_of(const plan::Plan& plan, OpKind op) {
  for (const plan::Step& step : plan.steps) {
    if (step.op == op) return step.kernel;
  }
  return "";
}

class PlantedInSixteenBits : public ::testing::TestWithParam<const char*> {
 protected:
  std::shared_ptr<ir::Graph> model_ = model_named("bge_reranker_ts17");
  plan::Plan plan_ = plan_of(*model_, {.mode = GetParam()});
};
INSTANTIATE_TEST_SUITE_P(Modes, PlantedInSixteenBits, ::testing::Values("fp16", "bf16"),
                         [](const auto& one) { return std::string(one.param); });

TEST_P(PlantedInSixteenBits, AWrongKernelIsABugOfItsStep) {
  const auto plants = test::plants(test::device_under_test());
  const auto plant = std::ranges::find(plants, "mask-off-by-one", &test::Plant::name);
  ASSERT_NE(plant, plants.end());
  ASSERT_TRUE(kernel_of(plan_, OpKind::kAttention).starts_with(plant->kernel));
  const Report report = verify_planted(*model_, plan_, &*plant);
  EXPECT_EQ(report.verdict, "bug") << to_text(report);
  EXPECT_NE(report.explanation.find(plant->kernel), std::string::npos) << report.explanation;
  EXPECT_EQ(verify_planted(*model_, plan_, nullptr).verdict, "pass");
}

void fill_with_nan(const LaunchCall& call) {
  for (int64_t i = 0; i < call.out[0].elems(); ++i) {
    store_float(call.out[0].dtype, std::numeric_limits<double>::quiet_NaN(),
                call.out[0].data + i * static_cast<int64_t>(size_bytes(call.out[0].dtype)));
  }
}

void writes_nan(const KernelDef&, const LaunchCall& call) { test::on_host(call, &fill_with_nan); }

TEST_P(PlantedInSixteenBits, AnAnswerOfNaNsNeverPasses) {
  const std::string last = plan_.steps.back().kernel;
  const test::Plant plant{"nan", "the last kernel writes NaN", "", last, "nan", true, &writes_nan};
  const Report report = verify_planted(*model_, plan_, &plant);
  EXPECT_FALSE(report.passed()) << to_text(report);
  EXPECT_NE(report.explanation.find(last), std::string::npos) << report.explanation;
}

// "pass" or what verify says or throws instead.
std::string outcome(const ir::Graph& model, const plan::Plan& plan) {
  try {
    return std::string(name(verify_planted(model, plan, nullptr).verdict));
  } catch (const Error& error) {
    return error.what();
  }
}

TEST_P(PlantedInSixteenBits, MissingExtraAndMistypedOutputsNeverPass) {
  plan::Plan missing = plan_;
  missing.output_names[0] = "other";
  EXPECT_NE(outcome(*model_, missing), "pass");
  plan::Plan extra = plan_;
  extra.outputs.push_back(extra.outputs[0]);
  extra.output_names.push_back("extra");
  EXPECT_NE(outcome(*model_, extra), "pass");
  plan::Plan mistyped = plan_;
  for (size_t v = 0; v < mistyped.values.size(); ++v) {
    const plan::PlanValue& value = mistyped.values[v];
    if (value.kind == plan::PlanValue::Kind::kArena && size_bytes(value.dtype) == 2)
      mistyped.outputs[0] = static_cast<int32_t>(v);
  }
  ASSERT_NE(mistyped.outputs[0], plan_.outputs[0]);
  EXPECT_NE(outcome(*model_, mistyped), "pass");
}

// ---- noise of another size than the type's

enum class Noise : uint8_t { kTruncated, kHalfAgain };

// The norm in FP64, and then rounded worse than to the nearest number.
template <Noise kNoise>
void fill_with_noisy_norm(const LaunchCall& call) {
  std::vector<EvalTensor> in;
  for (const TensorArg& arg : call.in)
    in.push_back(arg.data ? EvalTensor::from(copy_of(arg)) : EvalTensor());
  std::vector<const EvalTensor*> operands;
  for (const EvalTensor& t : in) operands.push_back(t.dtype == DType::kUndefined ? nullptr : &t);
  std::vector<EvalTensor> out;
  for (const TensorArg& arg : call.out) {
    out.push_back(
        arg.dtype == DType::kUndefined
            ? EvalTensor()
            : EvalTensor(arg.dtype, Shape(arg.shape.begin(), arg.shape.begin() + arg.rank)));
  }
  evaluator(OpKind::kAddLayerNorm)({call.attrs, operands, out, Rounding{}});
  SplitMix random(1);
  for (size_t o = 0; o < out.size(); ++o) {
    const DType type = call.out[o].dtype;
    if (type == DType::kUndefined || !call.out[o].data) continue;
    const FloatRounder rounder(type);
    for (size_t i = 0; i < out[o].f.size(); ++i) {
      // Var(u/12 + 0.559²·u/3) = 1.5² · u/12: a deviation half as large again as rounding's.
      const double extra = (2 * random.uniform() - 1) * 0.559 * ulp(type, out[o].f[i]);
      const double value = kNoise == Noise::kTruncated ? rounder.truncated(out[o].f[i])
                                                       : rounder.nearest(out[o].f[i] + extra);
      store_float(type, value, call.out[o].data + i * size_bytes(type));
    }
  }
}

template <Noise kNoise>
void noisy_norm(const KernelDef&, const LaunchCall& call) {
  test::on_host(call, &fill_with_noisy_norm<kNoise>);
}

// Rounding that is worse than the type's is within the limits of the answers; the replay is what
// can see it.
TEST_P(PlantedInSixteenBits, NoiseHalfAgainAsLargeAsRoundingIsSeen) {
  const std::string kernel = kernel_of(plan_, OpKind::kAddLayerNorm);
  ASSERT_FALSE(kernel.empty());
  const test::Plant plant{"half-again", "noise 1.5 times rounding's",  "", kernel, "bug",
                          true,         &noisy_norm<Noise::kHalfAgain>};
  const Report report = verify_planted(*model_, plan_, &plant);
  std::printf("%s 1.5x noise: %s, rms %.3g of noise %.3g\n", GetParam(),
              std::string(name(report.verdict)).c_str(), report.outputs[0].all_rms,
              report.outputs[0].noise_rms);
  EXPECT_EQ(report.verdict, "bug");
  EXPECT_NE(report.explanation.find(kernel), std::string::npos) << report.explanation;
}

TEST_P(PlantedInSixteenBits, TruncationIsReported) {
  const std::string kernel = kernel_of(plan_, OpKind::kAddLayerNorm);
  const test::Plant plant{"truncates", "truncates instead of rounding", "", kernel, "bug",
                          true,        &noisy_norm<Noise::kTruncated>};
  const Report report = verify_planted(*model_, plan_, &plant);
  double ratio = 0;
  for (const StepResult& step : report.steps) {
    if (step.kernel == kernel) ratio = std::max(ratio, step.ratio);
  }
  EXPECT_EQ(report.verdict, "bug") << to_text(report);
  std::printf("%s truncation: %s, replay at %.3g of its limit, rms %.3g of noise %.3g\n",
              GetParam(), std::string(name(report.verdict)).c_str(), ratio,
              report.outputs[0].all_rms, report.outputs[0].noise_rms);
  EXPECT_GT(ratio, 1);
}

// Probabilities of an attention that are cut off instead of rounded: each element of the answer is
// within what one unlucky rounding may do, all of them together are not.
void fill_with_truncating_attention(const LaunchCall& call) {
  std::vector<EvalTensor> in;
  for (const TensorArg& arg : call.in)
    in.push_back(arg.data ? EvalTensor::from(copy_of(arg)) : EvalTensor());
  std::vector<const EvalTensor*> operands;
  for (const EvalTensor& t : in) operands.push_back(t.dtype == DType::kUndefined ? nullptr : &t);
  const TensorArg& y = call.out[0];
  std::vector<EvalTensor> out{
      EvalTensor(y.dtype, Shape(y.shape.begin(), y.shape.begin() + y.rank))};
  Rounding rounding;
  const auto points = rounding_points(OpKind::kAttention);
  const auto probs = static_cast<size_t>(std::ranges::find(points, "probs") - points.begin());
  rounding.set(probs, {.type = y.dtype,
                       .mode = PointRounding::Mode::kTruncate,
                       .scale = PointRounding::Scale::kUnnormalised});
  evaluator(OpKind::kAttention)({call.attrs, operands, out, rounding});
  for (size_t i = 0; i < out[0].f.size(); ++i)
    store_float(y.dtype, out[0].f[i], y.data + i * size_bytes(y.dtype));
}
void truncating_attention(const KernelDef&, const LaunchCall& call) {
  test::on_host(call, &fill_with_truncating_attention);
}

TEST_P(PlantedInSixteenBits, TruncatedProbabilitiesAreABugOfTheAttention) {
  const std::string kernel = kernel_of(plan_, OpKind::kAttention);
  const test::Plant plant{"truncates-probs",    "truncates probabilities", "", kernel, "bug", true,
                          &truncating_attention};
  const Report report = verify_planted(*model_, plan_, &plant);
  EXPECT_EQ(report.verdict, "bug") << to_text(report);
  EXPECT_NE(report.explanation.find(kernel), std::string::npos) << report.explanation;
}

// ---- a residual that FP16 cannot hold

std::string outlier_model() {
  constexpr int64_t kWidth = 64;
  onnx::ModelBuilder model(17);
  model.input("x", onnx::kFloat, {"batch", "seq", kWidth});
  // What a constant alone takes out of range is seen without the audit: here sums of 64 products
  // do.
  const auto matrix = [&](const std::string& name, uint64_t seed, float outlier) {
    const Tensor t = normal_values({kWidth, kWidth}, seed, 0.125);
    std::vector<float> values;
    for (int64_t i = 0; i < t.elems(); ++i) values.push_back(static_cast<float>(t.float_at(i)));
    for (int64_t row = 0; outlier != 0 && row < kWidth; ++row)
      values[static_cast<size_t>(row * kWidth + 5)] = outlier;
    model.initializer(onnx::f32_tensor(name, {kWidth, kWidth}, values));
  };
  matrix("w1", 1, 20000);
  matrix("w2", 2, 0);
  std::vector<float> bias(kWidth, 0), ones(kWidth, 1);
  bias[5] = 20000;
  model.initializer(onnx::f32_tensor("outlier", {kWidth}, bias));
  model.initializer(onnx::f32_tensor("scale", {kWidth}, ones));
  model.initializer(onnx::f32_tensor("bias", {kWidth}, std::vector<float>(kWidth, 0)));
  model.node("MatMul", {"x", "w1"}, {"a"}).set_name("/up/MatMul");
  model.node("Add", {"a", "outlier"}, {"b"}).set_name("/up/Add");
  model.node("Tanh", {"b"}, {"t"}).set_name("/act/Tanh");
  model.node("Add", {"b", "t"}, {"r"}).set_name("/residual/Add");
  model
      .node("LayerNormalization", {"r", "scale", "bias"}, {"n"},
            {onnx::attr_int("axis", -1), onnx::attr_float("epsilon", 1e-5F)})
      .set_name("/norm");
  model.node("MatMul", {"n", "w2"}, {"y"}).set_name("/head/MatMul");
  model.output("y");
  return model.bytes();
}

TEST(Outlier, OverflowsWithoutTheAuditAndIsNamedAndPassesWithIt) {
  const TemporaryFile model("outlier.onnx"), engine("outlier.vn");
  const std::string bytes = outlier_model();
  std::ofstream(model.path(), std::ios::binary) << bytes;
  CompileOptions options;
  options.mode = "fp16";
  Request request;
  request.model = model.path();
  request.engine = engine.path();
  request.batches = {1, 4};
  request.lengths = {4};
  engine::write_engine(engine.path(),
                       compiler::plan_of(*onnx::import_model(model.path()), options));
  const Report report = verify(request);
  EXPECT_EQ(report.verdict, "overflow") << to_text(report);
  EXPECT_NE(report.explanation.find("/up/"), std::string::npos) << report.explanation;
  const CompileReport audited = compile(model.path(), engine.path(), options);
  const Report fixed = verify(request);
  EXPECT_EQ(fixed.verdict, "pass") << to_text(fixed);
  const bool named = std::ranges::any_of(audited.notes, [](const std::string& note) {
    return note.find("/up/") != std::string::npos && note.find("--rule") != std::string::npos;
  });
  EXPECT_TRUE(named) << (audited.notes.empty() ? "no notes" : audited.notes.back());
}

}  // namespace
}  // namespace vernier::verify::field
