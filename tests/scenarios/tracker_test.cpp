// Field case 2: the attention that is right in pieces and wrong as a whole. FP32: the tracker's
// target predictor as a whole, and every part between two values that the engine shows.
// Contract: docs/verification.md "Field cases".
#include <gtest/gtest.h>

#include "compile/pipeline.h"
#include "engine/writer.h"
#include "onnx/import.h"
#include "runtime/models.h"
#include "verify/verify.h"

namespace vernier::verify {
namespace {

TEST(Tracker, WholeAndPartsPass) {
  const auto path = test::example_model("tracker_filter_predictor_ts17").path;
  const plan::Plan plan = compiler::run(path.string(), {}).plan;
  const auto engine = Engine::from_bytes(engine::engine_bytes(plan));
  const auto model = onnx::import_model(path);
  Request request;
  request.batches = {1, 4};
  request.threads = 2;
  EXPECT_EQ(verify_engine(engine, *model, request).verdict, "pass");
  std::vector<std::string> cuts;  // visible values of the model, in the plan's order
  for (const plan::PlanValue& value : plan.values) {
    if (value.kind == plan::PlanValue::Kind::kArena && !value.name.empty())
      cuts.push_back(value.name);
  }
  ASSERT_GE(cuts.size(), 8U);
  for (size_t i = 0; i + 1 < cuts.size(); ++i) {
    request.from = {cuts[i]};
    request.to = {cuts[i + 1]};
    const Report report = verify_engine(engine, *model, request);
    EXPECT_EQ(report.verdict, "pass") << cuts[i] << " to " << cuts[i + 1] << "\n"
                                      << to_text(report);
    ASSERT_EQ(report.outputs.size(), 1U);
    EXPECT_EQ(report.outputs[0].name, cuts[i + 1]);
  }
}

}  // namespace
}  // namespace vernier::verify
