// Models with FP8 Q/DQ operators of their own: their products run on kernels of 8 bits, and pass.
// Results of f32 a GPU computes from dequantized values: its sums of FP8 are less exact than f32.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "cli/program.h"
#include "compile/pipeline.h"
#include "engine/writer.h"
#include "onnx/import.h"
#include "onnx/model_builder.h"
#include "runtime/models.h"
#include "verify/verify.h"

namespace vernier::verify {
namespace {

constexpr int32_t kOnnxF8E4M3 = 17;  // TensorProto.DataType
constexpr int64_t kRows = 64, kColumns = 48;

onnx::proto::TensorProto f8_tensor(const std::string& name, const std::vector<int64_t>& dims,
                                   const std::vector<float>& values) {
  onnx::proto::TensorProto tensor = onnx::f32_tensor(name, dims, {});
  tensor.clear_float_data();
  tensor.set_data_type(kOnnxF8E4M3);
  std::string bytes(values.size(), '\0');
  for (size_t i = 0; i < values.size(); ++i) bytes[i] = static_cast<char>(f32_to_f8e4m3(values[i]));
  tensor.set_raw_data(bytes);
  return tensor;
}

struct Spelling {
  const char* name;
  bool columns, zeros, gemm;
};
void PrintTo(const Spelling& row, std::ostream* out) { *out << row.name; }

// y = softmax(relu(x·w + b)), x and w quantized.
std::string model_of(const Spelling& row) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  std::vector<float> w(kRows * kColumns), bias(kColumns), scales(row.columns ? kColumns : 1);
  for (float& v : w) v = 60 * normal(random);
  for (float& v : bias) v = normal(random);
  for (float& v : scales) v = 0.001F + 0.001F * std::abs(normal(random));
  const auto scale_dims = row.columns ? std::vector<int64_t>{kColumns} : std::vector<int64_t>{};
  const auto axis = [&] { return onnx::attr_int("axis", row.gemm ? 0 : 1); };
  onnx::ModelBuilder model(19);
  model.input("x", onnx::kFloat, {std::string("batch"), kRows}).output("y");
  model.initializer(f8_tensor(
      "w", row.gemm ? std::vector<int64_t>{kColumns, kRows} : std::vector<int64_t>{kRows, kColumns},
      w));
  model.initializer(onnx::f32_tensor("b", {kColumns}, bias));
  model.initializer(onnx::f32_tensor("xs", {}, {4.0F / 448}));
  model.initializer(onnx::f32_tensor("ws", scale_dims, scales));
  onnx::Names q{"x", "xs"}, x{"xq", "xs"}, dw{"w", "ws"};
  std::vector<onnx::Attribute> type;
  if (row.zeros) {
    model.initializer(f8_tensor("xz", {}, {0}));
    model.initializer(f8_tensor("wz", scale_dims, std::vector<float>(scales.size())));
    q.emplace_back("xz"), x.emplace_back("xz"), dw.emplace_back("wz");
  } else {
    type.push_back(onnx::attr_int("output_dtype", kOnnxF8E4M3));  // opset 21
    model.model().mutable_opset_import(0)->set_version(21);
  }
  model.node("QuantizeLinear", q, {"xq"}, type);
  model.node("DequantizeLinear", x, {"xd"});
  model.node("DequantizeLinear", dw, {"wd"}, {axis()});
  if (row.gemm) {
    model.node("Gemm", {"xd", "wd", "b"}, {"a"}, {onnx::attr_int("transB", 1)});
  } else {
    model.node("MatMul", {"xd", "wd"}, {"p"});
    model.node("Add", {"p", "b"}, {"a"});
  }
  model.node("Relu", {"a"}, {"r"});
  model.node("Softmax", {"r"}, {"y"}, {onnx::attr_int("axis", -1)});
  return model.bytes();
}

class F8ModelsOnDevice : public ::testing::TestWithParam<Spelling> {};
INSTANTIATE_TEST_SUITE_P(Spellings, F8ModelsOnDevice,
                         ::testing::Values(Spelling{"columns_with_zeros", true, true, false},
                                           Spelling{"one_scale", false, false, false},
                                           Spelling{"gemm_of_columns", true, true, true}),
                         [](const auto& row) { return std::string(row.param.name); });

TEST_P(F8ModelsOnDevice, RunOnKernelsOf8BitsAndPass) {
  const test::TemporaryFolder folder;
  const std::string path = folder / "m.onnx";
  test::write_file(path, model_of(GetParam()));
  for (const char* mode : {"fp32", "fp16"}) {
    SCOPED_TRACE(mode);
    CompileOptions options = test::options_here();
    options.mode = mode;
    const plan::Plan plan = compiler::run(path, options).plan;
    const int own = options.device == "cpu" || options.mode == "fp16" ? 1 : 0;
    ASSERT_EQ(std::ranges::count(plan.steps, OpKind::kQuantizedLinear, &plan::Step::op), own);
    ASSERT_EQ(std::ranges::count(plan.steps, OpKind::kDequantizeLinear, &plan::Step::op), 1 - own);
    Request request;
    request.threads = 2;
    request.batches = {1, 3};
    const Report report = verify_engine(Engine::from_bytes(engine::engine_bytes(plan)),
                                        *onnx::import_model(path), request);
    EXPECT_EQ(report.verdict, Verdict::kPass) << to_text(report);
  }
}

}  // namespace
}  // namespace vernier::verify
