// Every example model in every mode on the device under test (VERNIER_TEST_DEVICE): verify's
// verdict is pass, rows keep their bits in every batch, and the ideal evaluation predicts the
// device's error within a factor of two both ways. On the CPU other tests show this: skipped.
#include <gtest/gtest.h>

#include <thread>

#include "scenarios/build.h"

namespace vernier::verify::field {
namespace {

using ModelInMode = std::tuple<std::string, std::string>;
class OnDevice : public ::testing::TestWithParam<ModelInMode> {};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(OnDevice);

TEST(Device, IsAnotherThanTheCpu) {
  if (test::device_under_test() == "cpu")
    GTEST_SKIP()
        << "SKIP: VERNIER_TEST_DEVICE names no other device than the CPU: no example model "
           "is verified on one";
}

TEST_P(OnDevice, Passes) {
  const auto& [name, mode] = GetParam();
  const auto model = model_named(name);
  const auto engine = engine_of(plan_of(*model, {.mode = mode}));
  Request request;
  request.batches = {1, 3, 8};
  request.lengths = {4, 16};
  const Report report = verify_engine(engine, *model, request);
  EXPECT_EQ(report.verdict, "pass") << to_text(report);
  for (const OutputResult& output : report.outputs) {
    std::printf("%-36s %-5s %-20s rms %.3g noise %.3g\n", name.c_str(), mode.c_str(),
                output.name.c_str(), output.all_rms, output.noise_rms);
    if (mode == "fp32") continue;  // a bound on f32's noise, not a prediction
    EXPECT_LE(output.all_rms, 2 * output.noise_rms) << output.name;
    EXPECT_GE(output.all_rms, output.noise_rms / 2) << output.name;
  }
}

// On every device, the CPU too: 100 runs, and two sessions side by side on one engine.
TEST(Sessions, GiveTheSameBitsInAHundredRunsAndSideBySide) {
  const test::ExampleModel example = test::example_model("bert_ts11");
  const auto engine = engine_of(plan_of(*model_named(example.name), {.mode = "fp16"}));
  const NamedTensors inputs = example.cases().at(0).inputs;
  const std::vector<Input> refs = test::refs(inputs);
  const auto bytes_of = [](std::span<const Output> outputs) {
    std::vector<std::byte> all;
    for (const Output& output : outputs) {
      const auto* data = static_cast<const std::byte*>(output.data);
      all.insert(all.end(), data, data + output.bytes);
    }
    return all;
  };
  Session first(engine, {.threads = 1});
  const std::vector<std::byte> want = bytes_of(first.run(refs));
  const auto differing = [&](Session& session) {
    int count = 0;
    for (int i = 0; i < 100; ++i) count += bytes_of(session.run(refs)) != want;
    return count;
  };
  Session second(engine, {.threads = 1});
  int beside = -1;
  std::thread other([&] { beside = differing(second); });
  EXPECT_EQ(differing(first), 0);
  other.join();
  EXPECT_EQ(beside, 0);
}

std::vector<std::string> names() {
  std::vector<std::string> all;  // none on the CPU
  if (test::device_under_test() == "cpu") return all;
  for (const test::ExampleModel& model : test::example_models()) all.push_back(model.name);
  return all;
}

INSTANTIATE_TEST_SUITE_P(
    Models, OnDevice,
    ::testing::Combine(::testing::ValuesIn(names()),
                       ::testing::Values(std::string("fp32"), std::string("tf32"),
                                         std::string("fp16"), std::string("bf16"))),
    [](const auto& one) { return std::get<0>(one.param) + "_" + std::get<1>(one.param); });

}  // namespace
}  // namespace vernier::verify::field
