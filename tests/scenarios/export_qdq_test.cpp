// --export-qdq: the file is valid ONNX, ONNX Runtime answers with it as the engine does, and a
// build of it gives the bits of the engine that it was written with.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <map>
#include <random>

#include "cli/program.h"
#include "compile/pipeline.h"
#include "core/hash.h"
#include "engine/writer.h"
#include "io/npz.h"
#include "onnx/import.h"
#include "onnx/model_builder.h"
#include "onnx/slice.h"
#include "runtime/models.h"
#include "verify/verify.h"

namespace vernier::verify {
namespace {

using test::run_command;
using test::run_program;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

/// How far ONNX Runtime's answers may be from the engine's, as a part of their rms: what int8 may
/// cost at all. The engine stores 16 bits between the products, so that numbers near the edge of a
/// step are rounded the other way (docs/quantization.md).
constexpr double kBound = 0.05;

using EnginePtr = std::shared_ptr<const Engine>;

/// A model and batches for it.
struct Source {
  std::string model;
  std::vector<NamedTensors> batches;
};

class Files {
 public:
  std::string operator/(const std::string& name) const { return folder_ / name; }

 private:
  test::TemporaryFolder folder_;
};

// Rows of ids, the last ones padded.
NamedTensors sentences(int64_t rows, int64_t length, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<int64_t> ids, mask;
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t i = 0; i < length; ++i) {
      mask.push_back(i < length - 3 * r);
      ids.push_back(mask.back() == 0 ? 0 : static_cast<int64_t>(1 + random() % 199));
    }
  }
  return test::encoder_inputs({rows, length}, ids, mask);
}

// An encoder whose norms have outlier channels: its factors are not 1.
Source made_model(const Files& files, const std::string& arch = "minilm",
                  const std::string& outliers = "32") {
  Source source{files / (arch + ".onnx"), {}};
  const auto made = run_program({"make-model", arch, "-o", source.model, "--layers", "2",
                                 "--hidden", "64", "--heads", "4", "--ffn", "128", "--vocab", "200",
                                 "--positions", "64", "--outliers", outliers});
  EXPECT_EQ(made.code, 0) << made.err;
  for (const int64_t rows : {1, 4, 5})
    source.batches.push_back(sentences(rows, 16 + rows, static_cast<uint64_t>(rows)));
  return source;
}

Source example(const std::string& name) {
  const test::ExampleModel model = test::example_model(name);
  Source source{model.path.string(), {}};
  for (const test::ModelCase& one : model.cases()) source.batches.push_back(one.inputs);
  return source;
}

CompileOptions static_int8(const std::string& scales, const std::string& to) {
  CompileOptions options = test::options_here();
  options.mode = "int8";
  options.scales = test::read_file(scales);
  options.scales_file = scales;
  options.static_scales = true;
  options.export_qdq = to;
  return options;
}

EnginePtr engine_of(const std::string& model, const CompileOptions& options,
                    CompileReport* report = nullptr) {
  return Engine::from_bytes(compile_to_bytes(model, options, report));
}

/// Everything of one model, made once.
struct Exported {
  Files files;
  Source source;
  std::string scales, qdq;
  CompileReport report;
  EnginePtr engine, again;  // of the model, of the Q/DQ model
};

const Exported& exported(const std::string& name) {
  static std::map<std::string, std::unique_ptr<Exported>> all;
  std::unique_ptr<Exported>& one = all[name];
  if (one) return *one;
  one = std::make_unique<Exported>();
  one->source = name == "minilm" ? made_model(one->files) : example(name);
  one->scales = one->files / "scales.json";
  one->qdq = one->files / "qdq.onnx";
  test::Outcome outcome;
  std::vector<std::string> calibrate{"calibrate", one->source.model, "-o", one->scales};
  for (size_t i = 0; i < one->source.batches.size(); ++i) {
    const std::string file = one->files / (std::to_string(i) + ".npz");
    io::write_npz(file, one->source.batches[i]);
    calibrate.insert(calibrate.end(), {"--data", file});
  }
  outcome = run_program(calibrate);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  one->engine = engine_of(one->source.model, static_int8(one->scales, one->qdq), &one->report);
  one->again = engine_of(one->qdq, test::options_here());
  return *one;
}

