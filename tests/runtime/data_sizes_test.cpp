// Sizes that steps find in data: engines of several segments on the device under test, against the
// FP64 evaluation of their graph. Contract: runtime/data_sizes.h, docs/engine_format.md.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "engine/validate.h"
#include "ops/evaluate.h"
#include "plan/graphs.h"
#include "runtime/engines.h"
#include "runtime/models.h"
#include "vernier/session.h"

namespace vernier::test {
namespace {

using testing::HasSubstr;

// The positive elements of x·w: how many, where, which, and a sum of their squares that is used
// beside a value of the first segment.
constexpr std::string_view kPositive =
    R"(graph positive(%x: f32[batch, 8]) {
  %w = const f32[8, 16] normal(seed=5, mean=0, std=1)
  %h = Linear(%x, %w)
  %r = Relu(%h)
  %where = NonZero(%r)
  %at = Transpose(%where) {perm=[1, 0]}
  %v = GatherND(%r, %at)
  %s = Mul(%v, %v)
  %sum = ReduceSum(%s) {axes=[0], keepdims=false}
  %y = Add(%h, %sum)
  return %y as "y", %s as "squares", %at as "places"
})";

// Sizes that an input asks for, one node after the other.
constexpr std::string_view kAsked =
    R"(graph asked(%x: f32[n, 4], %sizes: i64[4]) {
  %start = Slice(%sizes, i64[1]{0}, i64[1]{1}, i64[1]{0}, i64[1]{1})
  %end = Slice(%sizes, i64[1]{1}, i64[1]{2}, i64[1]{0}, i64[1]{1})
  %part = Slice(%x, %start, %end, i64[1]{0}, i64[1]{1})
  %both = Slice(%sizes, i64[1]{2}, i64[1]{4}, i64[1]{0}, i64[1]{1})
  %filled = ConstantOfShape(%both) {dtype=f32, value=0.5}
  %twice = Mul(%filled, f32{2})
  %pads = Concat(%start, %end) {axis=0}
  %row = ReduceSum(%part) {axes=[0], keepdims=true}
  %line = Reshape(%row, i64[1]{4})
  %padded = Pad(%line, %pads)
  return %part as "part", %twice as "filled", %padded as "padded"
})";

Arrays in_fp64(std::string_view text, const Arrays& inputs) {
  const ops::Evaluation r = ops::evaluate(*graph_of(text), inputs);
  Arrays outputs;
  for (const auto& [name, value] : r.outputs) outputs[name] = value.to_tensor();
  return outputs;
}

// Floats to 1e-5 of the largest, everything else exactly.
void expect_as_in_fp64(std::string_view text, const Arrays& inputs, const Arrays& got) {
  for (const auto& [name, want] : in_fp64(text, inputs)) {
    const Tensor& y = got.at(name);
    ASSERT_EQ(y.shape(), want.shape()) << name;
    for (int64_t i = 0; i < want.elems(); ++i) {
      if (is_float(want.dtype()))
        ASSERT_NEAR(y.float_at(i), want.float_at(i), 1e-5 * (1 + std::abs(want.float_at(i))))
            << name << " " << i;
      else
        ASSERT_EQ(y.integer_at(i), want.integer_at(i)) << name << " " << i;
    }
  }
}

Arrays positive_inputs(int64_t batch, uint64_t seed) {
  return {{"x", random_f32({batch, 8}, seed)}};
}

TEST(DataSizes, ThePlanHasASegmentForEach) {
  const auto engine = engine_of(kPositive);
  const plan::Plan& plan = engine->impl().plan;
  ASSERT_EQ(plan.data_sizes.size(), 1u);
  const plan::DataSize& size = plan.data_sizes[0];
  EXPECT_EQ(plan.step(size.step).op, OpKind::kNonZero);
  ASSERT_EQ(size.at_most.size(), 1u);
  EXPECT_EQ(size.at_most[0], Dim::symbol("batch") * 16);
  ASSERT_EQ(plan.segments.size(), 2u);
  EXPECT_EQ(plan.segments[1].first_step, size.step);
}

TEST(DataSizes, FollowTheDataOfEachRun) {
  Session session(engine_of(kPositive), {.threads = 2});
  for (uint64_t seed = 1; seed <= 40; ++seed) {  // more than a session remembers
    const Arrays inputs = positive_inputs(1 + static_cast<int64_t>(seed % 5), seed);
    expect_as_in_fp64(kPositive, inputs, run(session, inputs));
  }
}

TEST(DataSizes, MayBeNothing) {
  Session session(engine_of(kPositive), {.threads = 1});
  const Arrays inputs = {{"x", f32({2, 8}, std::vector<double>(16, 0))}};
  const Arrays outputs = run(session, inputs);
  EXPECT_EQ(outputs.at("squares").shape(), (Shape{0}));
  EXPECT_EQ(outputs.at("places").shape(), (Shape{0, 2}));
  EXPECT_EQ(outputs.at("y").float_at(0), 0);
}

