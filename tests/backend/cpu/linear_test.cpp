// Linear on every CPU kernel row: values, and the promise that the bits of a row depend on neither
// the number of rows nor the threads. What check_case checks: harness.h.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "backend/cpu/harness.h"

namespace vernier::backend::test {
namespace {

struct LinearShape {
  int64_t m, k, n;
};

OpCase linear_case(Maker& make, const LinearShape& s, const LinearAttrs& attrs) {
  OpCase c{.op = OpKind::kLinear, .attrs = encode(attrs)};
  c.name = std::to_string(s.m);
  c.name += "x" + std::to_string(s.k);
  c.name += "x" + std::to_string(s.n);
  c.inputs = {{.value = make.normal({s.m, s.k}), .batch_axis = 0},
              {.value = make.normal(attrs.trans_w ? Shape{s.n, s.k} : Shape{s.k, s.n}),
               .constant = true,
               .special = false},
              {.value = make.normal({s.n})},
              {.value = make.normal({s.m, s.n}), .batch_axis = 0}};
  c.outputs = {{.shape = {s.m, s.n}}};
  // A running sum of K products of size 1 grows to sqrt(K) and is rounded K times: off by about
  // K·eps, which is sqrt(K) ulp of the sums. tanh keeps the error but brings the sums down to 1.
  const auto k = static_cast<double>(s.k);
  c.ulps = 16 + (attrs.activation == Activation::kTanh ? k : std::sqrt(k));
  return c;
}

TEST(CpuLinear, MatchesTheEvaluatorWithEveryActivation) {
  Maker make(11);
  for (const LinearShape& s : std::vector<LinearShape>{
           {1, 1, 1}, {3, 17, 33}, {5, 33, 127}, {17, 64, 64}, {33, 48, 130}, {40, 128, 576}}) {
    for (const LinearAttrs& attrs :
         std::vector<LinearAttrs>{{},
                                  {.activation = Activation::kGeluErf, .trans_w = true},
                                  {.activation = Activation::kGeluTanh},
                                  {.activation = Activation::kRelu},
                                  {.activation = Activation::kTanh, .trans_w = true}}) {
      OpCase c = linear_case(make, s, attrs);
      EXPECT_GE(check_case(c), 1) << c.name;
      c.inputs.resize(2);
      EXPECT_GE(check_case(c), 1) << c.name;
    }
  }
}

TEST(CpuLinear, NaNInAWeightReachesItsColumn) {
  Maker make(12);
  OpCase c = linear_case(make, {20, 64, 192}, {.activation = Activation::kRelu});
  std::vector<float> weight(64 * 192);
  std::memcpy(weight.data(), c.inputs[1].value.data(), weight.size() * sizeof(float));
  weight[63 * 192 + 191] = NAN;
  c.inputs[1].value = Tensor::from_bytes(DType::kF32, {64, 192}, std::as_bytes(std::span(weight)));
  for (const KernelDef* kernel : rows_of(c))
    EXPECT_EQ(compare(c, run_kernel(*kernel, c, {}), run_reference(c)), "") << kernel->name;
}

// Rows [0, m) of the case, without a residual.
OpCase first_rows(const OpCase& c, int64_t m) {
  OpCase part = c;
  part.inputs.resize(3);
  const Tensor& x = c.inputs[0].value;
  const int64_t k = x.shape()[1], n = c.outputs[0].shape[1];
  part.inputs[0].value = Tensor::from_bytes(
      DType::kF32, {m, k}, x.byte_span().first(static_cast<size_t>(m * k) * sizeof(float)));
  part.outputs[0].shape = {m, n};
  return part;
}

TEST(CpuLinear, RowBitsDependOnNeitherRowsNorThreads) {
  Maker make(13);
  std::vector<int64_t> rows{100, 512};
  for (int64_t m = 1; m <= 40; ++m) rows.push_back(m);
  // BERT mini, base and large, one odd size.
  for (const LinearShape& s : std::vector<LinearShape>{{512, 256, 256},
                                                       {512, 256, 1024},
                                                       {512, 1024, 256},
                                                       {512, 768, 768},
                                                       {512, 768, 2304},
                                                       {512, 3072, 768},
                                                       {512, 768, 3072},
                                                       {512, 1024, 1024},
                                                       {512, 127, 100}}) {
    const OpCase full = linear_case(make, s, {});
    for (const KernelDef* kernel : rows_of(full)) {
      const Tensor reference = run_kernel(*kernel, first_rows(full, 512), {})[0];
      for (int64_t m : rows) {
        const bool large = s.k * s.n > 500'000;
        if (large && (m == 4 || m == 7 || (m > 9 && m < 16) || (m > 17 && m < 100))) continue;
        for (int threads : {1, 2}) {
          const Tensor y = run_kernel(*kernel, first_rows(full, m), {.threads = threads})[0];
          ASSERT_EQ(std::memcmp(y.data(), reference.data(), y.bytes()), 0)
              << kernel->name << " K=" << s.k << " N=" << s.n << " M=" << m
              << " threads=" << threads;
        }
      }
    }
  }
}

TEST(CpuLinear, PackedWeightsUnpackToTheArrayTheyCameFrom) {
  Maker make(14);
  for (bool trans : {false, true}) {
    const OpCase c = linear_case(make, {2, 33, 130}, {.trans_w = trans});
    const Problem problem = make_problem(c);
    for (const KernelDef* kernel : rows_of(c)) {
      if (kernel->pack == nullptr) continue;
      const auto packed = kernel->pack(problem);
      ASSERT_EQ(packed.size(), 1u);
      EXPECT_TRUE(kernel->layout_is_current(packed[0].layout)) << packed[0].layout;
      const Tensor plain =
          kernel->unpack(problem, {packed[0].input, packed[0].layout, packed[0].bytes});
      EXPECT_EQ(compare_bits(plain, c.inputs[1].value), "");
    }
  }
}

TEST(CpuLinear, SaysWhyAKernelDoesNotFit) {
  Maker make(15);
  OpCase c = linear_case(make, {2, 64, 64}, {});
  c.inputs[1].constant = false;
  for (const KernelDef& kernel : cpu_backend().kernels) {
    if (kernel.op != OpKind::kLinear || kernel.pack == nullptr) continue;
    EXPECT_EQ(kernel.supports(make_problem(c)).reason, "the weight is not a constant");
  }
}

}  // namespace
}  // namespace vernier::backend::test
