// Plans that break a rule of plan.h are refused with what is wrong, although every checksum of
// their file is right. Contract: src/engine/validate.h.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "assemble.h"
#include "core/attrs.h"
#include "engine/codec.h"
#include "engine/reader.h"
#include "engine/writer.h"
#include "sample_plan.h"

namespace vernier::engine {
namespace {

using ::testing::HasSubstr;
using Kind = plan::PlanValue::Kind;

// The file of a plan that no writer would write.
std::vector<std::byte> file_of(const plan::Plan& plan) {
  std::vector<std::byte> weights;
  for (const plan::Blob& blob : plan.blobs) {
    const auto bytes = blob.bytes.byte_span();
    weights.insert(weights.end(), bytes.begin(), bytes.end());
    weights.resize(align_up(weights.size(), kBlobAlignment));
  }
  return assemble({encode_plan(plan), encode_ledger(plan), weights, {}});
}

std::string message_of(const plan::Plan& plan) {
  try {
    read_engine_bytes(file_of(plan));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInput);
    return error.what();
  }
  return "no error";
}

struct Rule {
  const char* name;
  std::function<void(plan::Plan&)> break_it;
  const char* expected;
};
void PrintTo(const Rule& rule, std::ostream* out) { *out << rule.name; }

class Rules : public ::testing::TestWithParam<Rule> {};

TEST_P(Rules, BrokenIsAnErrorThatSaysSo) {
  ASSERT_EQ(message_of(sample_plan()), "no error");
  plan::Plan plan = sample_plan();
  GetParam().break_it(plan);
  const std::string message = message_of(plan);
  EXPECT_THAT(message, HasSubstr(GetParam().expected));
  EXPECT_THAT(message,
              HasSubstr("engine in memory: its plan section at offset 208 cannot be decoded"));
  EXPECT_THAT(message, HasSubstr("; rebuild it with this version of Vernier"));
}

#define BREAK(...) [](plan::Plan& p) { __VA_ARGS__; }

const std::vector<Rule> kPlanRules{
    {"Device", BREAK(p.device = ""), "plan: names no device"},
    {"SymbolTwice", BREAK(p.symbols[1].name = "batch"),
     "size 'batch': a size needs a name of its own"},
    {"SymbolUnnamed", BREAK(p.symbols.push_back({})), "size '': a size needs a name"},
    {"SymbolZero", BREAK(p.symbols[0].min = 0), "range 0..4..32 is not 1 <= min <= opt <= max"},
    {"SymbolOpt", BREAK(p.symbols[0].opt = 33), "range 1..33..32"},
    {"SymbolUnknown", BREAK(p.symbols[1].name = "length"),
     "size expression mod(seq, 2) uses 'seq', which no input and no step gives"},
    {"TokenCountTwice", BREAK(p.token_counts.push_back({"batch", 0, 0, 1})),
     "size 'batch': a size needs a name of its own"},
    {"TokenCountInput", BREAK(p.token_counts.push_back({"tokens", 9, 0, 1})),
     "counts the tokens of input 9 does not exist"},
    {"TokenCountParts", BREAK(p.token_counts.push_back({"tokens", 0, 0, 0})), "size 'tokens'"},
    {"DataSizeTwice", BREAK(p.data_sizes.push_back({"batch", 2, 0, 1, {}})),
     "size 'batch': a size needs a name of its own"},
    {"DataSizeUnknown", BREAK(p.data_sizes.clear()), "uses 'count', which no input and no step"},
    {"DataSizeStep", BREAK(p.data_sizes[0].step = 3), "is found at step 3 does not exist"},
    {"DataSizeOutput", BREAK(p.data_sizes[0].output = 1), "is a size of output 1, which is not"},
    {"DataSizeAxis", BREAK(p.data_sizes[0].axis = 0), "size 'count': is not axis 0 of"},
    {"DataSizeBound", BREAK(p.data_sizes[0].at_most = {Dim::symbol("n")}), "uses 'n', which no"},
    {"DataSizeOfInput", BREAK(p.values[0].shape[1] = Dim::symbol("count") - 1), "finds it"},
    {"DataSizeInside", BREAK(p.segments = {{0, 3}}), "is in the middle of a segment"},
    {"SegmentBegin", BREAK(p.segments[0].end_step = 1; p.segments[1].first_step = 1),
     "a segment begins at step 1, before which the host finds nothing"},
    {"GuardSymbol", BREAK(p.guards[0].rhs = Dim::symbol("n")), "guard '/attention/Reshape'"},
    {"SegmentGap", BREAK(p.segments[1].first_step = 1), "a segment of steps 1..3 follows step 2"},
    {"SegmentBackwards", BREAK(p.segments[1].end_step = 1), "a segment of steps 2..1"},
    {"SegmentShort", BREAK(p.segments.pop_back()), "its segments end at step 2 of 3"},
    {"SegmentLong", BREAK(p.segments[1].end_step = 4), "its segments end at step 4 of 3"},
    {"InputNames", BREAK(p.input_names.push_back("b")), "1 inputs but 2 names"},
    {"InputIndex", BREAK(p.inputs[0] = 10), "input 'ids': value 10 does not exist (expected 0..9)"},
    {"InputNegative", BREAK(p.inputs[0] = -1), "input 'ids': value -1 does not exist"},
    {"InputUnnamed", BREAK(p.input_names[0] = ""), "input '': needs a name of its own"},
    {"InputKind", BREAK(p.inputs[0] = 1), "input 'ids': value 1 ('table') is not an input"},
    {"InputTwice", BREAK(p.inputs = {0, 0}; p.input_names.push_back("again")),
     "input 'again': value 0 ('ids') is two inputs"},
    {"InputForgotten", BREAK(p.inputs.clear(); p.input_names.clear()),
     "value 0 ('ids'): is an input without a name"},
    {"OutputNames", BREAK(p.output_names.pop_back()), "2 outputs but 1 names"},
    {"OutputTwice", BREAK(p.output_names[1] = "logits"),
     "output 'logits': needs a name of its own"},
    {"OutputIndex", BREAK(p.outputs[1] = 99), "output 'found': value 99 does not exist"},
    {"OutputNeverWritten", BREAK(p.values.push_back(p.values[5]); p.outputs[0] = 10),
     "output 'logits': reads value 10 ('logits') before a step wrote it"},
    {"LedgerKey", BREAK(p.ledger[1].key = "/1"), "ledger row '/1': needs a key of its own"},
    {"LedgerStep", BREAK(p.ledger[0].step = 3), "ledger row '/1': step 3 does not exist"},
};

const std::vector<Rule> kValueRules{
    {"Type", BREAK(p.values[2].dtype = DType::kUndefined), "value 2 (''): elements of type"},
    {"TypeWithoutStorage", BREAK(p.values[3].dtype = DType::kTF32), "elements of type tf32"},
    {"Rank", BREAK(p.values[3].shape.assign(11, 1)), "value 3 ('hidden'): more than 10 dimensions"},
    {"NegativeSize", BREAK(p.values[3].shape[2] = -4), "negative size -4"},
    {"HugeSizeOfNothing", BREAK(p.values[5].shape = {int64_t{1} << 62, 0}), "too many elements"},
    {"HugeSizeOfAView",
     BREAK(p.values[4].shape = {int64_t{1} << 61, 2}; p.values[4].strides = {0, 1};
           p.values[4].offset_elems = 0),
     "shape [2305843009213693952, 2] has a negative size or too many elements"},
    {"HugeSize", BREAK(p.values[5].shape.assign(8, 1 << 20)), "too many elements"},
    {"Symbol", BREAK(p.values[0].shape[0] = Dim::symbol("x")), "uses 'x', which no input"},
    {"StrideSymbol", BREAK(p.values[4].strides[0] = Dim::symbol("x")), "uses 'x'"},
    {"OffsetSymbol", BREAK(p.values[4].offset_elems = Dim::symbol("x")), "uses 'x'"},
    {"ValuesSymbol", BREAK(p.values[2].values[0] = Dim::symbol("x")), "uses 'x'"},
    {"AliasOfNothing", BREAK(p.values[4].alias_of = -1), "aliased value -1 does not exist"},
    {"AliasOutside", BREAK(p.values[4].alias_of = 10), "aliased value 10 does not exist"},
    {"AliasOfItself", BREAK(p.values[4].alias_of = 4),
     "value 4 ('last_token'): is an alias of an alias"},
    {"AliasOfAlias",
     BREAK(p.values[8].kind = Kind::kAlias; p.values[8].constant = -1; p.values[8].alias_of = 4),
     "value 8 ('nothing'): is an alias of an alias"},
    {"AliasType", BREAK(p.values[4].dtype = DType::kF64),
     "value 4 ('last_token'): is an alias with elements of another type: f64 of f32"},
    {"AliasTypeOfTheSameSize", BREAK(p.values[4].dtype = DType::kI32),
     "is an alias with elements of another type: i32 of f32"},
    {"AliasStrides", BREAK(p.values[4].strides.push_back(1)), "has 3 strides for 2 dimensions"},
    {"AliasTooFar",
     BREAK(p.values[4].alias_of = 1; p.values[4].shape = {5, 4}; p.values[4].strides = {4, 1};
           p.values[4].offset_elems = 1),
     "reaches outside the value it is an alias of"},
    {"AliasTooNear",
     BREAK(p.values[4].alias_of = 1; p.values[4].shape = {5, 4}; p.values[4].strides = {4, -1};
           p.values[4].offset_elems = 2),
     "reaches outside the value"},
    {"AliasOverflow",
     BREAK(p.values[4].alias_of = 1; p.values[4].shape = {5, 4};
           p.values[4].strides = {Dim(int64_t{1} << 59) * 8, 1}; p.values[4].offset_elems = 0),
     "reaches outside the value"},
    {"NoAliasWithBase", BREAK(p.values[3].alias_of = 1), "is not an alias but has alias_of"},
    {"NoAliasWithStrides", BREAK(p.values[3].strides = {1, 1, 1}), "is not an alias but has"},
    {"NoAliasWithOffset", BREAK(p.values[3].offset_elems = 1), "is not an alias but has"},
    {"ConstantBlob", BREAK(p.values[1].constant = 5), "blob 5 does not exist (expected 0..4)"},
    {"ConstantNone", BREAK(p.values[1].constant = -1), "blob -1 does not exist"},
    {"ConstantPacked", BREAK(p.values[1].constant = 1), "is a constant of packed bytes"},
    {"ConstantType", BREAK(p.values[1].dtype = DType::kI32), "is i32[5, 4] but its blob f32[5, 4]"},
    {"ConstantShape", BREAK(p.values[1].shape[0] = 6), "is f32[6, 4] but its blob f32[5, 4]"},
    {"ConstantSymbol", BREAK(p.values[1].shape[0] = Dim::symbol("seq")), "is f32[seq, 4] but"},
    {"BlobOfNoConstant", BREAK(p.values[3].constant = 0), "is not a constant but has a blob"},
    {"ShapeValuesCount", BREAK(p.values[2].values.pop_back()), "2 elements for shape [3]"},
    {"ShapeValuesSymbol", BREAK(p.values[2].shape[0] = Dim::symbol("seq")), "for shape [seq]"},
    {"ShapeValuesType", BREAK(p.values[2].dtype = DType::kF32), "shape values of type f32"},
    {"ShapeValuesTooLarge",
     BREAK(p.values[2].dtype = DType::kI32; p.values[2].values[1] = -4294967291),
     "value 2 (''): shape value -4294967291 does not fit i32"},
    {"ShapeValuesElsewhere", BREAK(p.values[3].values = {1}), "has shape values but is none"},
    {"LifetimeNone", BREAK(p.values[3].first_step = -1), "first step -1 does not exist"},
    {"LifetimeOutside", BREAK(p.values[3].last_step = 3), "last step 3 does not exist"},
    {"LifetimeBackwards", BREAK(p.values[3].first_step = 2; p.values[3].last_step = 0),
     "its last step comes before its first"},
    {"LifetimeOfConstant", BREAK(p.values[1].first_step = 0), "has a lifetime but no memory"},
};

const std::vector<Rule> kStepRules{
    {"Kernel", BREAK(p.steps[1].kernel = ""), "step 1 ('/head'): names no kernel"},
    {"AttributesShort", BREAK(p.steps[1].attrs.pop_back()), "attribute bytes are truncated"},
    {"AttributesLong", BREAK(p.steps[2].attrs.resize(8)), "attribute bytes are longer"},
    {"TooFewInputs", BREAK(p.steps[0].inputs.pop_back()), "Gather with 1 inputs and 1 outputs"},
    {"TooManyInputs", BREAK(p.steps[0].inputs.push_back(0)), "Gather with 3 inputs and 1 outputs"},
    {"NoOutput", BREAK(p.steps[0].outputs.clear()), "Gather with 2 inputs and 0 outputs"},
    {"OutputMissing", BREAK(p.steps[0].outputs[0] = -1), "step 0 ('/embed'): lacks output 0"},
    {"OutputMissingOfSeveral",
     BREAK(p.steps[0].op = OpKind::kLayerNorm; p.steps[0].attrs = encode(NormAttrs{});
           p.steps[0].outputs = {-1, 3}),
     "step 0 ('/embed'): lacks output 0"},
    {"AllOutputsMissing",
     BREAK(p.steps[0].op = OpKind::kTopK; p.steps[0].attrs = encode(TopKAttrs{});
           p.steps[0].outputs = {-1}),
     "step 0 ('/embed'): writes no output"},
    {"TooManyOutputs", BREAK(p.steps[0].outputs.push_back(-1)),
     "Gather with 2 inputs and 2 outputs"},
    {"InputIndex", BREAK(p.steps[0].inputs[0] = 10),
     "step 0 ('/embed'): input value 10 does not exist"},
    {"InputNegative", BREAK(p.steps[0].inputs[0] = -2), "input value -2 does not exist"},
    {"OutputIndex", BREAK(p.steps[0].outputs[0] = 10), "output value 10 does not exist"},
    {"InputMissing", BREAK(p.steps[0].inputs[0] = -1), "step 0 ('/embed'): lacks input 0"},
    {"PackedInput", BREAK(p.steps[1].packed[0].input = 3), "packed input 3 does not exist"},
    {"PackedBlob", BREAK(p.steps[1].packed[0].blob = 5), "packed blob 5 does not exist"},
    {"PackedOverInput", BREAK(p.steps[1].packed[0].input = 0), "input 0 is given twice"},
    {"PackedTwice", BREAK(p.steps[1].packed.push_back({1, 1})), "input 1 is given twice"},
    {"WritesConstant", BREAK(p.steps[0].outputs[0] = 1),
     "writes value 1 ('table'), which is not in the arena"},
    {"WritesInput", BREAK(p.steps[0].outputs[0] = 0), "writes value 0 ('ids')"},
    {"WritesAliasOfConstant",
     BREAK(p.values[4].alias_of = 1; p.values[4].shape = {1, 4}; p.values[4].strides.clear();
           p.values[4].offset_elems = 0; p.steps[0].outputs[0] = 4),
     "writes value 4 ('last_token')"},
    {"ReadsBeforeWritten", BREAK(p.steps[0].inputs[1] = 5),
     "reads value 5 ('logits') before a step wrote it"},
    {"ReadsAfterLife", BREAK(p.values[3].last_step = 1),
     "step 2 ('/find'): uses value 3 ('hidden') outside its lifetime, steps 0..1"},
    {"ReadsAliasAfterLife", BREAK(p.values[3].last_step = 0),
     "step 1 ('/head'): uses value 4 ('last_token') outside"},
    {"WritesBeforeLife", BREAK(p.values[5].first_step = 2),
     "uses value 5 ('logits') outside its lifetime"},
};

const std::vector<Rule> kBlobRules{
    {"Type", BREAK(p.blobs[1].dtype = DType::kTF32), "blob 1: elements of type tf32"},
    {"Rank", BREAK(p.blobs[1].shape.assign(11, 1)), "blob 1: more than 10 dimensions"},
    {"NegativeSize", BREAK(p.blobs[1].shape[0] = -1), "negative size"},
    {"PlainSize", BREAK(p.blobs[0].shape[0] = 6), "blob 0: 80 bytes for an array f32[6, 4]"},
    {"PlainType", BREAK(p.blobs[0].dtype = DType::kF64), "blob 0: 80 bytes for an array f64[5, 4]"},
    {"PlainUndefined", BREAK(p.blobs[0].dtype = DType::kUndefined),
     "blob 0: 80 bytes for an array"},
    {"PlainHuge", BREAK(p.blobs[0].shape = {kMaxArrayElems}), "blob 0: 80 bytes for an array"},
    {"PlainOverflow", BREAK(p.blobs[0].shape = {int64_t{1} << 40, int64_t{1} << 40}),
     "blob 0: shape"},
};

std::string rule_name(const ::testing::TestParamInfo<Rule>& info) { return info.param.name; }
const Rule kDerivationRules[] = {
    {"OfALaterRow", [](plan::Plan& p) { p.derivations[2].inputs[0] = 2; },
     "derivation 2: derivation 2 does not exist (expected 0..1)"},
    {"OfNoModel", [](plan::Plan& p) { p.derivations[0].name = ""; },
     "derivation 0: a constant of the model needs a name"},
    {"NumbersThatAreNot", [](plan::Plan& p) { p.derivations[1].numbers.pop_back(); },
     "derivation 1: 3 bytes for 4 numbers"},
    {"NoElements",
     [](plan::Plan& p) {
       p.derivations[1].shape = {4, 0};
     },
     "derivation 1: 4 bytes for 0 numbers"},
    {"NegativeSize", [](plan::Plan& p) { p.derivations[0].shape = {-4}; }, "-4"},
    {"Attributes", [](plan::Plan& p) { p.derivations[2].attrs.resize(3); }, "derivation 2: "},
    {"NoOutput", [](plan::Plan& p) { p.derivations[2].output = 1; },
     "derivation 2: Mul without operands, or without this output"},
    {"OperandsOfNumbers", [](plan::Plan& p) { p.derivations[1].inputs = {0}; },
     "derivation 1: has operands, but no operator"},
    {"OfAConstant", [](plan::Plan& p) { p.values[6].derivation = 3; },
     "derivation 3 does not exist (expected 0..2)"},
    {"OfAnInput", [](plan::Plan& p) { p.values[0].derivation = 0; },
     "is not a constant but has a blob or a derivation"},
    {"OfAPackedInput", [](plan::Plan& p) { p.steps[1].packed[0].derivation = -2; },
     "derivation -2 does not exist"},
};

INSTANTIATE_TEST_SUITE_P(Derivation, Rules, ::testing::ValuesIn(kDerivationRules), rule_name);
INSTANTIATE_TEST_SUITE_P(Plan, Rules, ::testing::ValuesIn(kPlanRules), rule_name);
INSTANTIATE_TEST_SUITE_P(Value, Rules, ::testing::ValuesIn(kValueRules), rule_name);
INSTANTIATE_TEST_SUITE_P(Step, Rules, ::testing::ValuesIn(kStepRules), rule_name);
INSTANTIATE_TEST_SUITE_P(Blob, Rules, ::testing::ValuesIn(kBlobRules), rule_name);

TEST(Rules, WeightsThatDoNotFitTheBlobsAreRefused) {
  const plan::Plan plan = sample_plan();
  for (const auto& [size, expected] : std::vector<std::pair<size_t, const char*>>{
           {64, "blob 0 of 80 bytes ends after the 64 bytes of weights"},
           {1024, "bytes of weights belong to no blob"}}) {
    try {
      read_engine_bytes(
          assemble({encode_plan(plan), encode_ledger(plan), std::vector<std::byte>(size), {}}));
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr(expected));
    }
  }
}

TEST(Rules, ACountThatAStepFindsIsKnownBehindIt) {
  plan::Plan plan = sample_plan();
  plan.values[5].shape[1] = Dim::symbol("count") * 2;  // written by step 1
  EXPECT_THAT(message_of(plan), HasSubstr("uses 'count' before step 2 finds it"));
  plan = sample_plan();
  plan.values[7].shape[0] = Dim::symbol("count") * 2;
  EXPECT_EQ(message_of(plan), "no error");
}

TEST(Rules, TheWriterRefusesWhatTheReaderWould) {
  plan::Plan plan = sample_plan();
  plan.steps[0].outputs[0] = 1;
  try {
    engine_bytes(plan);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInternal);
    EXPECT_THAT(error.what(), HasSubstr("writes value 1 ('table')"));
  }
}

}  // namespace
}  // namespace vernier::engine
