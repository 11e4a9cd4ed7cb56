// Kernels of the user's from a plugin: examples/custom_layer_norm takes the place of Vernier's and
// passes verify, its half-precision twin is found out, and every wrong library is refused in words.
// Contract: docs/custom_kernels.md.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>

#include "core/hash.h"
#include "engine/writer.h"
#include "onnx/model_builder.h"
#include "runtime/engine_impl.h"
#include "runtime/models.h"
#include "verify/verify.h"
#include "vernier/inspect.h"
#include "vernier/plugins.h"
#include "vernier/session.h"
#include "vernier/synthetic.h"

namespace vernier::verify {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

constexpr const char* kModel = "gpt2_ts17";  // one LayerNorm, then AddLayerNorms

std::string plugin(const std::string& name) {
  return std::string(VERNIER_TEST_PLUGINS) + "/" + name + ".so";
}
std::string example(const std::string& name) {
  return std::string(VERNIER_EXAMPLE_PLUGINS) + "/" + name + ".so";
}

std::string message_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInput) << error.what();
    return error.what();
  }
  return "no error";
}

class CustomKernel : public ::testing::Test {
 protected:
  // Each test is a process of its own (ctest), so the process's id is in the name.
  void SetUp() override {
    folder_ = fs::path(::testing::TempDir()) / ("custom_kernel_" + std::to_string(getpid()));
    fs::create_directories(folder_);
    engine_ = (folder_ / "model.vn").string();
  }
  void TearDown() override { fs::remove_all(folder_); }

  CompileReport build(const KernelSet& backend, CompileOptions options = {}) {
    options.kernels = &backend;
    return compile(model_, engine_, options);
  }
  Report verified(const KernelSet& backend, Request request = {}) {
    request.model = model_;
    request.engine = engine_;
    request.kernels = &backend;
    request.batches = {1, 4};
    request.lengths = {4, 16};
    request.threads = 2;
    return verify(request);
  }
  int steps_of(const KernelSet& backend, const std::string& kernel) const {
    int count = 0;
    const auto engine = Engine::open(engine_, backend);
    for (const plan::Step& step : engine->impl().plan.steps) count += step.kernel == kernel;
    return count;
  }

  std::string model_ = test::example_model(kModel).path.string(), engine_;
  fs::path folder_;
};

TEST_F(CustomKernel, TakesThePlaceOfVerniersAndPassesVerify) {
  const KernelSet& backend = load_plugins({example("custom_layer_norm")});
  build(backend);
  EXPECT_EQ(steps_of(backend, "plugin.custom_layer_norm.layer_norm.two_pass"), 1);
  EXPECT_GT(steps_of(backend, "plugin.custom_layer_norm.add_layer_norm.two_pass"), 1);
  EXPECT_EQ(steps_of(backend, "cpu.layer_norm.rows"), 0);
  EXPECT_EQ(steps_of(backend, "cpu.add_layer_norm.rows"), 0);
  const Report report = verified(backend);
  EXPECT_EQ(report.verdict, "pass") << to_text(report);
}

// y = LayerNorm((x·w)[..., 16:80]). Vernier's norm reads that part where it lies; a plugin's takes
// no array with gaps, so that the engine has a step more than one without the plugin.
std::string sliced_norm() {
  constexpr int64_t kWidth = 64, kColumns = 96;
  std::vector<float> w(kWidth * kColumns);
  for (size_t i = 0; i < w.size(); ++i) w[i] = 0.01F * static_cast<float>(i * 37 % 101) - 0.5F;
  onnx::ModelBuilder model(17);
  model.input("x", onnx::kFloat, {"batch", "seq", kWidth});
  model.initializer(onnx::f32_tensor("w", {kWidth, kColumns}, w));
  model.initializer(onnx::f32_tensor("scale", {kWidth}, std::vector<float>(kWidth, 1.1F)));
  model.initializer(onnx::f32_tensor("bias", {kWidth}, std::vector<float>(kWidth, 0.3F)));
  model.initializer(onnx::i64_tensor("from", {1}, {16}));
  model.initializer(onnx::i64_tensor("to", {1}, {80}));
  model.initializer(onnx::i64_tensor("axis", {1}, {2}));
  model.node("MatMul", {"x", "w"}, {"product"}).set_name("product");
  model.node("Slice", {"product", "from", "to", "axis"}, {"part"}).set_name("part");
  model.node("LayerNormalization", {"part", "scale", "bias"}, {"y"}, {onnx::attr_int("axis", -1)})
      .set_name("norm");
  model.output("y");
  return model.bytes();
}

