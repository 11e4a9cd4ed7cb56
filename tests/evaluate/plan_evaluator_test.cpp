// F and I of plans written by hand: F ignores numerics, I applies exactly what they declare, noise
// stands for plain f32 sums.
#include "evaluate/plan_evaluator.h"

#include <gtest/gtest.h>

#include <cmath>

#include "backend/cpu/cpu.h"
#include "core/attrs.h"
#include "core/evaluator.h"
#include "core/random.h"

namespace vernier::evaluate {
namespace {

using plan::kNone;
using Kind = plan::PlanValue::Kind;
constexpr int64_t kRows = 8, kDepth = 256, kCols = 32;

Tensor random_array(Shape shape, uint64_t seed, DType values) {
  SplitMix random(seed);
  std::vector<double> drawn;
  for (int64_t i = 0; i < num_elems(shape); ++i) drawn.push_back(round_to(values, random.normal()));
  return Tensor::from(DType::kF32, std::move(shape), std::span<const double>(drawn));
}

plan::PlanValue value(DType dtype, SymShape shape, Kind kind) {
  plan::PlanValue v;
  v.dtype = dtype;
  v.shape = std::move(shape);
  v.kind = kind;
  return v;
}

// y = x·w, one step.
plan::Plan product(const Numerics& numerics, DType stored) {
  plan::Plan p;
  const Tensor w = random_array({kDepth, kCols}, 2, DType::kBF16);
  p.blobs = {{DType::kF32, w.shape(), "", w}};
  p.values = {value(DType::kF32, {kRows, kDepth}, Kind::kInput),
              value(DType::kF32, {kDepth, kCols}, Kind::kConstant),
              value(stored, {kRows, kCols}, Kind::kArena)};
  p.values[1].constant = 0;
  plan::Step step;
  step.op = OpKind::kMatMul;
  step.inputs = {0, 1};
  step.outputs = {2};
  step.numerics = numerics;
  p.steps = {step};
  p.inputs = {0};
  p.outputs = {2};
  return p;
}

Tensor input() { return random_array({kRows, kDepth}, 1, DType::kBF16); }

EvalTensor evaluate(const plan::Plan& plan, const EvaluatorOptions& options) {
  PlanEvaluator evaluator(plan, backend::cpu_backend(), options);
  evaluator.run({input()}, [](size_t, size_t, const EvalTensor&) {});
  return evaluator.value(2);
}
EvalTensor exact(const plan::Plan& plan) { return evaluate(plan, {}); }
EvalTensor ideal(const plan::Plan& plan, uint64_t seed = 0) {
  return evaluate(plan, {.evaluation = Evaluation::kIdeal, .seed = seed});
}

// The product by its evaluator, under `rounding`.
std::vector<double> by_operator(const plan::Plan& plan, const Rounding& rounding) {
  const EvalTensor x = EvalTensor::from(input()), w = EvalTensor::from(plan.blobs[0].bytes);
  const std::vector<const EvalTensor*> in{&x, &w};
  EvalTensor out(DType::kF64, {kRows, kCols});
  evaluator(OpKind::kMatMul)({{}, in, std::span(&out, 1), rounding});
  return out.f;
}

double rms(const std::vector<double>& a, const std::vector<double>& b) {
  double squares = 0;
  for (size_t i = 0; i < a.size(); ++i) squares += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(squares / static_cast<double>(a.size()));
}

Numerics narrow() {
  Numerics n;
  n.store = DType::kF16;
  n.compute = DType::kF8E4M3;
  n.accumulate = DType::kF16;
  n.accumulate_block = 128;
  n.points[0] = n.points[1] = {DType::kF8E4M3};
  n.points[2] = {DType::kF16};
  return n;
}

TEST(Exact, IgnoresNumericsAndStoredTypes) {
  const plan::Plan plan = product(narrow(), DType::kF16);
  EXPECT_EQ(exact(plan).f, by_operator(plan, {}));
}

TEST(Ideal, IsTheOperatorUnderItsDeclaredRoundings) {
  const plan::Plan plan = product(narrow(), DType::kF16);
  Rounding declared;
  declared.set(0, {DType::kF8E4M3});
  declared.set(1, {DType::kF8E4M3});
  declared.set(2, {DType::kF16});
  declared.set_accumulator({DType::kF16, PointRounding::Mode::kNearest, 128});
  EXPECT_EQ(ideal(plan).f, by_operator(plan, declared));
  EXPECT_GT(rms(ideal(plan).f, exact(plan).f), 0.1) << "e4m3 operands show";
  EXPECT_EQ(ideal(plan, 1).f, ideal(plan, 2).f) << "nothing here is statistical";
}

TEST(Ideal, RoundsWhatIsStored) {
  const plan::Plan plan = product({}, DType::kBF16);
  for (double v : ideal(plan).f) EXPECT_EQ(v, round_to(DType::kBF16, v));
}

// √K·2⁻²⁴ on both operands: each product is off by √2 of that, and √K of them by √(2K)·√K·2⁻²⁴.
constexpr double kNoise = 256 * 1.41421356 * kSingleUnit;

TEST(Ideal, TakesNoiseForPlainF32Sums) {
  const plan::Plan plan = product({}, DType::kF32);
  const double noise = rms(ideal(plan).f, exact(plan).f);
  EXPECT_NEAR(noise / kNoise, 1, 0.2);
  EXPECT_EQ(ideal(plan, 3).f, ideal(plan, 3).f);
  EXPECT_NEAR(rms(ideal(plan, 3).f, ideal(plan, 4).f) / noise, std::sqrt(2.0), 0.2)
      << "draws are independent";
}

TEST(Ideal, NoiseIsNotRoundedAwayByNarrowOperands) {
  Numerics numerics;
  numerics.compute = DType::kBF16;  // what x and w hold already
  numerics.points[0] = numerics.points[1] = {DType::kBF16};
  const plan::Plan plan = product(numerics, DType::kF32);
  EXPECT_NEAR(rms(ideal(plan).f, exact(plan).f) / kNoise, 1, 0.2);
}

// A table of which few rows are read is not widened as a whole: rows, negative ids and errors are
// those of the evaluator.
TEST(Exact, ReadsTheRowsOfALargeTable) {
  constexpr int64_t kTableRows = (int64_t{1} << 20) / 8 + 3, kWidth = 8;
  const Tensor table = random_array({kTableRows, kWidth}, 3, DType::kF32);
  plan::Plan p;
  p.blobs = {{DType::kF32, table.shape(), "", table}};
  p.values = {value(DType::kF32, {kTableRows, kWidth}, Kind::kConstant),
              value(DType::kI64, {5}, Kind::kInput), value(DType::kF32, {5, kWidth}, Kind::kArena)};
  p.values[0].constant = 0;
  plan::Step step;
  step.op = OpKind::kGather;
  step.attrs = encode(AxisAttrs{.axis = 0});
  for (const backend::KernelDef& row : backend::cpu_backend().kernels) {
    if (row.op == OpKind::kGather && step.kernel.empty()) step.kernel = row.name;
  }
  step.inputs = {0, 1};
  step.outputs = {2};
  p.steps = {step};
  p.inputs = {1};
  p.outputs = {2};
  const auto gather = [&](const std::vector<int64_t>& ids) {
    PlanEvaluator f(p, backend::cpu_backend());
    f.run({Tensor::from(DType::kI64, {5}, std::span<const int64_t>(ids))},
          [](size_t, size_t, const EvalTensor&) {});
    return f.value(2);
  };
  const std::vector<int64_t> ids{7, kTableRows - 1, -1, 7, -kTableRows};
  const EvalTensor got = gather(ids);
  EXPECT_EQ(got.shape, (Shape{5, kWidth}));
  for (int64_t i = 0; i < 5 * kWidth; ++i) {
    const int64_t id = ids[static_cast<size_t>(i / kWidth)];
    const int64_t row = id < 0 ? id + kTableRows : id;
    EXPECT_EQ(got.f[static_cast<size_t>(i)], table.float_at(row * kWidth + i % kWidth)) << i;
  }
  EXPECT_THROW(gather({0, 1, 2, 3, kTableRows}), Error);
}

TEST(Exact, TakesTheModelsOwnConstants) {
  const plan::Plan plan = product({}, DType::kF32);
  const Tensor ones = Tensor::from(DType::kF32, {kDepth, kCols},
                                   std::span<const double>(std::vector<double>(kDepth * kCols, 1)));
  const auto first = [&](Evaluation evaluation) {
    PlanEvaluator evaluator(plan, backend::cpu_backend(), {.evaluation = evaluation});
    evaluator.set_exact_constant(0, 1, ones);
    evaluator.run({input()}, [](size_t, size_t, const EvalTensor&) {});
    return evaluator.value(2).f[0];
  };
  const EvalTensor x = EvalTensor::from(input());
  double sum = 0;
  for (size_t k = 0; k < kDepth; ++k) sum += x.f[k];
  EXPECT_NEAR(first(Evaluation::kExact), sum, 1e-12);
  EXPECT_EQ(first(Evaluation::kIdeal), ideal(plan).f[0]);
}

TEST(Exact, ShowsThePeaksOfEachStep) {
  const plan::Plan plan = product(narrow(), DType::kF16);
  std::vector<PointPeaks> seen;
  const EvalTensor y = evaluate(plan, {.peaks = [&](size_t step, const PointPeaks& peaks) {
                                  EXPECT_EQ(step, seen.size());
                                  seen.push_back(peaks);
                                }});
  ASSERT_EQ(seen.size(), 1u);
  const auto largest = [](const std::vector<double>& values) {
    double peak = 0;
    for (double v : values) peak = std::max(peak, std::abs(v));
    return peak;
  };
  EXPECT_EQ(seen[0][0], largest(EvalTensor::from(input()).f));
  EXPECT_EQ(seen[0][1], largest(EvalTensor::from(plan.blobs[0].bytes).f));
  EXPECT_EQ(seen[0][2], largest(y.f));
}

}  // namespace
}  // namespace vernier::evaluate
