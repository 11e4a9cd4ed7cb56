// Files written whole or not at all: see whole_file.h.
#include "core/whole_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>

#include "core/error.h"

namespace vernier {
namespace {

namespace fs = std::filesystem;

// The file behind a link that leads to one, so that the link stays a link.
fs::path behind_links(const fs::path& path) {
  std::error_code error;
  if (!fs::is_symlink(path, error)) return path;
  const fs::path target = fs::canonical(path, error);
  return error ? path : target;
}

// Permissions of what will be replaced; nothing where nothing is.
std::optional<mode_t> permissions_of(const fs::path& path, const WholeFile::Target& target) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return std::nullopt;
  if (S_ISREG(status.st_mode)) return status.st_mode & 07777;
  throw Error(ErrorCode::kInput, "cannot write " + target.what + " '" + target.path.string() +
                                     "': it is " +
                                     (S_ISDIR(status.st_mode) ? "a folder" : "no regular file") +
                                     "; give the name of a file");
}

// False with errno set where the bytes may not have reached the disk.
bool sync_path(const fs::path& path, int flags) {
  const int descriptor = ::open(path.c_str(), flags | O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return false;
  const bool synced = ::fsync(descriptor) == 0;
  const int number = errno;
  ::close(descriptor);
  errno = number;
  return synced;
}

}  // namespace

WholeFile::WholeFile(Target target) : target_(std::move(target)), name_(target_.path.string()) {
  if (name_.empty())
    throw Error(ErrorCode::kInput, "cannot write " + target_.what + ": its name is empty");
  const fs::path place = behind_links(target_.path);
  const std::optional<mode_t> permissions = permissions_of(place, target_);
  target_.path = place;
  for (int attempt = 0; descriptor_ < 0; ++attempt) {
    temporary_ = place;
    temporary_ += '.';
    temporary_ += std::to_string(::getpid()) + "_" + std::to_string(attempt) + ".tmp";
    descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor_ < 0 && (errno != EEXIST || attempt == 100)) fail(std::strerror(errno));
  }
  if (permissions) ::fchmod(descriptor_, *permissions);
}

WholeFile::~WholeFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (!done_) ::unlink(temporary_.c_str());
}

void WholeFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) fail(std::strerror(written < 0 ? errno : ENOSPC));
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
}

void WholeFile::sync() {
  // By name: a library may have put another file there.
  if (!sync_path(temporary_, 0)) fail(std::strerror(errno));
  synced_ = true;
}

void WholeFile::commit() {
  if (::rename(temporary_.c_str(), target_.path.c_str()) != 0) fail(std::strerror(errno));
  done_ = true;
  // The file is whole by now; a file system that cannot sync folders is no reason to fail.
  if (synced_) sync_path(fs::absolute(target_.path).parent_path(), O_DIRECTORY);
}

void WholeFile::fail(const std::string& reason) const {
  const std::string bytes =
      target_.bytes_expected > 0 ? std::to_string(target_.bytes_expected) + " bytes in " : "";
  throw Error(ErrorCode::kMachine,
              "cannot write " + target_.what + " '" + name_ + "': " + reason + "; it needs " +
                  bytes + "a folder that can be written: free space or choose another folder");
}

}  // namespace vernier
