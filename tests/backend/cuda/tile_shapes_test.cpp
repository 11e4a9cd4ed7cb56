// Products in every tile shape that tuning may choose: values, bits, NaN and the largest numbers,
// and that a row has the same bits at every number of rows. Rows as the tables run them (cases/)
// take the tile shape that the row chooses itself.
#include "backend/cuda/tile_shapes.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>

#include "backend/cases/joined.h"
#include "backend/cases/linear.h"
#include "backend/cases/quantized_linear.h"
#include "backend/cuda/device_under_test.h"
#include "backend/cuda/kernels/linear/gemm_sm90.h"
#include "backend/cuda/kernels/linear/linear_f32.h"
#include "backend/cuda/kernels/linear/row_buckets.h"
#include "backend/cuda/usable.h"
#include "backend/timing.h"

namespace vernier::backend::test {
namespace {

cuda::GemmType gemm_type(const KernelDef& kernel, DType type) {
  if (type == DType::kF32) return cuda::GemmType::kF32;
  if (type == DType::kQ8 || type == DType::kI8) return cuda::GemmType::kI8;
  if (type == DType::kF8E4M3)
    return kernel.name.ends_with("_fast") ? cuda::GemmType::kF8Fast : cuda::GemmType::kF8;
  return type == DType::kF16 ? cuda::GemmType::kF16 : cuda::GemmType::kBF16;
}

// The same tile shape for every number of rows.
std::string tuning_of(const char* tile) {
  std::array<std::string, cuda::kRowBuckets.size()> choices;
  choices.fill(tile);
  return cuda::record_text(choices);
}

}  // namespace

std::vector<std::string> tunings_of(const KernelDef& kernel, const OpCase& c) {
  std::vector<std::string> all;
  if (kernel.name == "cuda.linear.cuda_cores") {
    for (int v = 0; v < cuda::linear_f32_variants(); ++v)
      all.push_back(tuning_of(cuda::linear_f32_name(v)));
  } else if (kernel.name.find(".sm90") != std::string_view::npos && kernel.tune != nullptr) {
    for (int v = 0; v < cuda::gemm_sm90_variants(); ++v) {
      if (cuda::gemm_sm90_has(v, gemm_type(kernel, c.inputs[0].value.dtype())))
        all.push_back(tuning_of(cuda::gemm_sm90_name(v)));
    }
  }
  return all;
}

int check_tile_shapes(const KernelDef& kernel, const OpCase& c) {
  const std::vector<std::string> tunings = tunings_of(kernel, c);
  if (tunings.empty()) return 0;
  const Results own = run_kernel(kernel, c, {});
  EXPECT_EQ(compare_sample(kernel, c, own), "") << kernel.name << " " << c.name;
  for (const std::string& tuning : tunings) {
    const Results other = run_kernel(kernel, c, {.tuning = tuning});
    EXPECT_EQ(compare_bits(own[0], other[0]), "")
        << kernel.name << " " << c.name << ": in " << tuning << " it has other bits";
  }
  return static_cast<int>(tunings.size());
}

namespace {

class TileShapes : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const Support here = device_under_test().available(); !here)
      GTEST_SKIP() << "SKIP: " << here.reason;
    if (device_under_test().bare()) GTEST_SKIP() << "SKIP: not for memory checkers";
  }
  void check(const OpCase& c) {
    for (const KernelDef* kernel : rows_of(c)) ran_[kernel->name] += check_tile_shapes(*kernel, c);
  }
  // That these rows of Linear ran, where the chip has them.
  void expect_ran(const std::vector<std::string_view>& rows) {
    for (std::string_view row : rows) {
      EXPECT_TRUE(ran_[row] > 1 || !cuda::hopper_kernels_usable()) << row << " did not run";
    }
  }
  std::map<std::string_view, int> ran_;
};

