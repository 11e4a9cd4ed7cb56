// Engines that compute tokens, not padding: the same bits as with padding, whatever the mask, in
// every mode and on every device.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <random>

#include "compile/zero_fill.h"
#include "core/token_rows.h"
#include "scenarios/build.h"
#include "scenarios/mask_models.h"
#include "vernier/compile.h"
#include "vernier/session.h"

namespace vernier::verify::field {
namespace {

struct UnpadCase {
  const char *model, *mode;
};
void PrintTo(const UnpadCase& c, std::ostream* out) { *out << c.model << " " << c.mode; }

bool counts_tokens(const plan::Plan& plan) {
  return std::ranges::any_of(plan.steps,
                             [](const plan::Step& step) { return step.op == OpKind::kTokenIndex; });
}

enum class Rows { kBehind, kFull, kInFront, kHoles, kNone, kMixed };

// A row of a mask with padding of one kind.
std::vector<int64_t> mask_row(Rows kind, int64_t length, std::mt19937& random) {
  const auto tokens = static_cast<int64_t>(1 + random() % static_cast<uint64_t>(length));
  std::vector<int64_t> row;
  for (int64_t s = 0; s < length; ++s) {
    const bool token = kind == Rows::kBehind    ? s < tokens
                       : kind == Rows::kFull    ? true
                       : kind == Rows::kInFront ? s >= length - tokens
                       : kind == Rows::kHoles   ? random() % 2 == 0
                                                : false;
    row.push_back(token ? 1 : 0);
  }
  return row;
}

Tensor integers(const Shape& shape, const std::vector<int64_t>& values) {
  return Tensor::from(DType::kI64, shape, std::span<const int64_t>(values));
}

NamedTensors inputs_of(const plan::Plan& plan, Rows kind, const Shape& shape) {
  std::mt19937 random(static_cast<uint32_t>(shape[0] * 1000 + shape[1]) +
                      static_cast<uint32_t>(kind));
  std::vector<int64_t> mask, ids;
  for (int64_t r = 0; r < shape[0]; ++r) {
    const auto own = kind == Rows::kMixed ? static_cast<Rows>(r % 5) : kind;
    const std::vector<int64_t> row = mask_row(own, shape[1], random);
    mask.insert(mask.end(), row.begin(), row.end());
  }
  for (const int64_t token : mask) ids.push_back(token == 1 ? 5 + random() % 500 : 1);
  NamedTensors inputs;
  for (const std::string& name : plan.input_names) {
    const bool is_mask = name == "attention_mask", is_ids = name == "input_ids";
    const std::vector<int64_t> zeros(mask.size(), 0);
    inputs.emplace_back(name, integers(shape, is_mask ? mask : is_ids ? ids : zeros));
  }
  return inputs;
}

std::vector<std::byte> answers(Session& session, const NamedTensors& inputs) {
  std::vector<Input> arrays;
  for (const auto& [name, t] : inputs)
    arrays.push_back({name, t.dtype(), t.shape(), t.byte_span().data()});
  std::vector<std::byte> bytes;
  for (const Output& output : session.run(arrays)) {
    const auto* data = static_cast<const std::byte*>(output.data);
    const auto count = static_cast<size_t>(num_elems(output.shape)) * size_bytes(output.dtype);
    bytes.insert(bytes.end(), data, data + count);
  }
  return bytes;
}

class Unpadded : public ::testing::TestWithParam<UnpadCase> {};

TEST_P(Unpadded, HasTheBitsOfThePaddedEngine) {
  const auto model = model_named(GetParam().model);
  const plan::Plan with = plan_of(*model, {.mode = GetParam().mode}),
                   without = plan_of(*model, {.mode = GetParam().mode, .passes_off = {"unpad"}});
  ASSERT_TRUE(counts_tokens(with));
  ASSERT_FALSE(counts_tokens(without));
  Session unpadded(engine_of(with), {.threads = 2}), padded(engine_of(without), {.threads = 2});
  for (const Rows kind :
       {Rows::kBehind, Rows::kFull, Rows::kInFront, Rows::kHoles, Rows::kNone, Rows::kMixed}) {
    for (const Shape& shape :
         {Shape{1, 1}, Shape{1, 7}, Shape{4, 16}, Shape{9, 97}, Shape{33, 40}, Shape{8, 128}}) {
      const NamedTensors inputs = inputs_of(with, kind, shape);
      // Three times: launched, recorded, replayed.
      for (int i = 0; i < 3; ++i) {
        EXPECT_TRUE(answers(unpadded, inputs) == answers(padded, inputs))
            << "rows of kind " << static_cast<int>(kind) << ", " << str(shape) << ", run " << i;
      }
    }
  }
}

// Batches of one padded size and other numbers of tokens, in turn.
TEST_P(Unpadded, RowsKeepTheirBitsInEveryCompany) {
  const auto model = model_named(GetParam().model);
  const plan::Plan plan = plan_of(*model, {.mode = GetParam().mode});
  Session session(engine_of(plan), {.threads = 2});
  const NamedTensors alone = inputs_of(plan, Rows::kBehind, {1, 50});
  const std::vector<std::byte> expected = answers(session, alone);
  for (int64_t rows : {2, 5, 31}) {
    NamedTensors batch = inputs_of(plan, Rows::kMixed, {rows, 50});
    for (size_t i = 0; i < batch.size(); ++i) {
      std::vector<int64_t> values = batch[i].second.integers();
      const std::vector<int64_t> first = alone[i].second.integers();
      std::copy(first.begin(), first.end(), values.begin());
      batch[i].second = integers({rows, 50}, values);
    }
    std::vector<std::byte> got = answers(session, batch);
    got.resize(expected.size());
    EXPECT_TRUE(got == expected) << rows << " rows";
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Unpadded,
                         ::testing::Values(UnpadCase{"bge_reranker_ts17", "fp32"},
                                           UnpadCase{"bge_reranker_ts17", "fp16"},
                                           UnpadCase{"bge_reranker_dynamo", "bf16"},
                                           UnpadCase{"bge_reranker_dynamo", "tf32"},
                                           UnpadCase{"bert_embedder_ts17", "fp32"},
                                           UnpadCase{"bert_embedder_ts17", "fp16"},
                                           UnpadCase{"bge_reranker_ts17", "int8"},
                                           UnpadCase{"bge_reranker_ts17", "w8"}),
                         [](const auto& test) {
                           return std::string(test.param.model) + "_" + test.param.mode;
                         });

// What padding reaches stays.
TEST(Unpadded, TokenOutputsStayPadded) {
  const auto model = model_named("bert_sdpa_dynamo");
  const plan::Plan plan = plan_of(*model, {.mode = "fp32"});
  EXPECT_FALSE(counts_tokens(plan));
  const auto is_reason = [](const std::string& note) {
    return note.find("unpadding: 0 of 2 attentions") == 0 &&
           note.find("has the padding, too") != std::string::npos;
  };
  EXPECT_TRUE(std::ranges::any_of(plan.notes, is_reason));
}

// ---- models of other families

struct Family {
  const char* name;
  std::string (*bytes)();
};
void PrintTo(const Family& family, std::ostream* out) { *out << family.name; }

class UnpaddedFamilies : public ::testing::TestWithParam<Family> {};

TEST_P(UnpaddedFamilies, HaveTheBitsOfThePaddedEngineAndPass) {
  const std::string bytes = GetParam().bytes();
  const auto model = onnx::import_model_bytes(std::as_bytes(std::span(bytes)), {});
  for (const char* mode : {"fp32", "fp16"}) {
    const plan::Plan with = plan_of(*model, {.mode = mode}),
                     without = plan_of(*model, {.mode = mode, .passes_off = {"unpad"}});
    const auto says_all = [](const std::string& note) {
      return note.find("unpadding: 2 of 2 attentions") == 0;
    };
    EXPECT_TRUE(std::ranges::any_of(with.notes, says_all)) << ::testing::PrintToString(with.notes);
    ASSERT_TRUE(counts_tokens(with));
    Session unpadded(engine_of(with), {.threads = 2}), padded(engine_of(without), {.threads = 2});
    for (const Rows kind :
         {Rows::kBehind, Rows::kFull, Rows::kInFront, Rows::kHoles, Rows::kMixed}) {
      for (const Shape& shape : {Shape{1, 1}, Shape{4, 16}, Shape{9, 97}, Shape{33, 40}}) {
        NamedTensors inputs = inputs_of(with, kind, shape);
        for (auto& [name, tensor] : inputs) {
          if (name != "input_ids") continue;
          std::vector<int64_t> few = tensor.integers();
          for (int64_t& id : few) id %= 40;
          tensor = integers(shape, few);
        }
        for (int i = 0; i < 3; ++i)
          EXPECT_TRUE(answers(unpadded, inputs) == answers(padded, inputs))
              << mode << ", rows of kind " << static_cast<int>(kind) << ", " << str(shape);
      }
    }
    Request request;
    request.threads = 2;
    const Report report = verify_engine(engine_of(with), *model, request);
    EXPECT_EQ(report.verdict, Verdict::kPass) << mode << "\n" << to_text(report);
    // 1 − mask is exact: no noise of it, times the lowest number of f32, hides what the answers
    // are.
    for (const OutputResult& output : report.outputs) {
      EXPECT_GT(output.noise_rms, 0);
      EXPECT_LT(output.noise_rms, 0.01 * output.all_rms_reference) << mode;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Unpad, UnpaddedFamilies,
    ::testing::Values(
        Family{"mpnet", [] { return relative_bias_bytes(RelativeBias::kMpnet); }},
        Family{"t5", [] { return relative_bias_bytes(RelativeBias::kT5); }},
        Family{"last_token_pairs", [] { return last_token_bytes(LastToken::kPairs); }},
        Family{"last_token_gather", [] { return last_token_bytes(LastToken::kGather); }}),
    [](const auto& test) { return std::string(test.param.name); });

// ---- outputs that are 0 at padding

class ZeroFilled : public ::testing::TestWithParam<UnpadCase> {};

// The answers of the padded engine with 0 in place of what it has at padding.
TEST_P(ZeroFilled, HasTheBitsOfThePaddedEngineAtTokensAndZeroBehindThem) {
  const auto model = model_named(GetParam().model);
  const plan::Plan without = plan_of(*model, {.mode = GetParam().mode, .passes_off = {"unpad"}});
  std::vector<std::string> notes;
  const std::vector<plan::ZeroFilled> outputs = compiler::zero_fillable(*model, notes);
  ASSERT_FALSE(outputs.empty());
  EXPECT_NE(notes.at(0).find("0 at padding"), std::string::npos) << notes.at(0);
  const auto filled = model->clone();
  compiler::zero_fill(*filled, outputs);
  const plan::Plan with = plan_of(*filled, {.mode = GetParam().mode});
  ASSERT_TRUE(counts_tokens(with));
  Session unpadded(engine_of(with), {.threads = 2}), padded(engine_of(without), {.threads = 2});
  for (const Rows kind :
       {Rows::kBehind, Rows::kFull, Rows::kInFront, Rows::kHoles, Rows::kNone, Rows::kMixed}) {
    for (const Shape& shape : {Shape{1, 1}, Shape{1, 7}, Shape{4, 16}, Shape{9, 97}}) {
      const NamedTensors inputs = inputs_of(with, kind, shape);
      const Tensor* mask = find(inputs, "attention_mask");
      std::vector<Input> arrays;
      for (const auto& [name, t] : inputs)
        arrays.push_back({name, t.dtype(), t.shape(), t.byte_span().data()});
      std::vector<std::byte> expected;
      for (const Output& output : padded.run(arrays)) {
        const auto* data = static_cast<const std::byte*>(output.data);
        const auto count = static_cast<size_t>(num_elems(output.shape)) * size_bytes(output.dtype);
        Tensor answer = Tensor::from_bytes(
            output.dtype, Shape(output.shape.begin(), output.shape.end()), {data, count});
        if (std::ranges::find(outputs, output.name, &plan::ZeroFilled::output) != outputs.end())
          answer = zero_padding(answer, *mask, 0);
        expected.insert(expected.end(), answer.byte_span().begin(), answer.byte_span().end());
      }
      for (int i = 0; i < 3; ++i)
        EXPECT_TRUE(answers(unpadded, inputs) == expected)
            << "rows of kind " << static_cast<int>(kind) << ", " << str(shape) << ", run " << i;
    }
  }
}

// The engine's file says what it fills: verify holds the model to the same, and a wrong mask shows.
TEST_P(ZeroFilled, PassesItsVerification) {
  const auto folder =
      std::filesystem::temp_directory_path() / ("vernier_zero_fill." + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  Request request;
  request.model = test::example_model(GetParam().model).path;
  request.engine = folder / "model.vn";
  request.threads = 2;
  request.depth = Depth::kQuick;
  CompileOptions options = options_of({.mode = GetParam().mode});
  options.zero_fill = true;
  compile(request.model.string(), request.engine.string(), options);
  EXPECT_EQ(verify(request).verdict, Verdict::kPass) << to_text(verify(request));
  std::filesystem::remove_all(folder);
}

INSTANTIATE_TEST_SUITE_P(
    Models, ZeroFilled,
    ::testing::Values(UnpadCase{"bert_sdpa_dynamo", "fp32"}, UnpadCase{"bert_sdpa_dynamo", "fp16"},
                      UnpadCase{"bert_ts11", "bf16"}, UnpadCase{"gpt2_ts17", "fp32"},
                      UnpadCase{"gpt2_ts17", "int8"}),
    [](const auto& test) { return std::string(test.param.model) + "_" + test.param.mode; });

TEST(ZeroFilled, AnEngineThatDoesNotFillIsFound) {
  const auto model = model_named("bert_sdpa_dynamo");
  std::vector<std::string> notes;
  plan::Plan plan = plan_of(*model, {.mode = "fp32"});
  const auto filled = model->clone();
  compiler::zero_fill(*filled, compiler::zero_fillable(*model, notes));
  Request request;
  request.threads = 2;
  request.batches = {4};
  request.lengths = {9};
  EXPECT_EQ(verify_engine(engine_of(plan), *filled, request).verdict, Verdict::kRewriteBug);
}

TEST(ZeroFilled, WhatCannotBeFilledIsSaid) {
  std::vector<std::string> notes;
  EXPECT_TRUE(compiler::zero_fillable(*model_named("bge_reranker_ts17"), notes).empty());
  EXPECT_TRUE(compiler::zero_fillable(*model_named("vit_ts17"), notes).empty());
  ASSERT_EQ(notes.size(), 2U);
  EXPECT_NE(notes[0].find("no output of floats has a place"), std::string::npos) << notes[0];
  EXPECT_NE(notes[1].find("no attention has a mask"), std::string::npos) << notes[1];
  try {
    compiler::zero_fill(*model_named("vit_ts17"), {{.output = "output", .mask = "mask"}});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("it is another model"), std::string::npos);
  }
}

}  // namespace
}  // namespace vernier::verify::field