TEST_F(CustomKernel, PassesVerifyInSixteenBitsWhereThePlanHasOtherSteps) {
  model_ = (folder_ / "sliced.onnx").string();
  const std::string bytes = sliced_norm();
  std::ofstream(model_, std::ios::binary)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  const KernelSet& backend = load_plugins({example("custom_layer_norm")});
  for (const char* mode : {"fp16", "bf16"}) {
    CompileOptions options;
    options.mode = mode;
    options.rules = {"name:* store=f32"};
    build(backend, options);
    EXPECT_EQ(steps_of(backend, "plugin.custom_layer_norm.layer_norm.two_pass"), 1);
    const Report report = verified(backend);
    EXPECT_EQ(report.verdict, "pass") << to_text(report);
  }
}

TEST_F(CustomKernel, StatisticsInHalfPrecisionAreFoundAndTheStepIsNamed) {
  const KernelSet& backend = load_plugins({example("half_layer_norm")});
  build(backend);
  EXPECT_EQ(steps_of(backend, "plugin.half_layer_norm.layer_norm.one_pass"), 1);
  const Report report = verified(backend);
  EXPECT_EQ(report.verdict, "bug") << to_text(report);
  EXPECT_THAT(report.explanation, HasSubstr("plugin.half_layer_norm.layer_norm.one_pass"));
  EXPECT_THAT(report.explanation, HasSubstr("ln_1/LayerNormalization"));
}

TEST_F(CustomKernel, AnEngineWithoutItsPluginIsAnErrorThatNamesIt) {
  build(load_plugins({example("custom_layer_norm")}));
  const std::string message = message_of([&] { Engine::open(engine_); });
  const std::string hash = file_hash(example("custom_layer_norm"));
  EXPECT_THAT(message, HasSubstr("of the plugin 'custom_layer_norm' (custom_layer_norm.so, "
                                 "XXH3-128 " +
                                 hash + "), which is not loaded; add --plugin with its library"));
  EXPECT_THAT(message, HasSubstr("ln_1/LayerNormalization"));
}

TEST_F(CustomKernel, TheEngineRecordsThePluginsThatItHasStepsOf) {
  const std::string path = example("custom_layer_norm"), hash = file_hash(path);
  // The second has no step: the first takes every node that it would.
  const KernelSet& backend = load_plugins({path, example("half_layer_norm")});
  build(backend);
  const auto engine = Engine::open(engine_, backend);
  const plan::Plan& plan = engine->impl().plan;
  ASSERT_EQ(plan.build.plugins.size(), 1U);
  EXPECT_EQ(plan.build.plugins[0].name, "custom_layer_norm");
  EXPECT_EQ(plan.build.plugins[0].file, "custom_layer_norm.so");
  EXPECT_EQ(plan.build.plugins[0].hash, hash);
  EXPECT_THAT(inspect_engine(*engine, {}), HasSubstr("custom_layer_norm.so (" + hash + ")"));
  const std::string ledger = inspect_engine(*engine, {.view = EngineView::kLedger});
  EXPECT_THAT(ledger, HasSubstr("of plugin 'custom_layer_norm' (custom_layer_norm.so, XXH3-128 "));
}

TEST_F(CustomKernel, AnotherLibraryOfTheSameNameIsWarnedOf) {
  const KernelSet& backend = load_plugins({example("custom_layer_norm")});
  build(backend);
  plan::Plan plan = Engine::open(engine_, backend)->impl().plan;
  const std::string before = plan.build.plugins.at(0).hash;
  plan.build.plugins[0].hash = std::string(32, '0');
  ::testing::internal::CaptureStderr();
  Engine::from_bytes(engine::engine_bytes(plan), backend);
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, HasSubstr("was built with plugin 'custom_layer_norm' (custom_layer_norm.so, "
                              "XXH3-128 " +
                              std::string(32, '0') + ") and runs with"));
  EXPECT_THAT(said, HasSubstr(before));
}

