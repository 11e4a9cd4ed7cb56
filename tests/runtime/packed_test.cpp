// Packed arrays: rows of different lengths give the bits of padded ones, on every device.
#include "vernier/packed.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "core/error.h"
#include "runtime/models.h"
#include "vernier/compile.h"

namespace vernier {
namespace {

const std::vector<int64_t> kStarts{0, 5, 6, 17, 20};
constexpr int64_t kTokens = 20, kRows = 4, kLength = 11;

std::shared_ptr<const Engine> engine_of(const std::string& model, CompileOptions options = {}) {
  const CompileOptions here = test::options_here();
  options.device = here.device;
  return Engine::from_bytes(compile_to_bytes(test::example_model(model).path.string(), options));
}

Tensor integers(Shape shape, const std::vector<int64_t>& values) {
  return Tensor::from(DType::kI64, std::move(shape), std::span<const int64_t>(values));
}

std::vector<int64_t> ids() {
  std::vector<int64_t> values;
  for (int64_t t = 0; t < kTokens; ++t) values.push_back(5 + 37 * t % 400);
  return values;
}
// [T] ⇒ [B, S]
Tensor in_places(const std::vector<int64_t>& tokens, int64_t background) {
  std::vector<int64_t> all(kRows * kLength, background);
  for (size_t row = 0; row < kRows; ++row) {
    for (int64_t s = 0; s < kStarts[row + 1] - kStarts[row]; ++s)
      all[row * kLength + static_cast<size_t>(s)] = tokens[static_cast<size_t>(kStarts[row] + s)];
  }
  return integers({kRows, kLength}, all);
}

NamedTensors run(Session& session, const NamedTensors& arrays) {
  std::vector<Input> inputs;
  for (const auto& [name, t] : arrays) inputs.push_back({name, t.dtype(), t.shape(), t.data()});
  NamedTensors answers;
  for (const Output& o : session.run(inputs)) {
    answers.emplace_back(std::string(o.name),
                         Tensor::from_bytes(o.dtype, Shape(o.shape.begin(), o.shape.end()),
                                            {static_cast<const std::byte*>(o.data), o.bytes}));
  }
  return answers;
}

std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInput);
    return error.what();
  }
  return "no error";
}

bool same(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() &&
         std::ranges::equal(a.byte_span(), b.byte_span());
}

TEST(Packed, RowsOfARerankerHaveTheBitsOfPaddedOnes) {
  Session session(engine_of("bge_reranker_ts17"), {.threads = 2});
  const std::vector<int64_t> ones(kTokens, 1);
  const NamedTensors padded_answers =
      run(session, {{"input_ids", in_places(ids(), 0)}, {"attention_mask", in_places(ones, 0)}});
  const NamedTensors answers = run_packed(
      session,
      {{"input_ids", integers({kTokens}, ids())}, {"attention_mask", integers({kTokens}, ones)}},
      kStarts);
  ASSERT_EQ(answers.size(), 1U);
  EXPECT_TRUE(same(answers[0].second, padded_answers[0].second));
  const NamedTensors without_mask =
      run_packed(session, {{"input_ids", integers({kTokens}, ids())}}, kStarts);
  EXPECT_TRUE(same(without_mask[0].second, answers[0].second)) << "the mask is made";
}

TEST(Packed, AnswersByTokenComePacked) {
  Session session(engine_of("bert_sdpa_dynamo", {.zero_fill = true}), {.threads = 2});
  const Tensor types = integers({kTokens}, std::vector<int64_t>(kTokens, 0));
  const NamedTensors answers = run_packed(
      session, {{"input_ids", integers({kTokens}, ids())}, {"token_type_ids", types}}, kStarts);
  ASSERT_EQ(answers[0].second.shape()[0], kTokens);
  const std::vector<int64_t> ones(kTokens, 1), zeros(kTokens, 0);
  const NamedTensors whole = run(session, {{"input_ids", in_places(ids(), 0)},
                                           {"attention_mask", in_places(ones, 0)},
                                           {"token_type_ids", in_places(zeros, 0)}});
  const size_t width = answers[0].second.bytes() / kTokens;
  for (size_t row = 0; row < kRows; ++row) {
    for (int64_t s = 0; s < kStarts[row + 1] - kStarts[row]; ++s) {
      const auto packed_row = answers[0].second.byte_span().subspan(
          static_cast<size_t>(kStarts[row] + s) * width, width);
      const auto padded_row = whole[0].second.byte_span().subspan(
          (row * kLength + static_cast<size_t>(s)) * width, width);
      EXPECT_TRUE(std::ranges::equal(packed_row, padded_row)) << row << " " << s;
    }
  }
}

TEST(Packed, WhatDoesNotFitIsRefused) {
  Session session(engine_of("bge_reranker_ts17"), {.threads = 1});
  const auto with = [&](NamedTensors arrays, std::vector<int64_t> starts) {
    return error_of([&] { run_packed(session, arrays, starts); });
  };
  const NamedTensors good{{"input_ids", integers({kTokens}, ids())}};
  EXPECT_NE(with(good, {0}).find("got 1 numbers, expected 2 or more"), std::string::npos);
  EXPECT_NE(with(good, {1, 20}).find("begins with 1, expected 0"), std::string::npos);
  EXPECT_NE(with(good, {0, 9, 9, 20}).find("row 1 has 0 tokens"), std::string::npos);
  EXPECT_NE(with(good, {0, 9, 4}).find("row 1 has -5 tokens"), std::string::npos);
  EXPECT_NE(with(good, {0, 19}).find("has shape [20], expected 19 tokens"), std::string::npos);
  EXPECT_NE(with({}, kStarts).find("input 'input_ids' is missing"), std::string::npos);
  EXPECT_NE(with({{"input_idz", good[0].second}}, kStarts).find("no input 'input_idz'"),
            std::string::npos);
  const Tensor narrow = Tensor::from(DType::kI32, {kTokens}, std::span<const int64_t>(ids()));
  EXPECT_NE(with({{"input_ids", narrow}}, kStarts).find("is i32, expected i64"), std::string::npos);
  EXPECT_NE(error_of([] {
              starts_of(Tensor::from_bytes(DType::kF32, {0}, {}));
            }).find("expected a list of integers"),
            std::string::npos);
  Session padded_one(engine_of("bert_sdpa_dynamo"), {.threads = 1});
  EXPECT_NE(error_of([&] { run_packed(padded_one, good, kStarts); }).find("--unpad zero-fill"),
            std::string::npos);
}

}  // namespace
}  // namespace vernier
