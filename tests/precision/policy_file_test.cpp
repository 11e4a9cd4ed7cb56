// Policy files: what is written is read back; damage is told with its place.
#include "precision/policy_file.h"

#include <gmock/gmock.h>

#include "vernier/error.h"

namespace vernier::precision {
namespace {

using ::testing::HasSubstr;

Policy example() {
  Policy policy;
  policy.mode = Mode::kFp16;
  policy.rules.push_back(parse_rule("op:LayerNorm compute=f32"));
  policy.rules.push_back(parse_rule(R"(name:"a \"b\"\\é" layer:0..3 store==f16)"));
  for (Rule& rule : parse_layer_precisions("LayerNormalization_*:fp32,Softmax_12:fp32"))
    policy.rules.push_back(std::move(rule));
  for (Rule& rule : parse_layer_output_types("'x,y':fp16+fp16"))
    policy.rules.push_back(std::move(rule));
  return policy;
}

std::string message_of(const std::string& json) {
  try {
    load_policy(json, "p.json");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInput);
    return error.what();
  }
  return "no error";
}

TEST(PolicyFile, IsReadBack) {
  const Policy before = example();
  const Policy after = load_policy(save_policy(before), "p.json");
  EXPECT_EQ(after.mode, before.mode);
  ASSERT_EQ(after.rules.size(), before.rules.size());
  for (size_t i = 0; i < before.rules.size(); ++i) {
    const Rule &a = before.rules[i], &b = after.rules[i];
    EXPECT_EQ(a.text, b.text);
    EXPECT_EQ(a.spelling, b.spelling);
    ASSERT_EQ(a.selector.terms.size(), b.selector.terms.size());
    for (size_t t = 0; t < a.selector.terms.size(); ++t)
      EXPECT_EQ(str(a.selector.terms[t]), str(b.selector.terms[t]));
    for (const auto part : {&Rule::compute, &Rule::accumulate, &Rule::store}) {
      EXPECT_EQ((a.*part).type, (b.*part).type) << a.text;
      EXPECT_EQ((a.*part).exact, (b.*part).exact) << a.text;
    }
  }
  EXPECT_EQ(save_policy(after), save_policy(before));
}

TEST(PolicyFile, LooksLikeThis) {
  Policy policy = example();
  policy.rules.resize(1);
  EXPECT_EQ(save_policy(policy), R"({
  "vernier_policy": 1,
  "mode": "fp16",
  "rules": [
    {
      "rule": "op:LayerNorm compute=f32"
    }
  ]
}
)");
}

TEST(PolicyFile, KnowsEveryModeAndNeedsNoRules) {
  for (Mode mode : {Mode::kModel, Mode::kFp32, Mode::kTf32, Mode::kFp16, Mode::kBf16, Mode::kInt8,
                    Mode::kW8, Mode::kW4}) {
    EXPECT_EQ(load_policy(save_policy({.mode = mode, .rules = {}}), "p").mode, mode);
  }
  EXPECT_TRUE(load_policy(R"({"vernier_policy": 1, "mode": "bf16"})", "p").rules.empty());
}

TEST(PolicyFile, SaysWhatIsWrongAndWhere) {
  const std::string start = R"({"vernier_policy": 1, "mode": "fp16", "rules": )";
  for (const auto& [json, message] : std::initializer_list<std::pair<std::string, const char*>>{
           {"", "policy 'p.json': parse error at line 1, column 1"},
           {"{\n  \"mode\": fp16}", "parse error at line 2, column 1"},
           {"[]", "expected an object, got array"},
           {"{}", "no \"vernier_policy\"; expected \"vernier_policy\": 1 first"},
           {R"({"vernier_policy": 2, "mode": "fp16"})",
            "\"vernier_policy\" is 2, this version reads 1"},
           {R"({"vernier_policy": "1", "mode": "fp16"})", "\"vernier_policy\" is \"1\""},
           {R"({"vernier_policy": 1})", "no \"mode\"; expected \"model\""},
           {R"({"vernier_policy": 1, "mode": "fp9"})", "\"mode\": expected \"model\", \"fp32\""},
           {R"({"vernier_policy": 1, "mode": 16})", "\"mode\": expected \"model\", \"fp32\""},
           {R"({"vernier_policy": 1, "mode": "fp16", "rule": []})", "unknown key \"rule\""},
           {R"({"vernier_policy": 1, "mode": "fp16", "mode": "bf16"})",
            "the key \"mode\" occurs twice"},
           {start + R"({}})", "\"rules\": expected an array"},
           {start + R"(["op:Add compute=f32"]})", "rules[0]: expected an object with one of"},
           {start + R"([{"rule": 3}]})", "rules[0]: expected an object with one of"},
           {start + R"([{"rule": "op:Add compute=f32"}, {"precision": "x"}]})",
            "rules[1]: expected an object with one of \"rule\", \"layerPrecisions\" or "
            "\"layerOutputTypes\" with a string; got \"precision\""},
           {start + R"([{"rule": "op:Add compute=f31"}]})",
            "policy 'p.json': rules[0]: rule 'op:Add compute=f31', column 16: 'f31' is not a type"},
           {start + R"([{"layerPrecisions": "x"}]})",
            "rules[0]: --layerPrecisions 'x', column 1: expected LAYER:TYPE"},
           {start + R"([{"rule": "a", "rule": "b"}]})", "the key \"rule\" occurs twice"},
           {start + R"([{"rule": ["a"]}]})", "nested too deeply"},
           {start + std::string(100000, '['), "nested too deeply"},
       }) {
    EXPECT_THAT(message_of(json), HasSubstr(message)) << json.substr(0, 200);
  }
}

TEST(PolicyFile, DamagedInAnyWayIsAPolicyOrAnError) {
  const std::string whole = save_policy(example());
  for (size_t i = 0; i < whole.size(); ++i) {
    message_of(whole.substr(0, i));
    for (char c : std::string("\0\"{[,:\xff"
                              "9",
                              8)) {
      std::string damaged = whole;
      damaged[i] = c;
      message_of(damaged);
    }
  }
}

TEST(PolicyFile, HoldsUtf8Only) {
  Policy policy;
  policy.rules.push_back(parse_rule("name:\xff store=f32"));
  try {
    save_policy(policy);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInput);
    EXPECT_THAT(error.what(), HasSubstr("a policy file must be UTF-8"));
  }
}

}  // namespace
}  // namespace vernier::precision
