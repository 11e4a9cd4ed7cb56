// Engines whose checksums are right and whose steps are wrong are refused when they are opened.
// Contract: src/runtime/proof.h.
#include "runtime/proof.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "core/attrs.h"
#include "engine/writer.h"
#include "plan/graphs.h"
#include "runtime/engines.h"

namespace vernier::test {
namespace {

using plan::Plan;
using testing::HasSubstr;

// Linear with a packed weight, a view with gaps that Softmax takes, a look-up.
constexpr const char* kGraph = R"(graph g(%x: f32[batch, 32], %ids: i64[batch, 3]) {
  %w = const f32[32, 48] normal(seed=3, mean=0, std=1)
  %h = Linear(%x, %w)
  %s = Slice(%h) {inline_starts=true, axes=[1], starts=[8], steps=[1], sizes=(6)}
  %p = Softmax(%s) {axis=-1}
  %g = GatherElements(%p, %ids) {axis=1}
  return %p as "p", %g as "g"
})";

Plan sound_plan() { return cpu_plan(*graph_of(kGraph)); }

size_t step_of(const Plan& plan, OpKind op) {
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    if (plan.steps[s].op == op) return s;
  }
  ADD_FAILURE() << "no step " << name(op);
  return 0;
}
plan::Step& step(Plan& plan, OpKind op) { return plan.steps[step_of(plan, op)]; }
plan::PlanValue& output(Plan& plan, OpKind op) {
  return plan.values[static_cast<size_t>(step(plan, op).outputs[0])];
}
plan::Blob& weight(Plan& plan) {
  return plan.blobs[static_cast<size_t>(step(plan, OpKind::kLinear).packed.at(0).blob)];
}
plan::Blob resized(plan::Blob blob, int64_t bytes) {
  blob.bytes = Tensor::from_bytes(DType::kU8, {bytes},
                                  std::vector<std::byte>(static_cast<size_t>(bytes), std::byte{}));
  return blob;
}

void swap_operands(Plan& plan) {
  std::vector<int32_t>& in = step(plan, OpKind::kGatherElements).inputs;
  std::swap(in[0], in[1]);
}
void leave_the_weight_plain(Plan& plan) {
  weight(plan).layout = "";
  weight(plan).bytes = random_f32({32, 48}, 3);
}
// GatherElements reads a view of Softmax's result with gaps.
void read_every_second_column(Plan& plan) {
  plan::PlanValue view = output(plan, OpKind::kSoftmax);
  view.kind = plan::PlanValue::Kind::kAlias;
  view.first_step = view.last_step = plan::kNone;
  view.alias_of = step(plan, OpKind::kSoftmax).outputs[0];
  view.shape[1] = 3;
  view.strides = {6, 2};
  plan.values.push_back(std::move(view));
  step(plan, OpKind::kGatherElements).inputs[0] = static_cast<int32_t>(plan.values.size() - 1);
}

struct Change {
  const char* name;
  std::function<void(Plan&)> make;
  const char* expected;
};
void PrintTo(const Change& change, std::ostream* out) { *out << change.name; }

class Proof : public ::testing::TestWithParam<Change> {};

TEST_P(Proof, AChangedStepIsRefused) {
  Plan plan = sound_plan();
  ASSERT_NO_THROW(Engine::from_bytes(engine::engine_bytes(plan)));
  GetParam().make(plan);
  const std::string message =
      error_of([&] { Engine::from_bytes(engine::engine_bytes(plan)); }, ErrorCode::kInput);
  EXPECT_THAT(message, HasSubstr(GetParam().expected));
  EXPECT_THAT(message, HasSubstr("build the engine again"));
}

#define CHANGE(...) [](Plan& p) { __VA_ARGS__; }

