// The tile shapes of the sm_90a matrix product that are made for operands of i8. Contract in
// gemm_sm90.h, device code in gemm_sm90.cuh. C++17.
#include "backend/cuda/kernels/linear/gemm_sm90_8_bits.cuh"

namespace vernier::backend::cuda {

GemmKernel gemm_sm90_int8(const char* name, GemmType result) {
  using Shapes = ShapesOf8Bits<Int8Into, int8_t>;
  static const KernelsOf8Bits kRows[] = {
      Shapes::row<1, 16, 4, 5, 1>("64x16"),
      Shapes::row<1, 32, 2, 9, 1>("64x32"),
      Shapes::row<1, 64, 1, 12, 1>("64x64"),
      Shapes::row<1, 128, 1, 8, 1, false, 7>("64x128"),
      Shapes::row<1, 192, 1, 6, 1, false, 5>("64x192"),
      Shapes::row<1, 256, 1, 4, 1, false, 3>("64x256"),
      Shapes::row<1, 256, 1, 4, 2, false, 3>("64x256 c2"),
      Shapes::row<2, 128, 1, 5, 1>("128x128"),
      Shapes::row<2, 128, 1, 5, 2, false, 4>("128x128 c2"),
      Shapes::row<1, 64, 1, 8, 1, true>("128x64 t"),
      Shapes::row<1, 128, 1, 5, 1, true>("128x128 t"),
      Shapes::row<1, 192, 1, 4, 1, true>("128x192 t"),
      Shapes::row<1, 256, 1, 3, 1, true>("128x256 t"),
      Shapes::row<1, 256, 1, 3, 2, true>("128x256 c2 t"),
  };
  return kernel_of(kRows, name, result);
}

}  // namespace vernier::backend::cuda
