// The GridSample row of kernels.def; kernel in grid_sample.cu. Contract: GridSampleAttrs in
// core/attrs.h; one to three spatial axes.
#include "backend/cuda/kernels/convolution/grid_sample.h"

#include "backend/cuda/body.h"
#include "backend/cuda/check.h"
#include "backend/cuda/kernels/convolution/window_shape.h"
#include "backend/cuda/lines.h"

namespace vernier::backend::cuda {
namespace {

static_assert(static_cast<int>(Interpolation::kNearest) == static_cast<int>(SampleMode::kNearest) &&
              static_cast<int>(Interpolation::kLinear) == static_cast<int>(SampleMode::kLinear) &&
              static_cast<int>(Interpolation::kCubic) == static_cast<int>(SampleMode::kCubic) &&
              static_cast<int>(Padding::kZeros) == static_cast<int>(SamplePadding::kZeros) &&
              static_cast<int>(Padding::kBorder) == static_cast<int>(SamplePadding::kBorder) &&
              static_cast<int>(Padding::kReflection) ==
                  static_cast<int>(SamplePadding::kReflection));

Support supports_grid_sample(const Problem& problem) {
  Support support = supports_spatial(problem);
  if (support && !is_float(problem.outputs[0].dtype)) return no("the images are not floats");
  return support ? all_up_to_f32(problem) : support;
}

void launch_grid_sample(const LaunchCall& call) {
  const auto attrs = decode<GridSampleAttrs>(call.attrs);
  const TensorArg &x = call.in[0], &grid = call.in[1], &y = call.out[0];
  GridSampleLaunch args{.x = x.data,
                        .grid = grid.data,
                        .y = y.data,
                        .x_type = x.dtype,
                        .grid_type = grid.dtype,
                        .y_type = y.dtype,
                        .batch = x.dim(0),
                        .channels = x.dim(1),
                        .points = elems_between(y, 2, y.rank),
                        .spatial = x.rank - 2,
                        .size = {1, 1, 1},
                        .mode = static_cast<SampleMode>(attrs.mode),
                        .padding = static_cast<SamplePadding>(attrs.padding),
                        .align_corners = attrs.align_corners};
  for (int i = 0; i < args.spatial; ++i)
    args.size[3 - args.spatial + i] = size_in_32_bits(x.dim(2 + i), "x");
  check_cuda(sample_grid(args, stream_of(call.execution)), "GridSample");
}

}  // namespace

extern const KernelBody grid_sample_points;
constexpr KernelBody grid_sample_points{
    .supports = &supports_grid_sample,
    .numerics = &f32_numerics,
    .launch = &launch_grid_sample,
};

}  // namespace vernier::backend::cuda
