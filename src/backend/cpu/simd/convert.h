// 16-bit storage, f32 arithmetic: how kernels read and write arrays of f32, f16 and bf16 in any
// combination. Results are rounded to nearest even with the same bits as core/dtype.h; overflow
// gives infinity, NaN stays NaN (a signaling one becomes quiet). Highway, all targets, dispatched
// here.
#pragma once
#include "backend/cpu/body.h"

namespace vernier::backend::cpu {

/// Whether AVX-512 of this CPU has instructions for bf16: it rounds to it and multiplies pairs of
/// it.
bool cpu_has_bf16();

/// dst[i] = src[i], exact. `type` is that of src: f32, f16 or bf16. Arrays must not overlap.
void widen(DType type, const std::byte* src, float* dst, int64_t n);
/// dst[i] = src[i] rounded once to `type`, that of dst. Arrays must not overlap.
void narrow(DType type, const float* src, std::byte* dst, int64_t n);

/// Offset of element `at` in bytes.
inline std::byte* element(const TensorArg& t, int64_t at) {
  return t.data + at * static_cast<int64_t>(size_bytes(t.dtype));
}

/// n contiguous elements of `t` from element `at` as f32: in place if they are f32, else widened
/// into `buffer`.
inline const float* read_f32(const TensorArg& t, int64_t at, int64_t n, float* buffer) {
  if (t.dtype == DType::kF32) return t.as<const float>() + at;
  widen(t.dtype, element(t, at), buffer, n);
  return buffer;
}
/// The address for f32 results of elements of `t` from `at` on: in place, or `buffer`. write_f32
/// then moves them to their destination.
inline float* place_f32(const TensorArg& t, int64_t at, float* buffer) {
  return t.dtype == DType::kF32 ? t.as<float>() + at : buffer;
}
inline void write_f32(const TensorArg& t, int64_t at, int64_t n, const float* results) {
  if (t.dtype != DType::kF32) narrow(t.dtype, results, element(t, at), n);
}

/// `t` as a dense f32 array at `data`.
TensorArg dense_f32(const TensorArg& t, float* data);
/// The elements of `t`, with any strides, to a dense array, and back. All threads.
void widen_array(const TensorArg& t, float* dst, ThreadTeam& threads);
void narrow_array(const float* src, const TensorArg& t, ThreadTeam& threads);

/// The contents of a constant in f32, rounded to `stored`.
Tensor widened_constant(const Tensor& contents, DType stored);

}  // namespace vernier::backend::cpu
