// EmbedNorm over up to three tables of rows of up to 1024 columns. Contract in norm_packed.h.
// C++17.
#include "backend/cuda/kernels/norm/norm_packed.cuh"

namespace vernier::backend::cuda {
namespace {

// The id of this row, as it is stored.
__device__ int64_t id_of(const PackedTable& table, int64_t row) {
  const int64_t at = offset_of(table.index, row);
  return table.ids.type == DType::kI32 ? static_cast<const int32_t*>(table.ids.data)[at]
                                       : static_cast<const int64_t*>(table.ids.data)[at];
}
__device__ int64_t table_row(const PackedTable& table, int64_t id) {
  if (id < 0) id += table.rows;
  return id < 0 || id >= table.rows ? 0 : id;
}

template <class L>
__global__ void __launch_bounds__(kPackedThreads, L::kVectors > 4 ? 1 : 2)
    packed_embed_kernel(const __grid_constant__ PackedEmbedNorm args) {
  using Row = PackedRow<L>;
  const PackedNorm& norm = args.norm;
  fetch_parameters(norm);
  allow_next_kernel();
  wait_for_previous_kernel();

  // The next row of each table is loaded while one is computed, and the ids after it.
  const PackedRows<L> rows(norm.rows);
  int64_t ids[kMaxPackedTables] = {};
  uint4 raw[kMaxPackedTables][L::kVectors];
  const auto load_ids = [&](int64_t row) {
#pragma unroll
    for (int t = 0; t < kMaxPackedTables; ++t) {
      if (t < args.count) ids[t] = id_of(args.tables[t], rows.clamped(row));
    }
  };
  const auto load_rows = [&] {
#pragma unroll
    for (int t = 0; t < kMaxPackedTables; ++t) {
      if (t >= args.count) continue;
      const PackedTable& table = args.tables[t];
      Row::load(row_at<L>(table.data, table_row(table, ids[t]), norm.cols), norm.cols,
                norm.is_aligned, raw[t]);
    }
  };
  load_ids(rows.first);
  load_rows();
  load_ids(rows.first + rows.step);
  for (int64_t row = rows.first; row < rows.end; row += rows.step) {
    float x[1][L::kVectors][L::kN];
    Row::template widen<false>(raw[0], x[0]);
#pragma unroll
    for (int t = 1; t < kMaxPackedTables; ++t) {
      if (t < args.count) Row::template widen<true>(raw[t], x[0]);
    }
    if (row + rows.step < rows.end) {
      load_rows();
      load_ids(row + 2 * rows.step);
    }
    normalise<L>(norm, false, x);
    if (row < norm.rows)
      Row::store(row_at<L>(norm.y, row, norm.cols), norm.cols, norm.is_aligned, x[0]);
  }
}

struct LaunchEmbedNorm {
  template <class L>
  static cudaError_t launch(const PackedEmbedNorm& args, cudaStream_t stream) {
    static const PackedRoom kRoom = room_for(&packed_embed_kernel<L>);
    return launch_packed<L>(&packed_embed_kernel<L>, kRoom, args.norm.rows, 1, args, stream);
  }
};

}  // namespace

cudaError_t launch_packed_embed_norm(const PackedEmbedNorm& args, cudaStream_t stream) {
  return with_packed_layout<LaunchEmbedNorm>(args.norm, args, stream);
}

}  // namespace vernier::backend::cuda