OpCase asked_for_tf32(OpCase c) {
  c.asked.compute.type = DType::kTF32;
  c.asked.by = "a test";
  c.name += " in TF32";
  return c;
}
OpCase with_f32_output(OpCase c) {
  c.outputs[0].dtype = DType::kF32;
  c.name += " to f32";
  return c;
}
OpCase without_residual(OpCase c) {
  c.inputs.resize(3);
  return c;
}
// In f32, in TF32, and in both 16-bit types.
std::vector<OpCase> in_each_product(const OpCase& c) {
  return {c, asked_for_tf32(c), stored_as(c, std::array{DType::kF16}),
          stored_as(c, std::array{DType::kBF16})};
}

TEST_F(TileShapes, HaveTheBitsOfTheRowsOwnChoice) {
  Maker make(130);
  std::vector<OpCase> cases;
  for (int64_t m : {1, 7, 63, 129, 1000}) {
    cases.push_back(without_residual(linear_case(make, {m, 136, 200}, {})));
    cases.push_back(linear_case(make, {m, 768, 1024}, {.activation = Activation::kGeluErf}));
    cases.push_back(linear_case(make, {m, 136, 264}, {}));
  }
  for (const LinearShape& s : std::vector<LinearShape>{
           {300, 8, 8}, {300, 1, 1}, {300, 33, 8}, {70, 65, 17}, {131, 130, 390}, {131, 64, 391}})
    cases.push_back(linear_case(make, s, {}));
  for (Activation activation : {Activation::kGeluTanh, Activation::kRelu, Activation::kTanh})
    cases.push_back(linear_case(make, {300, 1032, 392}, {.activation = activation}));
  for (const OpCase& c : cases) {
    for (const OpCase& stored : in_each_product(c)) {
      check(stored);
      if (stored.outputs[0].dtype != DType::kF32) check(with_f32_output(stored));
    }
  }
  expect_ran({"cuda.linear.sm90", "cuda.linear.sm90_tf32", "cuda.linear.cuda_cores"});
}

// More tiles than a wave of them, a long K.
TEST_F(TileShapes, HaveThemInLargeProducts) {
  Maker make(131);
  for (const OpCase& c : {without_residual(linear_case(make, {4096, 1024, 4096},
                                                       {.activation = Activation::kGeluErf})),
                          linear_case(make, {5000, 4096, 1024}, {})}) {
    for (const OpCase& stored : in_each_product(c)) check(stored);
  }
  expect_ran({"cuda.linear.sm90", "cuda.linear.sm90_tf32", "cuda.linear.cuda_cores"});
}

// NaN in x reaches its row and no other, the largest numbers stay numbers.
TEST_F(TileShapes, KeepSpecialValuesInTheirRows) {
  constexpr int64_t kRows = 130, kK = 200, kN = 256;
  Maker make(132);
  for (Activation activation : {Activation::kNone, Activation::kGeluErf, Activation::kGeluTanh,
                                Activation::kRelu, Activation::kTanh}) {
    OpCase c = without_residual(linear_case(make, {kRows, kK, kN}, {.activation = activation}));
    std::vector<double> x;
    for (int64_t i = 0; i < kRows * kK; ++i) x.push_back(c.inputs[0].value.float_at(i));
    x[128 * kK] = x[129 * kK + 199] = NAN;  // compare_sample() looks at these rows
    x[65 * kK + 7] = 65504;
    c.inputs[0].value = Tensor::from(DType::kF32, {kRows, kK}, std::span<const double>(x));
    for (const OpCase& stored : in_each_product(c)) check(stored);
  }
}

QuantizedCase in_f8(QuantizedCase row) {
  row.x_type = row.w_type = DType::kF8E4M3;
  row.x_zero = false;
  return row;
}
// x's scale and zero point are one constant each.
QuantizedCase with_constants(QuantizedCase row) {
  row.by_row = false;
  row.constant_x_scale = row.constant_x_zero = true;
  return row;
}

