// Engines that compute tokens, not padding: the same bits as with padding, whatever the mask, in
// every mode and on every device.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <random>

#include "compile/zero_fill.h"
#include "core/token_rows.h"
#include "scenarios/build.h"
#include "scenarios/mask_models.h"
#include "vernier/compile.h"
#include "vernier/packed.h"
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

enum class Rows { kBehind, kFull, kHoles, kNone, kInFront, kBothSides, kMixed };

constexpr std::array kAllRows{Rows::kBehind,  Rows::kFull,      Rows::kHoles, Rows::kNone,
                              Rows::kInFront, Rows::kBothSides, Rows::kMixed};

// A row of a mask with padding of one kind.
std::vector<int64_t> mask_row(Rows kind, int64_t length, std::mt19937& random) {
  const auto tokens = static_cast<int64_t>(1 + random() % static_cast<uint64_t>(length));
  std::vector<int64_t> row;
  for (int64_t s = 0; s < length; ++s) {
    const bool token = kind == Rows::kBehind    ? s < tokens
                       : kind == Rows::kFull    ? true
                       : kind == Rows::kInFront ? s >= length - tokens
                       : kind == Rows::kBothSides
                           ? s >= (length - tokens) / 2 && s < (length - tokens) / 2 + tokens
                       : kind == Rows::kHoles ? random() % 2 == 0
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
    const auto own = kind == Rows::kMixed ? static_cast<Rows>(r % 6) : kind;
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

std::vector<Tensor> answers(Session& session, const NamedTensors& inputs) {
  std::vector<Input> arrays;
  for (const auto& [name, t] : inputs)
    arrays.push_back({name, t.dtype(), t.shape(), t.byte_span().data()});
  std::vector<Tensor> found;
  for (const Output& output : session.run(arrays)) {
    const auto* data = static_cast<const std::byte*>(output.data);
    found.push_back(Tensor::from_bytes(
        output.dtype, Shape(output.shape.begin(), output.shape.end()), {data, output.bytes}));
  }
  return found;
}

bool same_bits(const std::vector<Tensor>& got, const std::vector<Tensor>& expected) {
  return std::ranges::equal(got, expected, [](const Tensor& a, const Tensor& b) {
    return a.shape() == b.shape() && std::ranges::equal(a.byte_span(), b.byte_span());
  });
}
// rms of the difference, as a part of the expected answers' rms.
double difference(const std::vector<Tensor>& got, const std::vector<Tensor>& expected) {
  double error = 0, squares = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    const EvalTensor a = EvalTensor::from(got[i]), b = EvalTensor::from(expected[i]);
    for (size_t e = 0; e < b.f.size(); ++e) {
      error += (a.f[e] - b.f[e]) * (a.f[e] - b.f[e]);
      squares += b.f[e] * b.f[e];
    }
  }
  return std::sqrt(error / squares);
}
double noise_of(std::string_view mode) {
  return mode == "fp32" ? 1e-5 : mode == "fp16" || mode == "tf32" ? 5e-3 : 5e-2;
}

// The bits of the padded engine; where padding lies in front and is left out, its values.
void expect_answers(const plan::Plan& plan, Rows kind, std::string_view mode,
                    const std::vector<Tensor>& got, const std::vector<Tensor>& expected) {
  if (plan.token_counts.at(0).front && kind >= Rows::kInFront) {
    EXPECT_LT(difference(got, expected), noise_of(mode));
  } else {
    EXPECT_TRUE(same_bits(got, expected));
  }
}
std::string about(Rows kind, const Shape& shape) {
  return "rows of kind " + std::to_string(static_cast<int>(kind)) + ", " + str(shape);
}

class Unpadded : public ::testing::TestWithParam<UnpadCase> {};

TEST_P(Unpadded, HasTheBitsOfThePaddedEngine) {
  const auto model = model_named(GetParam().model);
  const plan::Plan with = plan_of(*model, {.mode = GetParam().mode}),
                   without = plan_of(*model, {.mode = GetParam().mode, .passes_off = {"unpad"}});
  ASSERT_TRUE(counts_tokens(with));
  ASSERT_FALSE(counts_tokens(without));
  Session unpadded(engine_of(with), {.threads = 2}), padded(engine_of(without), {.threads = 2});
  for (const Rows kind : kAllRows) {
    for (const Shape& shape :
         {Shape{1, 1}, Shape{1, 7}, Shape{4, 16}, Shape{9, 97}, Shape{33, 40}, Shape{8, 128}}) {
      const NamedTensors inputs = inputs_of(with, kind, shape);
      // Three times: launched, recorded, replayed.
      for (int i = 0; i < 3; ++i) {
        SCOPED_TRACE(about(kind, shape) + ", run " + std::to_string(i));
        expect_answers(with, kind, GetParam().mode, answers(unpadded, inputs),
                       answers(padded, inputs));
      }
    }
  }
}

// Batches of one padded size and other numbers of tokens, in turn.
TEST_P(Unpadded, RowsKeepTheirBitsInEveryCompany) {
  const auto model = model_named(GetParam().model);
  const plan::Plan plan = plan_of(*model, {.mode = GetParam().mode});
  Session session(engine_of(plan), {.threads = 2});
  for (const Rows kind : {Rows::kBehind, Rows::kInFront, Rows::kBothSides}) {
    const NamedTensors alone = inputs_of(plan, kind, {1, 50});
    const Tensor expected = answers(session, alone).at(0);
    for (int64_t rows : {2, 5, 31}) {
      NamedTensors batch = inputs_of(plan, Rows::kMixed, {rows, 50});
      for (size_t i = 0; i < batch.size(); ++i) {
        std::vector<int64_t> values = batch[i].second.integers();
        const std::vector<int64_t> first = alone[i].second.integers();
        std::copy(first.begin(), first.end(), values.begin());
        batch[i].second = integers({rows, 50}, values);
      }
      const Tensor got = answers(session, batch).at(0);
      EXPECT_TRUE(std::ranges::equal(got.byte_span().first(expected.bytes()), expected.byte_span()))
          << about(kind, {rows, 50});
    }
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

// The models of mask_models.h have a small vocabulary.
NamedTensors with_few_ids(NamedTensors inputs) {
  for (auto& [name, tensor] : inputs) {
    if (name != "input_ids") continue;
    std::vector<int64_t> few = tensor.integers();
    for (int64_t& id : few) id %= 40;
    tensor = integers(tensor.shape(), few);
  }
  return inputs;
}

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
    for (const Rows kind : kAllRows) {
      if (kind == Rows::kNone) continue;
      for (const Shape& shape : {Shape{1, 1}, Shape{4, 16}, Shape{9, 97}, Shape{33, 40}}) {
        const NamedTensors inputs = with_few_ids(inputs_of(with, kind, shape));
        for (int i = 0; i < 3; ++i) {
          SCOPED_TRACE(about(kind, shape) + ", " + mode);
          expect_answers(with, kind, mode, answers(unpadded, inputs), answers(padded, inputs));
        }
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
        Family{"deberta",
               [] { return deberta_bytes(DebertaMask::kMaskedFill, DebertaOutput::kFirstToken); }},
        Family{"deberta_of_zeroed_rows",
               [] { return deberta_bytes(DebertaMask::kXSoftmax, DebertaOutput::kFirstToken); }},
        Family{
            "deberta_with_heads_of_64",
            [] { return deberta_bytes(DebertaMask::kMaskedFill, DebertaOutput::kFirstToken, 64); }},
        Family{"last_token_pairs", [] { return last_token_bytes(LastToken::kPairs); }},
        Family{"last_token_gather", [] { return last_token_bytes(LastToken::kGather); }},
        Family{"last_place", [] { return last_token_bytes(LastToken::kLastPlace); }}),
    [](const auto& test) { return std::string(test.param.name); });

// The rows of a batch without their padding in front, each run alone, have the same bits.
TEST(UnpaddedInFront, BitsAreThoseOfRowsWithoutPadding) {
  const std::string bytes = last_token_bytes(LastToken::kLastPlace);
  const auto model = onnx::import_model_bytes(std::as_bytes(std::span(bytes)), {});
  for (const char* mode : {"fp32", "fp16", "bf16"}) {
    const plan::Plan plan = plan_of(*model, {.mode = mode});
    ASSERT_TRUE(plan.token_counts.at(0).front && !plan.token_counts.at(0).behind);
    Session session(engine_of(plan), {.threads = 2});
    const Shape shape{9, 200};
    const NamedTensors inputs = with_few_ids(inputs_of(plan, Rows::kInFront, shape));
    const Tensor all = answers(session, inputs).at(0);
    const std::vector<int64_t> mask = find(inputs, "attention_mask")->integers(),
                               ids = find(inputs, "input_ids")->integers();
    std::vector<int64_t> tokens_of_all, starts{0};
    const size_t row_bytes = all.bytes() / static_cast<size_t>(shape[0]);
    for (int64_t r = 0; r < shape[0]; ++r) {
      const auto tokens = std::ranges::count(
          std::span(mask).subspan(static_cast<size_t>(r * shape[1]), static_cast<size_t>(shape[1])),
          1);
      NamedTensors alone;
      for (const auto& [name, tensor] : inputs) {
        const std::vector<int64_t> values = tensor.integers();
        const auto end = values.begin() + (r + 1) * shape[1];
        alone.emplace_back(name, integers({1, tokens}, {end - tokens, end}));
      }
      const Tensor answer = answers(session, alone).at(0);
      EXPECT_TRUE(
          std::ranges::equal(all.byte_span().subspan(static_cast<size_t>(r) * row_bytes, row_bytes),
                             answer.byte_span()))
          << mode << ", row " << r << " of " << tokens << " tokens";
    }
  }
}

// A table of which few rows are converted, read by ids that a step packs, in types that round it:
// each evaluation of localise numbers its rows by the ids that it takes.
TEST(LocaliseOfTokens, FollowsALargeTable) {
  const std::string bytes = last_token_bytes(LastToken::kLastPlace, 40000);
  const auto model = onnx::import_model_bytes(std::as_bytes(std::span(bytes)), {});
  const plan::Plan plan = plan_of(*model, {.mode = "fp16"});
  ASSERT_TRUE(counts_tokens(plan));
  Request request;
  request.threads = 2;
  request.batches = {4};
  request.lengths = {9};
  request.localise = true;
  const Report report = verify_engine(engine_of(plan), *model, request);
  EXPECT_EQ(report.verdict, Verdict::kPass) << to_text(report);
  ASSERT_TRUE(report.localisation.has_value());
  for (const StepError& step : report.localisation->steps) {
    EXPECT_LT(step.weights_rms, 0.01 * (step.reference_rms + 1)) << step.name;
    EXPECT_LT(step.local_rms, 0.01 * (step.reference_rms + 1)) << step.name;
  }
}

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
  for (const Rows kind : kAllRows) {
    for (const Shape& shape : {Shape{1, 1}, Shape{1, 7}, Shape{4, 16}, Shape{9, 97}}) {
      const NamedTensors inputs = inputs_of(with, kind, shape);
      const Tensor* mask = find(inputs, "attention_mask");
      std::vector<Tensor> expected = answers(padded, inputs);
      for (size_t o = 0; o < expected.size(); ++o) {
        const std::string& name = without.output_names[o];
        if (std::ranges::find(outputs, name, &plan::ZeroFilled::output) != outputs.end())
          expected[o] = zero_padding(expected[o], *mask, 0);
      }
      for (int i = 0; i < 3; ++i) {
        SCOPED_TRACE(about(kind, shape) + ", run " + std::to_string(i));
        expect_answers(with, kind, GetParam().mode, answers(unpadded, inputs), expected);
      }
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
