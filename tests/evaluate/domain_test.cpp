// Input domains: read off graphs in text form and off the example models; samples stay inside.
#include "evaluate/domain.h"

#include <gtest/gtest.h>

#include <cmath>

#include "evaluate/samples.h"
#include "ir/text.h"
#include "onnx/import.h"
#include "ops/infer.h"
#include "passes/pass.h"
#include "runtime/models.h"

namespace vernier::evaluate {
namespace {

using Kind = InputDomain::Kind;

Domains domains_of_model(const std::string& name) {
  const auto graph = onnx::import_model(test::example_model(name).path);
  passes::run_passes(*graph, passes::Phase::kRaise, {});
  return infer_domains(*graph);
}

Domains domains_of_text(const std::string& text) {
  const auto graph = ir::parse(text, &ops::infer_node);
  passes::run_passes(*graph, passes::Phase::kRaise, {});
  return infer_domains(*graph);
}

TEST(DomainsOfModels, IdsStayBelowTheirTableAndMasksAreMasks) {
  const Domains bge = domains_of_model("bge_reranker_ts17");
  ASSERT_EQ(bge.inputs.size(), 2U);
  EXPECT_EQ(bge.inputs[0].kind, Kind::kIds);
  EXPECT_EQ(bge.inputs[0].high, 999);
  EXPECT_EQ(bge.inputs[0].pad, 1);
  EXPECT_EQ(bge.inputs[1].kind, Kind::kMask);
  EXPECT_EQ(bge.padding, PaddingSide::kRight);
  const Domains bert = domains_of_model("bert_embedder_ts17");
  EXPECT_EQ(bert.inputs[2].kind, Kind::kIds);
  EXPECT_EQ(bert.inputs[2].high, 1) << "two token types";
  EXPECT_FALSE(bert.inputs[2].pad);
  const Domains deformable = domains_of_model("deformable_attention_ts17");
  EXPECT_EQ(deformable.inputs[1].kind, Kind::kUniform) << "points of an image";
}

TEST(DomainsOfGraphs, PixelsRootsAndUnknownIntegers) {
  EXPECT_EQ(domains_of_text("graph g(%x: f32[b, 3]) { %y = Div(%x, f32{255}) return %y as \"y\" }")
                .inputs[0]
                .max,
            255);
  EXPECT_GT(
      domains_of_text("graph g(%x: f32[b, 3]) { %y = Log(%x) return %y as \"y\" }").inputs[0].min,
      0);
  const Domains unknown =
      domains_of_text("graph g(%x: i64[b, 3]) { %y = Neg(%x) return %y as \"y\" }");
  EXPECT_EQ(unknown.inputs[0].kind, Kind::kIntegers);
  EXPECT_NE(describe(unknown.inputs[0]).find("nothing in the graph says"), std::string::npos);
}

TEST(Samples, StayInTheirDomainAndDoNotDependOnTheBatch) {
  const Domains domains = domains_of_model("bge_reranker_ts17");
  BatchAxes axes;
  axes.symbol = "batch";
  axes.axis = {{"input_ids", 0}, {"attention_mask", 0}};
  const std::map<std::string, int64_t> sizes{{"batch", 1}, {"seq", 48}};
  for (int64_t r = 0; r < 12; ++r) {
    const NamedTensors row = sample_row(domains, axes, sizes, {1, r});
    EXPECT_TRUE(same_bits(row[0].second, sample_row(domains, axes, sizes, {1, r})[0].second));
    const auto ids = row[0].second.integers(), mask = row[1].second.integers();
    int64_t valid = 0;
    for (size_t i = 0; i < mask.size(); ++i) {
      EXPECT_GE(ids[i], 0);
      EXPECT_LE(ids[i], 999);
      EXPECT_EQ(ids[i] == 1, mask[i] == 0) << "the padding id stands at padding only";
      valid += mask[i];
    }
    EXPECT_GE(valid, 1);
    if (r == 0) {
      EXPECT_EQ(valid, 48);
    }
    if (r == 1) {
      EXPECT_EQ(valid, 1);
    }
    if (r == 2) {
      EXPECT_EQ(valid, 24);
    }
  }
}

TEST(Samples, PoisonHoldsNanInfinitiesAndLargestFloats) {
  const Domains domains = domains_of_model("vit_ts17");
  BatchAxes axes;
  axes.symbol = "batch";
  axes.axis = {{"pixel_values", 0}};
  const NamedTensors row = sample_row(domains, axes, {{"batch", 1}}, {1, 0});
  const EvalTensor poisoned = EvalTensor::from(poisoned_row(row, domains, axes)[0].second);
  EXPECT_TRUE(std::isnan(poisoned.f[0]));
  EXPECT_TRUE(std::isinf(poisoned.f[1]));
  EXPECT_GT(poisoned.f[3], 3e38);
}

}  // namespace
}  // namespace vernier::evaluate