TEST_F(CustomKernel, TheFirstPluginIsTriedFirstAndALibraryIsLoadedOnce) {
  const std::string half = example("half_layer_norm"), full = example("custom_layer_norm");
  const KernelSet& both = load_plugins({half, full});
  build(both);
  EXPECT_EQ(steps_of(both, "plugin.half_layer_norm.layer_norm.one_pass"), 1);
  EXPECT_EQ(steps_of(both, "plugin.custom_layer_norm.layer_norm.two_pass"), 0);
  EXPECT_GT(steps_of(both, "plugin.custom_layer_norm.add_layer_norm.two_pass"), 1);
  const KernelSet& again = load_plugins({full, half});
  build(again);
  EXPECT_EQ(steps_of(again, "plugin.custom_layer_norm.layer_norm.two_pass"), 1);
}

TEST_F(CustomKernel, WhatItDoesNotSupportIsVerniersAndTheLedgerSaysWhy) {
  const KernelSet& backend = load_plugins({example("custom_layer_norm")});
  build(backend, {.mode = "bf16"});
  EXPECT_EQ(steps_of(backend, "plugin.custom_layer_norm.add_layer_norm.two_pass"), 0);
  bool said = false;
  const auto engine = Engine::open(engine_, backend);
  for (const plan::LedgerRow& row : engine->impl().plan.ledger) {
    said |= row.why.find("plugin.custom_layer_norm.add_layer_norm.two_pass takes f32 only") !=
            std::string::npos;
  }
  EXPECT_TRUE(said);
}

TEST_F(CustomKernel, TheSameEngineGivesTheSameBitsOnAnyNumberOfThreads) {
  const KernelSet& backend = load_plugins({example("custom_layer_norm")});
  build(backend);
  const auto engine = Engine::open(engine_, backend);
  const std::vector<InputArray> arrays = synthetic_inputs(*engine, "batch=3,seq=17");
  std::vector<Input> inputs;
  for (const InputArray& array : arrays) inputs.push_back(array.ref());
  std::vector<std::vector<std::byte>> results;
  for (int threads : {1, 2}) {
    Session session(engine, {.threads = threads});
    const Output& output = session.run(inputs)[0];
    const auto* data = static_cast<const std::byte*>(output.data);
    results.emplace_back(data, data + output.bytes);
  }
  EXPECT_FALSE(results[0].empty());
  EXPECT_EQ(results[0], results[1]);
}

const CheckResult& check_of(const Report& report, std::string_view name) {
  const auto found = std::ranges::find(report.checks, name, &CheckResult::name);
  EXPECT_NE(found, report.checks.end()) << name;
  return *found;
}

// Limits of the answers so wide that only the kernel's own word is left to judge it by.
Request of_wide_limits() {
  Request request;
  request.tolerance = parse_tolerance("rms=10");
  return request;
}

TEST_F(CustomKernel, AKernelThatDeclaresHalfIsNotTakenOnItsWord) {
  const KernelSet& backend = load_plugins({plugin("declares_half")});
  build(backend);
  ASSERT_EQ(steps_of(backend, "plugin.declares_half.layer_norm.declaring"), 1);
  for (const Request& request : {Request{}, of_wide_limits()}) {
    const Report report = verified(backend, request);
    EXPECT_EQ(report.verdict, "declared error") << to_text(report);
    EXPECT_THAT(report.explanation, HasSubstr("(plugin.declares_half.layer_norm.declaring, '"));
    EXPECT_THAT(report.explanation, HasSubstr("declares an error of 0.5 + 0·|result|: 0.5 at the"));
    EXPECT_THAT(report.explanation, HasSubstr("is taken on a kernel's word"));
    EXPECT_EQ(report.cause.kernel, "plugin.declares_half.layer_norm.declaring");
    EXPECT_THAT(report.cause.command, HasSubstr("--accept-declared"));
    EXPECT_EQ(check_of(report, "each step against FP64").failed, 0) << "the replay believes it";
    EXPECT_FALSE(report.accepted_declared());
  }
}

