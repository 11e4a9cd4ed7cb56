// Minimise: what is needed is found wherever it lies, no member can be left out, and few sets are
// asked about.
#include "verify/minimise.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace vernier::verify {
namespace {

bool contains(const Chosen& set, const Chosen& needed) {
  return std::ranges::includes(set, needed);
}

struct Row {
  size_t count;
  Chosen needed;
  int most_asked;
};

class Needed : public ::testing::TestWithParam<Row> {};

TEST_P(Needed, IsFound) {
  int asked = 0;
  const Chosen found = minimise(GetParam().count, [&](const Chosen& set) {
    ++asked;
    EXPECT_TRUE(std::ranges::is_sorted(set));
    return contains(set, GetParam().needed);
  });
  EXPECT_EQ(found, GetParam().needed);
  EXPECT_LE(asked, GetParam().most_asked);
}
INSTANTIATE_TEST_SUITE_P(
    Sets, Needed,
    ::testing::Values(Row{1, {0}, 0}, Row{2, {1}, 3}, Row{2, {0, 1}, 5}, Row{64, {0}, 1},
                      Row{64, {63}, 20}, Row{64, {40}, 24}, Row{100, {3, 97}, 40},
                      Row{100, {0, 1, 2}, 12}, Row{7, {0, 1, 2, 3, 4, 5, 6}, 24},
                      Row{60, {0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30}, 100}));

TEST(Minimise, GivesASetThatNothingCanBeTakenFromWhereSeveralWork) {
  // Any two of the even ones.
  const auto works = [](const Chosen& set) {
    return std::ranges::count_if(set, [](size_t i) { return i % 2 == 0; }) >= 2;
  };
  const Chosen found = minimise(20, works);
  EXPECT_TRUE(works(found));
  for (size_t i = 0; i < found.size(); ++i) {
    Chosen less = found;
    less.erase(less.begin() + static_cast<std::ptrdiff_t>(i));
    EXPECT_FALSE(works(less));
  }
}

TEST(Minimise, NeedNotBeMonotone) {
  // Works only whole or as exactly {4, 9}.
  const auto works = [](const Chosen& set) { return set.size() == 10 || set == Chosen{4, 9}; };
  EXPECT_TRUE(works(minimise(10, works)));
}

}  // namespace
}  // namespace vernier::verify
