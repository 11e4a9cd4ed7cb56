// A fuzz target: functions that make an input, change one, and check the promise for one. libFuzzer
// (entry.cpp), the replay of the corpora and the long run (long_run.cpp) drive the same targets.
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>

#include "choices.h"

namespace vernier::fuzz {

/// The stage that an input reached.
enum class Outcome : uint8_t {
  kRefused,   ///< Error before anything ran
  kTooLarge,  ///< opened, but too large for a quick run
  kLaunched,  ///< a first kernel was launched (verify: a verdict was reached)
};

struct Target {
  std::string_view name;
  /// A new input.
  Bytes (*make)(SplitMix& random);
  /// An input with something changed.
  Bytes (*mutate)(std::span<const std::byte> input, SplitMix& random);
  /// Aborts unless every promise of the target holds.
  Outcome (*execute)(std::span<const std::byte> input);
};

extern const Target kCompile, kRun, kRequest, kVerify;

/// The targets above.
std::span<const Target* const> all_targets();

/// True if `body` returned; false if it threw Error(kInput) or Error(kMachine). Aborts on any other
/// exception with a message about `what`.
bool holds(std::string_view what, const std::function<void()>& body);

/// Aborts with a message.
[[noreturn]] void broken(std::string_view what, std::string_view why);

/// make() and mutate() of targets whose inputs are a header of choices and then records of single
/// changes.
template <size_t kHeader, size_t kRecord>
struct Records {
  static Bytes make(SplitMix& random) {
    // Usually one change: a mutant with many is refused because of the first.
    const uint64_t draw = random.next() % 16;
    return random_bytes(random, kHeader + kRecord * (draw < 9 ? 1 : draw < 13 ? 2 : 3));
  }
  static Bytes mutate(std::span<const std::byte> input, SplitMix& random) {
    Bytes bytes(input.begin(), input.end());
    if (bytes.size() < kHeader) return make(random);
    const size_t records = (bytes.size() - kHeader) / kRecord;
    const size_t at = records == 0 ? 0 : random.next() % records;
    const auto begin = bytes.begin() + static_cast<std::ptrdiff_t>(kHeader + at * kRecord);
    const Bytes record = random_bytes(random, kRecord);
    switch (random.next() % 6) {
      case 0:
        bytes.insert(begin, record.begin(), record.end());
        break;
      case 1:
        if (records > 1) bytes.erase(begin, begin + kRecord);
        break;
      case 2:
        bytes[random.next() % kHeader] = record[0];
        break;
      case 3:
        if (records > 0) std::copy(record.begin(), record.end(), begin);
        break;
      default:
        bytes[random.next() % bytes.size()] = record[0];
    }
    return bytes;
  }
};

}  // namespace vernier::fuzz
