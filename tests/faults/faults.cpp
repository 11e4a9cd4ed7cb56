// Calls that fail on purpose: see faults.h.
#include "faults/faults.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <stdexcept>

namespace vernier::test::faults {
namespace {

std::atomic<bool> armed{false};
std::atomic<Kind> armed_kind{Kind::kAllocation};
std::atomic<int64_t> armed_at{0}, calls{0}, live{0};
std::atomic<bool> has_failed{false};

// Is one of the libraries that look after themselves on the way from here to our code? The JSON
// library is compiled into ours, and loses an array or object that cannot be filled.
bool is_for_a_library() {
  constexpr int kMost = 24;
  void* frames[kMost];
  const int count = backtrace(frames, kMost);
  for (int i = 0; i < count; ++i) {
    Dl_info info{};
    if (!dladdr(frames[i], &info) || info.dli_fname == nullptr) continue;
    const std::string_view symbol = info.dli_sname == nullptr ? "" : info.dli_sname;
    if (symbol.find("nlohmann") != std::string_view::npos) return true;
    const std::string_view file = info.dli_fname;
    for (const char* library :
         {"libdnnl", "libgomp", "libOpenCL", "libprotobuf", "libzip", "ld-linux"})
      if (file.find(library) != std::string_view::npos) return true;
  }
  return false;
}

enum class Caller : uint8_t { kAnyone, kUs };
bool fails(Kind kind, Caller caller) {
  if (!armed || armed_kind != kind || calls.fetch_add(1) != armed_at) return false;
  armed = false;  // also for what backtrace() needs
  const bool failing = caller == Caller::kAnyone || !is_for_a_library();
  has_failed = failing;
  return failing;
}

template <class Function>
Function next(const char* symbol) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, symbol));
}

}  // namespace

std::string_view name(Kind kind) {
  constexpr std::array<std::string_view, 7> kNames{"allocation", "thread start", "write", "fsync",
                                                   "rename",     "open",         "mmap"};
  return kNames[static_cast<size_t>(kind)];
}

void arm(Kind kind, int64_t nth) {
  void* frame = nullptr;
  backtrace(&frame, 1);  // the first call loads a library
  armed_kind = kind;
  armed_at = nth;
  calls = 0;
  has_failed = false;
  armed = true;
}

Seen disarm() {
  armed = false;
  return {calls, has_failed};
}

int64_t live_allocations() { return live; }

void* allocate(size_t bytes, size_t alignment) {
  if (fails(Kind::kAllocation, Caller::kUs)) throw std::bad_alloc();
  void* data = nullptr;
  if (posix_memalign(&data, alignment, bytes == 0 ? 1 : bytes) != 0) throw std::bad_alloc();
  ++live;
  return data;
}
void release(void* data) {
  if (data != nullptr) --live;
  std::free(data);
}

bool thread_fails() { return fails(Kind::kThread, Caller::kUs); }
bool call_fails(Kind kind, int error_number) {
  if (!fails(kind, Caller::kAnyone)) return false;
  errno = error_number;
  return true;
}

}  // namespace vernier::test::faults

namespace faults = vernier::test::faults;

void* operator new(size_t bytes) { return faults::allocate(bytes, alignof(std::max_align_t)); }
void* operator new[](size_t bytes) { return faults::allocate(bytes, alignof(std::max_align_t)); }
void* operator new(size_t bytes, std::align_val_t at) {
  return faults::allocate(bytes, static_cast<size_t>(at));
}
void* operator new[](size_t bytes, std::align_val_t at) {
  return faults::allocate(bytes, static_cast<size_t>(at));
}
void* operator new(size_t bytes, const std::nothrow_t&) noexcept try {
  return faults::allocate(bytes, alignof(std::max_align_t));
} catch (const std::bad_alloc&) {
  return nullptr;
}
void* operator new[](size_t bytes, const std::nothrow_t&) noexcept try {
  return faults::allocate(bytes, alignof(std::max_align_t));
} catch (const std::bad_alloc&) {
  return nullptr;
}
void* operator new(size_t bytes, std::align_val_t at, const std::nothrow_t&) noexcept try {
  return faults::allocate(bytes, static_cast<size_t>(at));
} catch (const std::bad_alloc&) {
  return nullptr;
}
void* operator new[](size_t bytes, std::align_val_t at, const std::nothrow_t&) noexcept try {
  return faults::allocate(bytes, static_cast<size_t>(at));
} catch (const std::bad_alloc&) {
  return nullptr;
}
void operator delete(void* data) noexcept { faults::release(data); }
void operator delete[](void* data) noexcept { faults::release(data); }
void operator delete(void* data, size_t) noexcept { faults::release(data); }
void operator delete[](void* data, size_t) noexcept { faults::release(data); }
void operator delete(void* data, std::align_val_t) noexcept { faults::release(data); }
void operator delete[](void* data, std::align_val_t) noexcept { faults::release(data); }
void operator delete(void* data, size_t, std::align_val_t) noexcept { faults::release(data); }
void operator delete[](void* data, size_t, std::align_val_t) noexcept { faults::release(data); }

extern "C" {

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*body)(void*),
                   void* argument) {
  static const auto real = faults::next<decltype(&pthread_create)>("pthread_create");
  return faults::thread_fails() ? EAGAIN : real(thread, attributes, body, argument);
}

ssize_t write(int file, const void* data, size_t bytes) {
  static const auto real = faults::next<decltype(&write)>("write");
  const bool is_output = file == STDOUT_FILENO || file == STDERR_FILENO;
  if (!is_output && faults::call_fails(faults::Kind::kWrite, ENOSPC)) return -1;
  return real(file, data, bytes);
}

size_t fwrite(const void* data, size_t size, size_t count, std::FILE* file) {
  static const auto real = faults::next<decltype(&fwrite)>("fwrite");
  const bool is_output = file == stdout || file == stderr;
  if (!is_output && faults::call_fails(faults::Kind::kWrite, ENOSPC)) return 0;
  return real(data, size, count, file);
}

int fsync(int file) {
  static const auto real = faults::next<decltype(&fsync)>("fsync");
  return faults::call_fails(faults::Kind::kSync, EIO) ? -1 : real(file);
}

int rename(const char* from, const char* to) noexcept {
  static const auto real = faults::next<int (*)(const char*, const char*)>("rename");
  return faults::call_fails(faults::Kind::kRename, EACCES) ? -1 : real(from, to);
}

int open(const char* path, int flags, ...) {
  static const auto real = faults::next<decltype(&open)>("open");
  va_list arguments;
  va_start(arguments, flags);
  const auto mode = (flags & O_CREAT) != 0 ? va_arg(arguments, mode_t) : 0;
  va_end(arguments);
  return faults::call_fails(faults::Kind::kOpen, EMFILE) ? -1 : real(path, flags, mode);
}

void* mmap(void* address, size_t bytes, int protection, int flags, int file,
           off_t offset) noexcept {
  static const auto real = faults::next<void* (*)(void*, size_t, int, int, int, off_t)>("mmap");
  // Memory without a file is what an allocator asks for.
  if (file >= 0 && faults::call_fails(faults::Kind::kMap, ENOMEM)) return MAP_FAILED;
  return real(address, bytes, protection, flags, file, offset);
}

}  // extern "C"
