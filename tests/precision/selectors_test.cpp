// Which ONNX nodes a rule matches, on a raised graph of one block. Contract: docs/precision.md.
#include "precision/selectors.h"

#include <gmock/gmock.h>

#include "precision/policy.h"
#include "precision/small_graph.h"

namespace vernier::precision {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::message_of;
using testing::small_graph;
using Keys = std::vector<std::string>;

Keys keys_of(const ir::Graph& graph, const Rule& rule, std::vector<std::string>* notes = nullptr) {
  const Selection selection(graph);
  std::vector<std::string> unread;
  Keys keys;
  for (size_t i : selection.matches(rule.selector, "rule", notes ? *notes : unread))
    keys.push_back(selection.nodes()[i].key);
  return keys;
}
Keys matched(const std::string& selector) {
  return keys_of(*small_graph(), parse_rule(selector + " compute=f32"));
}
Keys matched_by_trtexec(const std::string& layer, std::vector<std::string>* notes = nullptr) {
  return keys_of(*small_graph(), parse_layer_precisions(layer + ":fp32")[0], notes);
}

TEST(Glob, IsAnchoredAndTakesStarsAnywhere) {
  for (const auto& [pattern, text] :
       std::initializer_list<std::pair<const char*, const char*>>{{"", ""},
                                                                  {"*", ""},
                                                                  {"*", "abc"},
                                                                  {"a*c", "abc"},
                                                                  {"a*c", "ac"},
                                                                  {"*b*", "abc"},
                                                                  {"a?c", "abc"},
                                                                  {"**a**", "a"},
                                                                  {"a*b*c", "aXbXbYc"},
                                                                  {"*ab", "aab"},
                                                                  {"?", "*"},
                                                                  {"/l.0/*", "/l.0/x/y"}}) {
    EXPECT_TRUE(matches_glob(pattern, text)) << pattern << " " << text;
  }
  for (const auto& [pattern, text] :
       std::initializer_list<std::pair<const char*, const char*>>{{"", "a"},
                                                                  {"a", ""},
                                                                  {"a", "ab"},
                                                                  {"b", "ab"},
                                                                  {"a*c", "abcd"},
                                                                  {"?", ""},
                                                                  {"?", "ab"},
                                                                  {"*b", "abc"},
                                                                  {"a.c", "abc"},
                                                                  {"A", "a"}}) {
    EXPECT_FALSE(matches_glob(pattern, text)) << pattern << " " << text;
  }
  EXPECT_FALSE(matches_glob(std::string(500, '*') + "b", std::string(10000, 'a')));
}

TEST(Select, ByName) {
  EXPECT_THAT(matched("name:/ln/Pow"), ElementsAre("#5"));
  EXPECT_THAT(matched("name:/ln/*"), ElementsAre("#3", "#4", "#5", "#6"));
  EXPECT_THAT(matched("name:*/MatMul_?"), ElementsAre("#16"));
  EXPECT_EQ(matched("name:*").size(), 30U);
}

TEST(Select, ByOpOfOnnxOrComposite) {
  EXPECT_THAT(matched("op:LayerNorm"), ElementsAre("#3", "#4", "#5", "#6", "#21", "#27"));
  EXPECT_EQ(matched("op:LayerNormalization"), matched("op:LayerNorm"));
  EXPECT_THAT(matched("op:Softmax"), ElementsAre("#15"));
  EXPECT_THAT(matched("op:Attention"), ElementsAre("#13", "#14", "#15", "#16"));
  EXPECT_THAT(matched("op:Pow"), ElementsAre("#5"));
  EXPECT_THAT(matched("op:Gelu"), ElementsAre("#23", "#24"));
  EXPECT_THAT(matched("op:Linear"),
              ElementsAre("#7", "#8", "#9", "#18", "#19", "#22", "#25", "#28"));
  EXPECT_THAT(matched("op:Mul"), ElementsAre("#24", "#29"));
}

TEST(Select, ByRole) {
  EXPECT_THAT(matched("role:attention.scores"), ElementsAre("#13", "#14"));
  EXPECT_THAT(matched("role:attention.softmax"), ElementsAre("#15"));
  EXPECT_THAT(matched("role:attention.context"), ElementsAre("#16"));
  EXPECT_EQ(matched("role:attention"), matched("op:Attention"));
  EXPECT_THAT(matched("role:ffn.up"), ElementsAre("#22"));
  EXPECT_THAT(matched("role:ffn.down"), ElementsAre("#25"));
  EXPECT_THAT(matched("role:residual"), ElementsAre("#20", "#26"));
  EXPECT_THAT(matched("role:embedding"), ElementsAre("#2"));
  EXPECT_EQ(matched("role:norm"), matched("op:LayerNorm"));
  EXPECT_THAT(matched("role:head"), ElementsAre("#28"));
}

TEST(Select, ByBlock) {
  EXPECT_THAT(matched("layer:0 op:Linear"),
              ElementsAre("#7", "#8", "#9", "#18", "#19", "#22", "#25"));
  EXPECT_THAT(matched("layer:0..0 op:LayerNorm"), ElementsAre("#21", "#27"));
  EXPECT_THAT(matched("layer:0 role:residual"), ElementsAre("#20", "#26"));
}

TEST(Select, AllTermsMustHold) {
  EXPECT_THAT(matched("op:LayerNorm name:/ln2/*"), ElementsAre("#21"));
  EXPECT_THAT(matched("name:*MatMul* role:attention"), ElementsAre("#13", "#16"));
}

TEST(Select, TrtexecByOnnxNameThenByTypeThenByComposite) {
  EXPECT_THAT(matched_by_trtexec("/ln/Pow"), ElementsAre("#5"));
  EXPECT_THAT(matched_by_trtexec("MatMul_3"), ElementsAre("#13"));
  EXPECT_THAT(matched_by_trtexec("Gelu_0"), ElementsAre("#23", "#24"));
  EXPECT_THAT(matched_by_trtexec("Attention_0"), ElementsAre("#13", "#14", "#15", "#16"));
  EXPECT_THAT(matched_by_trtexec("LayerNormalization_0"), ElementsAre("#21"));  // by type, first
  EXPECT_THAT(matched_by_trtexec("LayerNormalization_2"), ElementsAre("#27"));  // third composite
  EXPECT_THAT(matched_by_trtexec("Softmax_0"), ElementsAre("#27"));  // a norm of that ONNX name
}

TEST(Select, TrtexecPatternsMeanAllThatFit) {
  std::vector<std::string> notes;
  EXPECT_THAT(matched_by_trtexec("LayerNormalization_*", &notes),
              ElementsAre("#3", "#4", "#5", "#6", "#21", "#27"));
  EXPECT_THAT(notes, IsEmpty());
  EXPECT_THAT(matched_by_trtexec("Softmax_*", &notes), ElementsAre("#15", "#27"));
  EXPECT_THAT(notes, ElementsAre(HasSubstr("matches 1 by ONNX name, and also 1 by type")));
}

TEST(Select, NothingIsAnErrorWithTheNearestNames) {
  for (const auto& [selector, message] : std::initializer_list<std::pair<const char*, const char*>>{
           {"name:/ln/Pov",
            "matches nothing: the model has no node 'name:/ln/Pov'; did you mean "
            "'/ln/Pow'"},
           {"op:LayerNrm", "no node 'op:LayerNrm'; did you mean 'LayerNorm'?"},
           {"op:LayerNorm role:attention",
            "no node matches all of 'op:LayerNorm' (6), "
            "'role:attention' (4) at once"},
           {"layer:1", "'layer:1' asks for block 1, but this model has blocks 0..0"},
           {"layer:0..2 op:Gelu", "'layer:0..2' asks for block 2"},
       }) {
    EXPECT_THAT(message_of([&] { matched(selector); }), HasSubstr(message));
  }
  EXPECT_THAT(message_of([&] { matched_by_trtexec("LayerNorm_*"); }),
              HasSubstr("no node 'LayerNorm_*'; did you mean 'LayerNormalization_0'"));
}

TEST(Select, WithoutAttentionsThereAreNoBlocks) {
  const auto graph = small_graph(
      "graph g(%x: f32[b, 8]) { %y = Exp(%x) from \"#1|/Exp|Exp\" return %y as \"y\" }");
  EXPECT_THAT(message_of([&] { keys_of(*graph, parse_rule("layer:0 compute=f32")); }),
              HasSubstr("'layer:0' needs blocks, which are counted by raised Attentions, and this "
                        "model has none"));
  EXPECT_THAT(message_of([&] { keys_of(*graph, parse_rule("role:head compute=f32")); }),
              HasSubstr("the model has no node 'role:head'"));
}

TEST(Synthetic, NamesCountInFileOrderFromZero) {
  const auto names = synthetic_names(*small_graph());
  EXPECT_EQ(names.size(), 30U);
  EXPECT_EQ(names.at("#7").by_type, "MatMul_0");
  EXPECT_EQ(names.at("#29").by_type, "Mul_1");
  EXPECT_THAT(names.at("#5").composites, ElementsAre("LayerNormalization_0"));
  EXPECT_THAT(names.at("#13").composites, ElementsAre("Attention_0"));
  EXPECT_THAT(names.at("#28").composites, ElementsAre("Linear_6"));
  EXPECT_THAT(names.at("#20").composites, IsEmpty());
}

TEST(Synthetic, KeysAreInFileOrder) {
  EXPECT_TRUE(compare_keys("#2", "#10") < 0);
  EXPECT_TRUE(compare_keys("#10", "/f#2") < 0);
  EXPECT_TRUE(compare_keys("/f/1#3", "/f/1#3") == 0);
  EXPECT_TRUE(compare_keys("", "#0") < 0);
}

}  // namespace
}  // namespace vernier::precision
