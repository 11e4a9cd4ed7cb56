// Operands of an elementwise program in shared memory: each warp's part of every input, as it is
// stored. All copies of a thread are in flight together; a thread reads only what it has copied, so
// nothing waits for other threads. C++17.
#pragma once
#include "backend/cuda/device/vectors.cuh"
#include "backend/cuda/kernels/elementwise/elementwise.h"

namespace vernier::backend::cuda {

/// A thread has 4 units of 4 neighboring elements: unit u of lane l is the elements
/// [128·u + 4·l, + 4) of the 512 that its warp has.
inline constexpr int kUnit = kElementwiseLanes, kUnits = 4;
inline constexpr int kThreadElements = kUnit * kUnits;
inline constexpr int kWarpElements = 32 * kThreadElements;
inline constexpr int kUnitStep = 32 * kUnit;

/// kBytes (4, 8 or 16) from global to shared memory, done when wait_for_staging() returns.
template <int kBytes>
__device__ inline void copy_async(void* dst, const void* src) {
  const auto to = static_cast<uint32_t>(__cvta_generic_to_shared(dst));
  asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(to), "l"(src), "n"(kBytes)
               : "memory");
}
__device__ inline void wait_for_staging() { asm volatile("cp.async.wait_all;" ::: "memory"); }

/// An input that is staged; `slot`: where in the warp's memory, in bytes.
struct StagedInput {
  const void* data = nullptr;
  int64_t strides[kMaxAxes] = {};
  Access access = Access::kElements;
  uint8_t width = 4;  ///< bytes of an element
  uint16_t slot = 0;
};

/// Output element `at` in an input: its offset, and how many elements of the last axis are left
/// from there on.
struct ElementPlace {
  int64_t offset = 0, left = 0;
};
/// Of fewer than 2^31 elements.
__device__ inline ElementPlace small_place_of(const StridedIndex& shape, const int64_t* strides,
                                              int64_t at) {
  if (shape.axes == 0) return {};
  auto rest = static_cast<uint32_t>(at);
  const int last = shape.axes - 1;
  if (last == 0) return {at * strides[0], static_cast<int64_t>(shape.divisors[0].size - rest)};
  const Divisor row = shape.divisors[last];
  const uint32_t next = divide(rest, row), column = rest - next * row.size;
  ElementPlace place{static_cast<int64_t>(column) * strides[last],
                     static_cast<int64_t>(row.size - column)};
  rest = next;
#pragma unroll 1
  for (int axis = last - 1; axis > 0; --axis) {
    const uint32_t quotient = divide(rest, shape.divisors[axis]);
    const uint32_t index = rest - quotient * shape.divisors[axis].size;
    place.offset += static_cast<int64_t>(index) * strides[axis];
    rest = quotient;
  }
  place.offset += static_cast<int64_t>(rest) * strides[0];
  return place;
}
__device__ __noinline__ inline ElementPlace large_place_of(const StridedIndex& shape,
                                                           const int64_t* strides, int64_t at) {
  ElementPlace place;
  for (int axis = shape.axes - 1; axis >= 0; --axis) {
    const int64_t index = axis > 0 ? at % shape.sizes[axis] : at;
    if (axis == shape.axes - 1) place.left = shape.sizes[axis] - index;
    place.offset += index * strides[axis];
    at /= shape.sizes[axis];
  }
  return place;
}
__device__ inline ElementPlace place_of(const StridedIndex& shape, const int64_t* strides,
                                        int64_t at) {
  return shape.is_small ? small_place_of(shape, strides, at) : large_place_of(shape, strides, at);
}

/// W: unsigned type of an element's width. dst: the lane's unit 0 of the slot.
template <class W>
struct Stager {
  using Unit = Pack<W, kUnit>;
  const StagedInput& input;
  const StridedIndex& shape;
  Unit* dst;
  int64_t first, count;  // the thread's first element; elements of the output

  __device__ const W* src() const { return static_cast<const W*>(input.data); }
  __device__ Unit* unit(int u) const { return dst + u * 32; }

  __device__ void copy_dense_units() const {
#pragma unroll
    for (int u = 0; u < kUnits; ++u)
      copy_async<sizeof(Unit)>(unit(u), src() + first + u * kUnitStep);
  }
  // Where the units lie: mostly in one row of the last axis.
  __device__ void find_units(int64_t (&offset)[kUnits]) const {
    const ElementPlace place = place_of(shape, input.strides, first);
    const int64_t step = input.strides[shape.axes - 1] * kUnitStep;
    if (place.left >= (kUnits - 1) * kUnitStep + kUnit) {
#pragma unroll
      for (int u = 0; u < kUnits; ++u) offset[u] = place.offset + u * step;
    } else {
#pragma unroll
      for (int u = 0; u < kUnits; ++u)
        offset[u] = place_of(shape, input.strides, first + u * kUnitStep).offset;
    }
  }
  __device__ void copy_units() const {
    int64_t offset[kUnits];
    find_units(offset);
#pragma unroll
    for (int u = 0; u < kUnits; ++u) copy_async<sizeof(Unit)>(unit(u), src() + offset[u]);
  }
  __device__ void splat_units() const {
    int64_t offset[kUnits];
    find_units(offset);
    W value[kUnits];
#pragma unroll
    for (int u = 0; u < kUnits; ++u) value[u] = src()[offset[u]];
#pragma unroll
    for (int u = 0; u < kUnits; ++u) *unit(u) = Unit{{value[u], value[u], value[u], value[u]}};
  }
  // Any strides; zeros past the end.
  __device__ void gather_units() const {
    const int64_t step = input.strides[shape.axes - 1];
#pragma unroll 1
    for (int u = 0; u < kUnits; ++u) {
      const int64_t at = first + u * kUnitStep;
      const ElementPlace place = place_of(shape, input.strides, at);
      Unit values{};
      if (at + kUnit <= count && place.left >= kUnit) {
#pragma unroll
        for (int i = 0; i < kUnit; ++i) values.element[i] = src()[place.offset + i * step];
      } else {
#pragma unroll
        for (int i = 0; i < kUnit; ++i) {
          if (at + i < count)
            values.element[i] = src()[place_of(shape, input.strides, at + i).offset];
        }
      }
      *unit(u) = values;
    }
  }
  __device__ void stage(bool is_whole) const {
    if (!is_whole || input.access == Access::kElements)
      gather_units();
    else if (input.access == Access::kDense)
      copy_dense_units();
    else if (input.access == Access::kSplat)
      splat_units();
    else
      copy_units();
  }
};

/// Stages the thread's part of `input`; `memory`: the warp's. It is there after
/// wait_for_staging().
__device__ inline void stage_input(const StagedInput& input, const StridedIndex& shape,
                                   std::byte* memory, int64_t first, int64_t count, bool is_whole) {
  const auto with = [&](auto element) {
    using W = decltype(element);
    auto* dst = reinterpret_cast<Pack<W, kUnit>*>(memory + input.slot) + threadIdx.x % 32;
    Stager<W>{input, shape, dst, first, count}.stage(is_whole);
  };
  if (input.width == 4)
    with(uint32_t{});
  else if (input.width == 2)
    with(uint16_t{});
  else
    with(uint8_t{});
}

}  // namespace vernier::backend::cuda
