// Noise on the sums of a Linear against noise on its operands.
#include "verify/noisy_linear.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>

#include "core/attrs.h"
#include "core/evaluator.h"
#include "evaluate/plan_evaluator.h"

namespace vernier::verify {
namespace {

constexpr int64_t kRows = 6, kDepth = 40, kColumns = 24;
constexpr double kSize = 0x1p-24;
constexpr int kDraws = 400;

EvalTensor drawn(Shape shape, uint64_t seed) {
  EvalTensor t(DType::kF32, std::move(shape));
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  for (double& v : t.f) v = normal(random);
  return t;
}

struct Operands {
  EvalTensor x = drawn({kRows, kDepth}, 1), w = drawn({kColumns, kDepth}, 2),
             bias = drawn({kColumns}, 3), residual = drawn({kRows, kColumns}, 4);
  std::vector<const EvalTensor*> in{&x, &w, &bias, &residual};
  AttrBytes attrs = encode(LinearAttrs{.activation = Activation::kGeluErf, .trans_w = true});

  NoisyLinear noisy() const { return {attrs, in, DType::kF32, {kRows, kColumns}}; }
  EvalTensor evaluated(const std::vector<const EvalTensor*>& operands) const {
    std::vector<EvalTensor> out;
    out.emplace_back(DType::kF32, Shape{kRows, kColumns});
    const Rounding exact;
    evaluator(OpKind::kLinear)({attrs, operands, out, exact});
    return std::move(out[0]);
  }
};

// rms over draws and elements of what changes.
double rms(const EvalTensor& exact, const std::function<EvalTensor(int)>& draw) {
  double squares = 0;
  for (int n = 0; n < kDraws; ++n) {
    const EvalTensor y = draw(n);
    for (size_t i = 0; i < y.f.size(); ++i) squares += std::pow(y.f[i] - exact.f[i], 2);
  }
  return std::sqrt(squares / kDraws / static_cast<double>(exact.f.size()));
}

TEST(NoisyLinear, IsTheLinearWithoutNoise) {
  const Operands o;
  EXPECT_EQ(o.noisy().exact().f, o.evaluated(o.in).f);
}

TEST(NoisyLinear, ChangesAsMuchAsWithNoiseOnEachOperand) {
  const Operands o;
  const EvalTensor exact = o.evaluated(o.in);
  const double of_operands = rms(exact, [&](int n) {
    std::vector<EvalTensor> noisy(o.in.size());
    std::vector<const EvalTensor*> in;
    for (size_t i = 0; i < o.in.size(); ++i) {
      evaluate::perturb(*o.in[i], kSize, static_cast<uint64_t>(n) * 64 + i, noisy[i]);
      in.push_back(&noisy[i]);
    }
    return o.evaluated(in);
  });
  const NoisyLinear linear = o.noisy();
  const double of_sums =
      rms(exact, [&](int n) { return linear.draw(kSize, static_cast<uint64_t>(n) * 64); });
  EXPECT_NEAR(of_sums / of_operands, 1, 0.03);
}

TEST(NoisyLinear, NeedsNeitherBiasNorResidual) {
  const Operands o;
  const std::vector<const EvalTensor*> bare{&o.x, &o.w, nullptr};
  const NoisyLinear linear(o.attrs, bare, DType::kF32, {kRows, kColumns});
  EXPECT_EQ(linear.exact().f, o.evaluated(bare).f);
  EXPECT_NE(linear.draw(kSize, 1).f, linear.draw(kSize, 2).f);
  EXPECT_EQ(linear.draw(0, 1).f, linear.exact().f);
}

}  // namespace
}  // namespace vernier::verify
