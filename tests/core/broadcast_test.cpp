// Broadcasting of concrete shapes.
#include "core/broadcast.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace vernier {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Broadcast, ShapesAlignAtTheRight) {
  EXPECT_EQ(broadcast_shape(Shape{3, 1}, Shape{2, 1, 5}), (Shape{2, 3, 5}));
  EXPECT_EQ(broadcast_shape(Shape{}, Shape{4}), Shape{4});
  EXPECT_EQ(broadcast_shape(Shape{1}, Shape{0}), Shape{0});
  EXPECT_EQ(broadcast_shape(Shape{}, Shape{}), Shape{});
}

TEST(Broadcast, DifferentSizesAreNamed) {
  try {
    broadcast_shape(Shape{2, 3}, Shape{2});
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInput);
    EXPECT_THAT(error.what(), HasSubstr("shapes [2, 3] and [2] do not broadcast"));
  }
}

TEST(Broadcast, StridesAreZeroAlongRepeatedAxes) {
  EXPECT_THAT(broadcast_strides(Shape{3, 1}, Shape{2, 3, 5}), ElementsAre(0, 1, 0));
  EXPECT_THAT(broadcast_strides(Shape{2, 3, 5}, Shape{2, 3, 5}), ElementsAre(15, 5, 1));
  EXPECT_THAT(broadcast_strides(Shape{}, Shape{2}), ElementsAre(0));
}

std::vector<std::array<int64_t, 3>> visits(const Shape& out, const Shape& a, const Shape& b) {
  std::vector<std::array<int64_t, 3>> seen;
  const std::array strides{broadcast_strides(a, out), broadcast_strides(b, out)};
  for_each_broadcast(out, strides, [&](int64_t at, const std::array<int64_t, 2>& from) {
    seen.push_back({at, from[0], from[1]});
  });
  return seen;
}

TEST(Broadcast, VisitsEveryElementInOrder) {
  using V = std::array<int64_t, 3>;
  EXPECT_THAT(visits({2, 1, 2}, {2, 1, 1}, {2}),
              ElementsAre(V{0, 0, 0}, V{1, 0, 1}, V{2, 1, 0}, V{3, 1, 1}));
  EXPECT_THAT(visits({2, 2, 1}, {2, 1}, {2, 1, 1}),
              ElementsAre(V{0, 0, 0}, V{1, 1, 0}, V{2, 0, 1}, V{3, 1, 1}));
  EXPECT_THAT(visits({}, {}, {}), ElementsAre(V{0, 0, 0}));
  EXPECT_THAT(visits({0, 3}, {0, 3}, {3}), ElementsAre());
}

}  // namespace
}  // namespace vernier
