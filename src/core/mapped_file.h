// MappedFile: the bytes of a regular file, mapped read-only as long as it is referenced, or read
// into memory, where no other process can change them.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>

#include "core/limits.h"

struct stat;

namespace vernier {

enum class FileAccess : uint8_t { kMapped, kRead };

class MappedFile {
 public:
  /// All of `path`. Throws Error(kInput) if it is not a regular file, Error(kMachine) if it cannot
  /// be opened or mapped, or if reading it takes more memory than `watch` allows.
  static std::shared_ptr<const MappedFile> open(const std::filesystem::path& path,
                                                FileAccess access = FileAccess::kMapped,
                                                const Watch& watch = {});
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  /// Throws Error(kMachine) if the mapped file was written to since it was opened, because its
  /// bytes may have changed. A file that was replaced by a rename is still valid. Cost: one stat().
  void check_unchanged() const;

 private:
  /// Identifies a file and its contents: a later write changes it.
  struct Identity {
    uint64_t device = 0, inode = 0, bytes = 0;
    int64_t seconds = 0, nanoseconds = 0;  ///< of the last write
    bool operator==(const Identity&) const = default;
  };
  static Identity identity_of(const struct stat& status);

  MappedFile() = default;
  void read(int descriptor, const std::filesystem::path& path);

  const std::byte* data_ = nullptr;
  size_t size_ = 0;
  FileAccess access_ = FileAccess::kMapped;
  std::filesystem::path path_;  ///< absolute
  Identity identity_;
  void* record_ = nullptr;  ///< for mapped_file_at()
};

/// Gives back the memory of the pages that hold `bytes` of a mapped file: the next access reads
/// them from the file again. For whoever reads large files once. Memory that is not a mapped file
/// stays as it is.
void drop_pages(std::span<const std::byte> bytes) noexcept;

}  // namespace vernier
