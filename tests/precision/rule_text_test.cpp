// Spellings of rules, and what is said about wrong ones. Grammar: docs/precision.md.
#include <gmock/gmock.h>

#include "precision/policy.h"
#include "vernier/error.h"

namespace vernier::precision {
namespace {

using ::testing::HasSubstr;
using Kind = Term::Kind;

template <class F>
std::string message_of(F&& f) {
  try {
    f();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInput);
    return error.what();
  }
  return "no error";
}

void expect_request(const TypeRequest& got, DType type, bool exact = false) {
  EXPECT_EQ(got.type, type);
  EXPECT_EQ(got.exact, exact);
}

// ---- Vernier's own

TEST(ParseRule, ReadsEverySelectorAndSetting) {
  const Rule rule = parse_rule(
      "  name:/enc/layer.0/* op:Linear role:ffn.up layer:0..3\tcompute=f32 acc==f16 store=bf16 ");
  ASSERT_EQ(rule.selector.terms.size(), 4U);
  EXPECT_EQ(rule.selector.terms[0].kind, Kind::kName);
  EXPECT_EQ(rule.selector.terms[0].pattern, "/enc/layer.0/*");
  EXPECT_EQ(rule.selector.terms[1].kind, Kind::kOp);
  EXPECT_EQ(rule.selector.terms[1].pattern, "Linear");
  EXPECT_EQ(rule.selector.terms[2].kind, Kind::kRole);
  EXPECT_EQ(rule.selector.terms[2].role, Role::kFfnUp);
  EXPECT_EQ(rule.selector.terms[3].kind, Kind::kLayer);
  EXPECT_EQ(rule.selector.terms[3].first, 0);
  EXPECT_EQ(rule.selector.terms[3].last, 3);
  expect_request(rule.compute, DType::kF32);
  expect_request(rule.accumulate, DType::kF16, true);
  expect_request(rule.store, DType::kBF16);
  EXPECT_EQ(rule.spelling, Spelling::kRule);
  EXPECT_EQ(rule.text,
            "name:/enc/layer.0/* op:Linear role:ffn.up layer:0..3\tcompute=f32 acc==f16 "
            "store=bf16");
}

TEST(ParseRule, TakesSettingsBeforeSelectorsAndOneBlock) {
  const Rule rule = parse_rule("accumulate=f32 layer:11");
  EXPECT_EQ(rule.selector.terms[0].first, 11);
  EXPECT_EQ(rule.selector.terms[0].last, 11);
  expect_request(rule.accumulate, DType::kF32);
  expect_request(rule.compute, DType::kUndefined);
  expect_request(rule.store, DType::kUndefined);
}

TEST(ParseRule, TakesAnyNameInQuotes) {
  const Rule rule = parse_rule(R"(name:"a b = \"c\" \\ é:" compute=f32)");
  EXPECT_EQ(rule.selector.terms[0].pattern, "a b = \"c\" \\ é:");
}

TEST(ParseRule, TakesColonsAndEqualsSignsInNames) {
  EXPECT_EQ(parse_rule("name:tf/add:0=x compute=f32").selector.terms[0].pattern, "tf/add:0=x");
}

TEST(ParseRule, KnowsEverySpellingOfTypes) {
  for (const auto& [word, type] :
       std::initializer_list<std::pair<const char*, DType>>{{"f32", DType::kF32},
                                                            {"fp32", DType::kF32},
                                                            {"float32", DType::kF32},
                                                            {"f16", DType::kF16},
                                                            {"fp16", DType::kF16},
                                                            {"half", DType::kF16},
                                                            {"bf16", DType::kBF16},
                                                            {"tf32", DType::kTF32},
                                                            {"f8e4m3", DType::kF8E4M3},
                                                            {"fp8", DType::kF8E4M3},
                                                            {"f8e5m2", DType::kF8E5M2},
                                                            {"int8", DType::kQ8},
                                                            {"w8", DType::kW8},
                                                            {"w4", DType::kW4}}) {
    expect_request(parse_rule(std::string("op:Add compute=") + word).compute, type);
    expect_request(parse_rule(std::string("op:Add compute==") + word).compute, type, true);
  }
}

TEST(ParseRule, KnowsEveryRole) {
  for (Role role : all_roles()) {
    const Rule rule = parse_rule("role:" + std::string(name(role)) + " store=f32");
    EXPECT_EQ(rule.selector.terms[0].role, role);
    EXPECT_EQ(str(rule.selector.terms[0]), "role:" + std::string(name(role)));
  }
}

struct Wrong {
  const char* text;
  const char* message;
};

TEST(ParseRule, SaysWhatIsWrongWhereAndWhatWasExpected) {
  for (const Wrong& wrong : std::initializer_list<Wrong>{
           {"", "rule '', column 1: no selector; expected name:, op:, role: or layer:"},
           {"compute=f32", "column 12: no selector"},
           {"op:Add", "column 7: no setting; expected compute=, accumulate= or store="},
           {"LayerNorm compute=f32", "column 1: 'LayerNorm' is neither a selector"},
           {"type:Add compute=f32", "column 1: unknown selector 'type'"},
           {":Add compute=f32", "column 1: unknown selector ''"},
           {"op: compute=f32", "column 4: nothing after 'op:'"},
           {"op:Add compute=", "column 16: nothing after 'compute='"},
           {"op:Add compute= f32", "column 16: nothing after 'compute='"},
           {"op:Add compute===f32", "column 17: '=f32' is not a type"},
           {"op:Add speed=f32", "column 8: unknown setting 'speed'"},
           {"op:Add compute=f23",
            "column 16: 'f23' is not a type that a rule can request; expected f32"},
           {"op:Add compute=F32", "column 16: 'F32' is not a type"},
           {"op:Add compute=f64", "column 16: 'f64' is not a type"},
           {"op:Add compute=uint8",
            "quantized types such as 'uint8' cannot be requested by rules in "
            "this version"},
           {"op:Add store=int8", "column 14: int8 is the type of a product's operands"},
           {"op:Add store=w8", "column 14: w8 is the type of a product's operands"},
           {"op:Add acc=w4", "column 12: w4 is the type of a product's operands"},
           {"op:Add acc=int8", "column 12: int8 is the type of a product's operands"},
           {"op:Add store=i64", "'i64': integers keep the model's type"},
           {"op:Add store=tf32", "column 14: tf32 is a compute type"},
           {"op:Add acc=f32 accumulate=f16", "column 16: 'accumulate' is set twice"},
           {"role:attention.sofmax compute=f32",
            "unknown role 'attention.sofmax'; did you mean 'attention.softmax'?"},
           {"layer:a compute=f32", "'a' is not a range of blocks; expected layer:3 or layer:0..3"},
           {"layer:1.. compute=f32", "'1..' is not a range"},
           {"layer:..2 compute=f32", "'..2' is not a range"},
           {"layer:-1 compute=f32", "'-1' is not a range"},
           {"layer:99999999999 compute=f32", "is not a range"},
           {"layer:3..1 compute=f32", "'3..1': the last block is below the first"},
           {"name:\"a b compute=f32", "column 6: the closing quote is missing"},
           {"name:\"a\"b compute=f32", "column 9: expected a space"},
           {"op:Add compute\x01=f32", "unknown setting 'compute\\x01'"},
       }) {
    EXPECT_THAT(message_of([&] { parse_rule(wrong.text); }), HasSubstr(wrong.message))
        << wrong.text;
  }
}

TEST(ParseRule, BoundsWhatItReads) {
  const std::string text = "name:" + std::string(2000, '*') + " compute=f32";
  const std::string message = message_of([&] { parse_rule(text); });
  EXPECT_THAT(message, HasSubstr("column 1025: a rule has at most 1024 characters, got 2017"));
  EXPECT_LT(message.size(), 300U);
  EXPECT_THAT(message_of([] { parse_rule(std::string_view("op:A\0 store=f32", 15)); }),
              HasSubstr("column 5: a NUL byte"));
}

// Every prefix of a rule, and it with each byte replaced: a rule or an Error, never anything else.
TEST(ParseRule, TakesAnyBytes) {
  const std::string text =
      R"(name:"a b" op:Add role:head layer:0..3 compute==f32 acc=f16 store=f16)";
  const auto try_all = [](const std::string& damaged) {
    for (auto* parse : {&parse_layer_precisions, &parse_layer_output_types}) {
      try {
        parse(damaged);
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::kInput) << damaged;
      }
    }
    try {
      parse_rule(damaged);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInput) << damaged;
    }
  };
  for (size_t i = 0; i < text.size(); ++i) {
    try_all(text.substr(0, i));
    for (char c : std::string("\0\"\\:=,.'*+ \xff", 12)) {
      std::string damaged = text;
      damaged[i] = c;
      try_all(damaged);
    }
  }
}