std::vector<Tensor> answers(const EnginePtr& engine, const NamedTensors& inputs) {
  Session session(engine, {.threads = 2});
  std::vector<Tensor> copies;
  for (const Output& output : session.run(test::refs(inputs))) copies.push_back(test::copy(output));
  return copies;
}

void expect_same_bits(const EnginePtr& a, const EnginePtr& b, const NamedTensors& inputs) {
  const std::vector<Tensor> left = answers(a, inputs), right = answers(b, inputs);
  ASSERT_EQ(left.size(), right.size());
  ASSERT_FALSE(left.empty());
  for (size_t i = 0; i < left.size(); ++i) {
    ASSERT_EQ(left[i].shape(), right[i].shape());
    EXPECT_EQ(std::memcmp(left[i].data(), right[i].data(), left[i].bytes()), 0)
        << "output " << i << " of shape " << str(left[i].shape());
  }
}

class ExportQdq : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Models, ExportQdq,
                         ::testing::Values("minilm", "bert_embedder_ts17", "bert_sdpa_dynamo",
                                           "bge_reranker_dynamo", "gpt2_ts17", "vit_ts17",
                                           "demo_reranker"),
                         [](const auto& one) { return std::string(one.param); });

TEST_P(ExportQdq, IsReadBackToTheSameBits) {
  const Exported& one = exported(GetParam());
  EXPECT_THAT(one.report.notes, Contains(HasSubstr("products with static int8 operands")));
  for (const NamedTensors& inputs : one.source.batches) {
    expect_same_bits(one.engine, one.again, inputs);
    expect_same_bits(one.engine, one.again, test::row_of(inputs, 0));
    expect_same_bits(one.engine, one.again, test::cycle_rows(inputs, 4));
  }
}

// Otherwise equal bits would say nothing.
TEST_P(ExportQdq, IsQuantized) {
  const Exported& one = exported(GetParam());
  CompileOptions wide = test::options_here();
  wide.mode = test::device_under_test() == "cpu" ? "bf16" : "fp16";
  const auto other = engine_of(one.qdq, wide);
  const NamedTensors& inputs = one.source.batches.back();
  const Tensor a = answers(one.again, inputs)[0], b = answers(other, inputs)[0];
  EXPECT_NE(std::memcmp(a.data(), b.data(), a.bytes()), 0);
}

// ---- ONNX Runtime

const std::string kPython = ".venv/bin/python";
bool has_onnx_runtime() {
  return std::filesystem::exists(kPython) &&
         run_command(kPython, {"-c", "import onnx, onnxruntime, numpy"}).code == 0;
}

// Without such instructions its products of 8 bits saturate in 16, and its answers are wrong.
bool has_vnni() { return test::read_file("/proc/cpuinfo").find("vnni") != std::string::npos; }

double rms_of(const Tensor& a, const Tensor* less = nullptr) {
  double sum = 0;
  for (int64_t i = 0; i < a.elems(); ++i) {
    const double v = a.float_at(i) - (less == nullptr ? 0 : less->float_at(i));
    sum += v * v;
  }
  return std::sqrt(sum / static_cast<double>(a.elems()));
}

// Where `a` has a first place that is far enough before the second, b has it too.
void expect_same_first_places(const Tensor& a, const Tensor& b, double margin) {
  const int64_t cols = a.shape().empty() ? 1 : a.shape().back();
  for (int64_t row = 0; row * cols < a.elems(); ++row) {
    const auto first = [&](const Tensor& t, int64_t without) {
      int64_t best = without == 0 ? 1 : 0;
      for (int64_t c = 0; c < cols; ++c)
        if (c != without && t.float_at(row * cols + c) > t.float_at(row * cols + best)) best = c;
      return best;
    };
    const int64_t best = first(a, -1);
    if (cols == 1) continue;
    const double lead = a.float_at(row * cols + best) - a.float_at(row * cols + first(a, best));
    if (lead <= margin) continue;
    EXPECT_EQ(first(b, -1), best) << "row " << row;
  }
}

