// LayerNorm, RMSNorm and AddLayerNorm of rows without gaps, of up to 1024 columns. Contract in
// norm_packed.h. C++17.
#include "backend/cuda/device/quantize_row.cuh"
#include "backend/cuda/kernels/norm/norm_packed.cuh"

namespace vernier::backend::cuda {
namespace {

// From this many rows on every warp has several.
constexpr int64_t kSideBySideRows = 4096;

// 16 bits: the next row is loaded while one is computed. f32 has no registers left for that.
template <class L>
constexpr bool kIsAhead = L::kN == 8;
template <class L>
constexpr int kMinBlocks = L::kVectors* L::kN > 24 || kIsAhead<L> ? 2 : 3;

/// Row `row` of y as it is stored, quantized; `given`: how, of Quantized::kGiven.
template <class L, Quantized kHow>
__device__ void quantize(const PackedNorm& args, const RowScaling& given, int64_t row, bool inside,
                         float (&x)[L::kVectors][L::kN]) {
#pragma unroll
  for (int k = 0; k < L::kVectors; ++k) {
#pragma unroll
    for (float& v : x[k]) v = to_f32(from_f32<typename L::T>(v));
    multiply_factors(args.factors, PackedRow<L>::column(k), L::kN, x[k]);
  }
  const auto range_of_x = [&x] {
    PartRange part;
#pragma unroll
    for (int k = 0; k < L::kVectors; ++k) {
#pragma unroll
      for (const float v : x[k]) part.add(v);
    }
    return range_of_row<L::kThreads>(part, nullptr);
  };
  RowScaling by = given;
  if constexpr (kHow == Quantized::kByRows) by = scaling_of(range_of_x(), args.to_f8);
  if (!inside) return;
#pragma unroll
  for (int k = 0; k < L::kVectors; ++k) {
    const int column = PackedRow<L>::column(k);
    store_bytes(args.q, row * args.cols + column, args.cols - column, true, x[k], by);
  }
  if (kHow == Quantized::kGiven || PackedRow<L>::lane() != 0) return;
  if (args.scales != nullptr) args.scales[row] = by.scale;
  if (args.zeros != nullptr) args.zeros[row] = by.zero;
}

// kRows: rows (of each part of a warp) that are worked on side by side.
template <class L, bool kAdds, int kRows, Quantized kHow>
__global__ void __launch_bounds__(kPackedThreads, kMinBlocks<L>)
    packed_norm_kernel(const __grid_constant__ PackedNorm args) {
  using Row = PackedRow<L>;
  allow_next_kernel();  // before the scale is there
  fetch_parameters(args);
  RowScaling given{};
  if constexpr (kHow == Quantized::kGiven)  // constants
    given = given_scaling(args.given_scale, args.given_zero, args.to_f8);
  wait_for_previous_kernel();

  const PackedRows<L> rows(args.rows);
  uint4 raw[kRows][L::kVectors], addend[kRows][L::kVectors];
  const auto place = [&](int64_t row) { return args.backwards ? args.rows - 1 - row : row; };
  const auto load = [&](int64_t row) {
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const int64_t at = place(rows.clamped(row + r * rows.step));
      Row::load(row_at<L>(args.x, at, args.cols), args.cols, args.is_aligned, raw[r]);
      if (kAdds)
        Row::load(row_at<L>(args.addend, at, args.cols), args.cols, args.is_aligned, addend[r]);
    }
  };
  if (kIsAhead<L>) load(rows.first);
  for (int64_t row = rows.first; row < rows.end; row += kRows * rows.step) {
    float x[kRows][L::kVectors][L::kN];
    if (!kIsAhead<L>) load(row);
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      Row::template widen<false>(raw[r], x[r]);
      if (kAdds) Row::template widen<true>(addend[r], x[r]);
    }
    if (kIsAhead<L> && row + kRows * rows.step < rows.end) load(row + kRows * rows.step);
    const auto store = [&](void* to) {
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        const int64_t own = row + r * rows.step;
        if (own < args.rows)
          Row::store(row_at<L>(to, place(own), args.cols), args.cols, args.is_aligned, x[r]);
      }
    };
    if (kAdds && args.sum != nullptr) store(args.sum);
    normalise<L>(args, !kAdds && args.is_rms, x);
    store(args.y);
    if constexpr (kHow != Quantized::kNot) {
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        const int64_t own = row + r * rows.step;
        quantize<L, kHow>(args, given, place(rows.clamped(own)), own < args.rows, x[r]);
      }
    }
  }
}

struct LaunchNorm {
  template <class L, bool kAdds, int kRows, Quantized kHow = Quantized::kNot>
  static cudaError_t launch(const PackedNorm& args, cudaStream_t stream) {
    const auto kernel = &packed_norm_kernel<L, kAdds, kRows, kHow>;
    static const PackedRoom kRoom = room_for(kernel);
    return launch_packed<L>(kernel, kRoom, args.rows, kRows, args, stream);
  }
  template <class L>
  static cudaError_t launch(const PackedNorm& args, cudaStream_t stream) {
    // Whole rows of 16 bits with an addend are in parts.
    if constexpr (L::kN < 8 || !L::kIsExact) {
      if (args.addend != nullptr) return launch<L, true, 1>(args, stream);
    }
    if constexpr (kIsAhead<L> && L::kIsExact && L::kVectors < 4) {
      if (args.rows > kSideBySideRows) return launch<L, false, 2>(args, stream);
    }
    return launch<L, false, 1>(args, stream);
  }
};

template <class T, int kThreads, int kVectors>
cudaError_t launch_in_parts(const PackedNorm& args, cudaStream_t stream) {
  using Exact = PackedLayout<T, kThreads, kVectors, true, true>;
  using Any = PackedLayout<T, kThreads, kVectors, false, true>;
  if (args.q != nullptr)
    return args.given_scale != nullptr
               ? LaunchNorm::launch<Exact, true, 1, Quantized::kGiven>(args, stream)
               : LaunchNorm::launch<Exact, true, 1, Quantized::kByRows>(args, stream);
  return args.is_aligned ? LaunchNorm::launch<Exact, true, 1>(args, stream)
                         : LaunchNorm::launch<Any, true, 1>(args, stream);
}
template <class T>
cudaError_t launch_in_parts(const PackedNorm& args, cudaStream_t stream) {
  return with_parts(args.cols, [&](auto parts, auto vectors) {
    return launch_in_parts<T, 8 * parts.value, vectors.value>(args, stream);
  });
}
bool is_in_parts(const PackedNorm& args) {
  if (args.addend == nullptr || args.type == DType::kF32) return false;
  for (int cols : {256, 384, 512, 768, 1024}) {
    if (args.cols == cols) return true;
  }
  return false;
}

}  // namespace

bool packed_norm_quantizes(const PackedNorm& args) { return is_in_parts(args) && args.is_aligned; }

cudaError_t launch_packed_norm(const PackedNorm& args, cudaStream_t stream) {
  if (is_in_parts(args) && args.rows > 0) {
    if (args.rows <= kNormFewRows && args.is_aligned) return launch_norm_few_rows(args, stream);
    return args.type == DType::kF16 ? launch_in_parts<__half>(args, stream)
                                    : launch_in_parts<__nv_bfloat16>(args, stream);
  }
  return with_packed_layout<LaunchNorm>(args, args, stream);
}

}  // namespace vernier::backend::cuda
