// AddLayerNorm of few rows without gaps, which may be quantized too: the bits of norm_packed.cu.
// C++17.
//
// With few rows a launch takes as long as one row, and that as long as its instructions take to
// arrive: they come from memory once per launch. So a thread has one vector of a row, not four, and
// the code is less than half of that of norm_packed.cu, for many rows. The sums run in the order
// of PackedLayout::kInParts: a warp has a part of the row, lane 8k + l the vector that lane l of
// that part has as its k-th.
#include "backend/cuda/device/quantize_row.cuh"
#include "backend/cuda/kernels/norm/norm_packed.cuh"

namespace vernier::backend::cuda {
namespace {

constexpr int kN = 8;  // elements of a vector
// 128 rows on 32 multiprocessors: the next kernel begins beside them.
constexpr int kRowsOfBlock = 4;
constexpr int64_t kEmptyRunRows = 512;  // with more rows empty runs are in the way

// Of each row of a block and part of the row: sums, then sums again, then ranges.
template <int kParts>
struct Shared {
  float mean[kRowsOfBlock][kParts], squares[kRowsOfBlock][kParts], left[kRowsOfBlock][kParts];
  RowRange range[kRowsOfBlock][kParts];
};

template <int kParts>
__device__ __forceinline__ float sum_of(const float (&parts)[kParts]) {
  static_assert(kParts == 2 || kParts == 4);
  float sum = parts[0] + parts[1];
  if constexpr (kParts == 4) sum += parts[2] + parts[3];
  return sum;
}

// A part's sums: `add` for each of kSums, of the four pairs of columns of each vector in turn;
// valid in the lanes of the last vector.
template <int kVectors, int kSums, class Add>
__device__ __forceinline__ void sum_part(const float (&x)[kN], const Add& add,
                                         float (&sums)[kSums]) {
  constexpr int kLanes = 8, kPairs = kN / 2;  // of a vector's place
  float chain[kSums][kPairs] = {};
#pragma unroll 1
  for (int k = 0;; ++k) {
#pragma unroll
    for (int i = 0; i < kPairs; ++i) {
#pragma unroll
      for (int s = 0; s < kSums; ++s) chain[s][i] = add(s, chain[s][i], x[2 * i], x[2 * i + 1]);
    }
    if (k == kVectors - 1) break;
#pragma unroll
    for (int i = 0; i < kPairs; ++i) {
#pragma unroll
      for (int s = 0; s < kSums; ++s) chain[s][i] = __shfl_up_sync(~0u, chain[s][i], kLanes);
    }
  }
#pragma unroll
  for (int s = 0; s < kSums; ++s)
    sums[s] = (chain[s][0] + chain[s][1]) + (chain[s][2] + chain[s][3]);
  sum_rows_upwards<kLanes>(sums);
}

// The range of a row; by all threads of the block.
template <int kParts>
__device__ __forceinline__ RowRange range_of(const float (&x)[kN], bool has_vector,
                                             RowRange (&parts)[kParts]) {
  PartRange own;
  if (has_vector) {
#pragma unroll
    for (const float v : x) own.add(v);
  }
  RowRange range = range_of_row<kWarpThreads>(own, nullptr);
  const int warp = static_cast<int>(threadIdx.x) / kWarpThreads;
  if (threadIdx.x % kWarpThreads == 0) parts[warp % kParts] = range;
  __syncthreads();
  range = parts[0];
#pragma unroll
  for (int p = 1; p < kParts; ++p) range = both_ranges(range, parts[p]);
  return range;
}

template <class T>
__device__ __forceinline__ void load(const void* row, int64_t at, float (&x)[kN]) {
  const auto pack = *reinterpret_cast<const Pack<T, kN>*>(static_cast<const T*>(row) + at);
#pragma unroll
  for (int i = 0; i < kN; ++i) x[i] = to_f32(pack.element[i]);
}
template <class T>
__device__ __forceinline__ void store(void* row, int64_t at, const float (&x)[kN]) {
  Pack<T, kN> pack;
#pragma unroll
  for (int i = 0; i < kN; ++i) pack.element[i] = from_f32<T>(x[i]);
  *reinterpret_cast<Pack<T, kN>*>(static_cast<T*>(row) + at) = pack;
}

template <class T, int kParts, int kVectors, Quantized kHow, bool kRunsEmpty>
__global__ void __launch_bounds__(kRowsOfBlock* kParts* kWarpThreads)
    norm_few_rows_kernel(const __grid_constant__ PackedNorm args) {
  __shared__ Shared<kParts> shared;
  allow_next_kernel();
  if (!args.has_constants) wait_for_previous_kernel();
  const int warp = static_cast<int>(threadIdx.x) / kWarpThreads, part = warp % kParts,
            own = warp / kParts, lane = static_cast<int>(threadIdx.x) % kWarpThreads;
  const bool has_vector = lane < 8 * kVectors;
  const int column = part * (8 * kVectors * kN) + (has_vector ? lane * kN : 0);
  float scale[kN], bias[kN], factors[kN];
  read_parameters(args.scale, column, true, 1.0f, scale);
  read_parameters(args.bias, column, true, -0.0f, bias);  // −0 changes none
  if constexpr (kHow != Quantized::kNot) read_parameters(args.factors, column, true, 1.0f, factors);
  RowScaling by{};
  if constexpr (kHow == Quantized::kGiven)
    by = given_scaling(args.given_scale, args.given_zero, args.to_f8);
  const int64_t index = static_cast<int64_t>(blockIdx.x) * kRowsOfBlock + own;
  const bool is_inside = index < args.rows;
  const int64_t row = args.backwards ? args.rows - 1 - index : index;
  const int64_t at = (is_inside ? row : 0) * args.cols + column;
  const auto cols = static_cast<float>(args.cols);
  const float reciprocal = 1.0f / cols;
  const bool is_last = lane == 8 * (kVectors - 1);  // has a part's sums
  // First of zeros, while the kernel before still runs: then the instructions are there.
#pragma unroll 1
  for (bool is_real = !kRunsEmpty;; is_real = true) {
    float x[kN] = {};
    if (is_real) {
      wait_for_previous_kernel();
      if (has_vector) {
        float addend[kN];
        load<T>(args.x, at, x);
        load<T>(args.addend, at, addend);
#pragma unroll
        for (int i = 0; i < kN; ++i) x[i] += addend[i];
      }
    }
    const bool stores = has_vector && is_inside && is_real;
    if (args.sum != nullptr && stores) store<T>(args.sum, at, x);

    float mean[1];
    sum_part<kVectors>(
        x, [](int, float sum, float a, float b) { return pair_sum(sum, a, b); }, mean);
    if (is_last) shared.mean[own][part] = mean[0];
    __syncthreads();
    mean[0] = mean_of(sum_of(shared.mean[own]), cols, reciprocal);
#pragma unroll
    for (float& v : x) v -= mean[0];
    float sums[2];
    sum_part<kVectors>(
        x,
        [](int s, float sum, float a, float b) {
          return s == 0 ? pair_squares(sum, a, b) : pair_sum(sum, a, b);
        },
        sums);
    if (is_last) shared.squares[own][part] = sums[0], shared.left[own][part] = sums[1];
    __syncthreads();
    const RowScale to = row_scale(sum_of(shared.squares[own]), sum_of(shared.left[own]), cols,
                                  reciprocal, args.epsilon);
#pragma unroll
    for (int i = 0; i < kN; ++i)
      x[i] = __fmaf_rn(__fmaf_rn(x[i], to.inverse, to.offset), scale[i], bias[i]);
    if (stores) store<T>(args.y, at, x);

    if constexpr (kHow != Quantized::kNot) {
#pragma unroll
      for (int i = 0; i < kN; ++i) x[i] = to_f32(from_f32<T>(x[i])) * factors[i];
      if constexpr (kHow == Quantized::kByRows)
        by = scaling_of(range_of<kParts>(x, has_vector, shared.range[own]), args.to_f8);
      if (stores) store_bytes(args.q, at, kN, true, x, by);
      if (kHow == Quantized::kByRows && stores && part == 0 && lane == 0) {
        if (args.scales != nullptr) args.scales[row] = by.scale;
        if (args.zeros != nullptr) args.zeros[row] = by.zero;
      }
    }
    if (is_real) return;
  }
}

template <class T, int kParts, int kVectors, bool kRunsEmpty>
void (*kernel_for(const PackedNorm& args))(PackedNorm) {
  if (args.q == nullptr)
    return &norm_few_rows_kernel<T, kParts, kVectors, Quantized::kNot, kRunsEmpty>;
  if (args.given_scale == nullptr)
    return &norm_few_rows_kernel<T, kParts, kVectors, Quantized::kByRows, kRunsEmpty>;
  return &norm_few_rows_kernel<T, kParts, kVectors, Quantized::kGiven, kRunsEmpty>;
}
template <class T, int kParts, int kVectors>
cudaError_t launch(const PackedNorm& args, cudaStream_t stream) {
  const auto kernel = args.rows <= kEmptyRunRows ? kernel_for<T, kParts, kVectors, true>(args)
                                                 : kernel_for<T, kParts, kVectors, false>(args);
  const auto blocks = static_cast<unsigned>((args.rows + kRowsOfBlock - 1) / kRowsOfBlock);
  return launch_overlapped(kernel, dim3(blocks), dim3(kRowsOfBlock * kParts * kWarpThreads), 0,
                           stream, args);
}
template <class T>
cudaError_t launch(const PackedNorm& args, cudaStream_t stream) {
  return with_parts(args.cols, [&](auto parts, auto vectors) {
    return launch<T, parts.value, vectors.value>(args, stream);
  });
}

}  // namespace

cudaError_t launch_norm_few_rows(const PackedNorm& args, cudaStream_t stream) {
  return args.type == DType::kF16 ? launch<__half>(args, stream)
                                  : launch<__nv_bfloat16>(args, stream);
}

}  // namespace vernier::backend::cuda