constexpr const char* kNoOnnxRuntime =
    "SKIP: onnx and onnxruntime of requirements.txt are not in .venv";

// The first output of ONNX Runtime, which takes no file that onnx refuses. `options`: of the tool.
void run_onnx_runtime(const std::string& model, const std::string& in, Tensor& answer,
                      const std::vector<std::string>& options = {}) {
  const auto checked = run_command(
      kPython,
      {"-c", "import onnx,sys; onnx.checker.check_model(sys.argv[1], full_check=True)", model});
  ASSERT_EQ(checked.code, 0) << checked.err;
  const std::string out = in + ".out.npz";
  std::vector<std::string> arguments{"tools/run_onnxruntime.py", model, in, out};
  arguments.insert(arguments.end(), options.begin(), options.end());
  const auto peer = run_command(kPython, arguments);
  ASSERT_EQ(peer.code, 0) << peer.err;
  answer = io::read_arrays(out)[0].second;
}

TEST_P(ExportQdq, AnswersInOnnxRuntimeAsTheEngineDoes) {
  if (!has_onnx_runtime()) GTEST_SKIP() << kNoOnnxRuntime;
  if (!has_vnni())
    GTEST_SKIP() << "SKIP: ONNX Runtime's products of 8 bits saturate on a CPU without VNNI";
  const Exported& one = exported(GetParam());
  for (size_t i = 0; i < one.source.batches.size(); ++i) {
    const std::string in = one.files / (std::to_string(i) + ".npz");
    Tensor theirs;
    ASSERT_NO_FATAL_FAILURE(run_onnx_runtime(one.qdq, in, theirs));
    const Tensor ours = answers(one.engine, one.source.batches[i])[0];
    ASSERT_EQ(theirs.shape(), ours.shape());
    const double rms = rms_of(ours);
    ASSERT_GT(rms, 0);
    EXPECT_LT(rms_of(ours, &theirs), kBound * rms) << in;
    expect_same_first_places(ours, theirs, 2 * kBound * rms);
  }
}

// ---- what else the file holds

void expect_pass(const EnginePtr& engine, const std::string& model) {
  Request request;
  request.threads = 2;
  request.batches = {1, 2};
  request.lengths = {16};
  const Report report = verify_engine(engine, *onnx::import_model(model), request);
  EXPECT_EQ(report.verdict, Verdict::kPass) << to_text(report);
}

TEST(ExportedModel, PassesWithItsOwnModel) {
  const Exported& one = exported("minilm");
  expect_pass(one.again, one.qdq);
}

// Its weights are constants of the model, whatever they are rounded to.
TEST(ExportedModel, PassesInOtherModes) {
  const Exported& one = exported("minilm");
  for (const char* mode : {"fp32", "bf16", "fp8"}) {
    SCOPED_TRACE(mode);
    CompileOptions options = test::options_here();
    options.mode = mode;
    expect_pass(engine_of(one.qdq, options), one.qdq);
  }
}

// ---- FP8

// An encoder of opset 19, which is the first with f8e4m3.
Source model_of_opset_19(const Files& files) {
  Source source = made_model(files, "bert", "8");
  onnx::proto::ModelProto model;
  EXPECT_TRUE(model.ParseFromString(test::read_file(source.model)));
  model.mutable_opset_import(0)->set_version(19);
  model.set_ir_version(9);
  test::write_file(source.model, model.SerializeAsString());
  return source;
}

class ExportedF8 : public ::testing::Test {
 protected:
  CompileOptions options() const {
    CompileOptions options = test::options_here();
    options.mode = "fp8";
    options.export_qdq = qdq_;
    return options;
  }
  void expect_read_back(const CompileOptions& options, const std::string& written) {
    CompileReport report, again;
    const EnginePtr engine = engine_of(source_.model, options, &report),
                    read = engine_of(qdq_, test::options_here(), &again);
    EXPECT_THAT(report.notes, Contains(HasSubstr(written)));
    EXPECT_THAT(again.notes, Contains(HasSubstr("as the model was written with")));
    for (const NamedTensors& inputs : source_.batches) expect_same_bits(engine, read, inputs);
    expect_pass(read, qdq_);
  }

