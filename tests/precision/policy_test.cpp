// What rules ask of ONNX nodes: part by part, later ones first, nothing silently dropped.
#include "precision/policy.h"

#include <gmock/gmock.h>

#include "precision/small_graph.h"

namespace vernier::precision {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::message_of;
using testing::small_graph;

std::vector<Rule> rules_of(const std::vector<std::string>& texts) {
  std::vector<Rule> rules;
  for (const std::string& text : texts) rules.push_back(parse_rule(text));
  return rules;
}

// What is asked of an ONNX node; every copy of its origin must say the same.
Request asked_of(const ir::Graph& graph, const std::string& key) {
  const ir::Origin* found = nullptr;
  const auto look = [&](const ir::Origin& origin) {
    if (origin.key != key) return;
    if (found) {
      EXPECT_EQ(found->asked.by, origin.asked.by) << key;
      EXPECT_EQ(found->asked.compute.type, origin.asked.compute.type) << key;
      EXPECT_EQ(found->asked.store.type, origin.asked.store.type) << key;
    }
    found = &origin;
  };
  for (ir::NodeId id : graph.order()) {
    for (const ir::Origin& origin : graph.node(id).origins) look(origin);
  }
  for (const ir::Retired& row : graph.retired) look(row.origin);
  EXPECT_TRUE(found) << key;
  return found ? found->asked : Request{};
}

// The mode's default on every origin, as it stands there when rules are applied.
std::shared_ptr<ir::Graph> with_default(const std::string& by = "mode fp16") {
  auto graph = small_graph();
  for (ir::NodeId id : graph->order()) {
    for (ir::Origin& origin : graph->node(id).origins) {
      origin.asked = {.compute = {DType::kF16, false},
                      .accumulate = {DType::kF32, false},
                      .store = {DType::kF16, false},
                      .by = by,
                      .inner = {}};
    }
  }
  return graph;
}

TEST(ApplyRules, SetsTheGivenPartsOfTheMatchedNodesOnly) {
  const auto graph = with_default();
  EXPECT_THAT(apply_rules(*graph, rules_of({"op:Pow compute==f32"})), IsEmpty());
  const Request pow = asked_of(*graph, "#5");
  EXPECT_EQ(pow.compute.type, DType::kF32);
  EXPECT_TRUE(pow.compute.exact);
  EXPECT_EQ(pow.accumulate.type, DType::kF32);
  EXPECT_EQ(pow.store.type, DType::kF16);
  EXPECT_EQ(pow.by, "rule 1");
  EXPECT_EQ(asked_of(*graph, "#4").by, "mode fp16");
  EXPECT_EQ(asked_of(*graph, "#4").compute.type, DType::kF16);
}

TEST(ApplyRules, LaterRulesWinAndNameWhatTheyReplace) {
  const auto graph = with_default();
  apply_rules(*graph, rules_of({"name:/ln/* compute=f32", "op:Pow compute==f16", "op:Sub store=f32",
                                "op:Div compute=f32 store=f32", "name:/ln/Div store=f16"}));
  EXPECT_EQ(asked_of(*graph, "#3").by, "rule 1");
  EXPECT_EQ(asked_of(*graph, "#4").by, "rule 1, rule 3");
  EXPECT_EQ(asked_of(*graph, "#4").compute.type, DType::kF32);
  EXPECT_EQ(asked_of(*graph, "#4").store.type, DType::kF32);
  EXPECT_EQ(asked_of(*graph, "#5").by, "rule 2 (over rule 1)");
  EXPECT_EQ(asked_of(*graph, "#5").compute.type, DType::kF16);
  EXPECT_TRUE(asked_of(*graph, "#5").compute.exact);
  EXPECT_EQ(asked_of(*graph, "#6").by, "rule 4, rule 5 (over rule 1, rule 4)");
  EXPECT_EQ(asked_of(*graph, "#6").store.type, DType::kF16);
}

TEST(ApplyRules, SayThatTheyReplaceWhatTheModelAsks) {
  const auto graph = with_default("model");
  apply_rules(*graph, rules_of({"op:Pow compute=f32", "op:Pow compute=bf16", "op:Sub store=f16"}));
  EXPECT_EQ(asked_of(*graph, "#5").by, "rule 2 (over model, rule 1)");
  EXPECT_EQ(asked_of(*graph, "#4").by, "rule 3");  // the model asked for f16 too
}

TEST(ApplyRules, ReachEveryCopyOfAnOrigin) {
  const auto graph = with_default();
  apply_rules(*graph, rules_of({"name:/att/MatMul_1 store=f32"}));  // on Attention and on a view
  EXPECT_EQ(asked_of(*graph, "#16").store.type, DType::kF32);
}

TEST(ApplyRules, TrtexecSpellingsAskForFloors) {
  const auto graph = with_default();
  auto rules = parse_layer_precisions("LayerNormalization_*:fp32");
  rules.push_back(parse_layer_output_types("LayerNormalization_*:fp32")[0]);
  EXPECT_THAT(apply_rules(*graph, rules), IsEmpty());
  for (const char* key : {"#3", "#4", "#5", "#6", "#21", "#27"}) {
    const Request asked = asked_of(*graph, key);
    EXPECT_EQ(asked.compute.type, DType::kF32) << key;
    EXPECT_EQ(asked.accumulate.type, DType::kF32) << key;
    EXPECT_EQ(asked.store.type, DType::kF32) << key;
    EXPECT_FALSE(asked.compute.exact || asked.store.exact) << key;
    EXPECT_EQ(asked.by, "rule 1, rule 2") << key;
  }
  EXPECT_EQ(asked_of(*graph, "#20").by, "mode fp16");
}

TEST(ApplyRules, NothingMatchedIsAnErrorThatNamesTheRule) {
  const auto graph = with_default();
  EXPECT_THAT(message_of([&] {
                apply_rules(*graph, rules_of({"op:Pow compute=f32", "op:Powr compute=f32"}));
              }),
              HasSubstr("rule 2 ('op:Powr compute=f32') matches nothing: the model has no node "
                        "'op:Powr'; did you mean 'Pow'?"));
  EXPECT_THAT(message_of([&] { apply_rules(*graph, parse_layer_precisions("Norm_*:fp32")); }),
              HasSubstr("rule 1 (--layerPrecisions 'Norm_*:fp32') matches nothing"));
}

TEST(ApplyRules, OnlyFoldedNodesAreANoteAndAskedInTheLedger) {
  const auto graph = with_default();
  EXPECT_THAT(
      apply_rules(*graph, rules_of({"name:/fold/* compute=f32", "op:Shape store=f32"})),
      ElementsAre("rule 1 ('name:/fold/* compute=f32') changes nothing: it matches only nodes that "
                  "compute no floating-point values at run time (1 folded)",
                  HasSubstr("(1 shape)")));
  EXPECT_EQ(asked_of(*graph, "#29").compute.type, DType::kF32);
  EXPECT_EQ(asked_of(*graph, "#29").by, "rule 1");
  EXPECT_EQ(asked_of(*graph, "#0").store.type, DType::kF32);
}

TEST(ApplyRules, FoldedBesideLiveNodesAreNoNote) {
  const auto graph = with_default();
  EXPECT_THAT(apply_rules(*graph, rules_of({"op:Mul compute=f32"})), IsEmpty());
  EXPECT_EQ(asked_of(*graph, "#24").by, "rule 1");
  EXPECT_EQ(asked_of(*graph, "#29").by, "rule 1");
}

TEST(ApplyRules, IntegerNodesAreLeftAlone) {
  const auto graph = small_graph();
  EXPECT_THAT(apply_rules(*graph, rules_of({"name:/mask/* compute=f32"})),
              ElementsAre(HasSubstr("(1 shape, 1 without floating-point values)")));
  EXPECT_EQ(asked_of(*graph, "#1").by, "");
  EXPECT_THAT(apply_rules(*graph, rules_of({"name:* store=f32"})), IsEmpty());
  EXPECT_EQ(asked_of(*graph, "#1").by, "");
  EXPECT_EQ(asked_of(*graph, "#2").by, "rule 1");
}

// One ONNX node that is a whole Attention: roles mean parts of it.
TEST(ApplyRules, RolesBindPartsOfAWholeAttention) {
  std::string text = testing::kBlock;
  const size_t start = text.find("\"#13|");
  const std::string last = "\"#16|/att/MatMul_1|MatMul|context\"";
  text.replace(start, text.find(last) + last.size() - start, "\"#13|/att/MHA|MultiHeadAttention\"");
  const auto graph = small_graph(text);
  apply_rules(*graph, rules_of({"role:attention.softmax compute==f16 store=f16"}));
  Request asked = asked_of(*graph, "#13");
  EXPECT_EQ(asked.inner.type, DType::kF16);
  EXPECT_TRUE(asked.inner.exact);
  EXPECT_EQ(asked.compute.type, DType::kUndefined);
  EXPECT_EQ(asked.store.type, DType::kUndefined);  // probabilities are no result of the node
  apply_rules(*graph, rules_of({"role:attention.context compute=f32 store=f32"}));
  asked = asked_of(*graph, "#13");
  EXPECT_EQ(asked.compute.type, DType::kF32);
  EXPECT_EQ(asked.store.type, DType::kF32);
  EXPECT_EQ(asked.inner.type, DType::kF16);
}

// A softmax that insists on its own type cannot be part of the Attention: the graph is raised again
// without it, and its role must not be lost.
TEST(ApplyRules, AreKeptWhenTheGraphIsRaisedWithoutAComposite) {
  const auto whole = with_default();
  apply_rules(*whole, rules_of({"role:attention.softmax compute==f16", "op:Shape compute=f32"}));
  std::string text = testing::kBlock;
  const std::string part = "\"#15|/att/Softmax|Softmax|probs\", ";
  text.replace(text.find(part), part.size(), "");
  const auto apart = small_graph(text);
  const ir::ValueId out = apart->outputs[0];
  apart->producer(out)->origins.push_back(
      {.key = "#15", .name = "/att/Softmax", .op_type = "Softmax", .part = ""});
  keep_rules(*whole, *apart);
  EXPECT_EQ(asked_of(*apart, "#15").compute.type, DType::kF16);
  EXPECT_TRUE(asked_of(*apart, "#15").compute.exact);
  EXPECT_EQ(asked_of(*apart, "#15").by, "rule 1");
  EXPECT_EQ(asked_of(*apart, "#13").by, "");  // no rule spoke of it
  EXPECT_EQ(asked_of(*apart, "#0").by, "rule 2");
}

TEST(ApplyRules, NoRulesChangeNothing) {
  const auto graph = with_default();
  EXPECT_THAT(apply_rules(*graph, {}), IsEmpty());
  EXPECT_EQ(asked_of(*graph, "#5").by, "mode fp16");
}

}  // namespace
}  // namespace vernier::precision
