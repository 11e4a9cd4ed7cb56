// Transposes around elementwise operators: the pair goes away, or stays where a condition fails.
#include <gtest/gtest.h>

#include "passes/pass_testing.h"
#include "passes/passes.h"

namespace vernier::passes::testing {
namespace {

constexpr const char* kInputs = "%x: f32[b, 3, h, w], %r: f32[b, 3, h, w], %l: f32[b, h, w, 3]";
const std::string kLast = " {perm=[0, 2, 3, 1]} ", kFirst = " {perm=[0, 3, 1, 2]} ";

std::string text(const std::string& lines) { return graph_text(kInputs, lines); }

TEST(TransposedElementwise, AnActivationKeepsItsOrder) {
  expect_rewrite({&drop_transposes,
                  text("%t = Transpose(%x)" + kLast + "%e = Relu(%t) %y = Transpose(%e)" + kFirst),
                  text("%y = Relu(%x)")});
}

TEST(TransposedElementwise, AListMovesToTheAxisThatItBelongsTo) {
  expect_rewrite({&drop_transposes,
                  text("%t = Transpose(%x)" + kLast +
                       "%a = Add(%t, f32[3]{1, 2, 3}) %m = Mul(f32[1, 1, 1, 3]{4, 5, 6}, %a) "
                       "%s = Sub(%m, f32[1]{7}) %y = Transpose(%s)" +
                       kFirst),
                  text("%a = Add(%x, f32[1, 3, 1, 1]{1, 2, 3}) "
                       "%m = Mul(f32[1, 3, 1, 1]{4, 5, 6}, %a) %y = Sub(%m, f32[1]{7})")});
}

TEST(TransposedElementwise, ATreeOfTwoInputsWithAValueThatIsReadTwice) {
  expect_rewrite(
      {&drop_transposes,
       text("%t = Transpose(%x)" + kLast + "%u = Transpose(%r)" + kLast +
            "%a = Add(%t, %u) %s = Sigmoid(%a) %m = Mul(%a, %s) %y = Transpose(%m)" + kFirst),
       text("%a = Add(%x, %r) %s = Sigmoid(%a) %y = Mul(%a, %s)")});
}

TEST(TransposedElementwise, AnInnerTransposeThatOthersReadStays) {
  expect_rewrite({&drop_transposes,
                  text("%t = Transpose(%x)" + kLast + "%e = Exp(%t) %b = Transpose(%e)" + kFirst +
                       "%f = Flatten(%t) {axis=1} %g = Flatten(%b) {axis=1} %y = Add(%f, %g)"),
                  text("%t = Transpose(%x)" + kLast +
                       "%b = Exp(%x) %f = Flatten(%t) {axis=1} "
                       "%g = Flatten(%b) {axis=1} %y = Add(%f, %g)")});
}

struct NearMiss {
  const char* name;
  std::string before;
};
void PrintTo(const NearMiss& row, std::ostream* out) { *out << row.name; }

class TransposedElementwiseStays : public ::testing::TestWithParam<NearMiss> {};

TEST_P(TransposedElementwiseStays, AsItIs) {
  expect_rewrite({&drop_transposes, GetParam().before, GetParam().before});
}

const std::string kOpen = "%t = Transpose(%x)" + kLast;

const NearMiss kNearMisses[] = {
    {"another_permutation", text(kOpen + "%e = Exp(%t) %y = Transpose(%e) {perm=[0, 3, 2, 1]}")},
    {"no_inner_transpose", text("%e = Exp(%l) %y = Transpose(%e)" + kFirst)},
    {"an_operand_that_is_not_transposed",
     text(kOpen + "%e = Add(%t, %l) %y = Transpose(%e)" + kFirst)},
    {"a_constant_along_two_axes", graph_text("%x: f32[b, 3, 2, 1]",
                                             "%t = Transpose(%x) {perm=[0, 2, 3, 1]} "
                                             "%e = Add(%t, f32[2, 1, 3]{1, 2, 3, 4, 5, 6}) "
                                             "%y = Transpose(%e) {perm=[0, 3, 1, 2]}")},
    {"a_result_of_another_rank",
     graph_text("%x: f32[4, 3]",
                "%t = Transpose(%x) {perm=[1, 0]} %e = Add(%t, f32[1, 1, 1]{1}) "
                "%y = Transpose(%e) {perm=[0, 2, 1]}")},
    {"a_result_that_others_read",
     text(kOpen + "%e = Exp(%t) %b = Transpose(%e)" + kFirst +
          "%f = Flatten(%b) {axis=1} %g = Flatten(%e) {axis=1} %y = Add(%f, %g)")},
    {"an_operator_that_is_not_elementwise",
     text(kOpen + "%e = Softmax(%t) {axis=-1} %y = Transpose(%e)" + kFirst)},
};

INSTANTIATE_TEST_SUITE_P(Rows, TransposedElementwiseStays, ::testing::ValuesIn(kNearMisses),
                         [](const auto& row) { return row.param.name; });

TEST(TransposedElementwise, AnOutputOfTheModelStays) {
  const std::string graph = "graph g(" + std::string(kInputs) + ") { " + kOpen +
                            "%e = Exp(%t) %y = Transpose(%e)" + kFirst +
                            R"(return %e as "e", %y as "y" })";
  expect_rewrite({&drop_transposes, graph, graph});
}

TEST(TransposedElementwise, AnOperatorThatIsAskedToStayApartStays) {
  const auto graph = graph_of(text(kOpen + "%e = Exp(%t) %y = Transpose(%e)" + kFirst));
  for (const ir::NodeId id : graph->order()) {
    for (const ir::NodeId other : graph->order()) graph->node(other).apart = other == id;
    EXPECT_EQ(drop_transposes(*graph), 0);
  }
}

TEST(TransposedElementwise, OneTransposeThatRoundsStays) {
  const auto graph = graph_of(text(kOpen + "%e = Exp(%t) %y = Transpose(%e)" + kFirst));
  graph->value(graph->outputs[0]).dtype = DType::kF16;
  EXPECT_EQ(drop_transposes(*graph), 0);
}

// The nodes that are left carry what they carried; the transposes are accounted for.
TEST(TransposedElementwise, KeepsOriginsAndTheNameOfTheResult) {
  const auto graph =
      graph_of(text(kOpen + "%e = Exp(%t) %n = Neg(%e) %y = Transpose(%n)" + kFirst));
  for (const ir::NodeId id : graph->order()) {
    ir::Node& node = graph->node(id);
    node.name = std::string(name(node.op));
    node.origins = {ir::Origin{.key = node.name + std::to_string(id), .name = node.name}};
  }
  ASSERT_EQ(drop_transposes(*graph), 1);
  graph->remove_dead();
  graph->sort();
  ASSERT_EQ(graph->order().size(), 2u);
  EXPECT_EQ(graph->node(graph->order()[0]).origins[0].name, "Exp");
  EXPECT_EQ(graph->node(graph->order()[1]).origins[0].name, "Neg");
  ASSERT_EQ(graph->retired.size(), 2u);
  EXPECT_EQ(graph->retired[0].why, "undoes a transpose before it");
}

}  // namespace
}  // namespace vernier::passes::testing
