// cuda.reduce_*.groups, cuda.{arg_max,arg_min,cum_sum}.lines, cuda.masked_mean.columns,
// cuda.batch_normalization.planes: the rows of reduce.cu and along_axis.cu. Contract: ReduceAttrs,
// ArgReduceAttrs, CumSumAttrs, MaskedMeanAttrs, BatchNormAttrs in core/attrs.h.
#include "backend/cuda/kernels/reduce/reduce.h"

#include <algorithm>

#include "backend/cuda/check.h"
#include "backend/cuda/lines.h"

namespace vernier::backend::cuda {
namespace {

Support not_f8(const Problem& problem) {
  for (const auto* operands : {&problem.inputs, &problem.outputs}) {
    for (const Operand& o : *operands) {
      if (!o.present) continue;
      if (o.dtype == DType::kF8E4M3 || o.dtype == DType::kF8E5M2)
        return no("no loop for " + std::string(name(o.dtype)));
      if (o.shape.size() > kMaxRank) return no("more than 10 axes");
    }
  }
  return yes();
}

// Floats are carried in f64.
Numerics f64_sums(const Problem& problem) {
  Numerics result = f32_numerics(problem);
  result.accumulate = DType::kF64;
  if (problem.inputs[0].dtype == DType::kF64) result.compute = result.inner = DType::kF64;
  return result;
}

// ---- Reduce*

struct ReduceState final : ShapeState {
  ReduceLaunch launch;
};

Support supports_reduce(const Problem& problem) {
  if (problem.has_input(1)) return no("its axes are in device memory");
  if (is_float(problem.inputs[0].dtype) != is_float(problem.outputs[0].dtype))
    return no("the input is a float, the output an integer");
  return not_f8(problem);
}

template <ReduceKind kKind>
std::unique_ptr<ShapeState> prepare_reduce(const PrepareCall& call) {
  const auto& attrs = attrs_of<ReduceAttrs>(call.state);
  const TensorArg& x = call.in[0];
  std::array<bool, kMaxRank> is_reduced{};
  if (attrs.axes.empty()) is_reduced.fill(!attrs.noop_with_empty_axes);
  for (int64_t axis : attrs.axes) is_reduced[positive_axis(axis, x.rank)] = true;
  std::array<int64_t, kMaxRank> sizes[2], strides[2];  // of kept and reduced axes
  std::array<size_t, 2> counts{};
  std::array<int64_t, 2> elems{1, 1};
  for (int i = 0; i < x.rank; ++i) {
    const size_t group = is_reduced[i] ? 1 : 0;
    sizes[group][counts[group]] = x.dim(i);
    strides[group][counts[group]++] = x.stride(i);
    elems[group] *= x.dim(i);
  }
  const auto index = [&](size_t group) {
    return strided_index(std::span(sizes[group]).first(counts[group]),
                         std::span(strides[group]).first(counts[group]));
  };
  auto state = std::make_unique<ReduceState>();
  ReduceLaunch& launch = state->launch;
  launch.kept = index(0);
  launch.reduced = index(1);
  launch.outputs = elems[0];
  launch.count = elems[1];
  launch.kind = kKind;
  const int axes = launch.reduced.axes;
  // By the reduced axes alone: whether another one's elements lie side by side depends on how many
  // outputs there are. The last axis has stride 1 where it is longer than 1.
  const int last = x.rank - 1;
  launch.in_rows = axes == 0 || (is_reduced[last] && x.dim(last) > 1);
  launch.is_one_row = launch.in_rows && axes <= 1;
  launch.as_double =
      kKind == ReduceKind::kL2 || kKind == ReduceKind::kLogSum || kKind == ReduceKind::kLogSumExp;
  check_lines(launch.outputs, 1, "a reduction");
  return state;
}

void launch_reduction(const LaunchCall& call) {
  ReduceLaunch launch = static_cast<const ReduceState&>(*call.shape_state).launch;
  launch.x = any_array(call.in, 0);
  launch.y = any_array(call.out, 0);
  const FloatArray x{launch.x.data, launch.x.type};
  launch.is_aligned = is_aligned(x, launch.kept, is_16_bit_float(x.type) ? 8 : 4);
  constexpr int64_t kNeighbours = 4;
  const auto steps_in_vectors = [](const StridedIndex& index, int axes) {
    return std::ranges::all_of(std::span(index.strides, static_cast<size_t>(axes)),
                               [](int64_t stride) { return stride % kNeighbours == 0; });
  };
  const int last = launch.kept.axes - 1;
  launch.in_vectors =
      last >= 0 && launch.kept.strides[last] == 1 && launch.kept.sizes[last] % kNeighbours == 0 &&
      steps_in_vectors(launch.kept, last) &&
      steps_in_vectors(launch.reduced, launch.reduced.axes) && is_aligned(x, kNeighbours);
  check_cuda(launch_reduce(launch, stream_of(call.execution)), "a reduction");
}

template <ReduceKind kKind>
constexpr KernelBody reduce_body() {
  return {.supports = &supports_reduce,
          .numerics = &f64_sums,
          .strided_inputs = 1,
          .create = &decode_once<ReduceAttrs>,
          .prepare = &prepare_reduce<kKind>,
          .launch = &launch_reduction};
}

// ---- ArgMax, ArgMin

struct ArgState final : ShapeState {
  ArgReduceLaunch launch;
};

Support supports_arg(const Problem& problem) {
  if (problem.inputs[0].shape.empty()) return no("input is a scalar");
  return not_f8(problem);
}

template <bool kIsMax>
std::unique_ptr<ShapeState> prepare_arg(const PrepareCall& call) {
  const auto attrs = decode<ArgReduceAttrs>(call.attrs);
  const AxisLines lines = lines_of(call.in[0], attrs.axis);
  auto state = std::make_unique<ArgState>();
  state->launch.lines = lines.index;
  state->launch.count = lines.count;
  state->launch.size = lines.size;
  state->launch.step = lines.step;
  state->launch.is_max = kIsMax;
  state->launch.last = attrs.select_last_index;
  return state;
}

void launch_arg(const LaunchCall& call) {
  ArgReduceLaunch launch = static_cast<const ArgState&>(*call.shape_state).launch;
  launch.x = any_array(call.in, 0);
  launch.y = call.out[0].as<int64_t>();
  check_cuda(launch_arg_reduce(launch, stream_of(call.execution)), "ArgMax or ArgMin");
}

template <bool kIsMax>
constexpr KernelBody arg_body() {
  return {.supports = &supports_arg,
          .numerics = &exact_numerics,
          .strided_inputs = 1,
          .prepare = &prepare_arg<kIsMax>,
          .launch = &launch_arg};
}

// ---- CumSum

Support supports_cum_sum(const Problem& problem) {
  const DType axis = problem.inputs[1].dtype;
  if (problem.inputs[0].shape.empty()) return no("input is a scalar");
  if (axis != DType::kI32 && axis != DType::kI64)
    return no("an axis of " + std::string(name(axis)));
  if (problem.inputs[0].dtype != problem.outputs[0].dtype) return no("the output has another type");
  return not_f8(problem);
}

void launch_sums(const LaunchCall& call) {
  const auto attrs = decode<CumSumAttrs>(call.attrs);
  const TensorArg& x = call.in[0];
  CumSumLaunch launch{.x = any_array(call.in, 0),
                      .y = any_array(call.out, 0),
                      .axis = any_array(call.in, 1),
                      .rank = x.rank,
                      .elems = x.elems(),
                      .exclusive = attrs.exclusive,
                      .reverse = attrs.reverse};
  for (int i = 0; i < x.rank; ++i) launch.sizes[i] = x.dim(i);
  check_cuda(launch_cum_sum(launch, stream_of(call.execution)), "CumSum");
}

// ---- MaskedMean

Support supports_masked_mean(const Problem& problem) {
  const Operand &x = problem.inputs[0], &y = problem.outputs[0];
  for (DType t : {x.dtype, y.dtype}) {
    if (t != DType::kF32 && !is_16_bit_float(t)) return no("no loop for " + std::string(name(t)));
  }
  return not_f8(problem);
}

void launch_mean(const LaunchCall& call) {
  const TensorArg &x = call.in[0], &mask = call.in[1];
  MaskedMeanLaunch launch{
      .x = float_array(call.in, 0),
      .y = float_array(call.out, 0),
      .mask = any_array(call.in, 1),
      .batch = x.dim(0),
      .seq = x.dim(1),
      .width = x.dim(2),
      .x_strides = {x.stride(0), x.stride(1)},
      .mask_strides = {mask.stride(0), mask.stride(1)},
      .minimum = static_cast<float>(decode<MaskedMeanAttrs>(call.attrs).minimum)};
  constexpr int64_t kLanes = 4;
  launch.is_aligned = launch.width % kLanes == 0 && is_aligned(launch.x, kLanes) &&
                      x.stride(0) % kLanes == 0 && x.stride(1) % kLanes == 0;
  check_lines(launch.batch, launch.seq, "MaskedMean");
  constexpr int64_t kMostWidth = int64_t{65535} * 32;  // blocks along y, a warp's columns each
  if (launch.width > kMostWidth)
    throw Error(ErrorCode::kInput, "MaskedMean has rows of " + std::to_string(launch.width) +
                                       " elements; the CUDA kernel takes up to " +
                                       std::to_string(kMostWidth));
  check_cuda(launch_masked_mean(launch, stream_of(call.execution)), "MaskedMean");
}

// ---- BatchNormalization

void launch_batch_norm(const LaunchCall& call) {
  const TensorArg& x = call.in[0];
  ChannelNormLaunch launch{
      .x = float_array(call.in, 0),
      .scale = float_array(call.in, 1),
      .bias = float_array(call.in, 2),
      .mean = float_array(call.in, 3),
      .variance = float_array(call.in, 4),
      .y = float_array(call.out, 0),
      .channels = call.in[1].elems(),
      .epsilon = static_cast<float>(decode<BatchNormAttrs>(call.attrs).epsilon)};
  launch.elems = x.rank < 2 ? 1 : elems_between(x, 2, x.rank);
  launch.planes = launch.elems == 0 ? 0 : x.elems() / launch.elems;
  constexpr int64_t kLanes = 4;
  launch.is_aligned =
      launch.elems % kLanes == 0 && is_aligned(launch.x, kLanes) && is_aligned(launch.y, kLanes);
  check_lines(launch.planes, 1, "BatchNormalization");
  check_cuda(launch_channel_norm(launch, stream_of(call.execution)), "BatchNormalization");
}

}  // namespace

extern const KernelBody reduce_sum, reduce_mean, reduce_max, reduce_min, reduce_prod, reduce_l1,
    reduce_l2, reduce_log_sum, reduce_sum_square, reduce_log_sum_exp, arg_max_lines, arg_min_lines,
    cum_sum_lines, masked_mean_columns, batch_norm_planes;
constexpr KernelBody reduce_sum = reduce_body<ReduceKind::kSum>();
constexpr KernelBody reduce_mean = reduce_body<ReduceKind::kMean>();
constexpr KernelBody reduce_max = reduce_body<ReduceKind::kMax>();
constexpr KernelBody reduce_min = reduce_body<ReduceKind::kMin>();
constexpr KernelBody reduce_prod = reduce_body<ReduceKind::kProd>();
constexpr KernelBody reduce_l1 = reduce_body<ReduceKind::kL1>();
constexpr KernelBody reduce_l2 = reduce_body<ReduceKind::kL2>();
constexpr KernelBody reduce_log_sum = reduce_body<ReduceKind::kLogSum>();
constexpr KernelBody reduce_sum_square = reduce_body<ReduceKind::kSumSquare>();
constexpr KernelBody reduce_log_sum_exp = reduce_body<ReduceKind::kLogSumExp>();
constexpr KernelBody arg_max_lines = arg_body<true>();
constexpr KernelBody arg_min_lines = arg_body<false>();
constexpr KernelBody cum_sum_lines{
    .supports = &supports_cum_sum,
    .numerics = &f64_sums,
    .launch = &launch_sums,
};
constexpr KernelBody masked_mean_columns{
    .supports = &supports_masked_mean,
    .numerics = &f32_numerics,
    .strided_inputs = 3,
    .launch = &launch_mean,
};
constexpr KernelBody batch_norm_planes{
    .supports = &all_up_to_f32,
    .numerics = &f32_numerics,
    .launch = &launch_batch_norm,
};

}  // namespace vernier::backend::cuda
