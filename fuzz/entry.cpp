// libFuzzer's functions for one target, VERNIER_FUZZ_TARGET of target.h. At the end it prints how
// many inputs reached a first launch.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "target.h"

namespace {

using vernier::fuzz::Outcome;

constexpr const vernier::fuzz::Target& kTarget = vernier::fuzz::VERNIER_FUZZ_TARGET;

struct Counts {
  uint64_t inputs = 0, launched = 0;
} counts;

void print_counts() {
  std::fprintf(stderr, "%s: %llu of %llu inputs reached a first launch (%.1f %%)\n",
               kTarget.name.data(), static_cast<unsigned long long>(counts.launched),
               static_cast<unsigned long long>(counts.inputs),
               counts.inputs == 0 ? 0.0
                                  : 100.0 * static_cast<double>(counts.launched) /
                                        static_cast<double>(counts.inputs));
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  std::atexit(&print_counts);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  ++counts.inputs;
  if (kTarget.execute(std::as_bytes(std::span(data, size))) == Outcome::kLaunched)
    ++counts.launched;
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned seed) {
  vernier::SplitMix random(seed);
  const auto bytes = kTarget.mutate(std::as_bytes(std::span(data, size)), random);
  if (bytes.empty() || bytes.size() > max_size) return size;
  std::memcpy(data, bytes.data(), bytes.size());
  return bytes.size();
}
