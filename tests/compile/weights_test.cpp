// Weights that are not finite: counted and named, meant ones left alone, at every float type.
// Contract: compile/weights.h.
#include "compile/weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/attrs.h"
#include "ops/infer.h"

namespace vernier::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr double kInf = INFINITY;

std::vector<std::string> lines_of(DType dtype, Shape shape, const std::vector<double>& values) {
  ir::Graph graph;
  const ir::ValueId w = graph.add_constant(
      Tensor::from(dtype, std::move(shape), std::span<const double>(values)), "w");
  graph.outputs = {ops::emit(graph, OpKind::kAbs, {w}, NoAttrs{}, {}, 1)};
  graph.output_names = {"y"};
  return compiler::non_finite_weights(graph);
}

TEST(NonFiniteWeights, AreCountedByKindAndPlaced) {
  EXPECT_THAT(lines_of(DType::kF32, {2, 3}, {1, 2, 3, -kInf, NAN, kInf}),
              ElementsAre("weight 'w' f32[2, 3] holds 1 NaN, 1 +Inf, 1 -Inf among 6 values, the "
                          "first at [1, 0]: what depends on them will not be finite; check the "
                          "exported model"));
  EXPECT_THAT(lines_of(DType::kF32, {}, {NAN}),
              ElementsAre(HasSubstr("holds 1 NaN among 1 value, the first at []")));
}

TEST(NonFiniteWeights, OfEveryFloatTypeAreFound) {
  for (DType dtype : {DType::kF64, DType::kF32, DType::kF16, DType::kBF16, DType::kF8E5M2}) {
    EXPECT_THAT(lines_of(dtype, {4}, {1, 0, kInf, -2}),
                ElementsAre(HasSubstr("holds 1 +Inf among 4 values, the first at [2]")))
        << name(dtype);
    EXPECT_THAT(lines_of(dtype, {4}, {1, 0, -2, NAN}),
                ElementsAre(HasSubstr("holds 1 NaN among 4 values, the first at [3]")))
        << name(dtype);
  }
  EXPECT_THAT(lines_of(DType::kF8E4M3, {2}, {1, NAN}), ElementsAre(HasSubstr("holds 1 NaN")));
}

TEST(NonFiniteWeights, FiniteOnesAreNotMentioned) {
  for (DType dtype : {DType::kF64, DType::kF32, DType::kF16, DType::kBF16, DType::kF8E4M3,
                      DType::kF8E5M2, DType::kI64})
    EXPECT_THAT(lines_of(dtype, {3}, {-448, 0, 1}), IsEmpty()) << name(dtype);
  EXPECT_THAT(lines_of(DType::kF32, {2}, {3.4028234e38, -3.4028234e38}), IsEmpty());
  EXPECT_THAT(lines_of(DType::kF32, {0, 5}, {}), IsEmpty());
}

TEST(NonFiniteWeights, InfinitiesThatAreMeantAreNotMentioned) {
  EXPECT_THAT(lines_of(DType::kF32, {2, 2}, {0, -kInf, 0, 0}), IsEmpty()) << "a mask";
  EXPECT_THAT(lines_of(DType::kF32, {2}, {-kInf, -kInf}), IsEmpty()) << "a fill value";
  EXPECT_THAT(lines_of(DType::kF32, {1}, {kInf}), IsEmpty()) << "a limit";
  EXPECT_THAT(lines_of(DType::kF32, {2, 2}, {0, -kInf, 0.5, 0}).size(), 1u) << "no mask";
  EXPECT_THAT(lines_of(DType::kF32, {2, 2}, {0, kInf, 0, 0}).size(), 1u) << "no mask";
}

TEST(NonFiniteWeights, ThatNobodyReadsAreNotMentioned) {
  ir::Graph graph;
  const ir::ValueId unused = graph.add_constant(Tensor::scalar(DType::kF32, NAN), "unused");
  EXPECT_THAT(compiler::non_finite_weights(graph), IsEmpty());
  graph.outputs = {unused};
  graph.output_names = {"y"};
  EXPECT_THAT(compiler::non_finite_weights(graph), ElementsAre(HasSubstr("'unused'")));
}

}  // namespace
}  // namespace vernier::test
