// Host-side entry of gemm_sm90.cu: plain types, so that nvcc sees no C++20 header.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>

namespace vernier::backend::cuda {

/// Types of Linear's operands as the kernel sees them; kF32 operands of products are TF32. kF8 and
/// kF8Fast are both f8e4m3, with sums as launch_gemm_sm90 has them.
enum class GemmType : uint8_t { kF16, kBF16, kF32, kI8, kF8, kF8Fast };

/// What turns sums of products of i8 into results: (sum − x_zero·Σ_k w)·x_scale·w_scale; of f8e4m3
/// too, where all zeros are 0.
struct GemmScales {
  const float *x = nullptr, *x_zeros = nullptr;  // one or [m]; x_zeros null: all are *x_zero
  const int8_t* x_zero = nullptr;                // null: 0
  const float *w = nullptr, *w_sums = nullptr;   // one or [n]; [n]: Σ_k w
  bool by_row = false, zeros_by_row = false, by_column = false;
  /// Of i8: zero points of w, one or [n], and Σ_k x of each row. The product is of x and w − zero,
  /// in i32, and w_sums are Σ_k (w − zero). Null: w has none.
  const int8_t* w_zeros = nullptr;
  const int32_t* x_sums = nullptr;
  bool w_zeros_by_column = false;
  /// x's scale and zero point are one number each, whatever m is, and no kernel writes them: they
  /// go into the columns' scales and bias. Another rounding than that of rows' numbers, so it may
  /// not depend on m.
  bool folded = false;
};

/// Where q is not null, y, of operands of 8 bits and type kF16, is not stored, but quantized to
/// the operands' type as by QuantizeRows with one scale: q = y·factor / scale + zero
/// (device/quantize_row.cuh).
struct GemmQuantized {
  int8_t* q = nullptr;                            // [m, n]
  const float* factors = nullptr;                 // [n], or null: 1
  const float *scale = nullptr, *zero = nullptr;  // one number each; of f8 zero is null
};

/// y = act(x·wᵀ + bias) + residual. `operands` is the type of x and w; bias, residual and y each
/// have that type or f32. TF32: x and w are f32 and are rounded to the nearest TF32 (ties to even)
/// when they are loaded. i8 and f8: the product is scaled (`scales`), y is f16, bf16 or f32, bias
/// and residual have y's type or f32, or (y f32) f16 or f32.
struct GemmSm90 {
  const void* x;         // [m, k] row-major
  const void* w;         // [n, k] row-major, 16-byte aligned
  const void* bias;      // [n] or null
  const void* residual;  // [m, n] or null; may alias y
  void* y;               // [m, n]
  int64_t m;             // 0 < m < 2^31
  int n, k;              // multiples of 8; i8, f8: k of 16
  GemmType operands, bias_type, residual_type, y_type;
  int activation;  // Activation of core/attrs.h
  int processors;  // of the device
  /// The launch may begin while the kernel before it in the stream ends: w is fetched meanwhile, x,
  /// the residual and y are not touched before that kernel's end. Always correct; off for timing.
  bool overlap;
  bool backwards = false;  ///< tiles from the last to the first; the same bits
  /// No kernel writes the bias: it is read while the kernel before still runs.
  bool constant_bias = false;
  GemmScales scales = {};        ///< of operands of 8 bits
  GemmQuantized quantized = {};  ///< without a residual
};

/// wgmma's sums of kF8 are promoted after so many products; those of kF8Fast may have so many.
inline constexpr int64_t kPromotedProducts = 128, kMostFastProducts = 4096;

/// Number of tile shapes, their names ("128x128 c2"), and the one that a problem of these sizes is
/// likely to run fastest on. All of them give a row the same bits.
int gemm_sm90_variants();
bool gemm_sm90_has(int variant, GemmType operands);
const char* gemm_sm90_name(int variant);
int gemm_sm90_choice(int64_t m, int n, int k, GemmType operands, int processors);
/// The tile shape that every product of up to kGemmFewRows rows is run well in. Another one must be
/// faster by kGemmShapeSwitchUs, each timed behind products of its own kind, which is not what a
/// layer gains: each change of code costs 0.44 us, and probably a shape of few blocks no longer
/// begins on multiprocessors that its like has left free. On an H200, 128 rows, 1024 columns: with
/// two of four products in 128x64, 0.7 and 0.9 us faster by themselves, a layer takes 3.8 us more
/// than with all in 64x32 (bench_layer, docs/performance.md).
int gemm_sm90_few_rows();
inline constexpr int64_t kGemmFewRows = 128;
inline constexpr double kGemmShapeSwitchUs = 1.5;

/// Once per device before the first launch: raises the kernels' shared-memory limits.
cudaError_t prepare_gemm_sm90();

/// Products of the operands are exact and summed in f32 by wgmma, 32 bytes of K at a time in
/// ascending order, K never split: a row's bits depend on k, the types and the row alone. K that is
/// no multiple of a tile's is filled up with zeros; a sum of −0 becomes +0, so that the filling
/// does not show. Products of i8 are summed in i32, exactly, up to 2^15 of them. Those of f8e4m3
/// are summed by wgmma, which is less exact than f32: over 128 of them, and these sums in f32, in
/// ascending order (kF8), or over all of K (kF8Fast). Scales,
/// bias, activation and residual are f32; y is rounded once. Cost: 2·m·n·k operations on the tensor
/// cores; at small m the bytes of w. Never splitting K costs most at k = 4096, m <= 128, where one
/// block walks all of K: measured by bench_gemm. No workspace. Encodes tensor maps on the host
/// (about 0.3 us), so it can be captured in a graph.
cudaError_t launch_gemm_sm90(const GemmSm90& call, int variant, cudaStream_t stream);

}  // namespace vernier::backend::cuda
