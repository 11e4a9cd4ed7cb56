// What kernels declare of their own error holds: the GELUs of every row, over all exponents of f32.
// Contract: docs/numerics.md "Declared errors".
#include <gtest/gtest.h>

#include <cmath>

#include "runtime/engines.h"

namespace vernier::test {
namespace {

// Values of both signs: where GELU bends, and every exponent of f32 from 2^-40 to 2^40.
std::vector<double> values() {
  std::vector<double> all;
  for (int i = -80'000; i <= 80'000; ++i) all.push_back(i * 1e-4);
  for (int exponent = -40; exponent <= 40; ++exponent) {
    for (int part = 0; part < 64; ++part) {
      const double value = std::ldexp(1 + part / 64.0, exponent);
      all.push_back(value);
      all.push_back(-value);
    }
  }
  return all;
}

double gelu(double x, bool by_tanh) {
  constexpr double kSlope = 0.7978845608028654;  // √(2/π)
  if (by_tanh) return x * 0.5 * (1 + std::tanh(kSlope * (x + 0.044715 * x * x * x)));
  return x * 0.5 * std::erfc(-x * 0.7071067811865476);
}

struct Row {
  const char *text, *kernel;  // the beginning of its name
  bool by_tanh;
};
class Gelus : public ::testing::TestWithParam<Row> {};

TEST_P(Gelus, AreWithinWhatTheyDeclare) {
  const auto engine = engine_of(GetParam().text, "n=1..1000000");
  const plan::Step& step = engine->impl().plan.steps.at(0);
  ASSERT_EQ(engine->impl().plan.steps.size(), 1U);
  EXPECT_TRUE(step.kernel.starts_with(GetParam().kernel)) << step.kernel;
  EXPECT_GT(step.numerics.approximation_abs, 0);
  EXPECT_LE(step.numerics.approximation_abs, 1e-6) << "the least that verify takes on its word";
  const std::vector<double> numbers = values();
  const auto n = static_cast<int64_t>(numbers.size());
  Session session(engine, {.threads = 2});
  const Arrays out = run(session, {{"x", f32({n, 1}, numbers)}});
  double worst = 0;
  for (int64_t i = 0; i < n; ++i) {
    const double x = static_cast<float>(numbers[static_cast<size_t>(i)]);
    const double want = gelu(x, GetParam().by_tanh);
    const double error = std::abs(out.at("y").float_at(i) - want);
    const double declared = step.numerics.approximation_abs +
                            step.numerics.approximation_rel * std::abs(want) +
                            std::ldexp(std::abs(want), -24);  // and one rounding
    ASSERT_LE(error, declared) << "x = " << x;
    worst = std::max(worst, error / declared);
  }
  std::printf("%-24s %5.1f %% of what it declares\n", step.kernel.c_str(), 100 * worst);
  EXPECT_GT(worst, 0.02) << "nothing was measured";
}

INSTANTIATE_TEST_SUITE_P(
    Cpu, Gelus,
    ::testing::Values(
        Row{"graph g(%x: f32[n, 1]) { %y = Gelu(%x) {kind=0} return %y as \"y\" }", "cpu.gelu.loop",
            false},
        Row{"graph g(%x: f32[n, 1]) { %y = Gelu(%x) {kind=1} return %y as \"y\" }", "cpu.gelu.loop",
            true},
        Row{"graph g(%x: f32[n, 1]) { %y = Linear(%x, f32[1, 1]{1}) {activation=1} return %y as "
            "\"y\" }",
            "cpu.linear.", false},
        Row{"graph g(%x: f32[n, 1]) { %y = Linear(%x, f32[1, 1]{1}) {activation=2} return %y as "
            "\"y\" }",
            "cpu.linear.", true}));

}  // namespace
}  // namespace vernier::test
