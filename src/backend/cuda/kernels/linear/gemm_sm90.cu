// The tile shapes of the sm_90a matrix product and their launch; contract in gemm_sm90.h, device
// code in gemm_sm90.cuh. C++17.
#include <algorithm>
#include <string_view>

#include "backend/cuda/kernels/linear/gemm_sm90_8_bits.cuh"
#include "backend/cuda/kernels/linear/matrix_maps.h"

namespace vernier::backend::cuda {
namespace {

// What the host needs of one instantiation.
struct Variant {
  const char* name;
  int rows, cols, cluster;
  bool together;
  // f16, bf16, TF32; i8, f8, f8 with fast sums: each into f16, into bf16, into its own type.
  GemmKernel kernels[12];
};
constexpr int kOf8Bits = 3, kResultsOf8Bits = 3;
// Of operands of this type; of 8 bits into f16.
int first_kernel(GemmType operands) {
  const int type = static_cast<int>(operands);
  return type < kOf8Bits ? type : kOf8Bits + kResultsOf8Bits * (type - kOf8Bits);
}

void add_8_bits(Variant& variant) {
  const auto add = [&variant](GemmType operands, GemmKernel (*found)(const char*, GemmType)) {
    GemmKernel* into = variant.kernels + first_kernel(operands);
    for (const GemmType result : {GemmType::kF16, GemmType::kBF16, GemmType::kI8})
      *into++ = found(variant.name, result);
  };
  add(GemmType::kI8, &gemm_sm90_int8);
  add(GemmType::kF8, &gemm_sm90_f8);
  add(GemmType::kF8Fast, &gemm_sm90_f8_fast);
}
// Both warpgroups on one tile of 128 rows; not for TF32.
template <int kCols, int kStages, int kCluster>
Variant together(const char* name) {
  Variant made{name, 128, kCols, kCluster, true, {}};
  made.kernels[0] = kernel_of_shape<GemmShape<__half, 1, kCols, 1, kStages, kCluster, true>>();
  made.kernels[1] =
      kernel_of_shape<GemmShape<__nv_bfloat16, 1, kCols, 1, kStages, kCluster, true>>();
  add_8_bits(made);
  return made;
}
// Of operands of 8 bits only; not `together`: in turns.
template <int kCols, int kCluster, bool kTogether = true>
Variant of_8_bits(const char* name) {
  Variant made{name, kTogether ? 128 : 64, kCols, kCluster, kTogether, {}};
  add_8_bits(made);
  return made;
}
// kTf32Stages: of the ring where results of 4 bytes wait beside it; 0: no such kernel.
template <int kRowBlocks, int kCols, int kSub, int kStages, int kCluster, int kTf32Stages>
Variant variant(const char* name) {
  Variant made{name, 64 * kRowBlocks, kCols, kCluster, false, {}};
  made.kernels[0] =
      kernel_of_shape<GemmShape<__half, kRowBlocks, kCols, kSub, kStages, kCluster>>();
  made.kernels[1] =
      kernel_of_shape<GemmShape<__nv_bfloat16, kRowBlocks, kCols, kSub, kStages, kCluster>>();
  if constexpr (kTf32Stages > 0)
    made.kernels[2] =
        kernel_of_shape<GemmShape<float, kRowBlocks, kCols, kSub, kTf32Stages, kCluster>>();
  add_8_bits(made);
  return made;
}

const Variant kVariants[] = {
    variant<1, 8, 4, 6, 1, 0>("64x8"),         variant<1, 16, 4, 5, 1, 5>("64x16"),
    variant<1, 24, 2, 9, 1, 0>("64x24"),       variant<1, 32, 2, 9, 1, 8>("64x32"),
    variant<1, 48, 2, 7, 1, 0>("64x48"),       variant<1, 64, 1, 12, 1, 12>("64x64"),
    variant<1, 64, 1, 12, 2, 0>("64x64 c2"),   variant<1, 128, 1, 8, 1, 7>("64x128"),
    variant<1, 128, 1, 8, 2, 0>("64x128 c2"),  variant<1, 192, 1, 6, 1, 0>("64x192"),
    variant<1, 192, 1, 6, 2, 0>("64x192 c2"),  variant<2, 128, 1, 6, 1, 5>("128x128"),
    variant<2, 128, 1, 6, 2, 5>("128x128 c2"), together<64, 8, 1>("128x64 t"),
    together<64, 8, 2>("128x64 c2 t"),         together<128, 6, 1>("128x128 t"),
    together<192, 4, 1>("128x192 t"),          together<256, 3, 1>("128x256 t"),
    together<256, 3, 2>("128x256 c2 t"),       of_8_bits<128, 2>("128x128 c2 t"),
    of_8_bits<192, 2>("128x192 c2 t"),         of_8_bits<256, 1, false>("64x256"),
    of_8_bits<256, 2, false>("64x256 c2"),
};
constexpr int kVariantCount = sizeof(kVariants) / sizeof(kVariants[0]);

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Whether tiles that follow each other share w rather than x: the larger of the two, though
// clusters share w already, and of many rows x is better read once.
bool shares_w(const Variant& v, int64_t m) {
  constexpr int64_t kManyRows = 2048;
  return v.cluster == 1 && (v.cols > v.rows || (v.cols == v.rows && m <= kManyRows));
}
// The type that results leave in where they leave through boxes; of operands of 8 bits that of 16
// bits among bias, residual and y, or the operands' where they are quantized.
GemmType result_type(const GemmSm90& call) {
  if (call.operands < GemmType::kI8) return call.operands;
  if (call.quantized.q != nullptr) return call.operands;
  const bool has_bf16 = (call.bias != nullptr && call.bias_type == GemmType::kBF16) ||
                        (call.residual != nullptr && call.residual_type == GemmType::kBF16) ||
                        call.y_type == GemmType::kBF16;
  return has_bf16 ? GemmType::kBF16 : GemmType::kF16;
}
const GemmKernel& kernel_for(const Variant& v, const GemmSm90& call) {
  const int first = first_kernel(call.operands);
  if (call.operands < GemmType::kI8) return v.kernels[first];
  const GemmType result = result_type(call);
  return v.kernels[first + (result >= GemmType::kI8 ? 2 : result == GemmType::kBF16 ? 1 : 0)];
}
// Rows of tiles that are walked column by column before the next. One, with which all of w comes
// again for each, only as long as w stays in the second-level cache.
int64_t rows_of_group(const Variant& v, const GemmSm90& call) {
  constexpr int64_t kRows = 1024, kHeldBytes = int64_t{32} << 20;
  const auto w_bytes = static_cast<int64_t>(bytes_of(call.operands)) * call.k * call.n;
  const bool many = shares_w(v, call.m) || w_bytes > kHeldBytes;
  return many ? ceil_div(kRows, v.rows * v.cluster) : 1;
}

}  // namespace

int gemm_sm90_variants() { return kVariantCount; }
const char* gemm_sm90_name(int variant) { return kVariants[variant].name; }
int gemm_sm90_few_rows() {
  static const int kFound = [] {
    int variant = 0;
    while (std::string_view(kVariants[variant].name) != "64x32") ++variant;
    return variant;
  }();
  return kFound;
}
bool gemm_sm90_has(int variant, GemmType operands) {
  return kVariants[variant].kernels[first_kernel(operands)].function != nullptr;
}

cudaError_t prepare_gemm_sm90() {
  if (encode_tiled() == nullptr) return cudaErrorNotSupported;
  for (const Variant& v : kVariants) {
    for (const GemmKernel& kernel : v.kernels) {
      if (kernel.function == nullptr) continue;
      const cudaError_t status =
          cudaFuncSetAttribute(kernel.function, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               static_cast<int>(kernel.shared_bytes));
      if (status != cudaSuccess) return status;
    }
  }
  return cudaSuccess;
}

cudaError_t launch_gemm_sm90(const GemmSm90& call, int index, cudaStream_t stream) {
  if (call.m == 0 || call.n == 0) return cudaSuccess;
  const Variant& v = kVariants[index];
  const GemmKernel& kernel = kernel_for(v, call);
  const GemmType result = result_type(call);
  if (kernel.function == nullptr) return cudaErrorInvalidDeviceFunction;
  // A box of no more rows than there are: the rest of the tile of x may hold anything, it only
  // reaches rows that are not stored.
  const int x_rows = static_cast<int>(std::min<int64_t>(v.rows, ceil_div(call.m, 8) * 8));
  const auto aligned = [](const void* data, size_t bytes) {
    return reinterpret_cast<uintptr_t>(data) % bytes == 0;
  };
  const bool x_aligned = aligned(call.x, 16);
  const bool quantizes = call.quantized.q != nullptr;
  void* const y = quantizes ? call.quantized.q : call.y;
  const bool y_aligned = aligned(y, 16) && (!quantizes || call.n % 16 == 0);
  const bool adds = call.residual != nullptr;
  const bool boxes =
      kernel.box_row_bytes != 0 && y_aligned && (call.y_type == result || quantizes) &&
      (adds ? call.activation == 0 && call.residual_type == result && aligned(call.residual, 16)
            : call.activation <= 1);
  CUtensorMap maps[4] = {};
  const bool ok =
      encode(&maps[1], {call.w, call.n, call.k, v.cols / v.cluster, call.operands}) &&
      (!x_aligned || encode(&maps[0], {call.x, call.m, call.k, x_rows, call.operands})) &&
      (!boxes || encode(&maps[2], {y, call.m, call.n, 16, result, true, kernel.box_row_bytes})) &&
      (!boxes || !adds || encode(&maps[3], {call.residual, call.m, call.n, 16, result, true}));
  if (!ok) return cudaErrorInvalidValue;

  const auto elem_bytes = static_cast<int64_t>(bytes_of(call.operands));
  GemmArguments args{};
  args.backwards = call.backwards, args.constant_bias = call.constant_bias;
  args.bias = call.bias, args.residual = call.residual, args.y = call.y;
  args.m = static_cast<int>(call.m), args.n = call.n;
  args.k_blocks = static_cast<int>(ceil_div(call.k * elem_bytes, 128 * kernel.sub));
  args.row_tiles = static_cast<int>(ceil_div(call.m, v.rows * v.cluster));
  args.col_tiles = static_cast<int>(ceil_div(call.n, v.cols));
  const int64_t group_rows = std::min<int64_t>(rows_of_group(v, call), args.row_tiles);
  args.group = divisor_of(group_rows * args.col_tiles);
  args.rows = divisor_of(group_rows);
  args.last_rows = divisor_of((args.row_tiles - 1) % group_rows + 1);
  args.x = call.x, args.k = call.k;
  args.x_aligned = x_aligned, args.y_aligned = y_aligned;
  args.finish = !boxes                 ? GemmFinish::kAny
                : adds                 ? GemmFinish::kBoxesResidual
                : call.activation == 1 ? GemmFinish::kBoxesGelu
                                       : GemmFinish::kBoxes;
  args.residual_aligned = aligned(call.residual, call.residual_type == GemmType::kF32 ? 8 : 4);
  args.x_bytes = static_cast<uint32_t>(kernel.sub * x_rows * 128);
  args.w_bytes = static_cast<uint32_t>(kernel.sub * v.cols * 128);
  args.bias_type = call.bias_type, args.residual_type = call.residual_type;
  args.y_type = call.y_type, args.activation = call.activation;
  args.scales = call.scales, args.quantized = call.quantized;

  const int64_t tiles = int64_t{args.row_tiles} * args.col_tiles;
  const int64_t clusters = std::min<int64_t>(tiles, call.processors / v.cluster);
  ClusterLaunch launch(clusters, v.cluster, kGemmThreads, kernel.shared_bytes, call.overlap);
  launch.config.stream = stream;
  void* arguments[] = {&maps[0], &maps[1], &maps[2], &maps[3], &args};
  return cudaLaunchKernelExC(&launch.config, kernel.function, arguments);
}

// The fewest estimated cycles, in rounds of one tile per multiprocessor: per 128 bytes of K the
// longer of the products (2048 a cycle) and of what two multiprocessors side by side must take in,
// which share one operand where both have tiles; and what the next kernel can't hide where no pair
// is left to it. The constants are fitted to the times of bench_invariance on an H200 (sizes of
// BERT, M from 64 to 16384, 0.45 us for a change of shape at few rows): within 2 % of the best on
// average, 12 % at worst. Clusters are left to tuning.
int gemm_sm90_choice(int64_t m, int n, int k, GemmType operands, int processors) {
  constexpr int kBlockBytes = 128;
  constexpr double kBytesOfProductsPerCycle = 4096, kBytesPerCycle = 100, kLeastCycles = 60,
                   kResultsPerCycle = 128, kNotHidden = 700, kCyclesPerUs = 1900;
  const auto bytes = static_cast<int64_t>(bytes_of(operands));
  int best = -1;
  double least = 0;
  for (int i = 0; i < kVariantCount; ++i) {
    const Variant& v = kVariants[i];
    if (v.cluster > 1 || !gemm_sm90_has(i, operands)) continue;
    const int64_t tiles = ceil_div(m, v.rows) * ceil_div(n, v.cols);
    // Together their epilogues would show; of f8 in turns the additions of sums do.
    const bool of_f8 = operands == GemmType::kF8;
    if (v.together && tiles > processors && !of_f8) continue;
    const bool in_pairs = 2 * tiles > processors;
    const auto rows = static_cast<double>(std::min<int64_t>(v.rows, m));
    const auto cols = static_cast<double>(v.cols);
    const bool shared_w = shares_w(v, m);
    const double incoming = kBlockBytes * (rows * (in_pairs && shared_w ? 2 : 1) +
                                           cols * (in_pairs && !shared_w ? 2 : 1));
    const double results = static_cast<double>(v.rows) * v.cols;
    const double step = std::max({results * kBlockBytes / kBytesOfProductsPerCycle,
                                  incoming / kBytesPerCycle, kLeastCycles});
    const auto steps = static_cast<double>(ceil_div(k * bytes, kBlockBytes));
    double cycles = static_cast<double>(ceil_div(tiles, processors)) *
                        (steps * step + results / kResultsPerCycle) +
                    (in_pairs ? kNotHidden : 0);
    if (m <= kGemmFewRows && i != gemm_sm90_few_rows()) cycles += kGemmShapeSwitchUs * kCyclesPerUs;
    if (best < 0 || cycles < least) least = cycles, best = i;
  }
  return best;
}

}  // namespace vernier::backend::cuda
