// Equal arrays among many that look alike. Contract: src/core/byte_twins.h.
#include "core/byte_twins.h"

#include <gtest/gtest.h>

namespace vernier {
namespace {

Tensor bytes_with(size_t size, size_t at, uint8_t value) {
  std::vector<std::byte> bytes(size, std::byte{7});
  if (at < size) bytes[at] = std::byte{value};
  return Tensor::from_bytes(DType::kU8, {static_cast<int64_t>(size)}, bytes);
}

TEST(ByteTwins, FindsTheFirstOfEqualOnes) {
  for (const size_t size : {size_t{0}, size_t{1}, size_t{192}, size_t{193}, size_t{5000}}) {
    ByteTwins twins;
    EXPECT_FALSE(twins.find_or_add("a", bytes_with(size, size, 0), 10));
    EXPECT_EQ(twins.find_or_add("a", bytes_with(size, size, 0), 11), 10) << size;
    EXPECT_FALSE(twins.find_or_add("b", bytes_with(size, size, 0), 12)) << "another kind";
    EXPECT_FALSE(twins.find_or_add("a", bytes_with(size + 1, size + 1, 0), 13)) << "another size";
  }
}

TEST(ByteTwins, TellsManyApartThatDifferWhereNobodyLooks) {
  // 64 bytes from the start, the middle and the end are samples; 1000 and 1001 are not among them.
  ByteTwins twins;
  for (int i = 0; i < 250; ++i) {
    EXPECT_FALSE(twins.find_or_add("a", bytes_with(5000, 1000, static_cast<uint8_t>(i)), i)) << i;
  }
  for (int i = 0; i < 250; ++i)
    EXPECT_EQ(twins.find_or_add("a", bytes_with(5000, 1000, static_cast<uint8_t>(i)), 1000), i);
}

}  // namespace
}  // namespace vernier
