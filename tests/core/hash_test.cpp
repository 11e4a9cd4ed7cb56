// Hashes of bytes and files. Contract: src/core/hash.h.
#include "core/hash.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "core/error.h"

namespace vernier {
namespace {

std::string hash_of(const std::vector<std::string>& pieces) {
  Hash128 hash;
  for (const std::string& piece : pieces) hash.add(std::as_bytes(std::span(piece)));
  return hex(hash.digest());
}

TEST(Hash, IsXxh3InCanonicalOrderHoweverTheBytesAreCut) {
  // What `xxhsum -H2` prints.
  EXPECT_EQ(hash_of({}), "99aa06d3014798d86001c324468d497f");
  EXPECT_EQ(hash_of({"abc"}), "06b05ab6733a618578af5f94892f3950");
  EXPECT_EQ(hash_of({"a", "", "bc"}), hash_of({"abc"}));
  EXPECT_NE(hash_of({"abd"}), hash_of({"abc"}));
}

TEST(Hash, OfAFileIsOfItsBytes) {
  const auto path =
      std::filesystem::temp_directory_path() / ("vernier_hash_" + std::to_string(::getpid()));
  std::ofstream(path) << "abc";
  EXPECT_EQ(file_hash(path), hash_of({"abc"}));
  std::ofstream(path).close();
  EXPECT_EQ(file_hash(path), hash_of({}));
  std::filesystem::remove(path);
  try {
    file_hash(path);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInput);
    EXPECT_THAT(error.what(), testing::HasSubstr("No such file or directory"));
  }
}

}  // namespace
}  // namespace vernier
