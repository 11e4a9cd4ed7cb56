// Kernels on arrays of doubles that the FP64 evaluation leaves on the GPU. All pointers are device
// memory, all arrays dense unless strides are given. Plain C++17: .cu files include it.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>

namespace vernier::backend::cuda::fp64 {

constexpr int kMaxAxes = 8, kMostOperands = 3;

/// FloatRounder::Grid, and what is done with it.
struct Rounder {
  enum Mode : int32_t { kNone, kNearest, kTruncate };
  double min_normal = 0, spacing = 0, shift = 0, max_finite = 0, overflow = 0, least = 0, zero = 0;
  int32_t mode = kNone;
};
/// A rounding point: the rounding, and where the largest finite magnitude before it goes, as the
/// bits of a double; null: nowhere.
struct Point {
  Rounder rounder;
  unsigned long long* peak = nullptr;
  bool is_empty() const { return rounder.mode == Rounder::kNone && peak == nullptr; }
};

/// Sizes of a result, and element strides of up to three operands over them (0: repeated). The
/// first size is not read.
struct Layout {
  int32_t rank = 0;
  int64_t elems = 1;
  int64_t sizes[kMaxAxes] = {}, strides[kMostOperands][kMaxAxes] = {};
};

enum class Unary : int32_t {
  kCopy,
  kNeg,
  kAbs,
  kSqrt,
  kReciprocal,
  kExp,
  kLog,
  kErf,
  kTanh,
  kSigmoid,
  kRelu,
  kGeluErf,
  kGeluTanh,
  kSin,
  kCos,
  kScale,  ///< times the number `factor`
};
/// y = f(x), rounded at `out`. y may be x.
void unary(Unary function, const double* x, double* y, int64_t count, double factor,
           const Point& out, cudaStream_t stream);

enum class Binary : int32_t { kAdd, kSub, kMul, kDiv, kPow, kMin, kMax };
/// y = f(a, b) over `layout`, rounded at `out`. y may be an operand that is not repeated.
void binary(Binary function, const Layout& layout, const double* a, const double* b, double* y,
            const Point& out, cudaStream_t stream);
/// A chain of elementwise operators: v = first[i], then v = f(v) or f(v, other) for each of them,
/// then y[i] = v. Each rounds as its operator alone does.
constexpr int32_t kMostChainSteps = 8, kChainSlots = 2;
struct ChainOperator {
  enum Other : int32_t { kArray, kItself, kSlot };  ///< kSlot + n: what slot n holds
  bool is_binary = false, other_is_left = false;
  Unary unary = Unary::kCopy;
  Binary binary = Binary::kAdd;
  int32_t other = kArray, save_in = -1;  ///< the slot for the result; -1: none
  const double* array = nullptr;
  Layout layout;  ///< of the array: operand 0
};
struct Chain {
  const double* first = nullptr;
  int32_t steps = 0;
  ChainOperator at[kMostChainSteps];
};
void chain(const Chain& chain, int64_t elems, double* y, cudaStream_t stream);

/// y = x, whole numbers.
void to_integers(const double* x, int64_t* y, int64_t count, cudaStream_t stream);
/// y = condition ? a : b
void where(const Layout& layout, const int64_t* condition, const double* a, const double* b,
           double* y, cudaStream_t stream);
/// y = the elements of x at the strides of operand 0, from `first` on.
void strided_copy(const Layout& layout, int64_t first, const double* x, double* y,
                  cudaStream_t stream);
/// Rows `places` of x, `width` elements each.
void take_rows(const double* x, const int64_t* places, int64_t rows, int64_t width, double* y,
               cudaStream_t stream);
/// The noise of reference/noise_each.h. `jumps`: the columns of the generator's step taken 2^i
/// times, 64 words for each i; `states`: of its eight generators.
struct NoiseDraw {
  double unit = 0;
  uint64_t states[8] = {};
  bool keeps_whole_numbers = false;
};
void noise(const double* x, double* y, int64_t count, const NoiseDraw& draw, const uint64_t* jumps,
           cudaStream_t stream);
constexpr int kJumps = 40;

/// Partial results of difference(): for each block Σ (a − b)², Σ b², and how many differences are
/// not finite where a and b are not the same infinity or both NaN.
constexpr int kDifferenceBlocks = 256;
void difference(const double* a, const double* b, int64_t count, double* partial,
                cudaStream_t stream);

/// What follows a product x·w: scales of rows and columns, bias [cols], activation, residual [rows,
/// cols].
struct Finish {
  const double *bias = nullptr, *residual = nullptr;        // null: none
  const double *row_scale = nullptr, *col_scale = nullptr;  // null: 1
  int64_t row_scale_step = 0, col_scale_step = 0;           // 0: one number
  Unary activation = Unary::kCopy;
  Point biased, activated, added, out;
};
void finish_product(const Finish& finish, double* y, int64_t rows, int64_t cols,
                    cudaStream_t stream);

/// Rows of y become (row − mean)/√(var + epsilon), or row/√(mean square + epsilon) if `rms`.
/// Statistics go to `mean` and `inv_std` unless they are null.
struct Norm {
  double epsilon = 0;
  bool rms = false;
  Point x, mean_point, var, normalized;
  Rounder inner;
  double *mean = nullptr, *inv_std = nullptr;
  const double *scale = nullptr, *bias = nullptr;  ///< [cols] of each; null scale: neither
  Point out;                                       ///< of the scaled result
};
void normalize_rows(const Norm& norm, double* y, int64_t rows, int64_t cols, cudaStream_t stream);

/// y = x rounded at `out`, less a zero point: of its row, its column, or one number (steps of 0).
/// `zeros` may be null.
struct Zeros {
  const double* zeros = nullptr;
  int64_t row_step = 0, col_step = 0;
};
void subtract_zeros(const Zeros& zeros, const double* x, double* y, int64_t rows, int64_t cols,
                    const Point& out, cudaStream_t stream);
/// QuantizeRows (core/attrs.h): by `scale` and `zero` if they are given, else by each row's own,
/// which go to `scales` and `zeros` unless they are null.
struct QuantizeRows {
  bool is_f8 = false;
  double largest = 0;  ///< of f8
  const double *factor = nullptr, *scale = nullptr, *zero = nullptr;
  double *scales = nullptr, *zeros = nullptr;
  Point out;
};
void quantize_rows(const QuantizeRows& how, const double* x, double* y, int64_t rows, int64_t cols,
                   cudaStream_t stream);

/// Lines along one axis: outer × size × inner elements.
struct Lines {
  int64_t outer = 1, size = 1, inner = 1;
};
void softmax(const Lines& lines, const double* x, double* y, const Rounder& inner, const Point& out,
             cudaStream_t stream);
/// y[o] = Σ x[o, …] over rows of `cols` elements, over `divisor`.
void sum_rows(const double* x, double* y, int64_t rows, int64_t cols, double divisor,
              const Rounder& inner, const Point& out, cudaStream_t stream);

/// Raw dot products of one sequence, [heads, queries, keys], become probabilities in the form of
/// PointRounding::Scale; divisors [heads, queries] get what P·V is to be divided by. Pointers of
/// bias and masks are at the sequence; strides are of head, query and key.
struct AttentionRows {
  enum Form : int32_t { kNormalized, kUnnormalized, kUnnormalizedRoundedSum };
  int64_t heads = 0, queries = 0, keys = 0;
  double scale = 1, fill = 0;
  const double* bias = nullptr;
  const int64_t *keep = nullptr, *keep_queries = nullptr;
  int64_t bias_strides[3] = {}, keep_strides[3] = {}, keep_query_strides[2] = {};
  bool causal = false, masks_add = false, zero_nan_rows = false, zero_hidden_rows = false;
  int32_t form = kNormalized;
  int64_t block = 0;  ///< keys; 0: the maximum is over all of them
  Point scores, probs;
};
constexpr int64_t kMostBlocks = 512;
void attention_rows(const AttentionRows& rows, double* scores, double* divisors,
                    cudaStream_t stream);
/// y [queries, heads, width], each row over its divisor, rounded at two points.
void finish_context(double* y, const double* divisors, int64_t queries, int64_t heads,
                    int64_t width, const Point& context, const Point& out, cudaStream_t stream);

}  // namespace vernier::backend::cuda::fp64
