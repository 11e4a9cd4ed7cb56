// Every example model, compiled and run: right against its FP64 outputs; the same bits on one and
// two threads, and for a row alone as in every batch.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "runtime/engine_impl.h"
#include "runtime/models.h"
#include "vernier/compile.h"

namespace vernier::test {
namespace {

// Worst element against FP64: docs/design.md "Verify".
constexpr double kCpuLimit = 1e-5, kDeviceLimit = 1e-4;

double error_limit() { return device_under_test() == "cpu" ? kCpuLimit : kDeviceLimit; }

std::shared_ptr<const Engine> compile_model(const ExampleModel& model) {
  return Engine::from_bytes(compile_to_bytes(model.path.string(), options_here()));
}

bool same_bits(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() &&
         std::memcmp(a.data(), b.data(), a.bytes()) == 0;
}

std::vector<Tensor> run(Session& session, const NamedTensors& inputs) {
  std::vector<Tensor> outputs;
  for (const Output& output : session.run(refs(inputs))) outputs.push_back(copy(output));
  return outputs;
}

// The axis of each output that is the batch: the size of the first input's first axis.
std::vector<size_t> batch_axes(const Engine& engine) {
  std::vector<size_t> axes;
  const std::string batch = engine.inputs()[0].dims[0].text;
  for (const Port& port : engine.outputs()) {
    size_t axis = 0;
    while (axis < port.dims.size() && port.dims[axis].text != batch) ++axis;
    EXPECT_LT(axis, port.dims.size())
        << "output " << port.name << " has no batch axis: " << port.shape_text();
    axes.push_back(axis);
  }
  return axes;
}

class Golden : public ::testing::TestWithParam<std::string> {};

TEST_P(Golden, EveryCaseIsWithinTheLimitOfFp64) {
  const ExampleModel model = example_model(GetParam());
  const auto engine = compile_model(model);
  Session session(engine, {.threads = 2});
  for (const ModelCase& one : model.cases()) {
    const std::vector<Tensor> outputs = run(session, one.inputs);
    ASSERT_EQ(outputs.size(), one.outputs.size());
    for (size_t o = 0; o < outputs.size(); ++o) {
      const std::string& name = engine->outputs()[o].name;
      const auto want = std::find_if(one.outputs.begin(), one.outputs.end(),
                                     [&](const auto& p) { return p.first == name; });
      ASSERT_NE(want, one.outputs.end()) << name;
      ASSERT_EQ(outputs[o].shape(), want->second.shape()) << one.file << " " << name;
      double worst = 0, largest = 0;
      for (int64_t i = 0; i < outputs[o].elems(); ++i) {
        const double reference = want->second.float_at(i);
        const double limit = std::max(error_limit() * (1 + std::abs(reference)),
                                      2 * model.onnxruntime_max_abs_error);
        const double error = std::abs(outputs[o].float_at(i) - reference);
        ASSERT_FALSE(std::isnan(error)) << one.file << " " << name << " element " << i;
        worst = std::max(worst, error / limit);
        largest = std::max(largest, error);
      }
      EXPECT_LE(worst, 1) << one.file << " " << name << ": largest error " << largest;
      std::printf("%-30s %s %-10s largest error %.2e, %.0f %% of the limit\n", model.name.c_str(),
                  one.file.c_str(), name.c_str(), largest, 100 * worst);
    }
  }
}

TEST_P(Golden, OneAndTwoThreadsGiveTheSameBits) {
  const ExampleModel model = example_model(GetParam());
  const auto engine = compile_model(model);
  Session one_thread(engine, {.threads = 1}), two_threads(engine, {.threads = 2});
  for (const ModelCase& one : model.cases()) {
    const std::vector<Tensor> a = run(one_thread, one.inputs), b = run(two_threads, one.inputs);
    for (size_t o = 0; o < a.size(); ++o)
      EXPECT_TRUE(same_bits(a[o], b[o])) << one.file << " output " << o;
  }
}

TEST_P(Golden, ARowHasTheSameBitsAloneAsInEveryBatch) {
  const ExampleModel model = example_model(GetParam());
  const auto engine = compile_model(model);
  const std::vector<size_t> axes = batch_axes(*engine);
  Session session(engine, {.threads = 2});
  for (const ModelCase& one : model.cases()) {
    const int64_t rows = one.inputs[0].second.shape()[0];
    std::vector<std::vector<Tensor>> alone;
    for (int64_t r = 0; r < rows; ++r) alone.push_back(run(session, row_of(one.inputs, r)));
    for (int64_t batch : {1, 2, 3, 4, 5, 8, 16, 32}) {
      const std::vector<Tensor> outputs = run(session, cycle_rows(one.inputs, batch));
      for (int64_t r = 0; r < batch; ++r) {
        for (size_t o = 0; o < outputs.size(); ++o) {
          ASSERT_TRUE(
              same_bits(part_of(outputs[o], axes[o], r), alone[static_cast<size_t>(r % rows)][o]))
              << one.file << ": row " << r << " of batch " << batch << ", output " << o;
        }
      }
    }
  }
}

TEST_P(Golden, EveryOnnxNodeHasOneLedgerRow) {
  const ExampleModel model = example_model(GetParam());
  CompileReport report;
  const auto engine = Engine::from_bytes(compile_to_bytes(model.path.string(), {}, &report));
  std::map<std::string, int> rows;
  for (const plan::LedgerRow& row : engine->impl().plan.ledger) ++rows[row.key];
  for (const auto& [key, count] : rows) EXPECT_EQ(count, 1) << key;
  EXPECT_EQ(static_cast<int64_t>(rows.size()), report.onnx_nodes);
}

INSTANTIATE_TEST_SUITE_P(Models, Golden, ::testing::ValuesIn([] {
                           std::vector<std::string> names;
                           for (const ExampleModel& model : example_models())
                             names.push_back(model.name);
                           return names;
                         }()),
                         [](const auto& one) { return one.param; });

TEST(Fallback, BertGpt2AndVitRunWithoutTheEvaluator) {
  for (const ExampleModel& model : example_models()) {
    const bool covered = model.name.starts_with("b") || model.name.starts_with("gpt2") ||
                         model.name.starts_with("vit");
    const auto engine = compile_model(model);
    std::string fallback;
    for (const plan::Step& step : engine->impl().plan.steps) {
      if (step.kernel.ends_with(".evaluator"))
        fallback += " " + step.kernel + " (" + step.name + ")";
    }
    if (covered) {
      EXPECT_EQ(fallback, "") << model.name;
    }
    std::printf("%-30s on the evaluator:%s\n", model.name.c_str(),
                fallback.empty() ? " nothing" : fallback.c_str());
  }
}

}  // namespace
}  // namespace vernier::test
