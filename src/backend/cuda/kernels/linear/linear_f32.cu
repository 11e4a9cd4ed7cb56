// The tile shapes of the f32 matrix product on CUDA cores and their launch; contract in
// linear_f32.h, device code in linear_f32.cuh. C++17.
#include "backend/cuda/kernels/linear/linear_f32.cuh"
#include "backend/cuda/kernels/linear/matrix_maps.h"

namespace vernier::backend::cuda {
namespace {

// What the host needs of one instantiation.
struct Variant {
  const char* name;
  int rows, cols, threads, blocks;
  uint32_t shared_bytes;
  void (*kernel)(LinearF32Arguments);
  double rate;  // part of the peak
};

template <class S>
Variant variant(const char* name, double rate) {
  return {name, S::kRows, S::kCols, S::kThreads, S::kBlocks, S::kSharedBytes, &linear_f32_kernel<S>,
          rate};
}

const Variant kVariants[] = {
    variant<F32Shape<1, 4, 1, 1, 7, 7, 3>>("8x16", 0.10),
    variant<F32Shape<1, 4, 1, 2, 7, 7, 3>>("8x32", 0.15),
    variant<F32Shape<2, 4, 1, 2, 6, 7, 2>>("16x32", 0.30),
    variant<F32Shape<2, 4, 1, 3, 6, 7, 2>>("16x48", 0.33),
    variant<F32Shape<2, 4, 2, 2, 6, 7, 2>>("32x32", 0.30),
    variant<F32Shape<4, 4, 1, 4, 6, 7, 2>>("32x64", 0.53),
    variant<F32Shape<2, 12, 2, 2, 5, 3, 2>>("32x96", 0.47),
    variant<F32Shape<4, 8, 2, 2, 5, 3, 2>>("64x64", 0.56),
    variant<F32Shape<4, 12, 2, 2, 4, 1, 2>>("64x96", 0.60),
    variant<F32Shape<8, 8, 1, 4, 4, 1, 2>>("64x128", 0.62),
    variant<F32Shape<8, 12, 2, 4, 4, 1, 1>>("128x192", 0.63),
};
constexpr int kVariantCount = sizeof(kVariants) / sizeof(kVariants[0]);

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
bool is_aligned(const void* data) { return reinterpret_cast<uintptr_t>(data) % 16 == 0; }

}  // namespace

int linear_f32_variants() { return kVariantCount; }
const char* linear_f32_name(int variant) { return kVariants[variant].name; }

cudaError_t prepare_linear_f32() {
  if (encode_tiled() == nullptr) return cudaErrorNotSupported;
  for (const Variant& v : kVariants) {
    const cudaError_t status = cudaFuncSetAttribute(
        v.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(v.shared_bytes));
    if (status != cudaSuccess) return status;
  }
  return cudaSuccess;
}

cudaError_t launch_linear_f32(const LinearF32& call, int index, cudaStream_t stream) {
  if (call.m == 0 || call.n == 0) return cudaSuccess;
  const Variant& v = kVariants[index];
  LinearF32Arguments args{};
  args.p = call;
  args.padded_k = static_cast<int>(padded_k(call.k));
  args.panels = static_cast<int>(panels_of(call.n));
  args.row_tiles = static_cast<int>(ceil_div(call.m, v.rows));
  args.col_tiles = static_cast<int>(ceil_div(call.n, v.cols));
  args.x_aligned = call.k % 4 == 0 && is_aligned(call.x);
  if (args.x_aligned &&
      !encode(&args.x_map, {call.x, call.m, call.k, v.rows, GemmType::kF32, true}))
    return cudaErrorInvalidValue;
  args.vectors = call.n % 4 == 0 && call.y_type == DType::kF32 && is_aligned(call.y) &&
                 (call.residual == nullptr ||
                  (call.residual_type == DType::kF32 && is_aligned(call.residual)));
  const int64_t tiles = int64_t{args.row_tiles} * args.col_tiles;
  const int64_t most = int64_t{call.processors} * v.blocks;
  const auto blocks = static_cast<unsigned>(tiles < most ? tiles : most);
  return launch_overlapped(v.kernel, dim3(blocks), dim3(static_cast<unsigned>(v.threads)),
                           v.shared_bytes, stream, args);
}

// The fewest estimated cycles: rounds of one tile per multiprocessor, each at its shape's rate. The
// rates are fitted to times of bench_linear_f32 on an H200 (sizes of BERT, M from 1 to 16384): the
// choice is within 10 % of the best in each.
int linear_f32_choice(int64_t m, int n, int, int processors) {
  int best = 0;
  double least = 0;
  for (int i = 0; i < kVariantCount; ++i) {
    const Variant& v = kVariants[i];
    const int64_t tiles = ceil_div(m, v.rows) * ceil_div(n, v.cols);
    const double cycles =
        static_cast<double>(ceil_div(tiles, processors)) * v.rows * v.cols / v.rate;
    if (i == 0 || cycles < least) least = cycles, best = i;
  }
  return best;
}

}  // namespace vernier::backend::cuda
