// cpu.group_normalization.groups, cpu.batch_normalization.planes: normalization with one scale and
// bias per channel of [batch, channels, spatial…]. Contract: GroupNormAttrs, BatchNormAttrs in
// core/attrs.h. f32; group statistics as in norm.cpp; a batch item's bits are its own.
#include <algorithm>
#include <cmath>

#include "backend/cpu/body.h"
#include "backend/cpu/kernels/norm/norm.h"

namespace vernier::backend::cpu {
namespace {

// y = y · scale + bias over one channel's plane.
void scale_plane(float* y, int64_t elems, float scale, float bias) {
  for (int64_t i = 0; i < elems; ++i) y[i] = y[i] * scale + bias;
}

/// Groups of channels of one batch item are rows: y = (x − mean) / √(var + ε), then per channel.
void launch_group_norm(const LaunchCall& call) {
  const auto attrs = decode<GroupNormAttrs>(call.attrs);
  const TensorArg& x = call.in[0];
  if (x.elems() == 0) return;
  const int64_t channels = x.dim(1), plane = elems_between(x, 2, x.rank);
  const int64_t groups = attrs.num_groups == 0 ? channels : attrs.num_groups;
  const int64_t group_channels = channels / groups, cols = group_channels * plane;
  const auto *scale = call.in[1].as<const float>(), *bias = call.in[2].as<const float>();
  const int64_t grain = std::max<int64_t>(1, 2048 / cols);
  call.execution.threads->parallel_for(
      x.dim(0) * groups, grain, [&](int64_t begin, int64_t end, int) {
        for (int64_t row = begin; row < end; ++row) {
          float* y = call.out[0].as<float>() + row * cols;
          layer_norm_row({.x = x.as<const float>() + row * cols,
                          .y = y,
                          .cols = cols,
                          .epsilon = static_cast<float>(attrs.epsilon)});
          for (int64_t c = 0; c < group_channels; ++c) {
            const int64_t channel = row % groups * group_channels + c;
            scale_plane(y + c * plane, plane, scale[channel], bias[channel]);
          }
        }
      });
}

/// y = (x − mean_c) / √(var_c + ε) · scale_c + bias_c with stored statistics.
void launch_batch_norm(const LaunchCall& call) {
  const auto epsilon = static_cast<float>(decode<BatchNormAttrs>(call.attrs).epsilon);
  const TensorArg& x = call.in[0];
  const int64_t channels = x.dim(1), plane = elems_between(x, 2, x.rank);
  const auto parameter = [&](size_t i) { return call.in[i].as<const float>(); };
  const float *scale = parameter(1), *bias = parameter(2), *mean = parameter(3),
              *var = parameter(4);
  const int64_t grain = std::max<int64_t>(1, 4096 / std::max<int64_t>(plane, 1));
  call.execution.threads->parallel_for(
      x.dim(0) * channels, grain, [&](int64_t begin, int64_t end, int) {
        for (int64_t p = begin; p < end; ++p) {
          const int64_t c = p % channels;
          const float inv_std = 1.0f / std::sqrt(var[c] + epsilon);
          const float* src = x.as<const float>() + p * plane;
          float* dst = call.out[0].as<float>() + p * plane;
          for (int64_t i = 0; i < plane; ++i)
            dst[i] = (src[i] - mean[c]) * inv_std * scale[c] + bias[c];
        }
      });
}

Support supports_channels(const Problem& problem) {
  if (rank_of(problem.inputs[0]) < 2) return no("the input has no channel axis");
  return all_f32(problem);
}

}  // namespace

extern const KernelBody group_norm_groups, batch_norm_planes;
constexpr KernelBody group_norm_groups{
    .supports = &supports_channels,
    .numerics = &f32_numerics,
    .launch = &launch_group_norm,
};
constexpr KernelBody batch_norm_planes{
    .supports = &supports_channels,
    .numerics = &f32_numerics,
    .launch = &launch_batch_norm,
};

}  // namespace vernier::backend::cpu
