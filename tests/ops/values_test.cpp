// Values that inference cannot see: the evaluator refuses exactly those that the operator's value
// rules (core/value_rules.h) do, by a message with the value, its place and the range. What
// inference sees has its rows in the case tables.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/evaluator.h"
#include "core/op_attrs.h"
#include "core/value_rules.h"
#include "ops/eval_node.h"

namespace vernier::test {
namespace {

struct WrongValue {
  OpKind op;
  std::string attrs;
  std::vector<EvalTensor> in;
  Shape out;
  std::string error;
};

EvalTensor i64s(std::vector<int64_t> values) {
  const auto count = static_cast<int64_t>(values.size());
  return integers(DType::kI64, {count}, std::move(values));
}

std::vector<WrongValue> wrong_values() {
  const EvalTensor x = random_tensor({2, 3}, 1), one = random_tensor({3}, 2);
  const EvalTensor packed = random_tensor({1, 4, 1, 2}, 3), none;
  const EvalTensor steps = random_tensor({2, 2, 1}, 6), matrix = random_tensor({1, 1, 1}, 7);
  return {
      {OpKind::kGather,
       "{axis=1}",
       {x, i64s({0, -4})},
       {2, 2},
       "index -4 at element 1 of the indices is outside [-3, 3)"},
      {OpKind::kGatherElements,
       "{axis=1}",
       {x, integers(DType::kI64, {1, 1}, {3})},
       {1, 1},
       "index 3 at element 0 of the indices is outside [-3, 3)"},
      {OpKind::kGatherND,
       "",
       {x, integers(DType::kI64, {1, 2}, {0, 3})},
       {1},
       "index 3 at element 1 of the indices is outside [-3, 3)"},
      {OpKind::kScatterElements,
       "{axis=0}",
       {x, integers(DType::kI64, {1, 1}, {INT64_MIN}), random_tensor({1, 1}, 1)},
       {2, 3},
       "index -9223372036854775808 at element 0 of the indices is outside [-2, 2)"},
      {OpKind::kScatterND,
       "",
       {x, integers(DType::kI64, {1, 1}, {2}), random_tensor({1, 3}, 1)},
       {2, 3},
       "index 2 at element 0 of the indices is outside [-2, 2)"},
      {OpKind::kCumSum, "", {x, i64s({2})}, {2, 3}, "axis 2 is outside [-2, 2)"},
      {OpKind::kCumProd, "", {x, i64s({-3})}, {2, 3}, "axis -3 is outside [-2, 2)"},
      {OpKind::kReverseSequence,
       "",
       {x, i64s({0, 3, 1})},
       {2, 3},
       "sequence_lens is 3 at element 1, outside [0, 2]"},
      {OpKind::kRNN,
       "{functions=[1], alpha=[0], beta=[0]}",
       {steps, matrix, matrix, none, i64s({2, 3})},
       {2, 1, 2, 1},
       "sequence_lens is 3 at element 1, outside [0, 2]"},
      {OpKind::kGRU,
       "{functions=[0, 1], alpha=[0, 0], beta=[0, 0]}",
       {steps, random_tensor({1, 3, 1}, 8), random_tensor({1, 3, 1}, 9), none, i64s({-1, 2})},
       {2, 1, 2, 1},
       "sequence_lens is -1 at element 0, outside [0, 2]"},
      {OpKind::kLSTM,
       "{functions=[0, 1, 1], alpha=[0, 0, 0], beta=[0, 0, 0]}",
       {steps, random_tensor({1, 4, 1}, 8), random_tensor({1, 4, 1}, 9), none, i64s({3, 2})},
       {2, 1, 2, 1},
       "sequence_lens is 3 at element 0, outside [0, 2]"},
      {OpKind::kRoiAlign,
       "",
       {random_tensor({1, 1, 2, 2}, 4), random_tensor({1, 4}, 5), i64s({1})},
       {1, 1, 1, 1},
       "image 1 of region 0 is outside [0, 1)"},
      {OpKind::kNegativeLogLikelihoodLoss,
       "",
       {x, i64s({0, 3})},
       {},
       "target 3 at element 1 is outside [0, 3)"},
      {OpKind::kEmbedNorm,
       "",
       {i64s({2}), x, one},
       {1, 3},
       "id 2 at element 0 of ids 0 is outside its table of 2 rows; allowed are -2 to 1"},
      {OpKind::kAttention,
       "",
       {packed, packed, packed, none, none, i64s({0, 5}), i64s({0, 4})},
       {1, 4, 1, 2},
       "cu_seqlens_q must ascend from 0 to at most 4"},
      {OpKind::kAttention,
       "",
       {packed, packed, packed, none, none, i64s({0, 4}), i64s({1, 4})},
       {1, 4, 1, 2},
       "cu_seqlens_k must ascend from 0 to at most 4"},
      {OpKind::kDiv, "", {i64s({1}), i64s({0})}, {1}, "Div: integer division by zero"},
      {OpKind::kMod, "", {i64s({1}), i64s({0})}, {1}, "Mod: integer division by zero"},
  };
}

TEST(Values, ThatTheRulesRefuseTheEvaluatorRefuses) {
  for (const WrongValue& row : wrong_values()) {
    SCOPED_TRACE(row.error);
    const AttrBytes attrs = parse_attrs(row.op, row.attrs);
    EXPECT_FALSE(value_rules(row.op, attrs, row.in.size()).empty());
    std::vector<const EvalTensor*> in;
    for (const EvalTensor& t : row.in) in.push_back(t.dtype == DType::kUndefined ? nullptr : &t);
    EvalTensor out(row.in[0].is_float() || row.op == OpKind::kEmbedNorm ? DType::kF64 : DType::kI64,
                   row.out);
    try {
      evaluator(row.op)({attrs, in, std::span(&out, 1), Rounding{}});
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInput);
      EXPECT_THAT(error.what(), testing::HasSubstr(row.error));
    }
  }
}

TEST(Values, OfAChainAreThoseOfItsInputs) {
  const auto rules_of = [](const std::string& program, size_t inputs) {
    return value_rules(OpKind::kFusedElementwise,
                       parse_attrs(OpKind::kFusedElementwise, "{program=\"" + program + "\"}"),
                       inputs);
  };
  const std::vector<ValueRule> rules = rules_of("Add(%0,%1);Div(%3,%2);Mod(%0,%4)", 3);
  ASSERT_EQ(rules.size(), 1u);  // what the chain computes is not an input
  EXPECT_EQ(rules[0].kind, ValueRule::Kind::kNonZero);
  EXPECT_EQ(rules[0].input, 2);
  EXPECT_TRUE(rules_of("Add(%0,%1)", 2).empty());
}

TEST(Values, RulesNameNoInputThatIsNotThere) {
  const AttrBytes many = parse_attrs(OpKind::kEmbedNorm, "{tables=4611686018427387904}");
  EXPECT_EQ(value_rules(OpKind::kEmbedNorm, many, 5).size(), 2u);
  EXPECT_FALSE(has_value_rules(OpKind::kAdd));
  EXPECT_TRUE(has_value_rules(OpKind::kGather));
}

}  // namespace
}  // namespace vernier::test
