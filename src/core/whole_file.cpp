// Files written whole or not at all: see whole_file.h.
#include "core/whole_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>

#include "core/error.h"
#include "core/temporary_files.h"

namespace vernier {
namespace {

namespace fs = std::filesystem;

// The target of a link to a file, so that the link is kept.
fs::path behind_links(const fs::path& path) {
  std::error_code error;
  if (!fs::is_symlink(path, error)) return path;
  const fs::path target = fs::canonical(path, error);
  return error ? path : target;
}

// Permissions of the file that will be replaced; empty if there is none.
std::optional<mode_t> permissions_of(const fs::path& path, const WholeFile::Target& target) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return std::nullopt;
  if (S_ISREG(status.st_mode)) return status.st_mode & 07777;
  throw Error(ErrorCode::kInput, "cannot write " + target.what + " '" + target.path.string() +
                                     "': it is " +
                                     (S_ISDIR(status.st_mode) ? "a folder" : "not a regular file") +
                                     "; give the name of a file");
}

// "'out' does not exist; …" of the folder of `path`; empty where it exists.
std::string missing_folder(const fs::path& path) {
  const fs::path folder = path.parent_path();
  std::error_code error;
  if (folder.empty() || fs::exists(folder, error) || error) return "";
  return "the folder '" + folder.string() + "' does not exist; make it or choose another folder";
}

void sync_folder(const fs::path& path) {
  const int descriptor = ::open(path.c_str(), O_DIRECTORY | O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return;
  ::fsync(descriptor);
  ::close(descriptor);
}

}  // namespace

WholeFile::WholeFile(Target target) : target_(std::move(target)), name_(target_.path.string()) {
  if (name_.empty())
    throw Error(ErrorCode::kInput, "cannot write " + target_.what + ": its name is empty");
  const fs::path place = behind_links(target_.path);
  const std::optional<mode_t> permissions = permissions_of(place, target_);
  target_.path = place;
  sweep_temporaries(place);
  for (int attempt = 0; descriptor_ < 0; ++attempt) {
    temporary_ = temporary_beside(place, attempt);
    record_ = register_temporary(temporary_);  // first, because of signals
    descriptor_ = ::open(temporary_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor_ >= 0) break;
    const int number = errno;
    forget_temporary(record_);
    if (number == EEXIST && attempt < 100) continue;
    const std::string missing = number == ENOENT ? missing_folder(place) : "";
    if (missing.empty()) fail(std::strerror(number));
    throw Error(ErrorCode::kMachine,
                "cannot write " + target_.what + " '" + name_ + "': " + missing);
  }
  ::flock(descriptor_, LOCK_EX | LOCK_NB);  // until it is closed: marks the file as being written
  if (permissions) ::fchmod(descriptor_, *permissions);
}

WholeFile::~WholeFile() {
  if (!done_) ::unlink(temporary_.c_str());
  forget_temporary(record_);
  if (descriptor_ >= 0) ::close(descriptor_);
}

void WholeFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0 && errno == EFAULT) fail("a source file was truncated while it was copied");
    if (written <= 0) fail(std::strerror(written < 0 ? errno : ENOSPC));
    position_ += static_cast<uint64_t>(written);
    bytes = bytes.subspan(written);
  }
}

void WholeFile::seek(uint64_t position) {
  if (::lseek(descriptor_, static_cast<off_t>(position), SEEK_SET) < 0) fail(std::strerror(errno));
  position_ = position;
}

void WholeFile::sync() {
  if (::fsync(descriptor_) != 0) fail(std::strerror(errno));
  synced_ = true;
}

void WholeFile::commit() {
  if (::rename(temporary_.c_str(), target_.path.c_str()) != 0) fail(std::strerror(errno));
  done_ = true;
  // The file is complete; a file system that cannot sync folders is not an error.
  if (synced_) sync_folder(fs::absolute(target_.path).parent_path());
}

void WholeFile::fail(const std::string& reason) const {
  const std::string bytes =
      target_.bytes_expected > 0 ? std::to_string(target_.bytes_expected) + " bytes in " : "";
  throw Error(ErrorCode::kMachine, "cannot write " + target_.what + " '" + name_ + "': " + reason +
                                       "; it needs " + bytes +
                                       "a writable folder: free space or choose another folder");
}

void check_can_write(const fs::path& path, const std::string& what) {
  const WholeFile file({.path = path, .what = what, .bytes_expected = 0});
}

}  // namespace vernier