// ---- trtexec's

TEST(LayerPrecisions, AreFloorsAndFp32SumsToo) {
  const auto rules = parse_layer_precisions("LayerNormalization_*:fp32, Softmax_12:fp16");
  ASSERT_EQ(rules.size(), 2U);
  EXPECT_EQ(rules[0].selector.terms[0].kind, Kind::kTrtexec);
  EXPECT_EQ(rules[0].selector.terms[0].pattern, "LayerNormalization_*");
  EXPECT_EQ(rules[0].text, "LayerNormalization_*:fp32");
  EXPECT_EQ(rules[0].spelling, Spelling::kLayerPrecisions);
  expect_request(rules[0].compute, DType::kF32);
  expect_request(rules[0].accumulate, DType::kF32);
  expect_request(rules[0].store, DType::kUndefined);
  EXPECT_EQ(rules[1].selector.terms[0].pattern, "Softmax_12");
  expect_request(rules[1].compute, DType::kF16);
  expect_request(rules[1].accumulate, DType::kUndefined);
}

TEST(LayerPrecisions, TakeColonsAndCommasInNames) {
  const auto rules = parse_layer_precisions("tf/add:0:fp32,'a,b:c':fp16,*:bf16");
  ASSERT_EQ(rules.size(), 3U);
  EXPECT_EQ(rules[0].selector.terms[0].pattern, "tf/add:0");
  EXPECT_EQ(rules[1].selector.terms[0].pattern, "a,b:c");
  EXPECT_EQ(rules[2].selector.terms[0].pattern, "*");
}

