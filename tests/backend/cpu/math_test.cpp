// The vector functions of simd/math-inl.h against long double: the bounds of their docstrings,
// on every instruction set, over a dense sweep of inputs; and NaN, infinities and zero.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "backend/cpu/targets.h"
#include "backend/harness.h"

namespace vernier::backend::test {
namespace {

using Exact = long double (*)(long double);

struct Function {
  OpKind op;
  AttrBytes attrs;
  Exact exact;
  float low, high;       // swept
  long double ulps;      // of the result (of the smallest normal number below that) …
  long double absolute;  // … plus this times max(|x|, 1)
};

long double gelu_erf(long double x) { return 0.5L * x * erfcl(-x / sqrtl(2.0L)); }
long double gelu_tanh(long double x) {
  const long double inner =
      sqrtl(2.0L / 3.14159265358979323846264338327950288L) * (x + 0.044715L * x * x * x);
  return 0.5L * x * (1 + tanhl(inner));
}
long double sigmoid(long double x) { return 1 / (1 + expl(-x)); }

std::vector<Function> functions() {
  const AttrBytes erf_kind = encode(GeluAttrs{.kind = GeluKind::kErf});
  const AttrBytes tanh_kind = encode(GeluAttrs{.kind = GeluKind::kTanh});
  return {{OpKind::kExp, {}, &expl, -110, 90, 2, 0},
          {OpKind::kExp, {}, &expl, -1, 1, 2, 0},
          {OpKind::kLog, {}, &logl, 0, 100, 2, 0},
          {OpKind::kLog, {}, &logl, 0.5, 2, 2, 0},
          {OpKind::kLog, {}, &logl, 0, 1e-37f, 2, 0},
          {OpKind::kTanh, {}, &tanhl, -12, 12, 3, 0},
          {OpKind::kTanh, {}, &tanhl, -1, 1, 3, 0},
          {OpKind::kSigmoid, {}, &sigmoid, -80, 80, 4, 0},
          {OpKind::kErf, {}, &erfl, -5, 5, 3, 0},
          {OpKind::kErf, {}, &erfl, -1e-3f, 1e-3f, 3, 0},
          {OpKind::kGelu, erf_kind, &gelu_erf, -10, 10, 0, 2e-7L},
          {OpKind::kGelu, erf_kind, &gelu_erf, -5.6f, 10, 68, 0},  // 4e-6 relative
          {OpKind::kGelu, tanh_kind, &gelu_tanh, -20, 20, 0, 4e-7L}};
}

// Spacing of f32 at |x|, at least that of the smallest normal number.
long double spacing(long double x) {
  const int exponent = x == 0 ? -126 : std::max(ilogbl(x), -126);
  return ldexpl(1.0L, exponent - 23);
}

Tensor f32(const std::vector<float>& values) {
  return Tensor::from_bytes(DType::kF32, {static_cast<int64_t>(values.size())},
                            std::as_bytes(std::span(values)));
}

std::vector<float> apply(OpKind op, const AttrBytes& attrs, const std::vector<float>& x) {
  OpCase c{.op = op, .attrs = attrs};
  c.inputs = {{.value = f32(x)}};
  c.outputs = {{.shape = {static_cast<int64_t>(x.size())}}};
  const std::vector<const KernelDef*> rows = rows_of(c);
  const Tensor y = run_kernel(*rows.at(0), c, {})[0];
  std::vector<float> result(x.size());
  std::memcpy(result.data(), y.data(), y.bytes());
  return result;
}

TEST(CpuMath, FunctionsStayWithinTheirBoundsOnEveryInstructionSet) {
  constexpr int kSteps = 40'000;
  for_each_target([&](const std::string& target) {
    for (const Function& f : functions()) {
      std::vector<float> x;
      for (int i = 1; i <= kSteps; ++i)
        x.push_back(f.low + (f.high - f.low) * static_cast<float>(i) / kSteps);
      const std::vector<float> y = apply(f.op, f.attrs, x);
      long double worst = 0;
      float where = 0;
      for (size_t i = 0; i < x.size(); ++i) {
        const long double exact = f.exact(x[i]);
        if (std::isinf(static_cast<float>(exact)) && y[i] == static_cast<float>(exact)) continue;
        const long double allowed =
            f.ulps * spacing(exact) + f.absolute * std::max(fabsl(x[i]), 1.0L);
        const long double share = fabsl(y[i] - exact) / allowed;
        if (!(share <= worst)) {
          worst = share;
          where = x[i];
        }
      }
      EXPECT_LE(worst, 1.0L) << name(f.op) << " on " << target << " at " << where;
      EXPECT_GT(worst, 0.02L) << name(f.op) << ": the bound says nothing";
    }
  });
}

TEST(CpuMath, SpecialValuesAreThoseOfTheDefinition) {
  const std::vector<float> x{NAN, INFINITY, -INFINITY, 0.0f, -0.0f, 1e-40f, 3e38f, -3e38f};
  for_each_target([&](const std::string& target) {
    for (const Function& f : functions()) {
      const std::vector<float> y = apply(f.op, f.attrs, x);
      for (size_t i = 0; i < x.size(); ++i) {
        const auto exact = static_cast<float>(f.exact(x[i]));
        const bool same = std::isnan(exact)
                              ? std::isnan(y[i])
                              : std::abs(y[i] - exact) <= 1e-6f * std::abs(exact) || y[i] == exact;
        EXPECT_TRUE(same) << name(f.op) << "(" << x[i] << ") = " << y[i] << ", expected " << exact
                          << " on " << target;
      }
    }
  });
}

}  // namespace
}  // namespace vernier::backend::test