TEST(DataSizes, AreTheSameInObservedAndTimedRuns) {
  struct Counter final : RunObserver {
    void before_run(std::span<std::byte> arena) override {
      std::ranges::fill(arena, std::byte{0xa5});
    }
    void before_step(std::span<std::byte> unwritten) override {
      std::ranges::fill(unwritten, std::byte{0x5a});
    }
    void after_step(int32_t step, const backend::LaunchCall& call) override {
      steps.push_back(step);
      for (const backend::TensorArg& out : call.out) EXPECT_GE(out.elems(), 0);
    }
    std::vector<int32_t> steps;
  };
  const auto engine = engine_of(kPositive);
  Session session(engine, {.threads = 1});
  const Arrays inputs = positive_inputs(3, 7);
  const Arrays plain = run(session, inputs);
  Counter counter;
  EXPECT_EQ(difference(run(session, inputs, &counter), plain), "");
  EXPECT_EQ(counter.steps.size(), engine->impl().plan.steps.size());
  EXPECT_EQ(session.impl().time_steps(inputs_of(inputs)).size(), engine->impl().plan.steps.size());
  EXPECT_GE(session.device_milliseconds(inputs_of(inputs), 3), 0);
  EXPECT_EQ(difference(run(session, inputs), plain), "");
}

TEST(DataSizes, FillTheCallersBuffersWhereTheyAreLargeEnough) {
  Session session(engine_of(kPositive), {.threads = 1});
  const Arrays inputs = positive_inputs(2, 3);
  const Arrays plain = run(session, inputs);
  const auto count = static_cast<size_t>(plain.at("squares").elems());
  std::vector<float> squares(count + 1, -7);
  const OutputBuffer enough[] = {{"squares", squares.data(), count * sizeof(float)}};
  session.run(inputs_of(inputs), enough);
  for (size_t i = 0; i < count; ++i)
    EXPECT_EQ(squares[i],
              static_cast<float>(plain.at("squares").float_at(static_cast<int64_t>(i))));
  EXPECT_EQ(squares.back(), -7);
  const OutputBuffer short_one[] = {{"squares", squares.data(), (count - 1) * sizeof(float)}};
  EXPECT_THAT(error_of([&] { session.run(inputs_of(inputs), short_one); }),
              HasSubstr("output 'squares': the buffer has"));
  EXPECT_THAT(error_of([&] { session.output_shapes(inputs_of(inputs)); }),
              HasSubstr("output 'squares': its size nonzero"));
}

Arrays asked_inputs(std::vector<int64_t> sizes, int64_t n = 6) {
  return {{"x", random_f32({n, 4}, 11)}, {"sizes", i64({4}, std::move(sizes))}};
}

TEST(DataSizes, AreWhatAnInputAsksFor) {
  Session session(engine_of(kAsked), {.threads = 1});
  for (const std::vector<int64_t>& sizes : {std::vector<int64_t>{0, 3, 2, 5},
                                            {1, 6, 1, 1},
                                            {2, 2, 0, 4},
                                            {0, 1, 7, 3},
                                            {3, 99, 2, 2}}) {
    const Arrays inputs = asked_inputs(sizes);
    expect_as_in_fp64(kAsked, inputs, run(session, inputs));
  }
}

TEST(DataSizes, ThatCannotBeAreRefused) {
  Session session(engine_of(kAsked), {.threads = 1});
  EXPECT_THAT(error_of([&] { run(session, asked_inputs({0, 1, -1, 4})); }), HasSubstr("shape"));
  const std::string huge = error_of([&] {
    run(session, asked_inputs({0, 1, int64_t{1} << 40, int64_t{1} << 40}));
  });
  EXPECT_THAT(huge, HasSubstr("size expression exceeds"));
  expect_as_in_fp64(kAsked, asked_inputs({0, 3, 2, 5}), run(session, asked_inputs({0, 3, 2, 5})));
}

TEST(DataSizes, AreCheckedInAFile) {
  const auto engine = engine_of(kPositive);
  const plan::Plan& good = engine->impl().plan;
  const auto refusal = [&](const auto& change) {
    plan::Plan plan = good;
    change(plan);
    return error_of([&] { engine::check_plan(plan); });
  };
  EXPECT_THAT(refusal([](plan::Plan& p) { p.data_sizes.clear(); }), HasSubstr("which no input"));
  EXPECT_THAT(refusal([](plan::Plan& p) { p.data_sizes[0].step = 0; }),
              HasSubstr("in the middle of a segment"));
  EXPECT_THAT(refusal([](plan::Plan& p) { p.data_sizes[0].step = -1; }), HasSubstr("step -1"));
  EXPECT_THAT(refusal([](plan::Plan& p) { p.data_sizes[0].output = 3; }), HasSubstr("output 3"));
  EXPECT_THAT(refusal([](plan::Plan& p) { p.data_sizes[0].axis = 0; }), HasSubstr("is not axis 0"));
  EXPECT_THAT(refusal([](plan::Plan& p) {
                p.segments = {{0, static_cast<int32_t>(p.steps.size())}};
              }),
              HasSubstr("in the middle of a segment"));
  EXPECT_THAT(refusal([](plan::Plan& p) {
                p.segments[0].end_step += 1;
                p.segments[1].first_step += 1;
              }),
              HasSubstr("a segment begins at step"));
  EXPECT_THAT(
      refusal([](plan::Plan& p) { p.value(p.inputs[0]).shape[1] = p.data_sizes[0].size(); }),
      HasSubstr("finds it"));
}

}  // namespace
}  // namespace vernier::test
