// I against kernels of low precision: each is written here in plain loops, in another order than
// the evaluators', and I must predict its rms against FP64 within 10 % — which an I that only casts
// node outputs must not (design "Verify").
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "ops/eval_node.h"

namespace vernier::test {
namespace {

using Mode = PointRounding::Mode;
using Scale = PointRounding::Scale;
constexpr double kClose = 0.1;

// A format of the tests' own: numbers with so many bits after the point.
struct Format {
  DType type;
  int mantissa_bits, min_exponent;
};
constexpr Format kF16{DType::kF16, 10, -14};
constexpr Format kBF16{DType::kBF16, 7, -126};
constexpr Format kTF32{DType::kTF32, 10, -126};
constexpr Format kE4M3{DType::kF8E4M3, 3, -6};

float spacing_at(const Format& format, float x) {
  const int exponent = std::max(x == 0 ? format.min_exponent : std::ilogb(x), format.min_exponent);
  return std::ldexp(1.0f, exponent - format.mantissa_bits);
}
float nearest(const Format& format, float x) {
  const float spacing = spacing_at(format, x);
  return std::nearbyint(x / spacing) * spacing;
}
float truncated(const Format& format, float x) {
  const float spacing = spacing_at(format, x);
  return std::trunc(x / spacing) * spacing;
}

double rms(const std::vector<double>& a, const std::vector<double>& b) {
  double squares = 0;
  for (size_t i = 0; i < a.size(); ++i) squares += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(squares / static_cast<double>(a.size()));
}

struct Errors {
  double kernel, ideal;
};
void expect_predicted(const Errors& rms) {
  EXPECT_GT(rms.kernel, 0);
  EXPECT_NEAR(rms.ideal / rms.kernel, 1, kClose) << "kernel " << rms.kernel << " I " << rms.ideal;
}
void expect_missed(const Errors& rms) {
  EXPECT_GT(std::abs(rms.ideal / rms.kernel - 1), kClose)
      << "kernel " << rms.kernel << " I " << rms.ideal;
}

// ---- matrix products -------------------------------------------------------------------------

constexpr int64_t kM = 16, kN = 64, kK = 4096;

// What one element's sum over k does: products(k) in descending k.
using Summation = std::function<float(const std::function<float(int64_t)>& product)>;

std::vector<double> matmul_kernel(const EvalTensor& a, const EvalTensor& b, const Format& out,
                                  const Summation& summation) {
  std::vector<double> y;
  for (int64_t i = 0; i < kM; ++i) {
    for (int64_t j = 0; j < kN; ++j) {
      const float sum = summation([&](int64_t k) {
        const auto left = static_cast<float>(a.f[static_cast<size_t>(i * kK + k)]);
        return left * static_cast<float>(b.f[static_cast<size_t>(k * kN + j)]);
      });
      y.push_back(nearest(out, sum));
    }
  }
  return y;
}

EvalTensor random_values(Shape shape, uint64_t seed, const Format& format, double size = 1) {
  EvalTensor t = random_tensor(std::move(shape), seed);
  for (double& v : t.f) v = nearest(format, static_cast<float>(v * size));
  return t;
}

// Promotes a narrow sum to f32 every `block` products.
Summation promoted(int64_t block, const std::function<float(float)>& narrow) {
  return [=](const auto& product) {
    float total = 0;
    for (int64_t end = kK; end > 0; end -= block) {
      float partial = 0;
      for (int64_t k = end - 1; k >= end - block; --k) partial = narrow(partial + product(k));
      total += partial;
    }
    return total;
  };
}

TEST(Ideal, PredictsAProductThatAccumulatesInBf16) {
  const EvalTensor a = random_values({kM, kK}, 1, kBF16), b = random_values({kK, kN}, 2, kBF16);
  const std::vector<double> exact = eval_node(OpKind::kMatMul, "", {a, b}).f;
  const std::vector<double> kernel =
      matmul_kernel(a, b, kBF16, promoted(kK, [](float v) { return nearest(kBF16, v); }));
  Rounding cast;
  cast.set(2, {DType::kBF16});
  Rounding ideal = cast;
  ideal.set_accumulator({DType::kBF16});
  const double error = rms(kernel, exact);
  expect_predicted({error, rms(eval_node(OpKind::kMatMul, "", {a, b}, ideal).f, exact)});
  expect_missed({error, rms(eval_node(OpKind::kMatMul, "", {a, b}, cast).f, exact)});
}

struct Promotion {
  std::string name;
  Format accumulator;
  Mode mode;
};
class PromotedEvery128 : public ::testing::TestWithParam<Promotion> {};

TEST_P(PromotedEvery128, IsPredicted) {
  const Format format = GetParam().accumulator;
  const Mode mode = GetParam().mode;
  const EvalTensor a = random_values({kM, kK}, 3, kE4M3), b = random_values({kK, kN}, 4, kE4M3);
  const std::vector<double> exact = eval_node(OpKind::kMatMul, "", {a, b}).f;
  const auto narrow = [&](float v) {
    return mode == Mode::kNearest ? nearest(format, v) : truncated(format, v);
  };
  const double error = rms(matmul_kernel(a, b, kF16, promoted(128, narrow)), exact);
  const auto ideal_error = [&](const PointRounding& accumulator) {
    Rounding rounding;
    rounding.set(2, {DType::kF16});
    rounding.set_accumulator(accumulator);
    return rms(eval_node(OpKind::kMatMul, "", {a, b}, rounding).f, exact);
  };
  expect_predicted({error, ideal_error({format.type, mode, 128})});
  expect_missed({error, ideal_error({})});                         // the output only
  expect_missed({error, ideal_error({format.type, mode})});        // never promoted
  expect_missed({error, ideal_error({format.type, mode, 1024})});  // promoted too late
}
INSTANTIATE_TEST_SUITE_P(Ideal, PromotedEvery128,
                         ::testing::Values(Promotion{"f16", kF16, Mode::kNearest},
                                           Promotion{"tf32_truncating", kTF32, Mode::kTruncate}),
                         [](const auto& row) { return row.param.name; });

// ---- flash attention -------------------------------------------------------------------------

constexpr int64_t kQueries = 64, kKeys = 256, kWidth = 64, kKeyBlock = 32;
constexpr float kScoreScale = 0.125f;

struct Tensors {
  EvalTensor q, k, v;
};

float dot(const double* a, const double* b) {
  float sum = 0;
  for (int64_t d = kWidth; d-- > 0;) sum += static_cast<float>(a[d]) * static_cast<float>(b[d]);
  return sum;
}

// One query by blocks of keys: a running maximum, probabilities relative to it in `format`, their
// sum (of the rounded ones if `sums_rounded`) and the context in f32, divided at the end.
void flash_row(const Tensors& in, int64_t query, const Format& format, bool sums_rounded,
               std::vector<double>& out) {
  std::vector<float> context(kWidth, 0);
  float top = -HUGE_VALF, sum = 0;
  for (int64_t begin = 0; begin < kKeys; begin += kKeyBlock) {
    std::vector<float> scores;
    for (int64_t key = begin; key < begin + kKeyBlock; ++key)
      scores.push_back(kScoreScale * dot(&in.q.f[static_cast<size_t>(query * kWidth)],
                                         &in.k.f[static_cast<size_t>(key * kWidth)]));
    const float before = top;
    for (float s : scores) top = std::max(top, s);
    const float rescale = std::exp(before - top);
    sum *= rescale;
    for (float& c : context) c *= rescale;
    for (size_t n = 0; n < scores.size(); ++n) {
      const float p = std::exp(scores[n] - top), rounded_p = nearest(format, p);
      sum += sums_rounded ? rounded_p : p;
      const double* v = &in.v.f[(static_cast<size_t>(begin) + n) * kWidth];
      for (size_t d = 0; d < kWidth; ++d) context[d] += rounded_p * static_cast<float>(v[d]);
    }
  }
  for (float c : context) out.push_back(nearest(format, c / sum));
}

struct Flash {
  std::string name;
  Format format;
  double spread;  // of the scores: the larger, the fewer keys count
  Scale scale = Scale::kUnnormalised;
};
class FlashAttention : public ::testing::TestWithParam<Flash> {};

TEST_P(FlashAttention, IsPredicted) {
  const Flash& row = GetParam();
  const Shape queries{1, kQueries, 1, kWidth}, keys{1, kKeys, 1, kWidth};
  const Tensors in{random_values(queries, 5, row.format, row.spread),
                   random_values(keys, 6, row.format), random_values(keys, 7, row.format)};
  std::vector<double> kernel;
  for (int64_t i = 0; i < kQueries; ++i)
    flash_row(in, i, row.format, row.scale == Scale::kUnnormalisedRoundedSum, kernel);
  const auto attention = [&](const Rounding& rounding) {
    return eval_node(OpKind::kAttention, "{scale=0.125}", {in.q, in.k, in.v}, rounding).f;
  };
  const std::vector<double> exact = attention({});
  const double error = rms(kernel, exact);
  Rounding cast;
  cast.set(6, {row.format.type});
  Rounding ideal = cast;
  ideal.set(4, {row.format.type, Mode::kNearest, 0, row.scale});
  expect_predicted({error, rms(attention(ideal), exact)});
  expect_missed({error, rms(attention(cast), exact)});
}
INSTANTIATE_TEST_SUITE_P(
    Ideal, FlashAttention,
    ::testing::Values(Flash{"bf16", kBF16, 4}, Flash{"f16", kF16, 4},
                      Flash{"bf16_even", kBF16, 0.5}, Flash{"bf16_uneven", kBF16, 6},
                      Flash{"bf16_rounded_sum", kBF16, 4, Scale::kUnnormalisedRoundedSum}),
    [](const auto& row) { return row.param.name; });

// Where few keys count, the largest probability is 1 and exact when it is not normalized: an I that
// rounds normalized probabilities expects another error.
TEST(Ideal, NormalisedProbabilitiesAreAnotherError) {
  const Flash row{"", kBF16, 24};
  const Shape queries{1, kQueries, 1, kWidth}, keys{1, kKeys, 1, kWidth};
  const Tensors in{random_values(queries, 8, row.format, row.spread),
                   random_values(keys, 9, row.format), random_values(keys, 10, row.format)};
  const auto error = [&](Scale scale) {
    Rounding rounding;
    rounding.set(4, {DType::kBF16, Mode::kNearest, 0, scale});
    const auto y = [&](const Rounding& r) {
      return eval_node(OpKind::kAttention, "{scale=0.125}", {in.q, in.k, in.v}, r).f;
    };
    return rms(y(rounding), y({}));
  };
  expect_missed({error(Scale::kUnnormalised), error(Scale::kNormalised)});
}

// A kernel rounds a key's probability against the largest score up to its block's end, another
// number than against the largest of all: where the size of a block is given, I has the kernel's
// own bits, except where f32's noise moves a probability over a tie.
TEST(Ideal, ProbabilitiesAreRoundedAgainstTheLargestScoreSoFar) {
  for (const Format& format : {kBF16, kF16}) {
    for (const double spread : {0.5, 4.0, 12.0}) {
      const Shape queries{1, kQueries, 1, kWidth}, keys{1, kKeys, 1, kWidth};
      const Tensors in{random_values(queries, 11, format, spread), random_values(keys, 12, format),
                       random_values(keys, 13, format)};
      std::vector<double> kernel;
      for (int64_t i = 0; i < kQueries; ++i) flash_row(in, i, format, false, kernel);
      const auto differing = [&](int64_t block) {
        Rounding rounding;
        rounding.set(4, {format.type, Mode::kNearest, block, Scale::kUnnormalised});
        rounding.set(6, {format.type});
        const std::vector<double> ideal =
            eval_node(OpKind::kAttention, "{scale=0.125}", {in.q, in.k, in.v}, rounding).f;
        double count = 0;
        for (size_t i = 0; i < kernel.size(); ++i) count += kernel[i] != ideal[i];
        return count / static_cast<double>(kernel.size());
      };
      const double told = differing(kKeyBlock);
      SCOPED_TRACE(std::string(name(format.type)) + " spread " + std::to_string(spread));
      EXPECT_LT(told, 0.02);
      EXPECT_GT(differing(0), 5 * told + 0.05);
      EXPECT_GT(differing(2 * kKeyBlock), 2 * told + 0.01);
    }
  }
}

// Masked keys at −inf and at a finite fill, a block of them first: the meaning does not change.
TEST(Ideal, BlocksOfProbabilitiesChangeNoMeaning) {
  const Shape queries{1, kQueries, 1, kWidth}, keys{1, kKeys, 1, kWidth};
  const Tensors in{random_values(queries, 14, kF16, 4), random_values(keys, 15, kF16),
                   random_values(keys, 16, kF16)};
  for (const char* fill : {"-inf", "-3.4e38"}) {
    EvalTensor keep(DType::kBool, {1, 1, 1, kKeys});
    for (int64_t j = kKeyBlock; j < kKeys; ++j) keep.i[static_cast<size_t>(j)] = j % 7 != 0;
    const auto attention = [&](int64_t block) {
      Rounding rounding;
      rounding.set(4, {DType::kF64, Mode::kNearest, block, Scale::kUnnormalised});
      return eval_node(OpKind::kAttention, "{scale=0.125, fill=" + std::string(fill) + "}",
                       {in.q, in.k, in.v, EvalTensor{}, keep}, rounding)
          .f;
    };
    const std::vector<double> at_once = attention(0), in_blocks = attention(kKeyBlock);
    for (size_t i = 0; i < at_once.size(); ++i)
      ASSERT_NEAR(in_blocks[i], at_once[i], 1e-14) << "element " << i << " with fill " << fill;
  }
}

}  // namespace
}  // namespace vernier::test
