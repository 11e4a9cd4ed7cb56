// What mode fp32 asks of nodes. Contract: precision/requests.h.
#include "precision/requests.h"

#include <gtest/gtest.h>

#include "ir/text.h"
#include "ops/infer.h"

namespace vernier::precision {
namespace {

// The request of the node that makes the output.
Request request_of(const std::string& text, Mode mode = Mode::kFp32) {
  const auto graph = ir::parse(text, &ops::infer_node);
  ask_mode(*graph, mode);
  return graph->producer(graph->outputs.back())->request;
}

TEST(Fp32, FloatsAreComputedAndAccumulatedInAtLeastF32) {
  const Request r = request_of("graph g(%x: f32[n]) { %y = Exp(%x) return %y as \"y\" }");
  EXPECT_EQ(r.compute.type, DType::kF32);
  EXPECT_EQ(r.accumulate.type, DType::kF32);
  EXPECT_EQ(r.store.type, DType::kF32);
  EXPECT_FALSE(r.compute.exact || r.accumulate.exact || r.store.exact);
  EXPECT_EQ(r.by, "mode fp32");
}

TEST(Fp32, IsNeverSatisfiedByTf32) {
  const Request r = request_of("graph g(%x: f32[n]) { %y = Exp(%x) return %y as \"y\" }");
  EXPECT_FALSE(satisfies({.compute = DType::kTF32}, r));
  EXPECT_TRUE(satisfies({.compute = DType::kF64}, r));
}

TEST(Model, SmallFloatsAreStoredAsTheModelSaysAndComputedInF32) {
  const Request r = request_of(
      "graph g(%x: f16[n]) { %y = Exp(%x) %z = Abs(%y) return %z as \"z\", %y as \"y\" }",
      Mode::kModel);
  EXPECT_EQ(r.store.type, DType::kF16);
  EXPECT_EQ(r.compute.type, DType::kF32);
}

TEST(Fp32, WideFloatsAreStoredWide) {
  EXPECT_EQ(request_of("graph g(%x: f64[n]) { %y = Exp(%x) return %y as \"y\" }").store.type,
            DType::kF64);
}

TEST(Fp32, IntegersAreAskedForNothing) {
  const Request r = request_of("graph g(%x: i64[n]) { %y = Abs(%x) return %y as \"y\" }");
  EXPECT_EQ(r.compute.type, DType::kUndefined);
  EXPECT_EQ(r.by, "");
}

TEST(Fp32, FloatsToIntegersAreComputedInF32AndStoredAsTheyAre) {
  const Request r = request_of("graph g(%x: f32[n]) { %y = Cast(%x) {to=i64} return %y as \"y\" }");
  EXPECT_EQ(r.compute.type, DType::kF32);
  EXPECT_EQ(r.store.type, DType::kUndefined);
}

}  // namespace
}  // namespace vernier::precision