  Files files_;
  Source source_ = model_of_opset_19(files_);
  std::string qdq_ = files_ / "f8.onnx";
};

TEST_F(ExportedF8, WithScalesThatWeightsBoundIsReadBackToTheSameBits) {
  expect_read_back(options(), "12 products with static f8e4m3 operands");
  const onnx::ModelSlicer written(qdq_);
  int factors = 0;
  for (const onnx::MainNode& node : written.nodes())
    factors += node.name.find("_times_factors") != std::string::npos;
  EXPECT_EQ(factors, 0);
}

TEST_F(ExportedF8, WithFactorsAndRangesIsReadBackToTheSameBits) {
  const std::string batch = files_ / "batch.npz", scales = files_ / "scales.json";
  io::write_npz(batch, source_.batches.back());
  const auto calibrated = run_program({"calibrate", source_.model, "--data", batch, "-o", scales});
  ASSERT_EQ(calibrated.code, 0) << calibrated.err;
  CompileOptions calibrated_options = options();
  calibrated_options.scales = test::read_file(scales);
  calibrated_options.scales_file = scales;
  calibrated_options.static_scales = true;
  expect_read_back(calibrated_options, "static f8e4m3 operands");
  const onnx::ModelSlicer written(qdq_);
  EXPECT_THAT(written.nodes(),
              Contains(testing::Field(&onnx::MainNode::name, HasSubstr("_times_factors"))));
}

TEST_F(ExportedF8, AnswersInOnnxRuntimeAsTheEngineDoes) {
  if (!has_onnx_runtime()) GTEST_SKIP() << kNoOnnxRuntime;
  const EnginePtr engine = engine_of(source_.model, options());
  const std::string in = files_ / "in.npz";
  io::write_npz(in, source_.batches.back());
  Tensor theirs;
  ASSERT_NO_FATAL_FAILURE(run_onnx_runtime(qdq_, in, theirs, {"--keep-qdq"}));
  const Tensor ours = answers(engine, source_.batches.back())[0];
  ASSERT_EQ(theirs.shape(), ours.shape());
  EXPECT_LT(rms_of(ours, &theirs), kBound * rms_of(ours));
}

TEST(ExportedModel, KeepsNodesAndNamesAndDropsWeightsThatNobodyReads) {
  const Exported& one = exported("minilm");
  const onnx::ModelSlicer before(one.source.model), after(one.qdq);
  std::vector<std::string> names, wanted;
  int quantize = 0, dequantize = 0;
  for (const onnx::MainNode& node : after.nodes()) {
    names.push_back(node.name);
    quantize += node.op == "QuantizeLinear";
    dequantize += node.op == "DequantizeLinear";
  }
  for (const onnx::MainNode& node : before.nodes()) wanted.push_back(node.name);
  EXPECT_THAT(names, testing::IsSupersetOf(wanted));
  EXPECT_EQ(quantize, 8) << "two layers: before q, k and v, the output, both of the feed-forward";
  EXPECT_EQ(dequantize, 8 + 12);
  EXPECT_LT(std::filesystem::file_size(one.qdq), std::filesystem::file_size(one.source.model));
  EXPECT_EQ(before.outputs(), after.outputs());
  EXPECT_EQ(before.inputs(), after.inputs());
}

