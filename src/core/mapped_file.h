// MappedFile: a regular file mapped read-only for as long as somebody holds it.
#pragma once
#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>

namespace vernier {

class MappedFile {
 public:
  /// Maps all of `path`. Throws Error(kInput) if it is not a regular file, Error(kMachine) if it
  /// cannot be opened or mapped.
  static std::shared_ptr<const MappedFile> open(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return {data_, size_}; }

 private:
  MappedFile(const std::byte* data, size_t size) : data_(data), size_(size) {}
  const std::byte* data_;
  size_t size_;
};

}  // namespace vernier
