// The sizes beyond the grid: what they must hold, and that a threshold drawn from the engine's
// ranges is crossed.
#include "verify/sweep/far_sizes.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <random>

#include "compile/pipeline.h"
#include "runtime/backends.h"
#include "runtime/models.h"

namespace vernier::verify {
namespace {

using testing::Contains;
using testing::Each;
using testing::Field;
using testing::IsEmpty;

SizeRanges ranges() {
  return {.batch = {.name = "batch", .min = 1, .opt = 8, .max = 64},
          .length = {.name = "seq", .min = 1, .opt = 128, .max = 512},
          .largest_batch = 8,
          .largest_length = 48,
          .variants = {}};
}

using backend::VariantSize;

TEST(FarSizes, HoldTheEndsOfTheRanges) {
  const std::vector<FarSize> sizes = far_sizes(ranges(), 1);
  EXPECT_THAT(sizes, Contains(FarSize{1, 512}));
  EXPECT_THAT(sizes, Contains(FarSize{3, 511}));
  EXPECT_THAT(sizes, Contains(FarSize{1, 128}));
  EXPECT_EQ(sizes.back(), (FarSize{64, 512}));
  EXPECT_THAT(sizes, Contains(Field(&FarSize::batch, 64)));
  // Rows of all sequences that are no multiple of 4, above 32 sequences.
  EXPECT_TRUE(std::ranges::any_of(
      sizes, [](const FarSize& s) { return s.batch > 32 && s.batch % 2 == 1; }));
}

TEST(FarSizes, AreOtherOnesWithAnotherSeedAndAreNeverOfTheGrid) {
  EXPECT_EQ(far_sizes(ranges(), 7), far_sizes(ranges(), 7));
  EXPECT_NE(far_sizes(ranges(), 7), far_sizes(ranges(), 8));
  for (uint64_t seed = 1; seed < 50; ++seed) {
    for (const FarSize& size : far_sizes(ranges(), seed))
      EXPECT_FALSE(size.batch <= 8 && size.length <= 48) << size.batch << "x" << size.length;
  }
}

TEST(FarSizes, StayInsideTheRanges) {
  SizeRanges narrow = ranges();
  narrow.batch.max = 2;
  narrow.length.max = 40;
  narrow.largest_batch = 2;
  narrow.largest_length = 40;
  EXPECT_THAT(far_sizes(narrow, 1), IsEmpty());
  SizeRanges fixed = ranges();
  fixed.batch = {};
  EXPECT_THAT(far_sizes(fixed, 1), Each(Field(&FarSize::batch, 1)));
  fixed.length = {};
  fixed.largest_length = 0;
  EXPECT_THAT(far_sizes(fixed, 1), IsEmpty());
}

// Sizes that a kernel names come in turn; one is visited, or one beside it.
TEST(FarSizes, AreAtThoseThatKernelsName) {
  SizeRanges named = ranges();
  named.variants = {{.size = 321},  // 3 × 107
                    {.of = VariantSize::Of::kLength, .size = 77, .repeats = true}};
  int rows = 0, lengths = 0;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    for (const FarSize& size : far_sizes(named, seed)) {
      const int64_t all = size.batch * size.length;
      rows += all >= 320 && all <= 322;
      lengths += size.length >= 76 && (size.length + 1) % 77 <= 2 && size.batch >= 3;
    }
  }
  EXPECT_GE(rows, 30);
  EXPECT_GE(lengths, 20);
}

// What no batch and length of the ranges come to is left out, and another length drawn.
TEST(FarSizes, LeaveOutSizesOfKernelsBeyondTheRanges) {
  SizeRanges named = ranges();
  named.variants = {{.size = 1'000'003}, {.of = VariantSize::Of::kLength, .size = 4096}};
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const std::vector<FarSize> sizes = far_sizes(named, seed);
    EXPECT_GE(sizes.size(), 7U);
    for (const FarSize& size : sizes) {
      EXPECT_LE(size.length, 512);
      EXPECT_LE(size.batch, 64);
    }
  }
}

TEST(FarSizes, KernelsOfAnEngineNameThem) {
  const std::string model = test::example_model("bge_reranker_ts17").path.string();
  const plan::Plan plan = compiler::run(model, {}).plan;
  const std::vector<VariantSize> variants =
      variants_of(plan, runtime::backend_named("cpu", "a test"));
  const auto is = [](VariantSize::Of of, int64_t size) {
    return testing::AllOf(Field(&VariantSize::of, of), Field(&VariantSize::size, size),
                          Field(&VariantSize::repeats, true));
  };
  EXPECT_THAT(variants, Contains(is(VariantSize::Of::kLength, 96)).Times(1));  // keys of a block
  EXPECT_THAT(variants, Contains(is(VariantSize::Of::kRows, 16)).Times(1));
}

// A defect from some length, batch or number of rows on.
TEST(FarSizes, CrossThresholdsDrawnFromTheRanges) {
  std::mt19937_64 random(3);
  int crossed = 0;
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    std::vector<FarSize> sizes = far_sizes(ranges(), seed);
    std::erase(sizes, FarSize{64, 512});  // which crosses all, where it can be afforded
    const auto length = static_cast<int64_t>(49 + random() % 464);
    const auto batch = static_cast<int64_t>(9 + random() % 56);
    const auto rows = static_cast<int64_t>(385 + random() % 1000);
    const auto is_met = [&](const auto& condition) {
      return std::ranges::any_of(sizes, condition);
    };
    crossed += is_met([&](const FarSize& s) { return s.length >= length; }) &&
               is_met([&](const FarSize& s) { return s.batch >= batch; }) &&
               is_met([&](const FarSize& s) { return s.batch * s.length >= rows; });
  }
  EXPECT_GE(crossed, 49);
}

}  // namespace
}  // namespace vernier::verify
