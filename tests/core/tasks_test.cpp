// Tasks on all threads, and constants that evaluations share.
#include "core/tasks.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>
#include <vector>

#include "core/constant_cache.h"
#include "core/threads.h"

namespace vernier {
namespace {

TEST(Tasks, EachIsDoneOnce) {
  for (const int64_t count : {0, 1, 2, 7, 1000}) {
    std::vector<std::atomic<int>> done(static_cast<size_t>(count));
    for_each_task(count, [&](int64_t i) { ++done[static_cast<size_t>(i)]; });
    for (const auto& one : done) EXPECT_EQ(one, 1);
  }
}

TEST(Tasks, WhatTheyShareInPartsIsDoneInThem) {
  std::atomic<int64_t> sum{0};
  for_each_task(20, [&](int64_t) {
    in_parallel(100, 1, [&](int64_t begin, int64_t end) { sum += end - begin; });
  });
  EXPECT_EQ(sum, 2000);
}

TEST(Tasks, AnExceptionEndsThem) {
  std::atomic<int> begun{0};
  const auto run = [&] {
    for_each_task(100000, [&](int64_t i) {
      ++begun;
      if (i == 3) throw std::runtime_error("the third");
      std::this_thread::sleep_for(std::chrono::microseconds(50));  // the others are slower
    });
  };
  EXPECT_THROW(run(), std::runtime_error);
  EXPECT_LT(begun, 100000);
}

TEST(ConstantCache, MakesAConstantOnce) {
  const std::vector<double> values(5000, 0.5);
  const Tensor constant = Tensor::from(DType::kF16, {5000}, std::span<const double>(values));
  ConstantCache cache(1 << 20);
  const auto first = cache.get(constant);
  EXPECT_EQ(first->f, values);
  EXPECT_EQ(cache.get(constant), first);
  int made = 0;
  EXPECT_EQ(cache.get(constant,
                      [&] {
                        ++made;
                        return EvalTensor();
                      }),
            first);
  EXPECT_EQ(made, 0);
  EXPECT_EQ(cache.get(constant.reshaped({50, 100}))->shape, (Shape{50, 100}))
      << "the same bytes in another shape";
}

TEST(ConstantCache, KeepsNoMoreThanItMay) {
  const std::vector<double> values(5000, 0.5);
  const Tensor a = Tensor::from(DType::kF32, {5000}, std::span<const double>(values)),
               b = Tensor::from(DType::kF32, {5000}, std::span<const double>(values));
  ConstantCache cache(5000 * sizeof(double));
  EXPECT_EQ(cache.get(a), cache.get(a));
  EXPECT_NE(cache.get(b), cache.get(b));
  EXPECT_EQ(cache.get(b)->f, values);
}

}  // namespace
}  // namespace vernier
