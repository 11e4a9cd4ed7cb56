// Helpers of the CPU's kernels besides backend/body.h: threads and cache lines.
#pragma once
#include "backend/body.h"
#include "core/threads.h"

namespace vernier::backend::cpu {

inline constexpr size_t kCacheLine = 64;

/// Bytes rounded up to whole cache lines.
constexpr size_t round_to_line(size_t bytes) {
  return (bytes + kCacheLine - 1) / kCacheLine * kCacheLine;
}

}  // namespace vernier::backend::cpu
