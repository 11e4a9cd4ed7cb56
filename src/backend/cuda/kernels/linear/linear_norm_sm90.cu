// The kernels of Linear with LayerNorm for sm_90a and their launch; contract in linear_norm_sm90.h,
// device code in linear_norm_sm90.cuh. C++17.
#include <algorithm>

#include "backend/cuda/kernels/linear/linear_norm_sm90.cuh"
#include "backend/cuda/kernels/linear/matrix_maps.h"
#include "backend/cuda/kernels/norm/norm_packed.h"

namespace vernier::backend::cuda {
namespace {

constexpr int kRowsOfTile = 128;

// What the host needs of one number of columns and type.
struct Kernels {
  const void* joined;
  uint32_t shared_bytes;
  int blocks, cols;  // of a cluster, of a block
};
template <class T, int kBlocks, int kCols, int kStages>
Kernels kernels() {
  using S = LinearNormShape<T, kBlocks, kCols, kStages>;
  return {reinterpret_cast<const void*>(&linear_norm_kernel<S>), S::kAllSharedBytes, kBlocks,
          kCols};
}
template <class T>
const Kernels* kernels_of(int n) {
  static const Kernels kAll[] = {kernels<T, 1, 256, 3>(), kernels<T, 2, 192, 4>(),
                                 kernels<T, 2, 256, 3>(), kernels<T, 4, 192, 4>(),
                                 kernels<T, 4, 256, 3>()};
  for (const Kernels& each : kAll) {
    if (each.blocks * each.cols == n) return &each;
  }
  return nullptr;
}
const Kernels* kernels_of(GemmType type, int n) {
  if (type == GemmType::kF16) return kernels_of<__half>(n);
  return type == GemmType::kBF16 ? kernels_of<__nv_bfloat16>(n) : nullptr;
}

bool is_aligned(const void* data) { return reinterpret_cast<uintptr_t>(data) % 16 == 0; }

// Clusters that the device holds at a time: one more would run alone, behind the others.
int64_t most_clusters(const Kernels& kernels, int processors) {
  const ClusterLaunch launch(std::max(1, processors / kernels.blocks), kernels.blocks, kGemmThreads,
                             kernels.shared_bytes, false);
  int clusters = 0;
  const cudaError_t status =
      cudaOccupancyMaxActiveClusters(&clusters, kernels.joined, &launch.config);
  return status == cudaSuccess && clusters > 0 ? clusters : 1;
}

}  // namespace

bool linear_norm_sm90_has(int n, int k) {
  const Kernels* kernels = kernels_of(GemmType::kF16, n);
  return kernels != nullptr && (kernels->blocks < 4 || k <= n);
}

bool linear_norm_sm90_joins(const LinearNormSm90& call) {
  return is_aligned(call.product.x) && is_aligned(call.product.residual) &&
         is_aligned(call.product.y);
}

cudaError_t prepare_linear_norm_sm90() {
  for (GemmType type : {GemmType::kF16, GemmType::kBF16}) {
    for (int n : {256, 384, 512, 768, 1024}) {
      const Kernels& each = *kernels_of(type, n);
      const cudaError_t status =
          cudaFuncSetAttribute(each.joined, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               static_cast<int>(each.shared_bytes));
      if (status != cudaSuccess) return status;
    }
  }
  return cudaSuccess;
}

int64_t linear_norm_sm90_wave(int n, int processors) {
  const Kernels* kernels = kernels_of(GemmType::kF16, n);  // that of bf16 needs as much
  return kernels == nullptr ? 0 : most_clusters(*kernels, processors) * kRowsOfTile;
}

cudaError_t launch_linear_norm_joined(const LinearNormSm90& call, cudaStream_t stream) {
  const GemmSm90& product = call.product;
  if (product.m == 0) return cudaSuccess;
  const Kernels* kernels = kernels_of(product.operands, product.n);
  if (kernels == nullptr || call.wave < kRowsOfTile || !linear_norm_sm90_joins(call))
    return cudaErrorInvalidValue;
  CUtensorMap maps[4] = {};
  const bool ok =
      encode(&maps[0],
             {product.x, product.m, product.k, kRowsOfTile / kernels->blocks, product.operands}) &&
      encode(&maps[1], {product.w, product.n, product.k, kernels->cols, product.operands}) &&
      encode(&maps[2], {product.y, product.m, product.n, 16, product.operands, true}) &&
      encode(&maps[3], {product.residual, product.m, product.n, 16, product.operands, true});
  if (!ok) return cudaErrorInvalidValue;

  LinearNormArguments args{};
  GemmArguments& of = args.product;
  of.m = static_cast<int>(product.m), of.n = product.n;
  of.k_blocks = (product.k + 63) / 64;
  of.row_tiles = static_cast<int>((product.m + kRowsOfTile - 1) / kRowsOfTile);
  of.col_tiles = 1;
  of.x_bytes = kRowsOfTile * 128, of.w_bytes = static_cast<uint32_t>(kernels->cols) * 128;
  of.bias = product.bias, of.bias_type = product.bias_type;
  of.backwards = product.backwards, of.constant_bias = product.constant_bias;
  args.scale = call.scale, args.shift = call.shift, args.epsilon = call.epsilon;

  ClusterLaunch launch(std::min<int64_t>(of.row_tiles, call.wave / kRowsOfTile), kernels->blocks,
                       kGemmThreads, kernels->shared_bytes, product.overlap);
  launch.config.stream = stream;
  void* arguments[] = {&maps[0], &maps[1], &maps[2], &maps[3], &args};
  return cudaLaunchKernelExC(&launch.config, kernels->joined, arguments);
}

cudaError_t launch_linear_norm_rows(const LinearNormSm90& call, cudaStream_t stream) {
  const GemmSm90& product = call.product;
  if (product.m == 0) return cudaSuccess;
  if (kernels_of(product.operands, product.n) == nullptr) return cudaErrorInvalidValue;
  PackedNorm args{};
  args.x = args.y = product.y, args.addend = product.residual;
  args.scale = call.scale, args.bias = call.shift;
  args.rows = product.m, args.cols = product.n;
  args.epsilon = call.epsilon;
  args.is_aligned = is_aligned(product.residual) && is_aligned(product.y) &&
                    is_aligned(call.scale) && is_aligned(call.shift);
  args.type = product.operands == GemmType::kF16 ? DType::kF16 : DType::kBF16;
  args.has_constants = true;
  args.backwards = product.backwards;
  return launch_packed_norm(args, stream);
}

}  // namespace vernier::backend::cuda
