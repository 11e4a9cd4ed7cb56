// cuda.{layer_norm,rms_norm,add_layer_norm,embed_norm}.packed: norm_packed.cu, embed_packed.cu. The
// last axis only, of rows without gaps, one type but for f32 scale and bias; everything else is
// norm.cpp's. An id outside its table reads the table's row 0.
#include "backend/cuda/kernels/norm/norm_packed.h"

#include "backend/cuda/body.h"
#include "backend/cuda/check.h"
#include "backend/cuda/kernels/elementwise/quantize_rows_step.h"
#include "backend/cuda/kernels/norm/embedding.h"
#include "backend/supports.h"

namespace vernier::backend::cuda {
namespace {

constexpr int64_t kMaxPackedColumns = 1024;
constexpr size_t kVectorBytes = 16;

struct NormState final : KernelState {
  bool has_constants = true;
};
struct EmbedState final : ShapeState {
  std::array<StridedIndex, kMaxPackedTables> ids;
};

/// Yes if the output's rows have a size and type that the kernels have, and inputs from
/// `first_parameter` on (scale, bias) are f32 with one value per column.
Support supports_rows(const Problem& problem, size_t first_parameter) {
  const Operand& out = problem.outputs[0];
  if (out.dtype != DType::kF32 && !is_16_bit_float(out.dtype))
    return no("rows are not f32, f16 or bf16");
  const auto cols = out.shape.back().as_constant();
  const auto lanes = static_cast<int64_t>(kVectorBytes / size_bytes(out.dtype));
  if (!cols || *cols == 0 || *cols % lanes != 0 || *cols > kMaxPackedColumns)
    return no("a row is not a constant number of up to 1024 columns, in vectors of 16 bytes");
  for (size_t i = first_parameter; i < problem.inputs.size(); ++i) {
    const Operand& input = problem.inputs[i];
    if (input.present && (input.dtype != DType::kF32 ||
                          !is_per_row_element(input.shape, out.shape, out.shape.size() - 1)))
      return no("scale and bias are not f32 with one value per column");
  }
  return yes();
}

Support supports_packed(const Problem& problem, size_t first_parameter) {
  const Operand& out = problem.outputs[0];
  const auto rank = static_cast<int64_t>(out.shape.size());
  if (rank == 0) return no("input is a scalar");
  if (positive_axis(problem.attrs_as<NormAttrs>().axis, rank) != rank - 1)
    return no("normalizes over more than the last axis");
  if (Support rows = supports_rows(problem, first_parameter); !rows) return rows;
  for (size_t i = 0; i < first_parameter; ++i) {
    const Operand& input = problem.inputs[i];
    if (input.dtype != out.dtype || str(input.shape) != str(out.shape))
      return no("an input differs from the output in type or shape");
  }
  for (size_t o = 1; o < problem.outputs.size(); ++o) {
    if (!problem.outputs[o].present) continue;
    const bool is_sum = o == 1 && first_parameter == 2;
    if (!is_sum || problem.outputs[o].dtype != out.dtype)
      return no("no mean or deviation as an output, and the sum in the type of the rows only");
  }
  return yes();
}

Support supports_packed_embed(const Problem& problem) {
  const Operand& out = problem.outputs[0];
  const auto count = static_cast<size_t>(problem.attrs_as<EmbedNormAttrs>().tables);
  if (Support tables = supports_tables(problem, kMaxPackedTables); !tables) return tables;
  if (Support rows = supports_rows(problem, 2 * count); !rows) return rows;
  for (size_t t = 0; t < count; ++t) {
    if (problem.inputs[2 * t + 1].dtype != out.dtype) return no("a table is not of the rows' type");
  }
  return yes();
}

std::unique_ptr<KernelState> create_norm(const CreateCall& call, size_t first_parameter) {
  auto state = std::make_unique<NormState>();
  for (size_t i = first_parameter; i < call.constant_inputs.size(); ++i) {
    const TensorArg& input = call.constant_inputs[i];
    state->has_constants = state->has_constants && input.data != nullptr;
  }
  return state;
}

const void* data(std::span<const TensorArg> operands, size_t i) {
  return given(operands, i) ? operands[i].data : nullptr;
}
bool is_aligned(const void* array) {
  return reinterpret_cast<uintptr_t>(array) % kVectorBytes == 0;
}

/// What all have: y, scale and bias (inputs first_parameter and the next), sizes.
PackedNorm packed_norm(const LaunchCall& call, double epsilon, size_t first_parameter) {
  const TensorArg& y = call.out[0];
  PackedNorm args{.y = y.data,
                  .scale = static_cast<const float*>(data(call.in, first_parameter)),
                  .bias = static_cast<const float*>(data(call.in, first_parameter + 1)),
                  .rows = y.elems() == 0 ? 0 : y.elems() / y.dim(-1),
                  .cols = static_cast<int>(y.dim(-1)),
                  .epsilon = static_cast<float>(epsilon),
                  .type = y.dtype,
                  .has_constants = static_cast<const NormState&>(*call.state).has_constants,
                  .backwards = call.backwards};
  args.is_aligned = is_aligned(args.y) && is_aligned(args.scale) && is_aligned(args.bias);
  return args;
}

void launch_packed(const LaunchCall& call, size_t first_parameter, bool is_rms) {
  PackedNorm args = packed_norm(call, decode<NormAttrs>(call.attrs).epsilon, first_parameter);
  args.x = call.in[0].data;
  args.is_rms = is_rms;
  if (first_parameter == 2) {
    args.addend = call.in[1].data;
    args.sum = given(call.out, 1) ? call.out[1].data : nullptr;
  }
  args.is_aligned =
      args.is_aligned && is_aligned(args.x) && is_aligned(args.addend) && is_aligned(args.sum);
  const bool quantizes = call.next != nullptr && packed_norm_quantizes(args);
  if (quantizes) {
    const auto output = [&call](size_t i) {
      return static_cast<float*>(const_cast<void*>(data(call.next->out, i)));
    };
    args.q = call.next->out[0].as<int8_t>();
    args.to_f8 = call.next->out[0].dtype == DType::kF8E4M3;
    args.scales = output(1);
    args.zeros = output(2);
    args.factors = static_cast<const float*>(data(call.next->in, 1));
    args.given_scale = static_cast<const float*>(data(call.next->in, 2));
    args.given_zero = static_cast<const float*>(data(call.next->in, 3));
  }
  check_cuda(launch_packed_norm(args, stream_of(call.execution)), "normalizing rows");
  if (call.next != nullptr && !quantizes) launch_quantize_rows(*call.next);
}

std::unique_ptr<ShapeState> prepare_packed_embed(const PrepareCall& call) {
  auto state = std::make_unique<EmbedState>();
  const auto count = static_cast<size_t>(decode<EmbedNormAttrs>(call.attrs).tables);
  for (size_t t = 0; t < count; ++t) state->ids[t] = id_index(call.in[2 * t], call.out[0]);
  return state;
}

void launch_packed_embed(const LaunchCall& call) {
  const auto attrs = decode<EmbedNormAttrs>(call.attrs);
  const auto count = static_cast<size_t>(attrs.tables);
  PackedEmbedNorm args{.norm = packed_norm(call, attrs.epsilon, 2 * count),
                       .count = static_cast<int>(count)};
  for (size_t t = 0; t < count; ++t) {
    const TensorArg& table = call.in[2 * t + 1];
    if (args.norm.rows > 0 && table.dim(0) == 0)
      throw Error(ErrorCode::kInput, "EmbedNorm: an embedding table has no rows");
    args.tables[t] = {.data = table.data,
                      .ids = any_array(call.in, 2 * t),
                      .index = static_cast<const EmbedState&>(*call.shape_state).ids[t],
                      .rows = table.dim(0)};
    args.norm.is_aligned = args.norm.is_aligned && is_aligned(table.data);
  }
  check_cuda(launch_packed_embed_norm(args, stream_of(call.execution)), "normalizing embeddings");
}

template <size_t kFirstParameter, bool kIsRms>
constexpr KernelBody packed_body() {
  return {
      .supports = [](const Problem& problem) { return supports_packed(problem, kFirstParameter); },
      .numerics = &f32_numerics,
      .create = [](const CreateCall& call) { return create_norm(call, kFirstParameter); },
      .launch = [](const LaunchCall& call) { launch_packed(call, kFirstParameter, kIsRms); },
      .joins = kFirstParameter == 2 ? &quantizes_result_of : nullptr};
}

}  // namespace

extern const KernelBody layer_norm_packed, rms_norm_packed, add_layer_norm_packed,
    embed_norm_packed;
constexpr KernelBody layer_norm_packed = packed_body<1, false>();
constexpr KernelBody rms_norm_packed = packed_body<1, true>();
constexpr KernelBody add_layer_norm_packed = packed_body<2, false>();
constexpr KernelBody embed_norm_packed{
    .supports = &supports_packed_embed,
    .numerics = &f32_numerics,
    .create =
        [](const CreateCall& call) {
          return create_norm(call,
                             static_cast<size_t>(2 * decode<EmbedNormAttrs>(call.attrs).tables));
        },
    .prepare = &prepare_packed_embed,
    .launch = &launch_packed_embed,
};

}  // namespace vernier::backend::cuda