// Products of 8 bits, into f16, bf16 and f32, few rows and more tiles than a wave of them.
TEST_F(TileShapes, OfProductsOf8BitsHaveTheSameBits) {
  Maker make(136);
  const std::vector<QuantizedCase> cases{
      {.name = "one row", .x = {1, 144}, .n = 200, .x_zero = true},
      {.name = "ragged", .x = {131, 784}, .n = 264, .x_zero = true, .residual = true},
      {.name = "gelu",
       .x = {300, 1024},
       .n = 1032,
       .attrs = {.activation = Activation::kGeluErf},
       .x_zero = true},
      {.name = "tanh, residual",
       .x = {65, 48},
       .n = 72,
       .attrs = {.activation = Activation::kTanh},
       .residual = true},
      {.name = "large", .x = {5000, 256}, .n = 1024, .x_zero = true, .residual = true}};
  for (const QuantizedCase& row : cases) {
    for (const QuantizedCase& one :
         {row, in_f8(row), with_constants(row), in_f8(with_constants(row))}) {
      OpCase c = quantized_case(make, one);
      if (one.x_type == DType::kF8E4M3) c = with_fast_sums(c);  // the exact ones meet that, too
      check(c);
      for (DType type : {DType::kF16, DType::kBF16}) {
        const OpCase stored = stored_as(c, std::array{type});
        check(stored);
        check(with_f32_output(stored));
      }
    }
  }
  expect_ran({"cuda.quantized_linear.sm90", "cuda.quantized_linear.sm90_fast"});
}

// What the terms of sums are: normally distributed; all positive; one of them much larger.
enum class Terms : uint8_t { kNormal, kPositive, kOneLarge };
constexpr const char* kTerms[] = {"both signs", "one sign", "one large"};

// x·w of numbers of f8e4m3, [rows, k] by [k, cols], with scales of 1.
OpCase product_of_f8(Maker& make, int64_t rows, int64_t k, int64_t cols, Terms terms) {
  QuantizedCase row{.name = "sums", .x = {rows, k}, .n = cols, .by_row = false};
  row.by_column = row.bias = false;
  OpCase c = quantized_case(make, in_f8(row));
  c.asked.compute.type = DType::kF8E4M3;  // of a model's own numbers the sums are not f32's
  const auto normal = [&](const Shape& shape, double deviation) {
    std::vector<double> values;
    const Tensor drawn = make.normal(shape);
    for (int64_t i = 0; i < drawn.elems(); ++i) {
      const double value = deviation * drawn.float_at(i);
      values.push_back(terms == Terms::kPositive ? std::abs(value) : value);
    }
    return values;
  };
  const auto in_f8_of = [](const Shape& shape, const std::vector<double>& values) {
    return Tensor::from(DType::kF8E4M3, shape, std::span<const double>(values));
  };
  std::vector<double> x = normal({rows, k}, terms == Terms::kOneLarge ? 0.5 : 30);
  for (int64_t r = 0; r < rows && terms == Terms::kOneLarge; ++r)
    x[r * k + r * 7 % k] = r % 2 ? 400 : -350;
  c.inputs[0].value = in_f8_of({rows, k}, x);
  c.inputs[1].value = in_f8_of({k, cols}, normal({k, cols}, 30));
  for (const size_t i : {2, 3})
    c.inputs[i].value = Tensor::from(DType::kF32, c.inputs[i].value.shape(),
                                     std::span<const double>(std::array{1.0}));
  return c;
}

// The rms of y's error as a part of the root of the terms' squares and the sum itself.
double error_of_sums(const OpCase& c, const Tensor& y) {
  const Tensor &x = c.inputs[0].value, &w = c.inputs[1].value;
  const int64_t rows = y.shape()[0], cols = y.shape()[1], k = x.shape()[1];
  double error = 0, of_sums = 0;
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t j = 0; j < cols; ++j) {
      double sum = 0, squares = 0;
      for (int64_t i = 0; i < k; ++i) {
        const double product = x.float_at(r * k + i) * w.float_at(i * cols + j);
        sum += product;
        squares += product * product;
      }
      const double off = y.float_at(r * cols + j) - sum;
      error += off * off;
      of_sums += std::pow(std::sqrt(squares) + std::abs(sum), 2);
    }
  }
  return std::sqrt(error / of_sums);
}

