// CPU memory, threads and target name: see device.h.
#include "backend/cpu/device.h"

#include <hwy/targets.h>

#include <cstring>
#include <new>

#include "backend/cpu/onednn/version.h"
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

 private:
  ThreadPool threads_;
};

}  // namespace

std::unique_ptr<Device> make_device(const DeviceOptions& options) {
  return std::make_unique<CpuDevice>(options.threads);
}

std::string target() {
  // SupportedTargets() is a bit set whose lowest bit is the best instruction set here.
  const int64_t targets = hwy::SupportedTargets();
  std::string text = hwy::TargetName(targets & -targets);
#if defined(__x86_64__)
  text = "x86_64 " + text;
#elif defined(__aarch64__)
  text = "aarch64 " + text;
#endif
  return text + " " + onednn::version();
}

}  // namespace vernier::backend::cpu
