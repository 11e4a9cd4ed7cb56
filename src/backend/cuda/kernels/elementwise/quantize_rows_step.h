// The step cuda.quantize_rows.rows, for kernels that join it (KernelBody::joins).
#pragma once
#include <optional>

#include "backend/kernel.h"
#include "backend/operands.h"

namespace vernier::backend::cuda {

void launch_quantize_rows(const LaunchCall& call);

/// q = x·factor / scale + zero of a QuantizeRows whose scale is given, on the device.
struct GivenScale {
  int8_t* q = nullptr;
  const float* factors = nullptr;  ///< or null: 1
  const float* scale = nullptr;    ///< one number
  const float* zero = nullptr;     ///< one number; of f8e4m3 null
};
inline GivenScale given_scale(std::span<const TensorArg> in, const TensorArg& q) {
  return {.q = q.as<int8_t>(),
          .factors = given(in, 1) ? in[1].as<const float>() : nullptr,
          .scale = in[2].as<const float>(),
          .zero = given(in, 3) ? in[3].as<const float>() : nullptr};
}
/// The step behind, where it quantizes the result with a given scale and nobody else reads that.
inline std::optional<GivenScale> given_scale_behind(const LaunchCall& call) {
  if (call.next == nullptr || !call.result_unused) return std::nullopt;
  return given_scale(call.next->in, call.next->out[0]);
}

}  // namespace vernier::backend::cuda
