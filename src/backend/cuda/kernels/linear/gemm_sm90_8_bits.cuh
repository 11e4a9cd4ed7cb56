// How gemm_sm90.cu and the files of gemm_sm90_8_bits.h list their tile shapes. C++17.
#pragma once
#include <string_view>

#include "backend/cuda/kernels/linear/gemm_sm90.cuh"
#include "backend/cuda/kernels/linear/gemm_sm90_8_bits.h"

namespace vernier::backend::cuda {

/// The kernel of a GemmShape.
template <class S>
GemmKernel kernel_of_shape() {
  return {reinterpret_cast<const void*>(&gemm_kernel<S>), S::kSharedBytes, S::kSub,
          S::kBoxes ? S::kBoxRowBytes : 0};
}

/// The kernels of a tile shape, by the type of results; `own` that of the operands.
struct KernelsOf8Bits {
  std::string_view name;
  GemmKernel into_f16, into_bf16, into_own;
};

/// Tile shapes of operands Into<R>, whose own type is Own.
template <template <class> class Into, class Own>
struct ShapesOf8Bits {
  /// As GemmShape has them; kStagesOf16: where results have 16 bits.
  template <int kRowBlocks, int kCols, int kSub, int kStages, int kCluster, bool kTogether = false,
            int kStagesOf16 = kStages>
  static KernelsOf8Bits row(std::string_view name) {
    return {name, kernel<__half, kRowBlocks, kCols, kSub, kStagesOf16, kCluster, kTogether>(),
            kernel<__nv_bfloat16, kRowBlocks, kCols, kSub, kStagesOf16, kCluster, kTogether>(),
            kernel<Own, kRowBlocks, kCols, kSub, kStages, kCluster, kTogether>()};
  }

 private:
  template <class Result, int kRowBlocks, int kCols, int kSub, int kStages, int kCluster,
            bool kTogether>
  static GemmKernel kernel() {
    return kernel_of_shape<
        GemmShape<Into<Result>, kRowBlocks, kCols, kSub, kStages, kCluster, kTogether>>();
  }
};

/// The kernel of `name` for this result; its function is null where no row has that name.
template <int kRows>
GemmKernel kernel_of(const KernelsOf8Bits (&rows)[kRows], std::string_view name, GemmType result) {
  for (const KernelsOf8Bits& made : rows) {
    if (made.name != name) continue;
    if (result >= GemmType::kI8) return made.into_own;
    return result == GemmType::kBF16 ? made.into_bf16 : made.into_f16;
  }
  return {};
}

}  // namespace vernier::backend::cuda
