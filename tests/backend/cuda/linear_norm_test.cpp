// LinearAddLayerNorm with as many rows as one kernel takes at a time: below that the product and
// the norm are two kernels (kernels/linear/linear_sm90.cpp), which is what the tables of cases/
// run. A row has the same bits in either, in every tile shape.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cmath>

#include "backend/cuda/check.h"
#include "backend/cuda/device_under_test.h"
#include "backend/cuda/kernels/linear/linear_norm_sm90.h"
#include "backend/cuda/tile_shapes.h"

namespace vernier::backend::test {
namespace {

int processors() {
  int count = 0;
  check_cuda(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, 0),
             "counting multiprocessors");
  return count;
}

// x, w, bias, residual, scale, norm_bias; the parameters in f32, the rest in `type`.
OpCase norm_case(Maker& make, int64_t rows, int64_t k, int64_t n, DType type) {
  OpCase c{.op = OpKind::kLinearAddLayerNorm, .attrs = encode(LinearNormAttrs{.epsilon = 1e-5})};
  c.name = std::to_string(rows) + "x" + std::to_string(k);
  c.name += "x" + std::to_string(n);
  const auto parameter = [&](double mean, double sigma) {
    return Arg{.value = make.normal({n}, mean, sigma), .constant = true, .stays_f32 = true};
  };
  c.inputs = {{.value = make.normal({rows, k}), .batch_axis = 0},
              {.value = make.normal({k, n}), .constant = true, .special = false},
              parameter(0, 1),
              {.value = make.normal({rows, n}), .batch_axis = 0},
              parameter(1, 0.1),
              parameter(0, 1)};
  c.outputs = {{.shape = {rows, n}}};
  // As in cases/linear_norm.cpp.
  c.ulps = 16 + std::sqrt(static_cast<double>(k)) + 2 * std::sqrt(static_cast<double>(n));
  c.optional = true;
  c.device_only = true;
  c.checks = Checks::kSampled;
  return stored_as(c, std::array{type});
}

constexpr std::array<int64_t, 5> kWidths{256, 384, 512, 768, 1024};
constexpr std::array<DType, 2> kTypes{DType::kF16, DType::kBF16};

// Whole waves in one kernel and the rest in two; most of a wave in one, whose last tile is ragged.
const Cases kWaves("LinearAddLayerNormWaves", [] {
  Maker make(140);
  std::vector<OpCase> cases;
  for (int64_t n : kWidths) {
    const int64_t wave = cuda::linear_norm_sm90_wave(static_cast<int>(n), processors());
    if (wave == 0) continue;  // another chip
    for (DType type : kTypes) {
      cases.push_back(norm_case(make, 3 * wave + 133, 136, n, type));
      cases.push_back(norm_case(make, wave * 9 / 10 + 1, 200, n, type));
    }
  }
  return cases;
});

class LinearNorm : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const Support here = device_under_test().available(); !here)
      GTEST_SKIP() << "SKIP: " << here.reason;
    if (device_under_test().bare()) GTEST_SKIP() << "SKIP: not for memory checkers";
  }
};

TEST_F(LinearNorm, HasTheSameBitsInEveryTileShape) {
  Maker make(141);
  for (int64_t n : kWidths) {
    for (DType type : kTypes) {
      for (const auto& [rows, k] :
           std::vector<std::pair<int64_t, int64_t>>{{300, 200}, {17, n}, {2048, 256}}) {
        const OpCase c = norm_case(make, rows, k, n, type);
        for (const KernelDef* kernel : rows_of(c)) check_tile_shapes(*kernel, c);
      }
    }
  }
}

// The first rows of a wave, which one kernel does, and the same rows alone, which two do.
TEST_F(LinearNorm, OfOneKernelHasTheBitsOfTwo) {
  Maker make(142);
  for (int64_t n : kWidths) {
    const int64_t wave = cuda::linear_norm_sm90_wave(static_cast<int>(n), processors());
    if (wave == 0) continue;
    for (DType type : kTypes) {
      const OpCase c = norm_case(make, wave, 256, n, type);
      for (const KernelDef* kernel : rows_of(c)) {
        const Tensor together = run_kernel(*kernel, c, {})[0];
        for (int64_t count : {1, 7, 128, 300}) {
          if (count > wave) continue;
          for (int64_t first : {int64_t{0}, wave - count}) {
            std::vector<int64_t> rows;
            for (int64_t row = first; row < first + count; ++row) rows.push_back(row);
            for (bool backwards : {false, true}) {
              const Tensor alone =
                  run_kernel(*kernel, with_rows(c, rows), {.backwards = backwards})[0];
              EXPECT_EQ(compare_bits(pick(together, 0, rows), alone), "")
                  << kernel->name << " " << c.name << ", " << count << " rows from " << first;
            }
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace vernier::backend::test
