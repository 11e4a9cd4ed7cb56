// LayerNorm, RMSNorm and AddLayerNorm of rows without gaps, of up to 1024 columns. Contract in
// norm_packed.h. C++17.
#include "backend/cuda/kernels/norm_packed.cuh"

namespace vernier::backend::cuda {
namespace {

// 16 bits: the next row is on its way while one is worked on. f32 has no registers left for that.
template <class L>
constexpr bool kIsAhead = L::kN == 8;
template <class L>
constexpr int kMinBlocks = L::kVectors* L::kN > 24 || kIsAhead<L> ? 2 : 3;

template <class L, bool kAdds>
__global__ void __launch_bounds__(kPackedThreads, kMinBlocks<L>)
    packed_norm_kernel(const __grid_constant__ PackedNorm args) {
  using Row = PackedRow<L>;
  fetch_parameters(args);
  allow_next_kernel();
  wait_for_previous_kernel();

  const PackedRows<L> rows(args.rows);
  uint4 raw[L::kVectors], addend[L::kVectors];
  const auto load = [&](int64_t row) {
    row = rows.clamped(row);
    Row::load(row_at<L>(args.x, row, args.cols), args.cols, args.is_aligned, raw);
    if (kAdds)
      Row::load(row_at<L>(args.addend, row, args.cols), args.cols, args.is_aligned, addend);
  };
  if (kIsAhead<L>) load(rows.first);
  for (int64_t row = rows.first; row < rows.end; row += rows.step) {
    float x[L::kVectors][L::kN];
    if (!kIsAhead<L>) load(row);
    Row::template widen<false>(raw, x);
    if (kAdds) Row::template widen<true>(addend, x);
    if (kIsAhead<L> && row + rows.step < rows.end) load(row + rows.step);
    const bool is_own = row < args.rows;
    if (kAdds && args.sum != nullptr && is_own)
      Row::store(row_at<L>(args.sum, row, args.cols), args.cols, args.is_aligned, x);
    normalise<L>(args, !kAdds && args.is_rms, x);
    if (is_own) Row::store(row_at<L>(args.y, row, args.cols), args.cols, args.is_aligned, x);
  }
}

struct LaunchNorm {
  template <class L, bool kAdds>
  static cudaError_t launch(const PackedNorm& args, cudaStream_t stream) {
    static const PackedRoom kRoom = room_for(&packed_norm_kernel<L, kAdds>);
    return launch_packed<L>(&packed_norm_kernel<L, kAdds>, kRoom, args.rows, args, stream);
  }
  template <class L>
  static cudaError_t launch(const PackedNorm& args, cudaStream_t stream) {
    return args.addend != nullptr ? launch<L, true>(args, stream) : launch<L, false>(args, stream);
  }
};

}  // namespace

cudaError_t launch_packed_norm(const PackedNorm& args, cudaStream_t stream) {
  return with_packed_layout<LaunchNorm>(args, args, stream);
}

}  // namespace vernier::backend::cuda