TEST_F(CustomKernel, WhatItDeclaresCanBeAccepted) {
  const KernelSet& backend = load_plugins({plugin("declares_half")});
  build(backend);
  Request request = of_wide_limits();
  request.accept_declared = true;
  const Report report = verified(backend, request);
  EXPECT_EQ(report.verdict, "pass") << to_text(report);
  EXPECT_TRUE(report.accepted_declared());
  EXPECT_THAT(check_of(report, "errors that kernels declare").note, HasSubstr("accepted: step"));
  // Without the wide limits, its error shows in the answers.
  request.tolerance = {};
  EXPECT_EQ(verified(backend, request).verdict, "precision");
}

TEST_F(CustomKernel, ItsTwinDeclaresLittleAndPasses) {
  const KernelSet& backend = load_plugins({plugin("declares_little")});
  build(backend);
  const Report report = verified(backend);
  EXPECT_EQ(report.verdict, "pass") << to_text(report);
  EXPECT_GT(check_of(report, "errors that kernels declare").done, 0);
  EXPECT_EQ(check_of(report, "errors that kernels declare").note, "");
  EXPECT_FALSE(report.accepted_declared());
}

TEST_F(CustomKernel, RelativeAndEndlessErrorsAreCappedToo) {
  for (const char* name : {"declares_relative", "declares_endless"}) {
    const KernelSet& backend = load_plugins({plugin(name)});
    build(backend);
    const Report report = verified(backend);
    EXPECT_EQ(report.verdict, "declared error") << name << to_text(report);
  }
}

// Roundings inside a step widen its limit as a declared error does.
TEST_F(CustomKernel, RoundingsOfOtherTypesThanItsOwnAreRefused) {
  const KernelSet& backend = load_plugins({plugin("narrow_points")});
  EXPECT_THAT(message_of([&] { build(backend); }),
              HasSubstr("kernel plugin.narrow_points.layer_norm.declaring declares that it rounds "
                        "'x' to f8e5m2, which is narrower than the types that it stores"));
}

struct Wrong {
  const char *library, *words;
};
class WrongPlugin : public ::testing::TestWithParam<Wrong> {};

TEST_P(WrongPlugin, IsRefusedInWords) {
  const std::string path = plugin(GetParam().library);
  const std::string message = message_of([&] { load_plugins({path}); });
  EXPECT_THAT(message, HasSubstr("plugin '" + path + "': "));
  EXPECT_THAT(message, HasSubstr(GetParam().words));
}

INSTANTIATE_TEST_SUITE_P(
    Load, WrongPlugin,
    ::testing::Values(
        Wrong{"none", "there is no such file"}, Wrong{"no_library", "cannot be loaded: "},
        Wrong{"no_function", "has no function 'vernier_plugin'"},
        Wrong{"version", "was built for version 7 of the interface, this Vernier has version 0"},
        Wrong{"unknown_operator", "adds no operators; did you mean 'LayerNorm'"},
        Wrong{"no_launch", "kernel 'loop' lacks one of supports, numerics and launch"},
        Wrong{"bad_name", "the name of a kernel is 'Has Spaces', expected [a-z0-9_]+"},
        Wrong{"no_bit_class", "kernel 'loop' states no bit class"},
        Wrong{"own_reference", "leave output_shapes and reference NULL"},
        Wrong{"no_kernels", "has no kernels"}),
    [](const auto& test) { return std::string(test.param.library); });

TEST_F(CustomKernel, ATypeThatIsNoneIsRefusedWhenTheNodeIsPlanned) {
  model_ = test::example_model("deformable_attention_ts17").path.string();  // has a Softmax
  const KernelSet& backend = load_plugins({plugin("bad_type")});
  EXPECT_THAT(message_of([&] { build(backend); }),
              HasSubstr("kernel plugin.bad_type.softmax.loop declares 14 as its compute type"));
}

