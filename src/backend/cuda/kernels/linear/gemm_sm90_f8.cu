// The tile shapes of the sm_90a matrix product that are made for operands of f8e4m3. Contract in
// gemm_sm90.h, device code in gemm_sm90.cuh. C++17.
#include <string_view>

#include "backend/cuda/kernels/linear/gemm_sm90.cuh"
#include "backend/cuda/kernels/linear/gemm_sm90_8_bits.h"

namespace vernier::backend::cuda {
namespace {

struct Row {
  std::string_view name;
  GemmKernel into_f16, into_bf16, into_f8;
};

template <class S>
GemmKernel kernel() {
  return {reinterpret_cast<const void*>(&gemm_kernel<S>), S::kSharedBytes, S::kBoxes};
}
template <int kRowBlocks, int kCols, int kSub, int kStages, int kCluster, bool kTogether = false>
Row row(std::string_view name) {
  return {
      name,
      kernel<GemmShape<Fp8Into<__half>, kRowBlocks, kCols, kSub, kStages, kCluster, kTogether>>(),
      kernel<GemmShape<Fp8Into<__nv_bfloat16>, kRowBlocks, kCols, kSub, kStages, kCluster,
                       kTogether>>(),
      kernel<GemmShape<Fp8Into<Fp8>, kRowBlocks, kCols, kSub, kStages, kCluster, kTogether>>()};
}

}  // namespace

GemmKernel gemm_sm90_f8(const char* name, GemmType result) {
  static const Row kRows[] = {
      row<1, 16, 4, 5, 1>("64x16"),
      row<1, 32, 2, 9, 1>("64x32"),
      row<1, 64, 1, 12, 1>("64x64"),
      row<1, 128, 1, 8, 1>("64x128"),
      row<1, 128, 1, 8, 2>("64x128 c2"),
      row<1, 192, 1, 6, 2>("64x192 c2"),
      row<1, 64, 1, 8, 1, true>("128x64 t"),
      row<1, 128, 1, 5, 1, true>("128x128 t"),
      row<1, 128, 1, 5, 2, true>("128x128 c2 t"),
      row<1, 192, 1, 4, 1, true>("128x192 t"),
      row<1, 192, 1, 4, 2, true>("128x192 c2 t"),
  };
  for (const Row& made : kRows) {
    if (made.name != name) continue;
    if (result == GemmType::kF8) return made.into_f8;
    return result == GemmType::kBF16 ? made.into_bf16 : made.into_f16;
  }
  return {};
}

}  // namespace vernier::backend::cuda
