// Samples of products: every wrong row and column is found, right results pass, in every operator
// that a projection leaves out. Contract: docs/verification_checks.md "Projection".
#include "verify/sampled_products.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <random>

#include "core/attrs.h"
#include "core/evaluator.h"
#include "plants/plants.h"
#include "runtime/backends.h"

namespace vernier::verify {
namespace {

using backend::LaunchCall;
using backend::TensorArg;
using ::testing::HasSubstr;

struct Operand {
  Shape shape;
  double scale = 1;
};
struct Case {
  std::string name;
  OpKind op;
  AttrBytes attrs;
  std::vector<Operand> in;
  Shape out;
};
void PrintTo(const Case& one, std::ostream* out) { *out << one.name; }

std::vector<Case> cases() {
  const AttrBytes none = encode(NoAttrs{});
  return {
      {"gelu",
       OpKind::kLinear,
       encode(LinearAttrs{.activation = Activation::kGeluErf}),
       {{{3, 7, 40}}, {{40, 50}, 0.2}, {{50}}},
       {3, 7, 50}},
      {"tanh_transposed",
       OpKind::kLinear,
       encode(LinearAttrs{.activation = Activation::kTanh, .trans_w = true}),
       {{{9, 40}}, {{50, 40}, 0.2}, {{50}}, {{9, 50}}},
       {9, 50}},
      {"two_computed", OpKind::kMatMul, none, {{{2, 3, 9, 16}}, {{1, 3, 16, 11}}}, {2, 3, 9, 11}},
      {"one_for_all", OpKind::kMatMul, none, {{{4, 9, 16}}, {{16, 11}}}, {4, 9, 11}},
      {"gemm",
       OpKind::kGemm,
       encode(GemmAttrs{.alpha = 0.5, .beta = 2}),
       {{{9, 30}}, {{30, 20}}, {{9, 1}}},
       {9, 20}},
      {"gemm_transposed",
       OpKind::kGemm,
       encode(GemmAttrs{.alpha = 2, .trans_a = true, .trans_b = true}),
       {{{30, 9}}, {{20, 30}}, {{20}}},
       {9, 20}},
      {"linear_add_layer_norm",
       OpKind::kLinearAddLayerNorm,
       encode(LinearNormAttrs{}),
       {{{2, 1, 16}}, {{16, 24}}, {{24}}, {{2, 1, 24}}, {{24}}, {{24}}},
       {2, 1, 24}},
      {"conv",
       OpKind::kConv,
       encode(ConvAttrs{.kernel_shape = {3, 3}}),
       {{{1, 3, 8, 8}}, {{4, 3, 3, 3}}, {{4}}},
       {1, 4, 6, 6}},
      {"einsum",
       OpKind::kEinsum,
       encode(EinsumAttrs{.equation = "bik,bjk->bij"}),
       {{{2, 5, 8}}, {{2, 6, 8}}},
       {2, 5, 6}},
  };
}

// A launch of a case, with the right results until somebody spoils them.
class Launched {
 public:
  explicit Launched(const Case& one) {
    plan::Step& step = plan_.steps.emplace_back();
    step.op = one.op;
    step.attrs = one.attrs;
    step.kernel = "test";
    std::mt19937_64 random(7);
    std::normal_distribution<double> normal;
    std::vector<EvalTensor> values;
    for (const Operand& operand : one.in) {
      EvalTensor t(DType::kF32, operand.shape);
      for (double& v : t.f) v = round_to(DType::kF32, operand.scale * normal(random));
      values.push_back(std::move(t));
    }
    std::vector<const EvalTensor*> in;
    for (const EvalTensor& t : values) in.push_back(&t);
    std::vector<EvalTensor> out;
    out.emplace_back(DType::kF32, one.out);
    evaluator(one.op)({step.attrs, in, out, Rounding{}});
    for (const EvalTensor& t : values) add(t, in_);
    add(out[0], out_);
  }
  float* result() { return out_[0].as<float>(); }
  std::optional<SampledProduct> sample(uint64_t seed = 1) {
    const LaunchCall call{.attrs = plan_.steps[0].attrs,
                          .state = nullptr,
                          .shape_state = nullptr,
                          .in = in_,
                          .out = out_,
                          .workspace = nullptr,
                          .execution = execution_};
    const backend::Backend& cpu = runtime::backend_named("cpu", "a test");
    auto sample = sample_product(plan_, cpu, 0, call, seed);
    if (!sample) return std::nullopt;
    return judged(plan_, cpu, std::move(*sample));
  }

 private:
  void add(const EvalTensor& t, std::vector<TensorArg>& args) {
    std::vector<float>& held = held_.emplace_back(t.f.begin(), t.f.end());
    TensorArg arg;
    arg.data = reinterpret_cast<std::byte*>(held.data());
    arg.dtype = DType::kF32;
    arg.rank = static_cast<int>(t.rank());
    std::ranges::copy(t.shape, arg.shape.begin());
    std::ranges::copy(row_major_strides(t.shape), arg.strides.begin());
    args.push_back(arg);
  }

  plan::Plan plan_;
  std::deque<std::vector<float>> held_;
  std::vector<TensorArg> in_, out_;
  backend::Execution execution_;
};

class Sampled : public ::testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Operators, Sampled, ::testing::ValuesIn(cases()),
                         [](const auto& one) { return one.param.name; });

TEST_P(Sampled, RightResultsPass) {
  Launched launched(GetParam());
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const auto sampled = launched.sample(seed);
    ASSERT_TRUE(sampled.has_value());
    EXPECT_EQ(sampled->why, "") << seed;
    EXPECT_GT(sampled->share, 0);
    EXPECT_LE(sampled->share, 1);
  }
}

// Whatever the seed draws.
TEST_P(Sampled, AWrongColumnIsFound) {
  const int64_t cols = GetParam().out.back();
  int64_t rows = 1;
  for (const int64_t size : GetParam().out) rows *= size;
  rows /= cols;
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    Launched launched(GetParam());
    for (int64_t row = 0; row < rows; ++row)
      launched.result()[row * cols + static_cast<int64_t>(seed) % cols] += 0.01F;
    const auto sampled = launched.sample(seed);
    ASSERT_TRUE(sampled.has_value());
    EXPECT_THAT(sampled->why, HasSubstr("expected")) << seed;
  }
}

TEST_P(Sampled, AWrongRowIsFound) {
  const int64_t cols = GetParam().out.back();
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    Launched launched(GetParam());
    for (int64_t column = 0; column < cols; ++column) launched.result()[column] += 0.01F;
    const auto sampled = launched.sample(seed);
    ASSERT_TRUE(sampled.has_value());
    EXPECT_NE(sampled->why, "") << seed;
  }
}

TEST(Sampled, SaysWhereAndHowMuch) {
  const std::vector<Case> all = cases();
  Launched launched(all[4]);  // 9 × 20
  launched.result()[0] += 1;
  std::string why;
  for (uint64_t seed = 1; seed <= 50 && why.empty(); ++seed) why = launched.sample(seed)->why;
  EXPECT_THAT(why, HasSubstr("row 0, column 0 of its result is "));
  // Four of the 20 places of a row, two of the nine of a column.
  EXPECT_NEAR(launched.sample()->share, 1 - (1 - 4 / 20.0) * (1 - 2 / 9.0), 1e-12);
  EXPECT_GT(launched.sample()->element, 0);
  EXPECT_LT(launched.sample()->element, 1e-4);
}

}  // namespace
}  // namespace vernier::verify
