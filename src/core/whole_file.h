// WholeFile: a file that appears under its name complete or not at all, whatever happens to the
// process or the disk meanwhile.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

namespace vernier {

/// Written as NAME.<pid>-<process>-<n>.tmp in the same folder, then renamed. Opening the name gives
/// the old file or the new one, and existing mappings of the old file stay valid. Links are
/// followed; an old file's permissions are kept. Temporary files of the same NAME whose writers
/// have ended (kill -9, a power loss) are removed first; remove_temporary_files()
/// (vernier/process.h) removes those of this process.
///
/// Not an unnamed file (O_TMPFILE): linkat() cannot replace a file, so a temporary name would be
/// needed as well.
class WholeFile {
 public:
  struct Target {
    std::filesystem::path path;
    std::string what;         ///< for messages: "engine", "arrays"
    uint64_t bytes_expected;  ///< likewise; 0: not known yet
  };
  /// Throws Error(kInput) if the target exists and is not a regular file, or has no name;
  /// Error(kMachine) "cannot write <what> 'PATH': …" if the temporary file cannot be created. If
  /// the folder does not exist, the message says so.
  explicit WholeFile(Target target);
  /// Removes the temporary file unless commit() succeeded.
  ~WholeFile();
  WholeFile(const WholeFile&) = delete;
  WholeFile& operator=(const WholeFile&) = delete;

  /// Appends. Throws Error(kMachine).
  void write(std::span<const std::byte> bytes);
  /// Continues at this byte, for a library that fills in fields later. Throws Error(kMachine).
  void seek(uint64_t position);
  uint64_t position() const { return position_; }
  /// Where what was written so far can be read, until commit().
  const std::filesystem::path& temporary() const { return temporary_; }
  /// Waits until the contents are on disk, so that the file is complete after a power loss too.
  /// Throws Error(kMachine).
  void sync();
  /// Puts the file in its place. Throws Error(kMachine).
  void commit();
  /// Throws the Error(kMachine) of a failed write.
  [[noreturn]] void fail(const std::string& reason) const;

 private:
  Target target_;     // the path with links resolved
  std::string name_;  // the path as given, for messages
  std::filesystem::path temporary_;
  int record_ = -1;  // of remove_temporary_files()
  int descriptor_ = -1;
  uint64_t position_ = 0;
  bool synced_ = false, done_ = false;
};

/// Throws what writing `path` would throw; leaves no file behind. Asked before work whose result
/// goes there. `what`: for messages, "engine".
void check_can_write(const std::filesystem::path& path, const std::string& what);

}  // namespace vernier
