// Field case 4: the LayerNorm that would not stay FP32. trtexec's options and the native rule on
// exports of one node and of nine; large means and outlier channels; extra outputs and other names
// change no bits. Contract: docs/verification_fitting.md "Field cases".
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "runtime/engine_impl.h"
#include "scenarios/build.h"
#include "vernier/session.h"

namespace vernier::verify::field {
namespace {

constexpr const char* kFp32Layers = "LayerNormalization_*:fp32";

bool is_norm(const plan::LedgerRow& row) {
  return row.composite.find("LayerNorm") != std::string::npos ||
         row.composite.find("EmbedNorm") != std::string::npos;
}

class TrtexecOptions : public ::testing::TestWithParam<const char*> {};

TEST_P(TrtexecOptions, KeepEveryLayerNormInF32) {
  const auto model = model_named(GetParam());
  const plan::Plan plan = plan_of(
      *model, {.mode = "fp16", .layer_precisions = kFp32Layers, .layer_output_types = kFp32Layers});
  std::set<int32_t> steps;
  int rows = 0;
  for (const plan::LedgerRow& row : plan.ledger) {
    if (!row.asked.by.starts_with("rule") || row.step == plan::kNone) continue;
    SCOPED_TRACE(row.node + " in " + row.kernel);
    ++rows;
    EXPECT_TRUE(is_norm(row) || row.op == "LayerNormalization") << row.composite;
    EXPECT_TRUE(represents(row.got_compute, DType::kF32));
    EXPECT_TRUE(represents(row.got_accumulate, DType::kF32));
    EXPECT_TRUE(represents(row.got_store, DType::kF32));
    steps.insert(row.step);
  }
  EXPECT_GE(steps.size(), 5U) << "two norms per layer and one of the embedding";
  EXPECT_TRUE(rows == static_cast<int>(steps.size()) || rows >= 7 * static_cast<int>(steps.size()))
      << rows << " rows in " << steps.size() << " steps";
  for (const plan::Step& step : plan.steps) {
    if (step.op != OpKind::kLayerNorm && step.op != OpKind::kAddLayerNorm) continue;
    EXPECT_EQ(step.numerics.store, DType::kF32) << step.name;
  }
  Request request;
  request.batches = {1, 4};
  request.lengths = {16};
  const Policy policy{.mode = "fp16", .rules = {"op:LayerNorm compute=f32 acc=f32 store=f32"}};
  EXPECT_EQ(verify_policy(*model, policy, request).verdict, "pass");
}

INSTANTIATE_TEST_SUITE_P(Exports, TrtexecOptions,
                         ::testing::Values("bge_reranker_ts17", "bge_reranker_dynamo", "bert_ts11"),
                         [](const auto& one) { return std::string(one.param); });

TEST(TrtexecNames, ThatMatchNothingAreRefusedWithTheNearest) {
  const auto model = model_named("bert_ts11");
  try {
    plan_of(*model, {.mode = "fp16", .layer_precisions = "LayerNormalisation_*:fp32"});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInput);
    EXPECT_NE(std::string(error.what()).find("LayerNormalization"), std::string::npos)
        << error.what();
  }
}

// ---- large means, outlier channels

constexpr int64_t kWidth = 256;

std::shared_ptr<ir::Graph> residual_norm() {
  onnx::ModelBuilder model(17);
  model.input("x", onnx::kFloat, {"b", "s", kWidth});
  model.input("residual", onnx::kFloat, {"b", "s", kWidth});
  const std::vector<float> ones(kWidth, 1.25F), zeros(kWidth, 0.125F);
  model.initializer(onnx::f32_tensor("scale", {kWidth}, ones));
  model.initializer(onnx::f32_tensor("bias", {kWidth}, zeros));
  model.node("Add", {"x", "residual"}, {"sum"}).set_name("/add");
  model
      .node("LayerNormalization", {"sum", "scale", "bias"}, {"y"},
            {onnx::attr_int("axis", -1), onnx::attr_float("epsilon", 1e-5F)})
      .set_name("/norm");
  model.output("y");
  return model.import();
}

struct NormCase {
  const char* name;
  double mean, outlier;
};
class HardRows : public ::testing::TestWithParam<NormCase> {
 protected:
  std::map<std::string, Tensor> inputs() const {
    EvalTensor x = EvalTensor::from(normal_values({2, 5, kWidth}, 1, 1, GetParam().mean));
    EvalTensor residual = EvalTensor::from(normal_values({2, 5, kWidth}, 2, 0.1));
    for (size_t i = 0; i < residual.f.size(); ++i) {
      if (GetParam().outlier > 0 && i % kWidth == 17) residual.f[i] = GetParam().outlier;
      if (GetParam().outlier > 0 && i % kWidth == 99) residual.f[i] = -GetParam().outlier;
    }
    return {{"x", x.to_tensor()}, {"residual", residual.to_tensor()}};
  }
};

TEST_P(HardRows, TheDefaultStaysWithinTwiceTheNoise) {
  const auto model = residual_norm();
  for (const char* mode : {"fp32", "fp16", "bf16"}) {
    SCOPED_TRACE(mode);
    const Errors errors = errors_of(*model, plan_of(*model, {.mode = mode}), inputs());
    EXPECT_TRUE(errors.finite_where_r_is);
    EXPECT_LE(errors.engine, 2 * errors.ideal + 1e-7 * errors.reference);
    std::printf("%s %s: rms error %.3g, noise %.3g, of %.3g\n", GetParam().name, mode,
                errors.engine, errors.ideal, errors.reference);
  }
}

// What a converter does that takes FP16 for everything.
TEST_P(HardRows, StatisticsInF16AreOffByMoreThanAFifth) {
  const auto model = residual_norm();
  const Policy naive{.mode = "fp16",
                     .rules = {"op:LayerNorm compute==f16 acc==f16", "op:Add store==f16"}};
  const Errors errors = errors_of(*model, plan_of(*model, naive), inputs());
  std::printf("%s naive: rms error %.3g of %.3g\n", GetParam().name, errors.engine,
              errors.reference);
  EXPECT_TRUE(!errors.finite_where_r_is || errors.engine > 0.2 * errors.reference);
}

INSTANTIATE_TEST_SUITE_P(Cases, HardRows,
                         ::testing::Values(NormCase{"mean_100", 100, 0},
                                           NormCase{"mean_500", 500, 0},
                                           NormCase{"outliers", 0, 30000}),
                         [](const auto& one) { return std::string(one.param.name); });

// ---- a norm in its product, where the device has such a kernel

constexpr int64_t kMostRows = 16384;  // many enough for kernels that take whole rows in waves

std::shared_ptr<ir::Graph> product_norm(int64_t width) {
  onnx::ModelBuilder model(17);
  model.input("x", onnx::kFloat, {"b", width});
  const auto drawn = [](Shape shape, uint64_t seed, double scale, double mean) {
    std::vector<float> values;
    const Tensor tensor = normal_values({num_elems(shape)}, seed, scale, mean);
    for (int64_t i = 0; i < tensor.elems(); ++i)
      values.push_back(static_cast<float>(tensor.float_at(i)));
    return values;
  };
  model.initializer(onnx::f32_tensor(
      "w", {width, width}, drawn({width, width}, 1, 1 / std::sqrt(static_cast<double>(width)), 0)));
  model.initializer(onnx::f32_tensor("b0", {width}, drawn({width}, 2, 0.1, 0)));
  model.initializer(onnx::f32_tensor("scale", {width}, drawn({width}, 3, 0.1, 1)));
  model.initializer(onnx::f32_tensor("bias", {width}, drawn({width}, 4, 0.1, 0)));
  model.node("MatMul", {"x", "w"}, {"first"}).set_name("/first");  // x itself stays f32
  model.node("MatMul", {"first", "w"}, {"product"}).set_name("/product");
  model.node("Add", {"product", "b0"}, {"linear"}).set_name("/bias");
  model.node("Add", {"linear", "first"}, {"sum"}).set_name("/add");
  model
      .node("LayerNormalization", {"sum", "scale", "bias"}, {"normed"},
            {onnx::attr_int("axis", -1), onnx::attr_float("epsilon", 1e-5F)})
      .set_name("/norm");
  model.node("MatMul", {"normed", "w"}, {"y"}).set_name("/last");  // so does y
  model.output("y");
  return model.import();
}

class LayerNormInItsProduct : public ::testing::TestWithParam<int64_t> {
 protected:
  plan::Plan plan(const std::string& mode, std::vector<std::string> passes_off) const {
    CompileOptions options = options_of({.mode = mode});
    options.shapes = "b=1.." + std::to_string(kMostRows);
    options.passes_off = std::move(passes_off);
    return compiler::plan_of(*model_, options);
  }
  std::vector<std::byte> rows(Session& session, int64_t first, int64_t count) const {
    const int64_t width = GetParam();
    const Shape shape{count, width};
    const std::vector<Input> inputs{
        {"x", DType::kF32, shape, x_.data() + first * width * int64_t{sizeof(float)}}};
    const Output y = session.run(inputs)[0];
    const auto* data = static_cast<const std::byte*>(y.data);
    return {data, data + y.bytes};
  }
  const std::shared_ptr<ir::Graph> model_ = product_norm(GetParam());
  const Tensor x_ = normal_values({kMostRows, GetParam()}, 5);
};

TEST_P(LayerNormInItsProduct, ChangesNoBitsAtAnyNumberOfRows) {
  for (const char* mode : {"fp16", "bf16"}) {
    const plan::Plan one = plan(mode, {}), two = plan(mode, {"linear_add_layer_norm"});
    const auto has = [](const plan::Plan& plan, std::string_view kernel) {
      return std::ranges::find(plan.steps, kernel, &plan::Step::kernel) != plan.steps.end();
    };
    EXPECT_EQ(has(one, "cuda.linear_add_layer_norm.sm90"), has(two, "cuda.linear.sm90"));
    Session fused(engine_of(one)), apart(engine_of(two));
    const std::vector<std::byte> all = rows(fused, 0, kMostRows);
    EXPECT_EQ(all, rows(apart, 0, kMostRows)) << mode;
    const size_t row_bytes = all.size() / kMostRows;
    for (int64_t count : {int64_t{1}, int64_t{129}, int64_t{3000}, int64_t{8448}}) {
      const int64_t first = kMostRows - count;
      const std::vector<std::byte> last(all.end() - static_cast<int64_t>(row_bytes) * count,
                                        all.end());
      EXPECT_EQ(rows(fused, first, count), last) << mode << ", " << count << " rows";
    }
  }
}

TEST_P(LayerNormInItsProduct, IsAsExactAsItsPlanSays) {
  Request request;
  request.batches = {1, 5, 300};
  for (const char* mode : {"fp16", "bf16"})
    EXPECT_EQ(verify_engine(engine_of(plan(mode, {})), *model_, request).verdict, "pass") << mode;
}

INSTANTIATE_TEST_SUITE_P(Widths, LayerNormInItsProduct,
                         ::testing::Values(256, 384, 512, 768, 1024));

// ---- observing changes nothing

std::map<std::string, std::vector<std::byte>> answers_of(const plan::Plan& plan) {
  const auto cases = test::example_model("bge_reranker_ts17").cases();
  Session session(engine_of(plan), {.threads = 1});
  std::map<std::string, std::vector<std::byte>> answers;
  for (const Output& output : session.run(test::refs(cases[0].inputs))) {
    const auto* data = static_cast<const std::byte*>(output.data);
    answers[std::string(output.name)] = {data, data + output.bytes};
  }
  return answers;
}

TEST(ExtraOutputs, LeaveTheBitsOfTheOthers) {
  const auto model = model_named("bge_reranker_ts17");
  std::vector<std::string> names;  // every seventh float value of the model, fused away or not
  for (ir::NodeId id : model->order()) {
    const ir::Value& value = model->value(model->node(id).outputs[0]);
    const bool seventh = id % 7 == 0 && is_float(value.dtype) && value.shape.size() == 3;
    if (seventh && !value.name.empty() && !value.is_constant()) names.push_back(value.name);
  }
  ASSERT_GE(names.size(), 5U);
  for (const char* mode : {"fp32", "fp16", "bf16"}) {
    SCOPED_TRACE(mode);
    const auto plain = answers_of(plan_of(*model, {.mode = mode}));
    const Policy all{.mode = mode, .outputs = names};
    const auto observed = answers_of(plan_of(*model, all));
    for (const auto& [name, bytes] : plain) EXPECT_EQ(observed.at(name), bytes) << name;
    for (const std::string& name : names) EXPECT_TRUE(observed.contains(name)) << name;
    for (const std::string& name : names) {
      const auto one = answers_of(plan_of(*model, {.mode = mode, .outputs = {name}}));
      EXPECT_EQ(one.at("output"), plain.at("output")) << name;
      EXPECT_EQ(one.at(name), observed.at(name)) << name;
    }
  }
}

TEST(ExtraOutputs, AreRight) {
  const auto path = test::example_model("bge_reranker_ts17").path;
  const auto model = onnx::import_model(path);
  auto marked = model->clone();
  std::vector<std::string> names;
  for (ir::NodeId id : model->order()) {
    const ir::ValueId out = model->node(id).outputs[0];
    const ir::Value& value = model->value(out);
    if (id % 11 != 0 || !is_float(value.dtype) || value.shape.size() != 3 || value.name.empty() ||
        value.is_constant())
      continue;
    names.push_back(value.name);
    marked->outputs.push_back(out);
    marked->output_names.push_back(value.name);
  }
  ASSERT_GE(names.size(), 3U);
  const NamedTensors arrays = test::example_model("bge_reranker_ts17").cases()[0].inputs;
  for (const auto& [mode, bound] : {std::pair{"fp32", 1e-5}, {"fp16", 1e-2}, {"bf16", 5e-2}}) {
    const plan::Plan plan = plan_of(*model, {.mode = mode, .outputs = names});
    const Errors errors = errors_of(*marked, plan, {arrays.begin(), arrays.end()});
    EXPECT_LE(errors.engine, bound * errors.reference) << mode;
  }
}

TEST(OtherNames, ChangeNothing) {
  const auto model = model_named("bge_reranker_ts17");
  const auto renamed = model->clone();
  for (ir::NodeId id : renamed->order()) {
    renamed->node(id).name = "n" + std::to_string(id);
    for (ir::Origin& origin : renamed->node(id).origins) origin.name = "n" + origin.key;
  }
  for (const char* mode : {"fp32", "fp16", "bf16"}) {
    const Policy policy{.mode = mode, .rules = {"op:LayerNorm compute=f32 store=f32"}};
    const plan::Plan a = plan_of(*model, policy), b = plan_of(*renamed, policy);
    ASSERT_EQ(a.steps.size(), b.steps.size());
    for (size_t s = 0; s < a.steps.size(); ++s) {
      EXPECT_EQ(a.steps[s].kernel, b.steps[s].kernel);
      EXPECT_EQ(a.steps[s].origins, b.steps[s].origins);
      EXPECT_EQ(a.steps[s].numerics.store, b.steps[s].numerics.store);
    }
    EXPECT_EQ(answers_of(a), answers_of(b)) << mode;
  }
}

}  // namespace
}  // namespace vernier::verify::field
