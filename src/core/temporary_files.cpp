// Temporary files of this process and of dead ones: see temporary_files.h.
#include "core/temporary_files.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "core/hash.h"
#include "vernier/process.h"

namespace vernier {
namespace {

namespace fs = std::filesystem;

constexpr size_t kIdentityDigits = 8;
constexpr std::string_view kSuffix = ".tmp";

std::string hex_digits(const std::string& text) {
  Hash128 hash;
  hash.add(std::as_bytes(std::span(text)));
  return hex(hash.digest()).substr(0, kIdentityDigits);
}

std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The fields of /proc/PID/stat after the command, which may contain anything but ends at the last
// ')': the first is the state, the 20th the start time in ticks since boot.
std::optional<std::string> start_of_process(const std::string& pid) {
  constexpr int kStart = 19;
  const std::string stat = contents("/proc/" + pid + "/stat");
  size_t at = stat.rfind(')');
  if (at == std::string::npos || at + 2 >= stat.size()) return std::nullopt;
  at += 2;
  if (stat[at] == 'Z' || stat[at] == 'X') return std::nullopt;  // ended, but not reaped yet
  for (int field = 0; field < kStart; ++field) {
    at = stat.find(' ', at);
    if (at == std::string::npos) return std::nullopt;
    ++at;
  }
  return stat.substr(at, stat.find(' ', at) - at);
}

// Distinguishes a process from others with the same id: other starts, boots or machines.
std::optional<std::string> identity_of(const std::string& pid) {
  const std::optional<std::string> start = start_of_process(pid);
  if (!start) return std::nullopt;
  return hex_digits(*start + " " + contents("/proc/sys/kernel/random/boot_id"));
}

// Computed each time, because a child by fork() is another process. Empty without /proc; then only
// locks show whether a file is in use.
std::string own_identity() {
  return identity_of(std::to_string(::getpid())).value_or(std::string(kIdentityDigits, '0'));
}

// The common prefix "NAME." of all temporary files of a target.
std::string stem_of(const fs::path& target) {
  constexpr size_t kMaxLength = 200;  // of at most 255 bytes
  const std::string name = target.filename().string();
  if (name.size() <= kMaxLength) return name + ".";
  return name.substr(0, kMaxLength - kIdentityDigits) + hex_digits(name) + ".";
}

bool takes_number(std::string_view& text, char end) {
  const size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  if (digits == 0 || digits == text.size() || text[digits] != end) return false;
  text.remove_prefix(digits + 1);
  return true;
}

// The writer in the suffix "<pid>-<process>-<n>.tmp".
struct Writer {
  std::string pid, identity;
};
std::optional<Writer> writer_of(std::string_view text) {
  const std::string pid(text.substr(0, text.find('-')));
  if (!takes_number(text, '-')) return std::nullopt;
  const std::string identity(text.substr(0, kIdentityDigits));
  if (identity.find_first_not_of("0123456789abcdef") != std::string::npos) return std::nullopt;
  if (text.size() <= kIdentityDigits || text[kIdentityDigits] != '-') return std::nullopt;
  text.remove_prefix(kIdentityDigits + 1);
  if (!takes_number(text, '.') || text != kSuffix.substr(1)) return std::nullopt;
  return Writer{pid, identity};
}

bool is_locked(const fs::path& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (descriptor < 0) return true;  // unknown: treated as in use
  const bool locked = ::flock(descriptor, LOCK_EX | LOCK_NB) != 0;
  ::close(descriptor);
  return locked;
}

// The register of the process, global because a signal handler needs it. A slot holds a path from
// malloc(); whoever removes it owns it.
struct Slot {
  std::atomic<char*> path{nullptr};
  std::atomic<char*> removed{nullptr};  // by a handler, which cannot free it
};
std::array<Slot, 64> registered{};
// The process that owns the register: a child by fork() has a copy of it, but not the files.
std::atomic<pid_t> registrar{0};

// The child starts with an empty register; its copies of the paths are not freed.
[[maybe_unused]] const int at_fork = pthread_atfork(nullptr, nullptr, [] {
  for (Slot& slot : registered) slot.path = nullptr;
});

}  // namespace

void remove_temporary_files() noexcept {
  if (registrar != ::getpid()) return;
  for (Slot& slot : registered) {
    char* path = slot.path.exchange(nullptr);
    if (path == nullptr) continue;
    ::unlink(path);
    slot.removed = path;
  }
}

fs::path temporary_beside(const fs::path& target, int number) {
  return target.parent_path() /
         (stem_of(target) + std::to_string(::getpid()) + "-" + own_identity() + "-" +
          std::to_string(number) + std::string(kSuffix));
}

void sweep_temporaries(const fs::path& target) {
  const std::string stem = stem_of(target);
  const fs::path folder = target.parent_path().empty() ? "." : target.parent_path();
  // libstdc++'s iterator terminates the process if memory is exhausted.
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(::opendir(folder.c_str()), &::closedir);
  if (!entries) return;
  while (const dirent* entry = ::readdir(entries.get())) {
    const std::string name = entry->d_name;
    if (!name.starts_with(stem)) continue;
    const std::optional<Writer> writer = writer_of(std::string_view(name).substr(stem.size()));
    if (!writer || identity_of(writer->pid) == writer->identity) continue;
    struct stat status {};
    const fs::path path = folder / name;
    const bool is_file = ::lstat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode);
    if (is_file && !is_locked(path)) ::unlink(path.c_str());
  }
}

int register_temporary(const fs::path& path) {
  std::error_code error;
  const fs::path full = fs::absolute(path, error);  // the process may change its folder
  char* text = ::strdup((error ? path : full).c_str());
  registrar = ::getpid();
  for (size_t i = 0; i < registered.size() && text != nullptr; ++i) {
    char* empty = nullptr;
    if (registered[i].path.compare_exchange_strong(empty, text)) return static_cast<int>(i);
  }
  std::free(text);
  return -1;
}

void forget_temporary(int record) {
  if (record >= 0) std::free(registered[record].path.exchange(nullptr));
}

}  // namespace vernier
