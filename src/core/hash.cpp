// XXH3-128: see hash.h.
#include "core/hash.h"

#include <xxhash.h>

#include <cstring>

#include "core/mapped_file.h"

namespace vernier {

Hash128::Hash128() : state_(XXH3_createState()) { XXH3_128bits_reset(state_); }
Hash128::~Hash128() { XXH3_freeState(state_); }

void Hash128::add(std::span<const std::byte> bytes) {
  XXH3_128bits_update(state_, bytes.data(), bytes.size());
}

std::array<std::byte, 16> Hash128::digest() const {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(state_));
  std::array<std::byte, 16> hash{};
  std::memcpy(hash.data(), canonical.digest, hash.size());
  return hash;
}

std::string hex(std::span<const std::byte> bytes) {
  constexpr const char* kDigits = "0123456789abcdef";
  std::string text;
  for (std::byte b : bytes) {
    text += kDigits[std::to_integer<size_t>(b >> 4)];
    text += kDigits[std::to_integer<size_t>(b & std::byte{15})];
  }
  return text;
}

std::string hash_of(std::span<const std::byte> bytes) {
  Hash128 hash;
  hash.add(bytes);
  return hex(hash.digest());
}

std::string file_hash(const std::filesystem::path& path) {
  return hash_of(MappedFile::open(path)->bytes());
}

}  // namespace vernier
