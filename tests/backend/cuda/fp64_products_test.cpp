// Products of doubles on the GPU, which verify's FP64 evaluation uses, beside the plain loops that
// define them. Contract: core/fp64_device.h.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <thread>
#include <vector>

#include "backend/cuda/cuda.h"
#include "backend/cuda/fp64_device.h"
#include "backend/device_under_test.h"
#include "reference/matmul.h"

namespace vernier::backend::test {
namespace {

using Numbers = std::vector<double>;

Numbers random_numbers(int64_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  Numbers numbers(static_cast<size_t>(count));
  for (double& v : numbers) v = normal(random);
  return numbers;
}

struct Sizes {
  int64_t m, n, k;
};
// One row, odd sizes, a chunk of 512 rows and one beside it, several chunks.
constexpr Sizes kSizes[] = {{1, 1, 1},     {3, 5, 7},       {511, 33, 65},   {512, 768, 96},
                            {513, 70, 31}, {1100, 96, 130}, {2049, 257, 129}};

class DoubleProducts : public testing::Test {
 protected:
  void SetUp() override {
    if (const Support here = cuda_available(); !here) GTEST_SKIP() << "SKIP: " << here.reason;
    // Threads that launch cuBLAS at once: racecheck fails to track their launches and does not end.
    if (device_under_test().bare()) GTEST_SKIP() << "SKIP: not for memory checkers";
    products_ = cuda::make_fp64_device();
  }
  Numbers product(const Sizes& s, const Numbers& a, const Numbers& b, Numbers c) {
    products_->multiply_add(s.m, s.n, s.k, a.data(), b.data(), c.data());
    return c;
  }
  std::unique_ptr<vernier::Fp64Device> products_;
};

bool same_bits(const double* a, const double* b, int64_t count) {
  return std::memcmp(a, b, static_cast<size_t>(count) * sizeof(double)) == 0;
}

TEST_F(DoubleProducts, AddTheProductWithin1e12OfItsScale) {
  for (const Sizes& s : kSizes) {
    SCOPED_TRACE(std::to_string(s.m) + " x " + std::to_string(s.n) + " x " + std::to_string(s.k));
    const Numbers a = random_numbers(s.m * s.k, 1), b = random_numbers(s.k * s.n, 2),
                  c = random_numbers(s.m * s.n, 3);
    Numbers want = c;
    reference::multiply_plainly({s.m, s.n, s.k}, a.data(), b.data(), want.data());
    const Numbers got = product(s, a, b, c);
    const double scale = std::sqrt(static_cast<double>(s.k));
    double worst = 0;
    for (size_t i = 0; i < want.size(); ++i)
      worst = std::max(worst, std::abs(got[i] - want[i]) / (scale + std::abs(want[i])));
    EXPECT_LE(worst, 1e-12);
  }
}

TEST_F(DoubleProducts, ARowDependsOnNeitherItsPlaceNorOtherRows) {
  constexpr Sizes kAll{1100, 96, 130};
  const Numbers a = random_numbers(kAll.m * kAll.k, 1), b = random_numbers(kAll.k * kAll.n, 2),
                zeros(static_cast<size_t>(kAll.m * kAll.n), 0.0);
  const Numbers all = product(kAll, a, b, zeros);
  for (const int64_t row : {int64_t{0}, int64_t{511}, int64_t{512}, int64_t{1099}}) {
    const Numbers one(a.begin() + row * kAll.k, a.begin() + (row + 1) * kAll.k);
    const Numbers alone =
        product({1, kAll.n, kAll.k}, one, b, Numbers(static_cast<size_t>(kAll.n), 0.0));
    EXPECT_TRUE(same_bits(alone.data(), all.data() + row * kAll.n, kAll.n)) << row;
  }
  Numbers poisoned = a;
  for (int64_t i = 0; i < kAll.k; ++i)
    poisoned[static_cast<size_t>(7 * kAll.k + i)] = std::numeric_limits<double>::quiet_NaN();
  const Numbers beside = product(kAll, poisoned, b, zeros);
  EXPECT_TRUE(same_bits(beside.data(), all.data(), 7 * kAll.n));
  EXPECT_TRUE(std::isnan(beside[static_cast<size_t>(7 * kAll.n)]));
  EXPECT_TRUE(
      same_bits(beside.data() + 8 * kAll.n, all.data() + 8 * kAll.n, (kAll.m - 8) * kAll.n));
}

// A matrix that is kept is copied once; one that is forgotten may change.
TEST_F(DoubleProducts, AKeptMatrixGivesTheSameBitsUntilItIsForgotten) {
  constexpr Sizes kAll{70, 96, 130};
  const Numbers a = random_numbers(kAll.m * kAll.k, 1),
                zeros(static_cast<size_t>(kAll.m * kAll.n), 0.0);
  Numbers b = random_numbers(kAll.k * kAll.n, 2);
  const Numbers want = product(kAll, a, b, zeros);
  products_->keep(b.data(), std::ssize(b));
  EXPECT_EQ(product(kAll, a, b, zeros), want);
  EXPECT_EQ(product(kAll, a, b, zeros), want);
  products_->forget(b.data());
  b = random_numbers(kAll.k * kAll.n, 5);
  const Numbers other = product(kAll, a, b, zeros);
  EXPECT_NE(other, want);
  Numbers plain = zeros;
  reference::multiply_plainly({kAll.m, kAll.n, kAll.k}, a.data(), b.data(), plain.data());
  for (size_t i = 0; i < plain.size(); ++i) ASSERT_NEAR(other[i], plain[i], 1e-10);
}

// More threads than lanes, with matrices of their own and one that all share.
TEST_F(DoubleProducts, ThreadsGetTheirOwnProducts) {
  constexpr Sizes kAll{600, 96, 130};
  constexpr int kThreads = 20, kRounds = 5;
  const Numbers shared = random_numbers(kAll.k * kAll.n, 2),
                zeros(static_cast<size_t>(kAll.m * kAll.n), 0.0);
  products_->keep(shared.data(), std::ssize(shared));
  std::vector<int> wrong(kThreads, 0);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      const Numbers a = random_numbers(kAll.m * kAll.k, 100 + static_cast<uint64_t>(t)),
                    own = random_numbers(kAll.k * kAll.n, 200 + static_cast<uint64_t>(t));
      for (const Numbers* b : {&own, &shared}) {
        Numbers want = zeros;
        reference::multiply_plainly({kAll.m, kAll.n, kAll.k}, a.data(), b->data(), want.data());
        for (int round = 0; round < kRounds; ++round) {
          const Numbers got = product(kAll, a, *b, zeros);
          for (size_t i = 0; i < want.size(); ++i) wrong[t] += std::abs(got[i] - want[i]) > 1e-10;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int t = 0; t < kThreads; ++t) EXPECT_EQ(wrong[t], 0) << "thread " << t;
  products_->forget(shared.data());
}

}  // namespace
}  // namespace vernier::backend::test
