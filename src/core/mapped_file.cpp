// Mapping and reading files: see mapped_file.h.
#include "core/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "core/error.h"
#include "vernier/printable.h"
#include "vernier/process.h"

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

// One mapped range, for a signal handler. Records are never freed, but reused: readers of the list
// need no lock.
struct MappedRange {
  std::atomic<bool> taken{true};
  std::atomic<uintptr_t> begin{0}, end{0};  // end is set last and cleared first
  std::array<char, 1024> name{};            // printable, cut where it is longer
  MappedRange* next = nullptr;
};
// The one list of the process: a handler has no other way to it.
std::atomic<MappedRange*> mapped_ranges{nullptr};

MappedRange* free_record() {
  for (MappedRange* r = mapped_ranges; r != nullptr; r = r->next) {
    bool taken = false;
    if (r->taken.compare_exchange_strong(taken, true)) return r;
  }
  auto* fresh = new MappedRange;
  fresh->next = mapped_ranges;
  while (!mapped_ranges.compare_exchange_weak(fresh->next, fresh)) {
  }
  return fresh;
}

MappedRange* note_range(const void* data, size_t bytes, const std::string& name) {
  const std::string shown = printable_name(name);  // first: it may throw
  MappedRange* record = free_record();
  const size_t length = std::min(shown.size(), record->name.size() - 1);
  std::copy_n(shown.begin(), length, record->name.begin());
  record->name[length] = '\0';
  record->begin = reinterpret_cast<uintptr_t>(data);
  record->end = record->begin + bytes;
  return record;
}

void forget_range(MappedRange* record) {
  record->end = 0;
  record->taken = false;
}

}  // namespace

const char* mapped_file_at(const void* address) noexcept {
  const auto at = reinterpret_cast<uintptr_t>(address);
  for (const MappedRange* r = mapped_ranges; r != nullptr; r = r->next) {
    // The last page reaches beyond the file.
    constexpr uintptr_t kLargestPage = 1 << 16;
    if (r->end != 0 && at >= r->begin && at < r->end + kLargestPage) return r->name.data();
  }
  return nullptr;
}

void drop_pages(std::span<const std::byte> bytes) noexcept {
  const auto begin = reinterpret_cast<uintptr_t>(bytes.data()), end = begin + bytes.size();
  const auto holds = [&](const MappedRange* r) { return begin >= r->begin && end <= r->end; };
  const MappedRange* range = mapped_ranges;
  while (range != nullptr && !holds(range)) range = range->next;
  if (range == nullptr || bytes.empty()) return;
  // Whole pages of the mapping, which begins at one. Neighbors on the same pages are read again.
  static const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const uintptr_t first = begin / page * page;
  ::madvise(reinterpret_cast<void*>(first), end - first, MADV_DONTNEED);
}

MappedFile::Identity MappedFile::identity_of(const struct stat& status) {
  return {.device = status.st_dev,
          .inode = status.st_ino,
          .bytes = static_cast<uint64_t>(status.st_size),
          .seconds = status.st_mtim.tv_sec,
          .nanoseconds = status.st_mtim.tv_nsec};
}

std::shared_ptr<const MappedFile> MappedFile::open(const std::filesystem::path& path,
                                                   FileAccess access, const Watch& watch) {
  // Non-blocking: opening a named pipe must not wait for a writer.
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (file.number < 0) {
    const ErrorCode code = errno == ENOENT ? ErrorCode::kInput : ErrorCode::kMachine;
    fail(code, path, std::strerror(errno));
  }
  struct stat status {};
  if (::fstat(file.number, &status) != 0) fail(ErrorCode::kMachine, path, std::strerror(errno));
  if (!S_ISREG(status.st_mode)) fail(ErrorCode::kInput, path, "it is not a regular file");
  const std::shared_ptr<MappedFile> result(new MappedFile);
  result->access_ = access;
  result->identity_ = identity_of(status);
  std::error_code error;
  result->path_ = std::filesystem::absolute(path, error);
  const auto bytes = static_cast<size_t>(status.st_size);
  if (bytes == 0) return result;
  if (access == FileAccess::kRead) {
    watch.check_memory(bytes, [&] { return "reading '" + path.string() + "' into memory"; });
  }
  // The memory for a read file is mapped as well: page-aligned, and released like a mapped file.
  void* data =
      access == FileAccess::kMapped
          ? ::mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, file.number, 0)
          : ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) fail(ErrorCode::kMachine, path, std::strerror(errno));
  result->data_ = static_cast<std::byte*>(data);
  result->size_ = bytes;
  if (access == FileAccess::kRead) {
    result->read(file.number, path);
  } else {
    result->record_ = note_range(data, bytes, path.string());
  }
  return result;
}

void MappedFile::read(int descriptor, const std::filesystem::path& path) {
  auto* to = const_cast<std::byte*>(data_);
  for (size_t done = 0; done < size_;) {
    const ssize_t count = ::read(descriptor, to + done, size_ - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail(ErrorCode::kMachine, path, std::strerror(errno));
    if (count == 0) fail(ErrorCode::kMachine, path, "it was truncated while it was read");
    done += static_cast<size_t>(count);
  }
  struct stat status {};
  if (::fstat(descriptor, &status) != 0 || identity_of(status) != identity_)
    fail(ErrorCode::kMachine, path, "it was written to while it was read; open it again");
}

void MappedFile::check_unchanged() const {
  if (access_ == FileAccess::kRead || size_ == 0) return;
  struct stat status {};
  if (::stat(path_.c_str(), &status) != 0) return;  // the name is removed; the mapping stays valid
  const Identity now = identity_of(status);
  const bool same_file = now.device == identity_.device && now.inode == identity_.inode;
  if (!same_file || now == identity_) return;
  throw Error(ErrorCode::kMachine,
              "'" + path_.string() + "' was written to since it was opened: it had " +
                  std::to_string(identity_.bytes) + " bytes and has " + std::to_string(now.bytes) +
                  "; open it again. To replace a file that is in use, write another one and rename "
                  "it over the old, as 'vernier build' does, or open it read into memory");
}

MappedFile::~MappedFile() {
  if (record_ != nullptr) forget_range(static_cast<MappedRange*>(record_));
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

}  // namespace vernier
