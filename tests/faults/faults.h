// One call that fails: this program's own operator new, and its pthread_create, write, fwrite,
// fsync, rename, open and mmap, stand before the system's and let the n-th call fail. The product
// has no hooks for it. Contract: docs/testing.md "Faults".
#pragma once
#include <cstdint>
#include <string_view>

namespace vernier::test::faults {

enum class Kind : uint8_t { kAllocation, kThread, kWrite, kSync, kRename, kOpen, kMap };
std::string_view name(Kind kind);

/// From now on call number `nth` (from 0) of this kind fails, once. Calls that oneDNN, OpenMP,
/// protobuf and libzip make for themselves count, but do not fail: what they do then is theirs. (A
/// write of libzip's is ours.)
void arm(Kind kind, int64_t nth);

struct Seen {
  int64_t calls = 0;    ///< of the kind, since arm()
  bool failed = false;  ///< the n-th came, and was not a library's
};
Seen disarm();

/// Allocations that were made by operator new and not given back.
int64_t live_allocations();

}  // namespace vernier::test::faults
