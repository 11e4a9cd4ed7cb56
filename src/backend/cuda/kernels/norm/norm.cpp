// cuda.{layer_norm,rms_norm,add_layer_norm}.{rows,slabs}, cuda.embed_norm.rows,
// cuda.group_normalization.groups: the rows of norm.cu. Contract: NormAttrs, EmbedNormAttrs,
// GroupNormAttrs in core/attrs.h. f32, f16 and bf16 in any mix, arithmetic in f32.
// "rows" normalize the last axis, of inputs with any outer strides; "slabs" several axes.
// An id outside its table reads the table's row 0: the runtime checks an engine's own ids.
#include "backend/cuda/kernels/norm/norm.h"

#include "backend/cuda/body.h"
#include "backend/cuda/check.h"
#include "backend/cuda/kernels/norm/embedding.h"
#include "backend/cuda/lines.h"

namespace vernier::backend::cuda {
namespace {

// What prepare() finds out: the launch but for its pointers.
struct NormState final : ShapeState {
  NormLaunch launch;
  size_t first_parameter = 1;
};

Dim elems_from(const SymShape& shape, size_t first_axis) {
  return product(SymShape(shape.begin() + static_cast<std::ptrdiff_t>(first_axis), shape.end()));
}

/// `first_parameter`: input index of scale; bias follows it. Inputs before it are added.
Support supports_norm(const Problem& problem, size_t first_parameter) {
  Support floats = all_up_to_f32(problem);
  if (!floats) return floats;
  const SymShape& shape = problem.outputs[0].shape;
  const auto rank = static_cast<int64_t>(shape.size());
  if (rank == 0) return no("input is a scalar");
  if (rank > kMaxAxes) return no("more than 10 axes");
  const auto axis = static_cast<size_t>(positive_axis(problem.attrs_as<NormAttrs>().axis, rank));
  const Dim cols = elems_from(shape, axis);
  for (size_t i = 0; i < problem.inputs.size(); ++i) {
    const Operand& input = problem.inputs[i];
    if (!input.present) continue;
    if (i >= first_parameter) {
      if (!is_per_row_element(input.shape, shape, axis))
        return no("scale and bias must have one value per normalized element");
    } else if (input.shape.size() != shape.size() || elems_from(input.shape, axis) != cols) {
      return no("an addend is repeated along the normalized axes");
    }
  }
  return yes();
}
Support supports_rows(const Problem& problem, size_t first_parameter) {
  Support any = supports_norm(problem, first_parameter);
  if (!any) return any;
  const auto rank = static_cast<int64_t>(problem.outputs[0].shape.size());
  if (positive_axis(problem.attrs_as<NormAttrs>().axis, rank) != rank - 1)
    return no("normalizes over more than the last axis");
  return yes();
}

std::unique_ptr<ShapeState> prepare_norm(const PrepareCall& call, size_t first_parameter,
                                         bool is_rms) {
  const auto attrs = decode<NormAttrs>(call.attrs);
  const TensorArg& out = call.out[0];
  const auto axis = static_cast<int>(positive_axis(attrs.axis, out.rank));
  auto state = std::make_unique<NormState>();
  state->first_parameter = first_parameter;
  NormLaunch& launch = state->launch;
  launch.rows = elems_between(out, 0, axis);
  launch.cols = elems_between(out, axis, out.rank);
  launch.epsilon = static_cast<float>(attrs.epsilon);
  launch.is_rms = is_rms;
  launch.source_count = static_cast<int>(first_parameter);
  for (size_t i = 0; i < first_parameter; ++i)
    launch.sources[i].index = row_index(call.in[i], out, axis);
  check_lines(launch.rows, launch.cols, "an array to normalize");
  return state;
}

// Type and alignment of a launch whose pointers are set.
void choose_access(NormLaunch& launch) {
  std::array<FloatArray, kMaxNormSources + 2> arrays{};
  size_t count = 0;
  for (int s = 0; s < launch.source_count; ++s) arrays[count++] = launch.sources[s].array;
  arrays[count++] = launch.y;
  if (launch.sum.data != nullptr) arrays[count++] = launch.sum;
  const auto used = std::span(arrays).first(count);
  launch.type = common_type(used);
  const int64_t lanes = common_lanes(used);
  bool aligned = launch.cols % lanes == 0;
  for (int s = 0; s < launch.source_count && aligned; ++s) {
    const NormSource& source = launch.sources[s];
    aligned = source.ids.data != nullptr ? is_aligned(source.array, lanes)
                                         : is_aligned(source.array, source.index, lanes);
  }
  for (const FloatArray& array : {launch.y, launch.sum, launch.scale, launch.bias})
    aligned = aligned && (array.data == nullptr || is_aligned(array, lanes));
  launch.is_aligned = aligned;
}

void launch_rows(const LaunchCall& call) {
  const auto& state = static_cast<const NormState&>(*call.shape_state);
  NormLaunch launch = state.launch;
  for (size_t i = 0; i < state.first_parameter; ++i)
    launch.sources[i].array = float_array(call.in, i);
  launch.scale = float_array(call.in, state.first_parameter);
  launch.bias = float_array(call.in, state.first_parameter + 1);
  launch.y = float_array(call.out, 0);
  if (state.first_parameter == 2) {
    launch.sum = float_array(call.out, 1);
  } else {
    launch.mean = float_array(call.out, 1);
    launch.inverse = float_array(call.out, 2);
  }
  choose_access(launch);
  check_cuda(launch_norm(launch, stream_of(call.execution)), "normalizing rows");
}

// ---- EmbedNorm

Support supports_embed(const Problem& problem) {
  Support floats = all_up_to_f32(problem);
  return floats ? supports_tables(problem, kMaxNormSources) : floats;
}

std::unique_ptr<ShapeState> prepare_embed(const PrepareCall& call) {
  const auto attrs = decode<EmbedNormAttrs>(call.attrs);
  const TensorArg& out = call.out[0];
  auto state = std::make_unique<NormState>();
  NormLaunch& launch = state->launch;
  launch.source_count = static_cast<int>(attrs.tables);
  state->first_parameter = static_cast<size_t>(2 * attrs.tables);
  launch.rows = elems_between(out, 0, out.rank - 1);
  launch.cols = out.dim(-1);
  launch.epsilon = static_cast<float>(attrs.epsilon);
  for (int t = 0; t < launch.source_count; ++t) {
    const auto input = static_cast<size_t>(2 * t);
    launch.sources[t].index = id_index(call.in[input], out);
    launch.sources[t].table_rows = call.in[input + 1].dim(0);
  }
  check_lines(launch.rows, launch.cols, "an array to normalize");
  return state;
}

void launch_embed(const LaunchCall& call) {
  const auto& state = static_cast<const NormState&>(*call.shape_state);
  NormLaunch launch = state.launch;
  for (int t = 0; t < launch.source_count; ++t) {
    const auto input = static_cast<size_t>(2 * t);
    if (launch.rows > 0 && launch.sources[t].table_rows == 0)
      throw Error(ErrorCode::kInput, "EmbedNorm: an embedding table has no rows");
    launch.sources[t].ids = any_array(call.in, input);
    launch.sources[t].array = float_array(call.in, input + 1);
  }
  launch.scale = float_array(call.in, state.first_parameter);
  launch.bias = float_array(call.in, state.first_parameter + 1);
  launch.y = float_array(call.out, 0);
  choose_access(launch);
  check_cuda(launch_norm(launch, stream_of(call.execution)), "normalizing embeddings");
}

// ---- GroupNormalization

Support supports_groups(const Problem& problem) {
  if (rank_of(problem.inputs[0]) < 2) return no("input has no channel axis");
  return all_up_to_f32(problem);
}

std::unique_ptr<ShapeState> prepare_groups(const PrepareCall& call) {
  const auto attrs = decode<GroupNormAttrs>(call.attrs);
  const TensorArg& x = call.in[0];
  const int64_t channels = x.dim(1), plane = elems_between(x, 2, x.rank);
  const int64_t groups = attrs.num_groups == 0 ? channels : attrs.num_groups;
  auto state = std::make_unique<NormState>();
  NormLaunch& launch = state->launch;
  launch.rows = x.dim(0) * groups;
  launch.row_channels = groups == 0 ? 0 : channels / groups;
  launch.cols = launch.row_channels * plane;
  launch.channels = channels;
  launch.epsilon = static_cast<float>(attrs.epsilon);
  check_lines(launch.rows, launch.cols, "an array to normalize");
  if (plane > 0) launch.channel = divisor_of(plane);
  const std::array<int64_t, 1> sizes{launch.rows}, strides{launch.cols};
  launch.sources[0].index = strided_index(sizes, strides);
  return state;
}

template <size_t kFirstParameter, bool kIsRms, bool kIsSlab>
constexpr KernelBody norm_body(uint32_t strided) {
  return {.supports =
              [](const Problem& problem) {
                return kIsSlab ? supports_norm(problem, kFirstParameter)
                               : supports_rows(problem, kFirstParameter);
              },
          .numerics = &f32_numerics,
          .strided_inputs = strided,
          .prepare =
              [](const PrepareCall& call) { return prepare_norm(call, kFirstParameter, kIsRms); },
          .launch = &launch_rows};
}

}  // namespace

extern const KernelBody layer_norm_rows, layer_norm_slabs, rms_norm_rows, rms_norm_slabs,
    add_layer_norm_rows, add_layer_norm_slabs, embed_norm_rows, group_norm_groups;
constexpr KernelBody layer_norm_rows = norm_body<1, false, false>(1);
constexpr KernelBody layer_norm_slabs = norm_body<1, false, true>(0);
constexpr KernelBody rms_norm_rows = norm_body<1, true, false>(1);
constexpr KernelBody rms_norm_slabs = norm_body<1, true, true>(0);
constexpr KernelBody add_layer_norm_rows = norm_body<2, false, false>(3);
constexpr KernelBody add_layer_norm_slabs = norm_body<2, false, true>(0);
constexpr KernelBody embed_norm_rows{
    .supports = &supports_embed,
    .numerics = &f32_numerics,
    .prepare = &prepare_embed,
    .launch = &launch_embed,
};
constexpr KernelBody group_norm_groups{
    .supports = &supports_groups,
    .numerics = &f32_numerics,
    .prepare = &prepare_groups,
    .launch = &launch_rows,
};

}  // namespace vernier::backend::cuda
