// Other projects' stored cases, compiled and run as engines: every one passes or is refused with a
// reason, and most pass. The files are not in this repository: SKIP where they are absent.
#include <gtest/gtest.h>

#include "compile/pipeline.h"
#include "engine/writer.h"
#include "onnx/stored_cases.h"
#include "runtime/models.h"

namespace vernier::test {
namespace {

std::map<std::string, EvalTensor> answer_by_engine(ir::Graph& graph,
                                                   const std::map<std::string, Tensor>& inputs) {
  const plan::Plan plan = compiler::plan_of(graph, {});
  Session session(Engine::from_bytes(engine::engine_bytes(plan)), {.threads = 2});
  const NamedTensors named(inputs.begin(), inputs.end());
  std::map<std::string, EvalTensor> outputs;
  for (const Output& output : session.run(refs(named))) {
    outputs[std::string(output.name)] = EvalTensor::from(copy(output));
  }
  return outputs;
}

// Refusals hide nothing: at least this share of the cases must pass.
struct PeerFolder {
  const char* name;
  double least_share;
};
class Peers : public ::testing::TestWithParam<PeerFolder> {};

TEST_P(Peers, EveryCaseIsRightOrRefused) {
  const std::filesystem::path folder =
      std::filesystem::path(VERNIER_SHARED_MODELS) / "peers" / GetParam().name;
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "SKIP: " << folder << " is not here";
  const std::vector<onnx::CaseResult> results = onnx::run_cases(folder, &answer_by_engine);
  onnx::print_table(std::string("engines of ") + GetParam().name, results);
  const int passed = onnx::count(results, onnx::Outcome::kPassed);
  EXPECT_EQ(onnx::count(results, onnx::Outcome::kWrong), 0);
  EXPECT_GE(passed, GetParam().least_share * static_cast<double>(results.size()));
}
INSTANTIATE_TEST_SUITE_P(Folders, Peers,
                         ::testing::Values(PeerFolder{"onnx", 0.8},
                                           PeerFolder{"onnxruntime-2020", 0.5}),
                         [](const auto& one) {
                           return std::string(one.param.name) == "onnx" ? "onnx"
                                                                        : "onnxruntime_2020";
                         });

}  // namespace
}  // namespace vernier::test