TEST(ExportedModel, KeepsRules) {
  const Exported& one = exported("bert_embedder_ts17");
  const std::string to = one.files / "rules.onnx";
  CompileOptions options = static_int8(one.scales, to);
  options.rules = {"layer:0 compute=f32", "role:ffn.up compute=bf16"};
  CompileReport report;
  const auto engine = engine_of(one.source.model, options, &report);
  EXPECT_THAT(report.notes, Contains(HasSubstr("5 products with static int8 operands")));
  CompileReport again;
  const auto read = engine_of(to, test::options_here(), &again);
  EXPECT_EQ(again.policy, report.policy);
  EXPECT_THAT(again.notes, Contains(HasSubstr("as the model was written with")));
  for (const NamedTensors& inputs : one.source.batches) expect_same_bits(engine, read, inputs);
  // A mode of the user's comes first.
  CompileOptions wide = test::options_here();
  wide.mode = "fp32";
  engine_of(to, wide, &again);
  EXPECT_THAT(again.policy, HasSubstr("fp32"));
  EXPECT_THAT(again.notes, Not(Contains(HasSubstr("as the model was written with"))));
}

TEST(ExportedModel, SaysHowManyProductsFellBack) {
  const Exported& one = exported("demo_reranker");
  const auto kept = std::ranges::count_if(one.report.notes, [](const std::string& note) {
    return note.find("' kept in ") != note.npos;
  });
  EXPECT_GT(kept, 0);
  EXPECT_THAT(one.report.notes, Contains(HasSubstr("that int8 costs too much are not quantized")));
  int dequantize = 0;
  const onnx::ModelSlicer written(one.qdq);
  for (const onnx::MainNode& node : written.nodes())
    dequantize += node.op == "DequantizeLinear" && written.is_initializer(node.inputs[0]);
  EXPECT_GT(dequantize, 0);
  EXPECT_LT(dequantize, 24) << "4 layers of 6 products";
}

// Two products; nodes without names, one weight under a Transpose, which a rule finds by the name
// that Vernier gives it.
TEST(ExportedModel, GivesNodesTheNamesThatRulesFoundThemBy) {
  const Files files;
  onnx::ModelBuilder model(17);
  model.input("x", onnx::kFloat, {std::string("batch"), int64_t{8}}).output("y");
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  const auto weight = [&](const std::string& name, std::vector<int64_t> dims) {
    std::vector<float> values(static_cast<size_t>(num_elems(dims)));
    for (float& value : values) value = normal(random);
    model.initializer(onnx::f32_tensor(name, dims, values));
  };
  weight("v", {16, 8});
  weight("w", {6, 16});
  weight("u", {16, 16});
  model.node("Transpose", {"v"}, {"t"}, {onnx::attr_ints("perm", {1, 0})});
  model.node("MatMul", {"x", "t"}, {"a"});
  model.node("Relu", {"a"}, {"r"});
  model.node("MatMul", {"r", "u"}, {"b"});
  model.node("Gemm", {"b", "w"}, {"y"}, {onnx::attr_int("transB", 1)});
  const std::string path = files / "m.onnx", scales = files / "s.json", to = files / "q.onnx";
  test::write_file(path, model.bytes());
  test::write_file(
      scales, R"({"format": "vernier-scales", "version": 1, "model": {"hash": ")" +
                  file_hash(path) +
                  R"("}, "sites": [{"products": ["MatMul_0"], "factors": [1, 2, 0.5, 1, 1, 1, 4, 1],
          "static": {"low": -3, "high": 4}}, {"products": ["Gemm_0"],
          "factors": [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1],
          "static": {"low": -30, "high": 25}}]})");
  CompileOptions options = static_int8(scales, to);
  options.rules = {"name:MatMul_1 compute=f32"};
  const auto engine = engine_of(path, options);
  CompileReport report;
  const auto again = engine_of(to, test::options_here(), &report);
  EXPECT_THAT(report.notes, Contains(HasSubstr("2 of 2 products")));
  std::vector<double> values(24);
  for (double& value : values) value = normal(random);
  const NamedTensors inputs{
      {"x", Tensor::from(DType::kF32, {3, 8}, std::span<const double>(values))}};
  expect_same_bits(engine, again, inputs);
  std::vector<std::string> names;
  const onnx::ModelSlicer written(to);
  for (const onnx::MainNode& node : written.nodes()) names.push_back(node.op + " " + node.name);
  EXPECT_THAT(names, Contains("MatMul MatMul_1"));
  EXPECT_THAT(names, Not(Contains(HasSubstr("Transpose"))));
  EXPECT_FALSE(written.is_initializer("v"));
  EXPECT_TRUE(written.is_initializer("u"));
}