// The error of f8's sums is no larger than the kernel declares, and not much smaller. Of terms of
// one sign, whose ends are cut off toward zero, it is larger; if sums are promoted, it is still
// within the eight deviations that a replay allows a single element.
TEST_F(TileShapes, SumsOfF8AreAsExactAsDeclared) {
  Maker make(138);
  for (const Terms terms : {Terms::kNormal, Terms::kPositive, Terms::kOneLarge}) {
    for (const int64_t k : {128, 1024, 4096}) {
      const OpCase c = with_fast_sums(product_of_f8(make, 64, k, 128, terms));
      for (const KernelDef* kernel : rows_of(c)) {
        const double declared = kernel->numerics(make_problem(c)).sum_error;
        const double rms = error_of_sums(c, run_kernel(*kernel, c, {})[0]);
        std::printf("%s, K=%lld, %s: sums off by %.3g of their terms, %.3g declared\n",
                    std::string(kernel->name).c_str(), static_cast<long long>(k),
                    kTerms[static_cast<int>(terms)], rms, declared);
        const bool fast = kernel->name.ends_with("_fast");
        const double of_one_sign = fast ? static_cast<double>(k) * 0x1p-15 : 8 * declared;
        EXPECT_LE(rms, terms == Terms::kPositive ? of_one_sign : declared) << kernel->name << k;
        EXPECT_GT(rms, declared / 16) << kernel->name << " " << k;
        ran_[kernel->name] += 1;
      }
    }
  }
  expect_ran({"cuda.quantized_linear.sm90", "cuda.quantized_linear.sm90_fast"});
}

// Bytes leave through boxes of shared memory, straight from registers, or one pair at a time.
TEST_F(TileShapes, QuantizeTheResultsOfProductsOf8Bits) {
  Maker make(137);
  int joined = 0;
  for (const QuantizedCase& row : std::vector<QuantizedCase>{
           {.name = "few", .x = {9, 144}, .n = 392, .x_zero = true},
           {.name = "gelu",
           .x = {700, 528},
           .n = 1040,
           .attrs = {.activation = Activation::kGeluErf},
           .x_zero = true},
           {.name = "ragged", .x = {2050, 80}, .n = 776},
           {.name = "large", .x = {5000, 256}, .n = 1024},
           with_constants({.name = "constants",
           .x = {700, 528},
           .n = 1040,
           .attrs = {.activation = Activation::kGeluErf},
           .x_zero = true}),
           with_constants(
               {.name = "large, constants", .x = {5000, 256}, .n = 1024, .x_zero = true})}) {
    for (const bool to_f8 : {false, true}) {
      OpCase first =
          stored_as(quantized_case(make, to_f8 ? in_f8(row) : row), std::array{DType::kF16});
      if (to_f8) first = with_fast_sums(first);
      for (const bool factors : {false, true}) {
        const OpCase second =
            quantize_result_of(first, {.given = true, .factors = factors, .to_f8 = to_f8});
        for (const KernelDef* kernel : rows_of(first)) {
          for (const std::string& tuning : tunings_of(*kernel, first))
            joined += check_pair(*kernel, first, second, tuning);
        }
      }
    }
  }
  EXPECT_TRUE(joined > 0 || !cuda::hopper_kernels_usable()) << "nothing was joined";
}