INSTANTIATE_TEST_SUITE_P(
    Steps, Proof,
    ::testing::Values(
        Change{"OutputSize", CHANGE(output(p, OpKind::kLinear).shape[1] = 64),
               "its rule gives f32[batch, 48]"},
        Change{"OutputRank", CHANGE(output(p, OpKind::kGatherElements).shape.push_back(1)),
               "its rule gives f32[batch, 3]"},
        Change{"OutputType", CHANGE(output(p, OpKind::kSoftmax).dtype = DType::kI32),
               "output 0 is i32[batch, 6], its rule gives f32[batch, 6]"},
        Change{"Axis", CHANGE(step(p, OpKind::kSoftmax).attrs = encode(AxisAttrs{.axis = 7})),
               "axis 7 is outside [-2, 2)"},
        Change{"Operands", &swap_operands, "GatherElements"},
        Change{"WeightLonger", CHANGE(weight(p) = resized(weight(p), 1 << 20)),
               "which kernel cpu.linear."},
        Change{"WeightShorter", CHANGE(weight(p) = resized(weight(p), 64)),
               "which kernel cpu.linear."},
        Change{"WeightLayout", CHANGE(weight(p).layout = "panels64 f32 K=48 N=32"),
               "holds a weight packed as 'panels64 f32 K=48 N=32'"},
        Change{"WeightSizes", CHANGE(weight(p).shape = {64, 48}), "inner sizes differ"},
        Change{"WeightRank", CHANGE(weight(p).shape = {32 * 48}), "expected rank 2"},
        Change{"WeightScalar", CHANGE(weight(p).shape = {}), "expected rank 2"},
        Change{"WeightOfNobody", &leave_the_weight_plain, "holds a weight packed as ''"},
        Change{"KernelOfOtherTypes",
               CHANGE(step(p, OpKind::kGatherElements).kernel = "cpu.gather_elements.nothing"),
               "which this version of Vernier does not have"},
        Change{"Asked",
               CHANGE(step(p, OpKind::kSoftmax).asked.compute = TypeRequest{DType::kF64, true}),
               "the kernel computes in f32"},
        Change{"Numerics", CHANGE(step(p, OpKind::kSoftmax).numerics.accumulate = DType::kF16),
               "records other numerics than its kernel has"},
        Change{"Gaps", &read_every_second_column, "has gaps, which the kernel does not take"}),
    [](const auto& param) { return param.param.name; });

// What the file's guards do not say is asked of every shape all the same.
TEST(ProofGuards, AreHeldToAtRunTime) {
  Plan plan = cpu_plan(*graph_of(R"(graph g(%x: f32[batch, 6], %y: f32[rows, 4]) {
    %a = Reshape(%x) {has_shape=true, shape=(-1)}
    %b = Reshape(%y) {has_shape=true, shape=(-1)}
    %s = Add(%a, %b)
    return %s as "s"
  })"));
  ASSERT_EQ(plan.guards.size(), 1u);
  plan.guards.clear();
  Session session(Engine::from_bytes(engine::engine_bytes(plan)), {.threads = 1});
  const Arrays fits{{"x", random_f32({2, 6}, 5)}, {"y", random_f32({3, 4}, 6)}};
  EXPECT_EQ(run(session, fits).at("s").shape(), (Shape{12}));
  const Arrays wrong{{"x", random_f32({2, 6}, 5)}, {"y", random_f32({30, 4}, 6)}};
  EXPECT_THAT(error_of([&] { run(session, wrong); }, ErrorCode::kInput),
              HasSubstr("inputs of sizes batch=2, rows=30 do not fit the model"));
}

// ---- contents of integers

