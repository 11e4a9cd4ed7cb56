// The Resize rows of kernels.def; kernels in resize.cu. Contract: ResizeAttrs in core/attrs.h;
// formulas: ONNX Resize-19.
#include "backend/cuda/kernels/convolution/resize.h"

#include "backend/cuda/body.h"
#include "backend/cuda/check.h"
#include "backend/supports.h"
#include "core/error.h"
#include "core/resized_length.h"

namespace vernier::backend::cuda {
namespace {

/// Attributes, and the scale of every axis where scales are given (else the sizes decide).
struct ResizeState final : KernelState {
  ResizeAttrs attrs;
  std::vector<double> scales;  ///< by position in attrs.axes (all axes if that is empty)
};

std::unique_ptr<KernelState> create_resize(const CreateCall& call) {
  auto state = std::make_unique<ResizeState>();
  state->attrs = decode<ResizeAttrs>(call.attrs);
  state->scales = constant_floats(call, kResizeScales);
  return state;
}

// ---- what is supported

/// The problem with its image and result alone.
Problem image_of(const Problem& problem) {
  Problem image = problem;
  image.inputs.resize(1);
  return image;
}

Support supports_nearest(const Problem& problem) {
  const auto attrs = problem.attrs_as<ResizeAttrs>();
  if (attrs.mode != Interpolation::kNearest) return no("its mode is not nearest");
  Support support = resize_operands(problem);
  return support ? one_float_type(image_of(problem)) : support;
}

Support supports_weighted(const Problem& problem) {
  const auto attrs = problem.attrs_as<ResizeAttrs>();
  if (attrs.mode == Interpolation::kNearest) return no("its mode is nearest");
  Support support = resize_operands(problem);
  if (!support) return support;
  const int changing = resized_axes(problem);
  if (changing > kMaxResized)
    return no("resizes " + std::to_string(changing) + " axes, this kernel takes three");
  if (!is_float(problem.outputs[0].dtype)) return no("interpolates integers");
  return all_up_to_f32(image_of(problem));
}

// ---- launches

ResizeCoordinates coordinates_of(const std::string& mode) {
  if (mode == "asymmetric") return ResizeCoordinates::kAsymmetric;
  if (mode == "align_corners") return ResizeCoordinates::kAlignCorners;
  if (mode == "pytorch_half_pixel") return ResizeCoordinates::kPytorchHalfPixel;
  if (mode == "half_pixel_symmetric") return ResizeCoordinates::kHalfPixelSymmetric;
  return ResizeCoordinates::kHalfPixel;
}
ResizeRounding rounding_of(const std::string& mode) {
  if (mode == "floor") return ResizeRounding::kFloor;
  if (mode == "ceil") return ResizeRounding::kCeil;
  if (mode == "round_prefer_ceil") return ResizeRounding::kPreferCeil;
  return ResizeRounding::kPreferFloor;
}

struct ResizeShape final : ShapeState {
  ResizeLaunch args{};
};

std::unique_ptr<ShapeState> prepare_resize(const PrepareCall& call) {
  const auto& state = static_cast<const ResizeState&>(*call.state);
  const TensorArg &x = call.in[kResizeX], &y = call.out[0];
  if (y.elems() > 0 && x.elems() == 0)
    throw Error(ErrorCode::kInput, "Resize: the input is empty, the output is not");
  std::array<double, kMaxRank> scales{};
  for (int i = 0; i < x.rank; ++i)
    scales[i] = static_cast<double>(y.dim(i)) / static_cast<double>(x.dim(i));
  for (size_t i = 0; !given(call.in, kResizeSizes) && i < state.scales.size(); ++i) {
    const int64_t axis = state.attrs.axes.empty() ? static_cast<int64_t>(i) : state.attrs.axes[i];
    scales[positive_axis(axis, x.rank)] = state.scales[i];
  }
  auto shape = std::make_unique<ResizeShape>();
  ResizeLaunch& args = shape->args;
  args.x = array_of(x);
  args.y = array_of(y);
  args.coordinates = coordinates_of(state.attrs.coordinate_mode);
  args.rounding = rounding_of(state.attrs.nearest_mode);
  args.cubic = state.attrs.mode == Interpolation::kCubic;
  args.antialias = state.attrs.antialias;
  args.exclude_outside = state.attrs.exclude_outside;
  args.cubic_a = state.attrs.cubic_a;
  for (int i = 0; i < x.rank; ++i) {
    const double scale = scales[i];
    if (x.dim(i) == y.dim(i) && scale == 1) continue;
    args.axis[args.count] = i;
    args.length[args.count] = resized_length(x.dim(i), y.dim(i), scale);
    args.scale[args.count++] = scale;
  }
  return shape;
}

template <cudaError_t (*kRun)(const ResizeLaunch&, cudaStream_t)>
void launch_resize(const LaunchCall& call) {
  ResizeLaunch args = static_cast<const ResizeShape&>(*call.shape_state).args;
  args.x.data = call.in[kResizeX].data;
  args.y.data = call.out[0].data;
  check_cuda(kRun(args, stream_of(call.execution)), "Resize");
}

}  // namespace

extern const KernelBody resize_nearest_points, resize_weights;
constexpr KernelBody resize_nearest_points{
    .supports = &supports_nearest,
    .numerics = &exact_numerics,
    .strided_inputs = 1,
    .create = &create_resize,
    .prepare = &prepare_resize,
    .launch = &launch_resize<&resize_nearest>,
};
constexpr KernelBody resize_weights{
    .supports = &supports_weighted,
    .numerics = &f32_numerics,
    .strided_inputs = 1,
    .create = &create_resize,
    .prepare = &prepare_resize,
    .launch = &launch_resize<&resize_weighted>,
};

}  // namespace vernier::backend::cuda