// ---- refusals

struct Refusal {
  const char* name;
  std::function<std::vector<std::string>(const Exported&)> arguments;  ///< behind `build`
  int code;
  std::vector<std::string> message;
};
void PrintTo(const Refusal& row, std::ostream* out) { *out << row.name; }

// A model of one product, of type `type` and made by `op`, and options that quantize it.
std::vector<std::string> one_product(const Files& files, const std::string& op, int64_t opset,
                                     bool in_function = false) {
  onnx::ModelBuilder model(opset);
  model.input("x", onnx::kFloat, {std::string("batch"), int64_t{2}}).output("y");
  model.initializer(onnx::f32_tensor("w", {2, 2}, {1, 2, 3, 4}));
  if (in_function) {
    onnx::proto::FunctionProto& function = model.function("product", {"a", "b"}, {"c"});
    function.add_opset_import()->set_version(opset);
    *function.add_node() = onnx::make_node("MatMul", {"a", "b"}, {"c"});
    model.node("product", {"x", "w"}, {"y"}).set_domain("local");
  } else if (op == "Mul") {
    model.node("Mul", {"w", "w"}, {"v"});
    model.node("MatMul", {"x", "v"}, {"y"});
  } else {
    model.node(op, {"x", "w"}, {"y"});
    if (op == "FusedMatMul") model.graph().mutable_node(0)->set_domain("com.microsoft");
  }
  const std::string path = files / "one.onnx", scales = files / "one.json";
  test::write_file(path, model.bytes());
  const std::string key = in_function ? "/product/0#0" : op == "Mul" ? "#1" : "#0";
  test::write_file(scales, R"({"format": "vernier-scales", "version": 1, "model": {"hash": ")" +
                               file_hash(path) + R"("}, "sites": [{"products": [")" + key +
                               R"("], "factors": [1, 1], "static": {"low": -1, "high": 1}}]})");
  return {path, "--int8", "--static", "--scales", scales, "--export-qdq", files / "one.qdq"};
}

// Nothing bounds its x, which is the model's input.
std::vector<std::string> one_product_in_fp8(const Files& files, int64_t opset) {
  std::vector<std::string> arguments = one_product(files, "MatMul", opset);
  return {arguments.front(), "--fp8", "--int8-error", "100", "--export-qdq", files / "one.qdq"};
}