// A size expression does not wrap, a kernel's i32 does.
TEST(ProofContents, OfAStepStayInTheirType) {
  Session session(
      Engine::from_bytes(engine::engine_bytes(cpu_plan(*graph_of(R"(graph g(%x: f32[batch, 3]) {
    %s = Shape(%x)
    %i = Cast(%s) {to=i32}
    %y = Mul(%i, i32[2]{1073741824, 1})
    return %y as "y"
  })")))),
      {.threads = 1});
  EXPECT_EQ(run(session, {{"x", random_f32({1, 3}, 5)}}).at("y").integers(),
            (std::vector<int64_t>{1073741824, 3}));
  EXPECT_THAT(error_of([&] {
                run(session, {{"x", random_f32({2, 3}, 5)}});
              }),
              HasSubstr("1073741824*batch = 2147483648 must be at most 2147483647"));
}

// What leaves 64 bits as an expression has wrapped as a number of the kernel's.
TEST(ProofContents, OfAStepStayIn64Bits) {
  Session session(
      Engine::from_bytes(engine::engine_bytes(cpu_plan(*graph_of(R"(graph g(%x: f32[batch, 3]) {
    %s = Shape(%x)
    %a = Mul(%s, i64[2]{2147483647, 1})
    %y = Mul(%a, i64[2]{2147483647, 1})
    return %y as "y"
  })")))),
      {.threads = 1});
  EXPECT_NO_THROW(run(session, {{"x", random_f32({2, 3}, 5)}}));
  EXPECT_THAT(error_of([&] {
                run(session, {{"x", random_f32({3, 3}, 5)}});
              }),
              HasSubstr("does not fit 64 bits"));
}

TEST(ProofContents, OfShapeValuesStayInTheirType) {
  Plan plan = sound_plan();
  plan::PlanValue value;
  value.name = "counts";
  value.kind = plan::PlanValue::Kind::kShapeValues;
  value.dtype = DType::kI32;
  value.shape = {1};
  value.values = {Dim::symbol("batch") * Dim(int64_t{1} << 30)};
  plan.values.push_back(value);
  Session session(Engine::from_bytes(engine::engine_bytes(plan)), {.threads = 1});
  const auto arrays = [](int64_t batch) {
    const std::vector<int64_t> ids(static_cast<size_t>(batch * 3), 0);
    return Arrays{{"x", random_f32({batch, 32}, 5)}, {"ids", i64({batch, 3}, ids)}};
  };
  EXPECT_NO_THROW(run(session, arrays(1)));
  EXPECT_THAT(error_of([&] { run(session, arrays(2)); }),
              HasSubstr("value 'counts' would be 2147483648, which does not fit i32"));
}

// ---- the rest

// A packed weight in the place of another operand: [32, 48] numbers are no [64, 48] residual.
TEST(ProofPacked, OnlyWhatTheKernelPacksIsUnpacked) {
  Plan plan = cpu_plan(*graph_of(R"(graph g(%x: f32[64, 32]) {
    %w = const f32[32, 48] normal(seed=3, mean=0, std=1)
    %r = const f32[64, 48] normal(seed=4, mean=0, std=1)
    %y = Linear(%x, %w, _, %r)
    return %y as "y"
  })"));
  ASSERT_NO_THROW(Engine::from_bytes(engine::engine_bytes(plan)));
  plan::Blob residual = weight(plan);
  residual.shape = {64, 48};
  plan::Step& linear = step(plan, OpKind::kLinear);
  linear.inputs.at(3) = plan::kNone;
  linear.packed.push_back({3, static_cast<int32_t>(plan.blobs.size())});
  plan.blobs.push_back(residual);
  EXPECT_THAT(error_of([&] { Engine::from_bytes(engine::engine_bytes(plan)); }),
              testing::AllOf(HasSubstr("(input 3, f32[64, 48]) holds a weight packed as"),
                             HasSubstr("build the engine again")));
}

TEST(ProofLimits, AreAskedBetweenSteps) {
  int asked = 0;
  Limits limits;
  limits.stop = [&] { return ++asked == 2; };
  const Plan plan = sound_plan();
  EXPECT_THAT(error_of([&] { runtime::prove_shapes(plan, Watch(limits)); }, ErrorCode::kMachine),
              HasSubstr("stopped while proving the engine's step '" + plan.steps.at(1).name + "'"));
}

// The product of all default maxima is no number of 64 bits; no run is of such sizes.
TEST(ProofPorts, MayBeOfMoreElementsThanThereAreNumbers) {
  const auto engine = Engine::from_bytes(
      engine::engine_bytes(cpu_plan(*graph_of(R"(graph g(%x: f32[a, b, c, d, e, f, g, h]) {
    %y = Flatten(%x) {axis=0}
    return %y as "y"
  })"))));
  ASSERT_EQ(engine->outputs().at(0).dims.size(), 2u);
  EXPECT_EQ(engine->outputs()[0].dims[1].max, INT64_MAX);
  Session session(engine, {.threads = 1});
  EXPECT_EQ(run(session, {{"x", random_f32({1, 2, 1, 3, 1, 1, 2, 1}, 5)}}).at("y").shape(),
            (Shape{1, 12}));
}

// Rules see floats as computed in f32, but bits are those of the stored type.
TEST(ProofTypes, BitCastReadsAnF64) {
  Session session(
      Engine::from_bytes(engine::engine_bytes(cpu_plan(*graph_of(R"(graph g(%x: f64[2]) {
    %y = BitCast(%x) {from=f64, to=i64}
    return %y as "y"
  })")))),
      {.threads = 1});
  const std::vector<double> x{1, 1.0 / 3};
  const Tensor y =
      run(session, {{"x", Tensor::from(DType::kF64, {2}, std::span<const double>(x))}}).at("y");
  EXPECT_EQ(y.integers(), (std::vector<int64_t>{4607182418800017408, 4599676419421066581}));
}

// Nothing is launched for results without elements, unless a kernel has values to check.
TEST(EmptySteps, AreNotLaunched) {
  Session session(Engine::from_bytes(
                      engine::engine_bytes(cpu_plan(*graph_of(R"(graph g(%x: f32[2], %ids: i64[n]) {
    %y = Abs(%x)
    %t = GatherND(f32[0]{}, i64[1099511627776, 0]{})
    %g = Gather(f32[4, 0]{}, %ids) {axis=0}
    return %y as "y", %t as "t", %g as "g"
  })")))),
                  {.threads = 1});
  const Arrays outputs = run(session, {{"x", random_f32({2}, 5)}, {"ids", i64({2}, {3, 0})}});
  EXPECT_EQ(outputs.at("t").shape(), (Shape{int64_t{1} << 40, 0}));
  const Session::Impl& impl = session.impl();
  for (size_t s = 0; s < impl.parts.plan.steps.size(); ++s) {
    const bool expected = impl.parts.plan.steps[s].op == OpKind::kGatherND;
    EXPECT_EQ(impl.shapes.back()->steps[s].empty, expected) << impl.parts.plan.steps[s].name;
  }
}

}  // namespace
}  // namespace vernier::test
