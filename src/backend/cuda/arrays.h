// Arrays and indices as kernels get them: plain structs, passed by value, the same for device code
// (C++17) and host code (C++20). Made by body.h, read by device/*.cuh.
#pragma once
#include <cstdint>

#include "vernier/dtype.h"

namespace vernier::backend::cuda {

inline constexpr int kMaxAxes = 10;  // kMaxRank of backend/kernel.h

/// An array of f32, f16 or bf16 on the device; data null: absent.
struct FloatArray {
  void* data = nullptr;
  DType type = DType::kUndefined;
};
/// An array of any type on the device; data null: absent.
struct AnyArray {
  void* data = nullptr;
  DType type = DType::kUndefined;
};

/// n / size for n < 2^31 without a division: (mulhi(n, magic) + n) >> shift.
/// Source: Granlund and Montgomery, "Division by invariant integers using multiplication", 1994.
struct Divisor {
  uint32_t size = 1, magic = 1, shift = 0;
};
/// For sizes in [1, 2^31].
Divisor divisor_of(int64_t size);

/// Where element `i` (row-major) of an array with gaps lies: axes outermost first, those that step
/// evenly merged. 0 axes: every element is at 0. `is_small`: fewer than 2^31 elements.
struct StridedIndex {
  int axes = 0;
  bool is_small = true;
  int64_t sizes[kMaxAxes] = {}, strides[kMaxAxes] = {};
  Divisor divisors[kMaxAxes] = {};
};

}  // namespace vernier::backend::cuda
