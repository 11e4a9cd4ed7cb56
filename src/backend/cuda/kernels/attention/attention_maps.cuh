// The copy engine's maps of q, k and v for the attention kernels of Hopper, made on the host.
// C++17.
#pragma once
#include "backend/cuda/encode_tiled.h"
#include "backend/cuda/kernels/attention/attention_step.cuh"

namespace vernier::backend::cuda {

// x as [batch, heads, rows, width] in boxes of box_rows x 64 columns or all; what lies outside
// reads as 0.
struct MapShape {
  int64_t batch, heads, rows, width;
  uint32_t box_rows;
};
inline cudaError_t make_map(const AttentionRows& x, const MapShape& shape, CUtensorMap& map) {
  const auto bytes = [&](int64_t stride, int64_t size) {
    return static_cast<cuuint64_t>(size == 1 ? shape.width : stride) * 2;
  };
  const cuuint64_t sizes[4] = {
      static_cast<cuuint64_t>(shape.width), static_cast<cuuint64_t>(shape.rows),
      static_cast<cuuint64_t>(shape.heads), static_cast<cuuint64_t>(shape.batch)};
  const cuuint64_t strides[3] = {bytes(x.row, shape.rows), bytes(x.head, shape.heads),
                                 bytes(x.batch, shape.batch)};
  const int64_t cols = shape.width < 64 ? shape.width : 64;
  const cuuint32_t box[4] = {static_cast<cuuint32_t>(cols), shape.box_rows, 1, 1},
                   steps[4] = {1, 1, 1, 1};
  const EncodeTiled encode = encode_tiled();
  if (encode == nullptr) return cudaErrorNotSupported;
  const CUresult result =
      encode(&map,
             x.type == AttentionType::kF16 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16
                                           : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
             4, x.data, sizes, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
             cols < 64 ? CU_TENSOR_MAP_SWIZZLE_64B : CU_TENSOR_MAP_SWIZZLE_128B,
             CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  return result == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue;
}

inline cudaError_t make_maps(const AttentionLaunch& args, Maps& maps) {
  const MapShape q{args.batch, args.heads, args.queries, args.head_dim, kGroupQueries};
  const MapShape k{args.batch, args.kv_heads, args.keys, args.head_dim, kKeys};
  cudaError_t status = make_map(args.q, q, maps.q);
  if (status == cudaSuccess) status = make_map(args.k, k, maps.k);
  if (status == cudaSuccess) status = make_map(args.v, k, maps.v);
  if (status != cudaSuccess || args.starts_q == nullptr) return status;
  MapShape part = k;
  part.box_rows = kPartKeys;
  status = make_map(args.k, part, maps.k_part);
  if (status == cudaSuccess) status = make_map(args.v, part, maps.v_part);
  return status;
}

}  // namespace vernier::backend::cuda
