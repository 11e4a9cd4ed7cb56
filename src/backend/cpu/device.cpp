// CPU memory, threads and target name: see device.h.
#include "backend/cpu/device.h"

#include <hwy/targets.h>
#ifdef __GLIBC__
#include <gnu/libc-version.h>
#endif

#include <chrono>
#include <cstring>
#include <new>

#include "backend/cpu/onednn/version.h"
#include "backend/cpu/simd/tiles.h"
#include "core/error.h"
#include "core/threads.h"

namespace vernier::backend::cpu {
namespace {

constexpr size_t kAlignment = 64;

class CpuDevice final : public Device {
 public:
  explicit CpuDevice(int threads) : threads_(threads) {}

  std::byte* allocate(size_t bytes) override {
    void* data =
        ::operator new (bytes == 0 ? 1 : bytes, std::align_val_t{kAlignment}, std::nothrow);
    if (data == nullptr) {
      throw Error(ErrorCode::kMachine, "out of memory: " + std::to_string(bytes) +
                                           " bytes of host memory could not be allocated; use "
                                           "smaller shapes or free memory on this machine");
    }
    return static_cast<std::byte*>(data);
  }
  void free(std::byte* data) override { ::operator delete (data, std::align_val_t{kAlignment}); }
  void copy_to_device(std::byte* dst, const std::byte* src, size_t bytes, void*) override {
    if (bytes > 0) std::memcpy(dst, src, bytes);
  }
  void copy_to_host(std::byte* dst, const std::byte* src, size_t bytes, void*) override {
    if (bytes > 0) std::memcpy(dst, src, bytes);
  }
  void synchronise(void*) override {}
  bool host_memory() const override { return true; }
  size_t alignment() const override { return kAlignment; }
  Execution execution() override { return {.threads = &threads_}; }
  void copy_on_device(std::byte* dst, const std::byte* src, size_t bytes, void*) override {
    if (bytes > 0) std::memcpy(dst, src, bytes);
  }
  std::byte* allocate_staging(size_t bytes) override { return allocate(bytes); }
  void free_staging(std::byte* data) override { free(data); }
  std::unique_ptr<Recording> record(const std::function<void(const Execution&)>&) override {
    return nullptr;
  }
  std::unique_ptr<Mark> mark(void*) override { return std::make_unique<Moment>(); }
  double milliseconds_between(const Mark& first, const Mark& second) override {
    const auto at = [](const Mark& mark) { return static_cast<const Moment&>(mark).at; };
    return std::chrono::duration<double, std::milli>(at(second) - at(first)).count();
  }

 private:
  struct Moment final : Mark {
    std::chrono::steady_clock::time_point at = std::chrono::steady_clock::now();
  };
  ThreadTeam threads_;
};

}  // namespace

std::unique_ptr<Device> make_device(const DeviceOptions& options) {
  return std::make_unique<CpuDevice>(options.threads);
}

std::string target() {
  // SupportedTargets() is a bit set whose lowest bit is the best instruction set of this machine.
  const int64_t targets = hwy::SupportedTargets();
  std::string text = hwy::TargetName(targets & -targets);
#if defined(__x86_64__)
  text = "x86_64 " + text;
#elif defined(__aarch64__)
  text = "aarch64 " + text;
#endif
  if (has_tiles()) text += " amx";
  return text + " " + onednn::version();
}

std::vector<NamedVersion> environment() {
#ifdef __GLIBC__
  return {{"libc", gnu_get_libc_version()}};
#else
  return {};
#endif
}

}  // namespace vernier::backend::cpu
