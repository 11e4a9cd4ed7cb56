// ONNX Runtime's fused encoder operators (domain com.microsoft) against the plain operators that
// they stand for, on random inputs, and the variants that are refused. Attention:
// microsoft_attention_test.cpp.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "onnx/meaning.h"
#include "ops/evaluate.h"

namespace vernier::onnx {
namespace {

class Meaning : public ::testing::TestWithParam<MeaningCase> {};
TEST_P(Meaning, IsThatOfThePlainOperators) { expect_same_meaning(GetParam()); }
class Refused : public ::testing::TestWithParam<RefusedCase> {};
TEST_P(Refused, WithTheReason) { expect_refused(GetParam()); }

const Attribute kEpsilon = attr_float("epsilon", 1e-3F);

// ---- norms, embedding, activations, products ---------------------------------------------------

std::vector<MeaningCase> plain_cases() {
  const TestInput x{"x", {2, 3, 5}}, skip{"skip", {2, 3, 5}}, gamma{"gamma", {5}},
      beta{"beta", {5}}, bias{"bias", {5}};
  const auto one = [](const std::string& op, const Names& in,
                      const std::vector<Attribute>& attributes = {}) {
    return [=](ModelBuilder& m) { fused(m, op, in, {"y"}, attributes); };
  };
  const auto gelu = [](const std::string& approximate) {
    return [=](ModelBuilder& m) {
      m.model().mutable_opset_import(0)->set_version(20);
      m.node("Add", {"x", "bias"}, {"s"});
      m.node("Gelu", {"s"}, {"y"}, {attr_text("approximate", approximate)});
    };
  };
  return {
      {"SkipLayerNormalization",
       {x, skip, gamma, beta, bias},
       one("SkipLayerNormalization", {"x", "skip", "gamma", "beta", "bias"}, {kEpsilon}),
       [](ModelBuilder& m) {
         m.node("Sum", {"x", "skip", "bias"}, {"s"});
         m.node("LayerNormalization", {"s", "gamma", "beta"}, {"y"}, {kEpsilon});
       }},
      {"SkipLayerNormalization_of_one_row_to_skip",
       {x, {"skip", {3, 5}}, gamma},
       one("SkipLayerNormalization", {"x", "skip", "gamma"}),
       [](ModelBuilder& m) {
         m.node("Add", {"x", "skip"}, {"s"});
         m.node("LayerNormalization", {"s", "gamma"}, {"y"}, {attr_float("epsilon", 1e-12F)});
       }},
      {"SkipLayerNormalization_gives_its_sum",
       {x, skip, gamma, beta, bias},
       [](ModelBuilder& m) {
         fused(m, "SkipLayerNormalization", {"x", "skip", "gamma", "beta", "bias"},
               {"n", "", "", "s"});
         m.node("Add", {"n", "s"}, {"y"});
       },
       [](ModelBuilder& m) {
         m.node("Sum", {"x", "skip", "bias"}, {"s"});
         m.node("LayerNormalization", {"s", "gamma", "beta"}, {"n"},
                {attr_float("epsilon", 1e-12F)});
         m.node("Add", {"n", "s"}, {"y"});
       }},
      {"SkipSimplifiedLayerNormalization",
       {x, skip, gamma, bias},
       [](ModelBuilder& m) {
         fused(m, "SkipSimplifiedLayerNormalization", {"x", "skip", "gamma", "bias"},
               {"n", "", "", "s"}, {kEpsilon});
         m.node("Add", {"n", "s"}, {"y"});
       },
       [](ModelBuilder& m) {
         m.initializer(f32_tensor("epsilon", {}, {1e-3F})).initializer(f32_tensor("two", {}, {2}));
         m.node("Sum", {"x", "skip", "bias"}, {"s"});
         m.node("Pow", {"s", "two"}, {"squares"});
         m.node("ReduceMean", {"squares"}, {"mean"}, {attr_ints("axes", {-1})});
         m.node("Add", {"mean", "epsilon"}, {"mean_plus"});
         m.node("Sqrt", {"mean_plus"}, {"rms"});
         m.node("Div", {"s", "rms"}, {"normal"});
         m.node("Mul", {"normal", "gamma"}, {"n"});
         m.node("Add", {"n", "s"}, {"y"});
       }},
      {"SimplifiedLayerNormalization",
       {x, gamma},
       [](ModelBuilder& m) {
         m.node("SimplifiedLayerNormalization", {"x", "gamma"}, {"y"}, {kEpsilon});
       },
       [](ModelBuilder& m) {
         m.model().mutable_opset_import(0)->set_version(23);
         m.node("RMSNormalization", {"x", "gamma"}, {"y"}, {kEpsilon});
       }},
      {"Gelu",
       {x, bias},
       [](ModelBuilder& m) {
         m.node("Add", {"x", "bias"}, {"s"});
         fused(m, "Gelu", {"s"}, {"y"});
       },
       gelu("none")},
      {"BiasGelu", {x, bias}, one("BiasGelu", {"x", "bias"}), gelu("none")},
      {"FastGelu", {x, bias}, one("FastGelu", {"x", "bias"}), gelu("tanh")},
      {"FastGelu_without_bias",
       {x, bias},
       [](ModelBuilder& m) {
         m.node("Add", {"x", "bias"}, {"s"});
         fused(m, "FastGelu", {"s"}, {"y"});
       },
       gelu("tanh")},
      {"GemmFastGelu",
       {x, {"w", {5, 7}}, {"b", {7}}},
       one("GemmFastGelu", {"x", "w", "b"}),
       [](ModelBuilder& m) {
         m.model().mutable_opset_import(0)->set_version(20);
         m.node("MatMul", {"x", "w"}, {"p"});
         m.node("Add", {"p", "b"}, {"s"});
         m.node("Gelu", {"s"}, {"y"}, {attr_text("approximate", "tanh")});
       }},
      {"BiasSplitGelu",
       {{"x", {2, 3, 6}}, {"b", {6}}},
       one("BiasSplitGelu", {"x", "b"}),
       [](ModelBuilder& m) {
         m.model().mutable_opset_import(0)->set_version(20);
         m.node("Add", {"x", "b"}, {"s"});
         m.node("Split", {"s"}, {"left", "right"},
                {attr_int("axis", -1), attr_int("num_outputs", 2)});
         m.node("Gelu", {"right"}, {"g"});
         m.node("Mul", {"left", "g"}, {"y"});
       }},
      {"QuickGelu",
       {x},
       one("QuickGelu", {"x"}),
       [](ModelBuilder& m) {
         m.initializer(f32_tensor("alpha", {}, {1.702F}));
         m.node("Mul", {"x", "alpha"}, {"a"});
         m.node("Sigmoid", {"a"}, {"s"});
         m.node("Mul", {"x", "s"}, {"y"});
       }},
      {"FusedMatMul_alpha_and_transposed",
       {{"a", {2, 5, 3}}, {"b", {2, 4, 5}}},
       one("FusedMatMul", {"a", "b"},
           {attr_float("alpha", 0.3F), attr_int("transA", 1), attr_int("transB", 1)}),
       [](ModelBuilder& m) {
         m.initializer(f32_tensor("alpha", {}, {0.3F}));
         m.node("Transpose", {"a"}, {"at"}, {attr_ints("perm", {0, 2, 1})});
         m.node("Transpose", {"b"}, {"bt"}, {attr_ints("perm", {0, 2, 1})});
         m.node("MatMul", {"at", "bt"}, {"p"});
         m.node("Mul", {"p", "alpha"}, {"y"});
       }},
      {"FusedMatMul_with_the_batch_inside",
       {{"a", {3, 2, 2, 5}}, {"b", {4, 2, 2, 5}}},
       one("FusedMatMul", {"a", "b"},
           {attr_int("transBatchA", 1), attr_int("transBatchB", 1), attr_int("transB", 1)}),
       [](ModelBuilder& m) {
         m.node("Einsum", {"a", "b"}, {"y"}, {attr_text("equation", "mabk,nabk->abmn")});
       }},
  };
}
INSTANTIATE_TEST_SUITE_P(Plain, Meaning, ::testing::ValuesIn(plain_cases()),
                         [](const auto& row) { return row.param.name; });

std::vector<MeaningCase> embedding_cases() {
  const TestInput ids{"ids", {2, 3}, {4, 0, 1, 3, 3, 2}},
      segments{"segments", {2, 3}, {0, 1, 1, 0, 0, 1}};
  const TestInput mask{"mask", {2, 3}, {1, 1, 0, 1, 1, 1}}, places{"places", {1, 3}, {2, 0, 5}};
  const TestInput gamma{"gamma", {4}}, beta{"beta", {4}};
  const auto tables = [](ModelBuilder& m) {
    std::mt19937 random(2);
    std::normal_distribution<float> normal;
    for (const auto& [name, rows] :
         {std::pair<const char*, int64_t>{"words", 5}, {"positions", 6}, {"kinds", 2}}) {
      std::vector<float> values(static_cast<size_t>(rows * 4));
      for (float& v : values) v = normal(random);
      m.initializer(f32_tensor(name, {rows, 4}, values));
    }
  };
  const auto sum_of = [tables](const std::string& position_ids) {
    return [=](ModelBuilder& m) {
      tables(m);
      m.initializer(i64_tensor("first", {3}, {0, 1, 2}));
      m.node("Gather", {"words", "ids"}, {"w"});
      m.node("Gather", {"positions", position_ids}, {"p"});
      m.node("Gather", {"kinds", "segments"}, {"k"});
      m.node("Sum", {"w", "p", "k"}, {"s"});
    };
  };
  const Names all{"ids", "segments", "words", "positions", "kinds", "gamma", "beta"};
  const auto with = [](Names names, const Names& more) {
    names.insert(names.end(), more.begin(), more.end());
    return names;
  };
  return {
      {"EmbedLayerNormalization",
       {ids, segments, gamma, beta},
       [=](ModelBuilder& m) {
         tables(m);
         fused(m, "EmbedLayerNormalization", all, {"y"}, {kEpsilon});
       },
       [=](ModelBuilder& m) {
         sum_of("first")(m);
         m.node("LayerNormalization", {"s", "gamma", "beta"}, {"y"}, {kEpsilon});
       }},
      {"EmbedLayerNormalization_without_segments",
       {ids, gamma, beta},
       [=](ModelBuilder& m) {
         tables(m);
         fused(m, "EmbedLayerNormalization", {"ids", "", "words", "positions", "", "gamma", "beta"},
               {"y"});
       },
       [=](ModelBuilder& m) {
         tables(m);
         m.initializer(i64_tensor("first", {3}, {0, 1, 2}));
         m.node("Gather", {"words", "ids"}, {"w"});
         m.node("Gather", {"positions", "first"}, {"p"});
         m.node("Add", {"w", "p"}, {"s"});
         m.node("LayerNormalization", {"s", "gamma", "beta"}, {"y"},
                {attr_float("epsilon", 1e-12F)});
       }},
      {"EmbedLayerNormalization_at_given_positions_gives_its_sum",
       {ids, segments, gamma, beta, places},
       [=](ModelBuilder& m) {
         tables(m);
         fused(m, "EmbedLayerNormalization", with(all, {"", "places"}), {"n", "", "s"});
         m.node("Add", {"n", "s"}, {"y"});
       },
       [=](ModelBuilder& m) {
         sum_of("places")(m);
         m.node("LayerNormalization", {"s", "gamma", "beta"}, {"n"},
                {attr_float("epsilon", 1e-12F)});
         m.node("Add", {"n", "s"}, {"y"});
       }},
      {"EmbedLayerNormalization_counts_the_mask",
       {ids, segments, gamma, beta, mask},
       [=](ModelBuilder& m) {
         tables(m);
         fused(m, "EmbedLayerNormalization", with(all, {"mask"}), {"n", "y"});
       },
       [](ModelBuilder& m) {
         m.node("ReduceSum", {"mask", "axis"}, {"y"}, {attr_int("keepdims", 0)});
         m.initializer(i64_tensor("axis", {1}, {1}));
       }},
  };
}
INSTANTIATE_TEST_SUITE_P(Embedding, Meaning, ::testing::ValuesIn(embedding_cases()),
                         [](const auto& row) { return row.param.name; });

TEST(Embedding, WithoutAMaskTheCountsAreZero) {
  ModelBuilder model = microsoft_model();
  model.input("ids", kInt32, {"batch", "seq"}).output("count");
  model.initializer(f32_tensor("table", {1, 1}, {1})).initializer(f32_tensor("one", {1}, {1}));
  fused(model, "EmbedLayerNormalization", {"ids", "", "table", "table", "", "one", "one"},
        {"n", "count"});
  const std::vector<int64_t> zeros{0, 0};
  const auto result =
      ops::evaluate(*model.import(),
                    {{"ids", Tensor::from(DType::kI32, {2, 1}, std::span<const int64_t>(zeros))}});
  EXPECT_EQ(result.outputs.at("count").i, zeros);
  EXPECT_EQ(result.outputs.at("count").dtype, DType::kI32);
}

TEST(Embedding, PositionsTakeNoMemoryOfTheTablesRows) {
  ModelBuilder model = microsoft_model();
  model.input("ids", kInt32, {"batch", "seq"}).output("y");
  model.input("positions", kFloat, {int64_t{1} << 33, 4}).input("one", kFloat, {4});
  model.initializer(f32_tensor("words", {1, 4}, {1, 2, 3, 4}));
  fused(model, "EmbedLayerNormalization", {"ids", "", "words", "positions", "", "one", "one"},
        {"y"});
  const auto graph = model.import();
  for (size_t i = 0; i < graph->num_values(); ++i) {
    const ir::Value& value = graph->value(static_cast<ir::ValueId>(i));
    if (!value.is_constant()) continue;
    EXPECT_LT(value.constant.elems(), 16) << value.name;
  }
}

// ---- what is refused ---------------------------------------------------------------------------

std::vector<RefusedCase> refused_cases() {
  return {
      {"skip_norm_mean_as_output",
       [](ModelBuilder& m) {
         m.input("x", kFloat, {2, 3}).input("g", kFloat, {3});
         fused(m, "SkipLayerNormalization", {"x", "x", "g"}, {"n", "y"});
       },
       "output 'y' is not computed by Vernier"},
      {"embedding_half_of_the_segments",
       [](ModelBuilder& m) {
         m.input("ids", kInt32, {2, 3}).initializer(f32_tensor("t", {1, 1}, {1}));
         m.initializer(f32_tensor("g", {1}, {1}));
         fused(m, "EmbedLayerNormalization", {"ids", "ids", "t", "t", "", "g", "g"}, {"y"});
       },
       "segment_ids and segment_embedding must both be given or both be absent"},
      {"embedding_rank",
       [](ModelBuilder& m) {
         m.input("ids", kInt32, {3}).initializer(f32_tensor("t", {1, 1}, {1}));
         m.initializer(f32_tensor("g", {1}, {1}));
         fused(m, "EmbedLayerNormalization", {"ids", "", "t", "t", "", "g", "g"}, {"y"});
       },
       "input_ids and position_embedding must have rank 2"},
      {"embedding_table_of_open_size",
       [](ModelBuilder& m) {
         m.input("ids", kInt32, {2, 3}).input("t", kFloat, {"rows", 4}).input("g", kFloat, {4});
         fused(m, "EmbedLayerNormalization", {"ids", "", "t", "t", "", "g", "g"}, {"y"});
       },
       "its position table has no fixed number of rows"},
      {"unknown_attribute",
       [](ModelBuilder& m) {
         m.input("x", kFloat, {2});
         fused(m, "QuickGelu", {"x"}, {"y"}, {attr_float("beta", 1)});
       },
       "attribute 'beta' is unknown"},
  };
}
INSTANTIATE_TEST_SUITE_P(Plain, Refused, ::testing::ValuesIn(refused_cases()),
                         [](const auto& row) { return row.param.name; });

TEST(MicrosoftDomain, NeedsNoImportOfItsOperatorSet) {
  ModelBuilder model(17);
  model.input("x", kFloat, {2}).output("y");
  fused(model, "QuickGelu", {"x"}, {"y"});
  EXPECT_EQ(model.error(), "no error");
}

}  // namespace
}  // namespace vernier::onnx
