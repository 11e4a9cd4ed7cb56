// Mapping files read-only: see mapped_file.h.
#include "core/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/error.h"

namespace vernier {
namespace {

// Closes the descriptor at the end of its scope; a mapping outlives it.
struct Descriptor {
  int number;
  ~Descriptor() {
    if (number >= 0) ::close(number);
  }
};

[[noreturn]] void fail(ErrorCode code, const std::filesystem::path& path, const std::string& why) {
  throw Error(code, "cannot read '" + path.string() + "': " + why);
}

}  // namespace

std::shared_ptr<const MappedFile> MappedFile::open(const std::filesystem::path& path) {
  // Non-blocking: opening a named pipe must not wait for a writer.
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (file.number < 0) {
    const ErrorCode code = errno == ENOENT ? ErrorCode::kInput : ErrorCode::kMachine;
    fail(code, path, std::strerror(errno));
  }
  struct stat status {};
  if (::fstat(file.number, &status) != 0) fail(ErrorCode::kMachine, path, std::strerror(errno));
  if (!S_ISREG(status.st_mode)) fail(ErrorCode::kInput, path, "it is not a regular file");
  const auto size = static_cast<size_t>(status.st_size);
  void* data = nullptr;
  if (size > 0) {
    data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.number, 0);
    if (data == MAP_FAILED) fail(ErrorCode::kMachine, path, std::strerror(errno));
  }
  return std::shared_ptr<const MappedFile>(new MappedFile(static_cast<std::byte*>(data), size));
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

}  // namespace vernier