TEST_F(CustomKernel, WhatAKernelSaysInARunIsAnErrorWithTheNode) {
  model_ = test::example_model("deformable_attention_ts17").path.string();
  const KernelSet& backend = load_plugins({plugin("run_fails")});
  build(backend);
  const auto engine = Engine::open(engine_, backend);
  const std::vector<InputArray> arrays = synthetic_inputs(*engine, "");
  std::vector<Input> inputs;
  for (const InputArray& array : arrays) inputs.push_back(array.ref());
  Session session(engine, {.threads = 1});
  const std::string message = message_of([&] { session.run(inputs); });
  EXPECT_THAT(message, HasSubstr("plugin.run_fails.softmax.loop"));
  EXPECT_THAT(message, HasSubstr("plugin 'run_fails' says: the moon is not full"));
}

// The program: the exit code, and what it printed.
std::pair<int, std::string> vernier(const fs::path& folder, const std::string& arguments) {
  const std::string out = (folder / "printed").string();
  const std::string command = std::string(VERNIER_PROGRAM) + " " + arguments + " >" + out + " 2>&1";
  const int status = std::system(command.c_str());
  std::ifstream file(out);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1,
          {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()}};
}

TEST_F(CustomKernel, EveryCommandTakesPlugins) {
  const std::string with = " --plugin " + example("custom_layer_norm");
  const std::string sizes = " --batches 1,4 --lengths 4";
  const std::string inputs = (fs::path(VERNIER_TEST_MODELS) / kModel / "case_0.npz").string();
  const std::vector<std::string> commands{
      "inspect " + engine_ + " --plan", "verify " + engine_ + " --model " + model_ + sizes,
      "bench " + engine_ + " --batch 1 --length 4 --seconds 0.01",
      "localise " + engine_ + " --model " + model_ + " --batch 1 --length 4"};
  const auto built = vernier(folder_, "build " + model_ + " -o " + engine_ + with);
  ASSERT_EQ(built.first, 0) << built.second;
  for (const std::string& command : commands) {
    const auto [code, printed] = vernier(folder_, command + with);
    EXPECT_EQ(code, 0) << command << "\n" << printed;
    const auto [refused, message] = vernier(folder_, command);
    EXPECT_EQ(refused, 2) << command;
    EXPECT_THAT(message, HasSubstr("of the plugin 'custom_layer_norm' (custom_layer_norm.so, "));
  }
  const auto none = vernier(folder_, "run " + engine_ + " --inputs " + inputs + " -o " +
                                         (folder_ / "out.npz").string() + " --plugin none.so");
  EXPECT_EQ(none.first, 2);
  EXPECT_THAT(none.second, HasSubstr("plugin 'none.so': there is no such file"));
}

// Certificates are of the library that was loaded, not of its name.
TEST_F(CustomKernel, ACertificateIsOfOneLibrary) {
  const std::string with = " --plugin " + plugin("declares_little"),
                    other = " --plugin " + plugin("another_file");
  const std::string out = (folder_ / "out.npz").string();
  const std::string run = "run " + engine_ + " --inputs " +
                          test::example_model(kModel).path.parent_path().string() +
                          "/case_0.npz -o " + out + " --require-certificate";
  const auto built = vernier(folder_, "build " + model_ + " -o " + engine_ + with);
  ASSERT_EQ(built.first, 0) << built.second;
  const auto stamped = vernier(folder_, "verify " + engine_ + " --model " + model_ + with +
                                            " --batches 1,4 --lengths 4,16 --stamp");
  ASSERT_EQ(stamped.first, 0) << stamped.second;
  const auto engine = Engine::open(engine_, load_plugins({plugin("declares_little")}));
  ASSERT_EQ(engine->certificate()->plugins.size(), 1U);
  EXPECT_EQ(engine->certificate()->plugins[0].hash, file_hash(plugin("declares_little")));
  EXPECT_NO_THROW(Session(engine, {.threads = 1, .certificate = CertificateTerms{}}));
  const auto refused = vernier(folder_, run + other);
  EXPECT_EQ(refused.first, 1) << refused.second;
  EXPECT_THAT(refused.second, HasSubstr("was verified with plugin 'declares_little' "
                                        "(declares_little.so, XXH3-128 " +
                                        file_hash(plugin("declares_little")) + ") and runs with"));
  EXPECT_FALSE(fs::exists(out));
}

}  // namespace
}  // namespace vernier::verify
