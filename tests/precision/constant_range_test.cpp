// Reach of constants through arithmetic, and what is raised because of it.
#include "precision/constant_range.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/attrs.h"
#include "ir/graph.h"
#include "ops/infer.h"

namespace vernier::precision {
namespace {

using enum OpKind;

constexpr double kLowest = std::numeric_limits<float>::lowest();

// A graph of scores [4] and a mask [4] in f32.
struct Small {
  ir::Graph graph;
  ir::ValueId scores = graph.add_input("scores", DType::kF32, {Dim(4)});
  ir::ValueId mask = graph.add_input("mask", DType::kF32, {Dim(4)});
  ir::ValueId keep = graph.add_input("keep", DType::kBool, {Dim(4)});

  ir::ValueId number(double value) {
    return graph.add_constant(Tensor::scalar(DType::kF32, value));
  }
  ir::ValueId op(OpKind kind, std::vector<ir::ValueId> inputs) {
    const ir::ValueId out = ops::emit(graph, kind, std::move(inputs), NoAttrs{}, {});
    ir::Node& node = *graph.producer(out);
    node.origins = {ir::Origin{.key = "#" + std::to_string(next_),
                               .name = "/" + std::to_string(next_),
                               .op_type = std::string(name(kind))}};
    ++next_;
    return out;
  }
  ir::ValueId additive(double fill) {
    return op(kMul, {op(kSub, {number(1), mask}), number(fill)});
  }
  Reach reach(ir::ValueId value) { return constant_reach(graph)[static_cast<size_t>(value)]; }

 private:
  int next_ = 0;
};

TEST(ConstantReach, GoesThroughEverySpellingOfAMask) {
  Small g;
  EXPECT_EQ(g.reach(g.additive(kLowest)).least, kLowest);
  EXPECT_EQ(g.reach(g.op(kAdd, {g.scores, g.additive(-65504)})).least, -65504);
  EXPECT_EQ(g.reach(g.op(kAdd, {g.additive(-65504), g.additive(-65504)})).least, -131008);
  EXPECT_EQ(g.reach(g.op(kWhere, {g.keep, g.scores, g.number(-1e9F)})).least,
            static_cast<double>(-1e9F));
  EXPECT_EQ(g.reach(g.op(kNeg, {g.additive(kLowest)})).most, -kLowest);
  const ir::ValueId twice = g.op(kAdd, {g.additive(kLowest), g.additive(kLowest)});
  EXPECT_EQ(g.reach(twice).least, 2 * kLowest);
  EXPECT_EQ(g.reach(g.op(kMax, {twice, g.number(kLowest)})).least, kLowest);
}

TEST(ConstantReach, EndsWhereValuesAreTakenFromData) {
  Small g;
  const ir::ValueId masked = g.op(kWhere, {g.keep, g.scores, g.number(kLowest)});
  EXPECT_EQ(g.reach(g.op(kExp, {masked})).peak(), 1);
  EXPECT_EQ(g.reach(g.op(kMax, {masked, g.number(-3)})).least, -3);
  EXPECT_EQ(g.reach(g.op(kMul, {g.scores, g.mask})).peak(), 1);
  // A divisor that data decide is no small number because a limit of it is.
  const ir::ValueId divisor = g.op(kMax, {g.mask, g.number(1e-12)});
  EXPECT_EQ(g.reach(g.op(kDiv, {g.scores, divisor})).peak(), 1);
  EXPECT_NEAR(g.reach(g.op(kDiv, {g.scores, g.number(0.001)})).peak(), 1000, 0.01);
}

TEST(ConstantReach, LeavesOutTrueInfinities) {
  Small g;
  EXPECT_EQ(g.reach(g.op(kWhere, {g.keep, g.scores, g.number(-HUGE_VAL)})).peak(), 1);
  const std::vector<double> row{0, -HUGE_VAL, -70000, std::nan("")};
  const ir::ValueId table =
      g.graph.add_constant(Tensor::from(DType::kF32, {4}, std::span<const double>(row)));
  EXPECT_EQ(g.reach(table).least, -70000);
}

Request mode_of(DType type, bool exact = false) {
  return {.compute = {DType::kF32, false},
          .accumulate = {DType::kF32, false},
          .store = {type, exact},
          .by = "mode fp16",
          .inner = {}};
}

TEST(ConstantRange, RaisesWhatDoesNotFitAndSaysSo) {
  for (const auto& [type, fill, raised] : {std::tuple(DType::kF16, kLowest, true),
                                           {DType::kF16, -40000.0, true},
                                           {DType::kF16, -10000.0, false},
                                           {DType::kBF16, kLowest, true},
                                           {DType::kBF16, -1e30, false},
                                           {DType::kF32, kLowest, false}}) {
    Small g;
    const ir::ValueId sum = g.op(kAdd, {g.scores, g.additive(fill)});
    g.graph.outputs = {sum};
    for (ir::NodeId id : g.graph.order()) g.graph.node(id).origins[0].asked = mode_of(type);
    const std::vector<std::string> notes = keep_constants_finite(g.graph);
    const Request& asked = g.graph.producer(sum)->origins[0].asked;
    EXPECT_EQ(asked.store.type, raised ? DType::kF32 : type) << fill;
    EXPECT_EQ(asked.by, raised ? "range audit of constants (over mode fp16)" : "mode fp16");
    ASSERT_EQ(notes.size(), raised ? 2U : 0U) << fill;  // the product of mask and fill, and the sum
    if (!raised) continue;
    EXPECT_NE(notes[1].find("node '/2' gives up to "), std::string::npos) << notes[1];
    EXPECT_NE(notes[1].find("--rule 'name:/2 store=f32'"), std::string::npos) << notes[1];
  }
}

TEST(ConstantRanges, AreThoseOfTheConstantsReadOnce) {
  Small g;
  std::vector<double> values(100, 0.5);
  values[31] = -7;
  values[70] = 9;
  values[99] = HUGE_VAL;
  const Tensor many = Tensor::from(DType::kF32, {100}, values);
  const ir::ValueId constant = g.graph.add_constant(many), infinite = g.number(-HUGE_VAL);
  const ConstantRanges known(g.graph);
  ASSERT_NE(known.find(many), nullptr);
  EXPECT_EQ(known.find(many)->least, -7);
  EXPECT_EQ(known.find(many)->most, 9);
  EXPECT_EQ(known.find(g.graph.value(infinite).constant)->peak(), 0) << "no finite element";
  EXPECT_EQ(known.find(Tensor::scalar(DType::kF32, 1)), nullptr);
  const ir::ValueId sum = g.op(kAdd, {constant, constant});
  EXPECT_EQ(constant_reach(g.graph, &known)[sum].most, 18);
  EXPECT_EQ(constant_reach(g.graph)[sum].most, 18);
}

TEST(ConstantRange, LeavesARuleThatInsists) {
  Small g;
  const ir::ValueId sum = g.op(kAdd, {g.scores, g.additive(kLowest)});
  g.graph.outputs = {sum};
  for (ir::NodeId id : g.graph.order())
    g.graph.node(id).origins[0].asked = mode_of(DType::kF16, true);
  EXPECT_TRUE(keep_constants_finite(g.graph).empty());
  EXPECT_EQ(g.graph.producer(sum)->origins[0].asked.store.type, DType::kF16);
}

}  // namespace
}  // namespace vernier::precision