TEST(LayerPrecisions, AreNoRulesWhereNothingIsGiven) {
  EXPECT_TRUE(parse_layer_precisions("").empty());
  EXPECT_TRUE(parse_layer_output_types(" ").empty());
}

TEST(LayerPrecisions, SayWhatIsWrong) {
  for (const Wrong& wrong : std::initializer_list<Wrong>{
           {"a:fp32,", "--layerPrecisions '', column 1: expected LAYER:TYPE"},
           {"Softmax_1", "--layerPrecisions 'Softmax_1', column 1: expected LAYER:TYPE"},
           {"a:fp32,:fp32", "--layerPrecisions ':fp32', column 1: expected LAYER:TYPE"},
           {"Softmax_1:", "column 1: expected LAYER:TYPE"},
           {"'':fp32", "an empty layer name"},
           {"Softmax_1:fp31", "column 11: 'fp31' is not a type"},
           {"Softmax_1:uint8", "quantized types such as 'uint8'"},
           {"Softmax_1:int32", "'int32': integers keep the model's type"},
       }) {
    EXPECT_THAT(message_of([&] { parse_layer_precisions(wrong.text); }), HasSubstr(wrong.message))
        << wrong.text;
  }
}

TEST(LayerOutputTypes, AreFloorsOfStorage) {
  const auto rules = parse_layer_output_types("LayerNormalization_*:fp32,Split_0:fp16+fp16");
  ASSERT_EQ(rules.size(), 2U);
  EXPECT_EQ(rules[0].spelling, Spelling::kLayerOutputTypes);
  expect_request(rules[0].store, DType::kF32);
  expect_request(rules[0].compute, DType::kUndefined);
  expect_request(rules[1].store, DType::kF16);
}

TEST(LayerOutputTypes, SayWhatIsWrong) {
  for (const Wrong& wrong : std::initializer_list<Wrong>{
           {"Split_0:fp16+fp32",
            "--layerOutputTypes 'Split_0:fp16+fp32', column 14: outputs of "
            "one node are stored in one type"},
           {"Split_0:fp16+", "column 14: '' is not a type"},
           {"Split_0:tf32", "tf32 is a compute type"},
       }) {
    EXPECT_THAT(message_of([&] { parse_layer_output_types(wrong.text); }), HasSubstr(wrong.message))
        << wrong.text;
  }
}

TEST(PrecisionConstraints, AlwaysBind) {
  EXPECT_NO_THROW(check_precision_constraints("obey", 3));
  EXPECT_NO_THROW(check_precision_constraints("none", 0));
  for (const Wrong& wrong : std::initializer_list<Wrong>{
           {"none", "--precisionConstraints=none would ignore the 2 rules given"},
           {"prefer", "--precisionConstraints=prefer: a rule that cannot be met is an error"},
           {"maybe", "--precisionConstraints='maybe': expected obey, prefer or none"},
       }) {
    EXPECT_THAT(message_of([&] { check_precision_constraints(wrong.text, 2); }),
                HasSubstr(wrong.message));
  }
}

}  // namespace
}  // namespace vernier::precision
