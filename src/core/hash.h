// XXH3-128: the hash of engines, files and arrays. It detects damage and identifies contents; it is
// not a signature.
#pragma once
#include <array>
#include <cstddef>
#include <filesystem>
#include <span>
#include <string>

struct XXH3_state_s;  // of xxhash.h

namespace vernier {

/// The hash of a stream of bytes, independent of the pieces in which it is added.
class Hash128 {
 public:
  Hash128();
  ~Hash128();
  Hash128(const Hash128&) = delete;
  Hash128& operator=(const Hash128&) = delete;
  void add(std::span<const std::byte> bytes);
  /// In canonical (big-endian) order.
  std::array<std::byte, 16> digest() const;

 private:
  XXH3_state_s* state_;
};

/// Two digits for each byte.
std::string hex(std::span<const std::byte> bytes);
std::string hash_of(std::span<const std::byte> bytes);  ///< in hex
/// Hex hash of a file's bytes. Throws as MappedFile::open().
std::string file_hash(const std::filesystem::path& path);

}  // namespace vernier
