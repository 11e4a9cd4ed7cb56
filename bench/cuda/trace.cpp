// When each kernel of a program began and ended on the device, overlapped and recorded in graphs as
// it is, from CUPTI's activity records: what `vernier inspect --timing`, which stops between steps,
// cannot show. A library that the CUDA driver loads into any program; a run takes about 2 % longer.
//   CUDA_INJECTION64_PATH=$PWD/build/cuda/bench/libbench_trace.so vernier bench model.vn
// writes trace.txt to the working directory, a line per kernel: microseconds since the first,
// duration, from the end of the kernel before to this one's begin (negative: they overlap), blocks
// x threads, name.
// Source: NVIDIA, CUPTI documentation, "Activity API" and "Injection".
#include <cupti.h>
#include <cxxabi.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace {

struct Kernel {
  uint64_t begin, end;  // ns
  int64_t blocks, threads;
  std::string name;
};
std::vector<Kernel>& kernels() {
  static std::vector<Kernel> all;
  return all;
}

void CUPTIAPI give_buffer(uint8_t** buffer, size_t* bytes, size_t* most_records) {
  constexpr size_t kBytes = size_t{8} << 20;
  *buffer = static_cast<uint8_t*>(std::aligned_alloc(8, kBytes));
  *bytes = *buffer == nullptr ? 0 : kBytes;
  *most_records = 0;  // as many as fit
}

std::string demangled(const char* name) {
  int status = 0;
  char* text = abi::__cxa_demangle(name, nullptr, nullptr, &status);
  std::string result = status == 0 ? text : name;
  std::free(text);
  return result;
}

void CUPTIAPI take_buffer(CUcontext, uint32_t, uint8_t* buffer, size_t, size_t valid) {
  CUpti_Activity* record = nullptr;
  while (cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS) {
    if (record->kind != CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) continue;
    const auto& kernel = *reinterpret_cast<const CUpti_ActivityKernel9*>(record);
    kernels().push_back({kernel.start, kernel.end,
                         int64_t{kernel.gridX} * kernel.gridY * kernel.gridZ,
                         int64_t{kernel.blockX} * kernel.blockY * kernel.blockZ,
                         kernel.name == nullptr ? "" : kernel.name});
  }
  std::free(buffer);
}

constexpr const char* kFile = "trace.txt";

void print() {
  cuptiActivityFlushAll(1);
  std::vector<Kernel>& all = kernels();
  std::sort(all.begin(), all.end(),
            [](const Kernel& a, const Kernel& b) { return a.begin < b.begin; });
  std::FILE* out = std::fopen(kFile, "w");
  if (out == nullptr) {
    std::fprintf(stderr, "bench_trace: '%s' cannot be written\n", kFile);
    return;
  }
  for (size_t i = 0; i < all.size(); ++i) {
    const auto us = [](uint64_t from, uint64_t to) {
      return static_cast<double>(static_cast<int64_t>(to - from)) / 1e3;
    };
    std::fprintf(out, "%9.2f %8.2f %8.2f  %lld x %lld %s\n", us(all[0].begin, all[i].begin),
                 us(all[i].begin, all[i].end), i > 0 ? us(all[i - 1].end, all[i].begin) : 0.0,
                 static_cast<long long>(all[i].blocks), static_cast<long long>(all[i].threads),
                 demangled(all[i].name.c_str()).substr(0, 140).c_str());
  }
  std::fclose(out);
}

}  // namespace

/// Called by the driver when it is initialized.
extern "C" int InitializeInjection() {
  if (cuptiActivityRegisterCallbacks(give_buffer, take_buffer) != CUPTI_SUCCESS ||
      cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) != CUPTI_SUCCESS) {
    std::fprintf(stderr, "bench_trace: CUPTI could not record kernels\n");
    return 1;
  }
  kernels();  // made before print() is registered, so it outlives it
  std::atexit(print);
  return 1;
}