std::vector<std::string> usual(const Exported& one, const std::string& to,
                               std::vector<std::string> more = {}) {
  std::vector<std::string> all{one.source.model, "--int8",       "--static", "--scales",
                               one.scales,       "--export-qdq", to};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

class ExportRefused : public ::testing::TestWithParam<Refusal> {};
TEST_P(ExportRefused, WithTheReason) {
  const Exported& one = exported("minilm");
  const std::string engine = one.files / "refused.vn";
  const std::string before = test::read_file(one.source.model);
  std::vector<std::string> arguments = GetParam().arguments(one);
  arguments.insert(arguments.begin(), "build");
  arguments.insert(arguments.end(), {"-o", engine, "--no-compare"});
  const auto outcome = run_program(arguments);
  EXPECT_EQ(outcome.code, GetParam().code) << outcome.err;
  EXPECT_THAT(outcome.err, testing::StartsWith("vernier: error: "));
  for (const std::string& part : GetParam().message) EXPECT_THAT(outcome.err, HasSubstr(part));
  EXPECT_FALSE(std::filesystem::exists(engine));
  EXPECT_EQ(test::read_file(one.source.model), before);
}

const Refusal kRefusals[] = {
    {"folder_that_is_not_there",
     [](const Exported& one) { return usual(one, one.files / "no/where.onnx"); },
     3,
     {"no/where.onnx"}},
    {"the_model_itself",
     [](const Exported& one) { return usual(one, one.source.model); },
     2,
     {"would destroy"}},
    {"the_scales",
     [](const Exported& one) { return usual(one, one.scales); },
     2,
     {"would destroy"}},
    {"the_engine",
     [](const Exported& one) { return usual(one, one.files / "refused.vn"); },
     2,
     {"writes something else to"}},
    {"without_int8",
     [](const Exported& one) {
       return std::vector<std::string>{one.source.model, "--export-qdq", one.files / "o.onnx"};
     },
     2,
     {"--export-qdq: a Q/DQ model has products in int8 or fp8, and this build asks for none",
      "--int8", "--fp8"}},
    {"scales_of_rows",
     [](const Exported& one) {
       return std::vector<std::string>{one.source.model, "--int8", "--export-qdq",
                                       one.files / "o.onnx"};
     },
     2,
     {"found at run time", "Add --static"}},
    {"nothing_in_int8",
     [](const Exported& one) {
       return usual(one, one.files / "o.onnx", {"--rule", "op:Linear compute=f16"});
     },
     2,
     {"no product of this build is in 8 bits"}},
    {"seeded_weights",
     [](const Exported& one) {
       return usual(one, one.files / "o.onnx", {"--seed-missing-weights"});
     },
     2,
     {"holds all weights"}},
    {"a_model_that_was_exported",
     [](const Exported& one) {
       const std::string scales = one.files / "other.json";
       std::string text = test::read_file(one.scales);
       const std::string hash = file_hash(one.source.model);
       text.replace(text.find(hash), hash.size(), file_hash(one.qdq));
       test::write_file(scales, text);
       return std::vector<std::string>{one.qdq, "--int8", "--scales", scales};
     },
     2,
     {"has the scales of its quantized products itself"}},
    {"an_old_opset",
     [](const Exported& one) { return one_product(one.files, "MatMul", 12); },
     2,
     {"the model has opset 12", "from opset 13 on", "convert_version"}},
    {"fp8_in_an_old_opset",
     [](const Exported& one) { return one_product_in_fp8(one.files, 17); },
     2,
     {"the model has opset 17", "takes f8e4m3 from opset 19 on", "convert_version(model, 19)"}},
    {"fp8_with_scales_of_rows",
     [](const Exported& one) { return one_product_in_fp8(one.files, 19); },
     2,
     {"the scales of the rows that product 'MatMul_0' takes are found at run time", "Add --static",
      "compute=f16"}},
    {"a_product_in_a_function",
     [](const Exported& one) { return one_product(one.files, "MatMul", 17, true); },
     2,
     {"is in a local function", "inline_local_functions", "compute=f16"}},
    {"another_operator",
     [](const Exported& one) { return one_product(one.files, "FusedMatMul", 17); },
     2,
     {"product 'FusedMatMul_0' is not made by a MatMul or a Gemm", "compute=f16"}},
    {"a_weight_that_is_computed",
     [](const Exported& one) { return one_product(one.files, "Mul", 17); },
     2,
     {"is computed from constants", "Fold the constants"}},
};
INSTANTIATE_TEST_SUITE_P(Rows, ExportRefused, ::testing::ValuesIn(kRefusals),
                         [](const auto& row) { return std::string(row.param.name); });

TEST(ExportedModel, IsNotCalibratedAgain) {
  const Exported& one = exported("minilm");
  const auto outcome = run_program(
      {"calibrate", one.qdq, "--data", one.files / "0.npz", "-o", one.files / "again.json"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("calibrate the model that it was made from"));
}

// The engine in 16 bits beside it takes no scales.
TEST(ExportedModel, IsWrittenByABuildThatComparesToo) {
  const Exported& one = exported("minilm");
  const std::string to = one.files / "compared.onnx";
  std::vector<std::string> arguments = usual(one, to, {"-o", one.files / "c.vn", "--force"});
  arguments.insert(arguments.begin(), "build");
  const auto outcome = run_program(arguments);
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("times as fast"));
  EXPECT_EQ(test::read_file(to), test::read_file(one.qdq));
}

}  // namespace
}  // namespace vernier::verify