// y is x as the products take it: ties go to even.
TEST_F(TileShapes, RoundOperandsToTheNearestTF32) {
  constexpr uint32_t kLow[]{0x0000, 0x1000, 0x3000, 0x0fff, 0x1001, 0x2fff, 0x3001, 0x1fff};
  std::mt19937 random(133);
  const auto draw = [&] { return static_cast<uint32_t>(random()); };
  std::vector<float> x(64 * 8), w(64, 0.0f);
  for (size_t i = 0; i < x.size(); ++i) {
    const uint32_t bits = (i % 3 == 0 ? 0x80000000u : 0) | (90 + draw() % 60) << 23 |
                          (draw() & 0x7fc000) | kLow[i % 8];
    std::memcpy(&x[i], &bits, sizeof(float));
  }
  for (size_t i = 0; i < 8; ++i) w[i * 9] = 1;
  OpCase c{.op = OpKind::kLinear, .attrs = encode(LinearAttrs{})};
  c.name = "ties";
  c.inputs = {{.value = Tensor::from_bytes(DType::kF32, {64, 8}, std::as_bytes(std::span(x)))},
              {.value = Tensor::from_bytes(DType::kF32, {8, 8}, std::as_bytes(std::span(w))),
               .constant = true}};
  c.outputs = {{.shape = {64, 8}, .batch_axis = -1}};
  c = asked_for_tf32(c);
  for (const KernelDef* kernel : rows_of(c)) {
    const DType compute = kernel->numerics(make_problem(c)).compute;
    if (tunings_of(*kernel, c).empty() || compute != DType::kTF32) continue;
    for (const std::string& tuning : tunings_of(*kernel, c)) {
      const Tensor y = run_kernel(*kernel, c, {.tuning = tuning})[0];
      for (int64_t i = 0; i < y.elems(); ++i) {
        ASSERT_EQ(y.float_at(i),
                  round_to(DType::kTF32, static_cast<double>(x[static_cast<size_t>(i)])))
            << kernel->name << " in " << tuning << ", element " << i;
      }
    }
    ran_[kernel->name] += 2;
  }
  expect_ran({"cuda.linear.sm90_tf32"});
}

TEST_F(TileShapes, GiveARowTheSameBitsAtEveryNumberOfRows) {
  constexpr int64_t kMost = 4096;
  Maker make(134);
  for (const LinearShape& s :
       std::vector<LinearShape>{{kMost, 1024, 768}, {kMost, 768, 3072}, {kMost, 1000, 1024}}) {
    for (const OpCase& product : in_each_product(linear_case(make, s, {}))) {
      const OpCase full = with_f32_output(product);  // equal sums show, not equal roundings
      for (const KernelDef* kernel : rows_of(first_rows(full, kMost))) {
        const std::vector<std::string> tunings = tunings_of(*kernel, full);
        if (tunings.empty()) continue;
        const Tensor reference = run_kernel(*kernel, first_rows(full, kMost), {})[0];
        for (const std::string& tuning : tunings) {
          for (int64_t m : {1, 16, 128, 511}) {
            const Tensor y = run_kernel(*kernel, first_rows(full, m), {.tuning = tuning})[0];
            ASSERT_EQ(std::memcmp(y.data(), reference.data(), y.bytes()), 0)
                << kernel->name << " " << full.name << " M=" << m << " in " << tuning;
          }
        }
        ran_[kernel->name] += static_cast<int>(tunings.size());
      }
    }
  }
  expect_ran({"cuda.linear.sm90", "cuda.linear.sm90_tf32", "cuda.linear.cuda_cores"});
}

// What the row's class of bits says: one chain of f32 fused multiply-adds over K.
TEST(LinearF32, SumsInOneChain) {
  if (const Support here = device_under_test().available(); !here)
    GTEST_SKIP() << "SKIP: " << here.reason;
  Maker make(135);
  for (const LinearShape& s :
       std::vector<LinearShape>{{7, 136, 200}, {70, 65, 17}, {131, 130, 390}}) {
    OpCase c = linear_case(make, s, {});
    c.inputs.resize(2);
    std::vector<float> sums(static_cast<size_t>(s.m * s.n));
    for (int64_t i = 0; i < s.m * s.n; ++i) {
      float& sum = sums[static_cast<size_t>(i)];
      for (int64_t k = 0; k < s.k; ++k) {
        sum = std::fma(static_cast<float>(c.inputs[0].value.float_at(i / s.n * s.k + k)),
                       static_cast<float>(c.inputs[1].value.float_at(k * s.n + i % s.n)), sum);
      }
    }
    const Tensor want = Tensor::from_bytes(DType::kF32, {s.m, s.n}, std::as_bytes(std::span(sums)));
    for (const KernelDef* kernel : rows_of(c)) {
      if (kernel->name != "cuda.linear.cuda_cores") continue;
      EXPECT_EQ(compare_bits(run_kernel(*kernel, c, {})[0], want), "") << c.name;
    }
  }
}

}  // namespace
}  // namespace vernier::backend::test
