// Models that decide by floats: a decision that is a tie within the engine's types is taken from
// the engine, and what follows is judged on its path. Contract: docs/verification_checks.md
// "Decisions".
#include <gtest/gtest.h>

#include <algorithm>

#include "compile/pipeline.h"
#include "engine/writer.h"
#include "plan/graphs.h"
#include "verify/verify.h"

namespace vernier::verify {
namespace {

// Picks one of two rows of a table, by two scores that differ by one part in 10^4.
constexpr std::string_view kPicks =
    R"(graph g(%x: f32[batch, 8]) {
  %w = const f32[8, 1] normal(seed=1, mean=0, std=1)
  %near = Mul(%x, f32[1]{1.0001})
  %a = MatMul(%x, %w)
  %b = MatMul(%near, %w)
  %scores = Concat(%a, %b) {axis=1}
  %choice = ArgMax(%scores) {axis=1, keepdims=false}
  %y = Gather(f32[2, 3]{1, 2, 3, 50, 60, 70}, %choice) {axis=0}
  %z = Add(%y, %a)
  return %z as "z"
})";

// Takes one of two ways by the sign of the difference of two scores that are almost equal, in what
// would be one chain of elementwise operators.
constexpr std::string_view kBranches =
    R"(graph g(%x: f32[batch, 8]) {
  %w = const f32[8, 8] normal(seed=1, mean=0, std=1)
  %near = Mul(%x, f32[1]{1.0001})
  %a = MatMul(%x, %w)
  %b = MatMul(%near, %w)
  %more = Mul(%b, f32[1]{2})
  %half = Mul(%more, f32[1]{0.5})
  %first = Greater(%a, %half)
  %up = Add(%a, f32[1]{50})
  %y = Where(%first, %up, %b)
  return %y as "y"
})";

Report verified(const std::string& model, const std::string& mode) {
  Request request;
  request.batches = {1, 8};
  request.threads = 1;
  CompileOptions options;
  options.mode = mode;
  const auto graph = test::graph_of(model);
  return verify_engine(Engine::from_bytes(engine::engine_bytes(compiler::plan_of(*graph, options))),
                       *graph, request);
}

bool says_ties(const Report& report) {
  return std::ranges::any_of(report.notes, [](const std::string& note) {
    return note.find("decisions were ties") != std::string::npos;
  });
}

TEST(Decisions, TiesInSixteenBitsAreTheEngines) {
  for (const char* mode : {"fp16", "bf16"}) {
    const Report report = verified(std::string(kPicks), mode);
    EXPECT_EQ(report.verdict, "pass") << mode << "\n" << to_text(report);
    EXPECT_TRUE(says_ties(report)) << mode << "\n" << to_text(report);
    // Noise is that of the path, not of another row of the table.
    EXPECT_LT(report.outputs.at(0).noise_rms, 0.5) << mode;
  }
}

// Inside a chain they would not be seen at all. Every comparison of the model is near a tie.
TEST(Decisions, AmongElementwiseOperatorsAreFollowedToo) {
  for (const char* mode : {"fp16", "bf16"}) {
    const Report report = verified(std::string(kBranches), mode);
    EXPECT_EQ(report.verdict, "pass") << mode << "\n" << to_text(report);
    EXPECT_TRUE(says_ties(report)) << mode << "\n" << to_text(report);
    EXPECT_LT(report.outputs.at(0).noise_rms, 0.5) << mode;
  }
}

TEST(Decisions, InF32ThereAreNone) {
  const Report report = verified(std::string(kPicks), "fp32");
  EXPECT_EQ(report.verdict, "pass") << to_text(report);
  EXPECT_FALSE(says_ties(report)) << to_text(report);
}

// 0.1 times these integers is rounded to f32 when the build folds it, up or down, and every second
// result is in the middle between two steps of the quantizer.
constexpr std::string_view kQuantizesTies = R"(graph g(%x: f32[batch, 8]) {
  %w = DequantizeLinear(i8[8]{3, 5, 7, 9, 11, 13, 15, 17}, f32{0.1}, i8{0})
  %whole = Round(%x)
  %half = Mul(%whole, f32{0.5})
  %scaled = Mul(%half, %w)
  %q = QuantizeLinear(%scaled, f32{0.1}, u8{128}) {dtype=u8}
  %y = DequantizeLinear(%q, f32{0.1}, u8{128})
  return %y as "y"
})";

TEST(Decisions, TiesThatRoundedConstantsDecideAreNoWrongRewrite) {
  const Report report = verified(std::string(kQuantizesTies), "fp32");
  EXPECT_EQ(report.verdict, "pass") << to_text(report);
  EXPECT_TRUE(std::ranges::any_of(report.notes, [](const std::string& note) {
    return note.find("the plan decides otherwise than the model") != std::string::npos;
  })) << to_text(report);
}

}  // namespace
}  // namespace vernier::verify
