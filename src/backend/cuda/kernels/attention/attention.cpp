// The Attention rows of kernels.def: out = softmax(scale · q kᵀ + bias, masked) v without an [S, S]
// array. Contract: AttentionAttrs in core/attrs.h; kernels: attention.h.
//
// q, k, v   [B, S, H, D], any outer strides; k and v may have fewer heads. Bias and rotary tables:
//           f32, f16 or bf16 in any mix.
// sm90      q, k, v and out of one 16-bit type, D = Dv = 32, 64 or 128; wgmma, steps of 128 keys
//           (at most 128 keys: a kernel of one step, attention_short.cu, with the same bits)
// flash     the same with any D = Dv that is a multiple of 8 up to 128; mma.sync, steps of 64 keys
// flash_tf32   as flash, for f32 arrays and TF32 operands, where the request allows TF32
// plain     everything else in f32, f16 or bf16: f32 products, steps of 64 keys (aligned f32 rows
//           of D = Dv up to 128: attention_f32.cu, with the same bits)
// All carry a running softmax over steps of keys from key 0 on, so keys that are masked with -inf
// after the last real one change no bits, and a row's bits depend on its query, its keys and their
// masks only. Sums are f32. On tensor cores exp(score − running maximum) is rounded to the
// operands' type and divided by the sum of the unrounded ones; TF32 is rounded to to nearest,
// halves to even. Rows that are all -inf give NaN (0 with zero_nan_rows, and with masks_add where
// the masks make them so); NaN in a query, key, value or bias reaches every row that it reaches by
// definition: with causal and -inf, keys after the last visible one are left out only where they
// are finite, which a scan of v finds out first. Limits    Σ p·v over a few keys must be a number
// of f32 before it is divided. Bounds of
//           cu_seqlens are forced into range; they cannot be checked here.
// Workspace a byte per 64 keys of a head with causal, else none.
#include <cmath>

#include "backend/cuda/body.h"
#include "backend/cuda/check.h"
#include "backend/cuda/kernels/attention/attention_call.h"
#include "backend/cuda/kernels/elementwise/quantize_rows_step.h"
#include "backend/cuda/product_numerics.h"
#include "backend/cuda/usable.h"
#include "backend/supports.h"

namespace vernier::backend::cuda {
namespace {

// And q, k, v, bias, keep.
constexpr uint32_t kStrided = 0x1f | 1U << kQueryPositions | 1U << kKeyPositions;
// q, k and v, which the copy engine of Hopper reads: its maps have no stride 0. Another kernel
// would take such arrays, and only where the repeated axis (a batch, say) is longer than 1.
constexpr uint32_t kMapped = 0x7;

// ---- what each row takes

Support supports_plain(const Problem& problem) {
  Support operands = attention_operands(problem);
  if (!operands) return operands;
  for (size_t i : {kStartsQ, kStartsK}) {
    if (!problem.has_input(i)) continue;
    const DType type = problem.inputs[i].dtype;
    if (type != DType::kI32 && type != DType::kI64) return no("cu_seqlens are not i32 or i64");
  }
  return yes();
}

// q, k, v and out of one type and a head size that tensor cores take.
Support supports_tiles(const Problem& problem) {
  const DType type = problem.inputs[kQ].dtype;
  for (size_t i : {kK, kV}) {
    if (problem.inputs[i].dtype != type) return no("q, k and v differ in type");
  }
  if (problem.outputs[0].dtype != type) return no("the output is not of the type of q");
  const std::optional<int64_t> head_dim = problem.inputs[kQ].shape[3].as_constant(),
                               value_dim = problem.inputs[kV].shape[3].as_constant();
  if (!head_dim || !value_dim) return no("a symbolic head size");
  if (*head_dim != *value_dim) return no("values and keys differ in head size");
  if (*head_dim <= 0 || *head_dim % 8 != 0 || *head_dim > kFlashMaxDim)
    return no("head size " + std::to_string(*head_dim) + " is not a multiple of 8 up to 128");
  return yes();
}

Support supports_flash(const Problem& problem) {
  Support plain = supports_plain(problem);
  if (!plain) return plain;
  if (!is_16_bit_float(problem.inputs[kQ].dtype)) return no("q is not f16 or bf16");
  return supports_tiles(problem);
}

Support supports_tf32(const Problem& problem) {
  Support plain = supports_plain(problem);
  if (!plain) return plain;
  if (problem.inputs[kQ].dtype != DType::kF32) return no("q is not f32");
  if (!takes_tf32(problem)) return no("the request does not allow TF32");
  return supports_tiles(problem);
}

Support supports_sm90(const Problem& problem) {
  Support flash = supports_flash(problem);
  if (!flash) return flash;
  const int64_t head_dim = *problem.inputs[kQ].shape[3].as_constant();
  if (head_dim != 32 && head_dim != 64 && head_dim != 128)
    return no("head size " + std::to_string(head_dim) + " is not 32, 64 or 128");
  if (problem.has_input(kCosines)) return no("no rotary tables");
  const auto attrs = problem.attrs_as<AttentionAttrs>();
  if (attrs.masks_add) return no("no masks that add");
  if (!(attrs.scale >= 0x1p-20 && attrs.scale <= 0x1p20)) return no("a scale beyond 2^±20");
  for (size_t i : {kQueryPositions, kKeyPositions}) {
    if (!problem.has_input(i)) continue;
    const auto count = problem.inputs[i].shape[3].as_constant();
    if (!count || *count > kMostBuckets)
      return no("scores by more than " + std::to_string(kMostBuckets) + " relative positions");
  }
  if (!hopper_kernels_usable()) return no("no sm_90 GPU, or not compiled for sm_90a");
  return yes();
}

// Operands and probabilities take `type`; everything else is f32. The probabilities of a step of
// `keys` keys are taken against the largest score so far.
Numerics mma_numerics(const Problem& problem, DType type, int64_t keys) {
  enum Point : size_t { kPointQ, kPointK, kPointV, kScores, kProbs };
  Numerics numerics = f32_numerics(problem);
  numerics.compute = type;
  for (size_t point : {kPointQ, kPointK, kPointV}) numerics.points[point].type = type;
  numerics.points[kProbs] = {
      .type = type, .block = keys, .scale = PointRounding::Scale::kUnnormalised};
  // ex2.approx is within 2 ulp; its argument is rounded at up to 1.44·|score − max|·2^-24.
  numerics.approximation_rel = 1e-6;
  return numerics;
}
Numerics sm90_numerics(const Problem& problem) {
  return mma_numerics(problem, problem.inputs[kQ].dtype, kSm90StepKeys);
}
Numerics flash_numerics(const Problem& problem) {
  return mma_numerics(problem, problem.inputs[kQ].dtype, kFlashStepKeys);
}
Numerics flash_tf32_numerics(const Problem& problem) {
  return mma_numerics(problem, DType::kTF32, kFlashStepKeys);
}

// ---- arguments

AttentionType type_of(DType type) {
  if (type == DType::kF16) return AttentionType::kF16;
  return type == DType::kBF16 ? AttentionType::kBF16 : AttentionType::kF32;
}
AttentionRows rows_of(const TensorArg& t) {
  return {.data = t.data,
          .batch = t.stride(0),
          .row = t.stride(1),
          .head = t.stride(2),
          .type = type_of(t.dtype)};
}
AttentionTable table_of(const TensorArg& t) {
  if (!given(t)) return {};
  return {.data = t.data,
          .batch = broadcast_stride(t, 0, 4),
          .head = broadcast_stride(t, 1, 4),
          .query = broadcast_stride(t, 2, 4),
          .key = broadcast_stride(t, 3, 4),
          .type = type_of(t.dtype)};
}
// `zero`: the element of the buckets of i = j.
AttentionPositions positions_of(const TensorArg& positions, const TensorArg& buckets,
                                int64_t zero) {
  if (!given(positions)) return {};
  return {.data = positions.data,
          .batch = positions.stride(0),
          .row = positions.stride(1),
          .head = positions.stride(2),
          .size = static_cast<int>(positions.dim(3)),
          .type = type_of(positions.dtype),
          .buckets = buckets.data,
          .count = buckets.dim(0),
          .zero = zero,
          .buckets_are_i64 = buckets.dtype == DType::kI64};
}
AttentionRotary rotary_of(const TensorArg& cos, const TensorArg& sin, bool interleaved) {
  if (!given(cos)) return {};
  return {.cos = cos.data,
          .sin = sin.data,
          .cos_batch = broadcast_stride(cos, 0, 4),
          .cos_row = broadcast_stride(cos, 1, 4),
          .sin_batch = broadcast_stride(sin, 0, 4),
          .sin_row = broadcast_stride(sin, 1, 4),
          .cos_type = type_of(cos.dtype),
          .sin_type = type_of(sin.dtype),
          .cos_width = static_cast<int>(cos.dim(-1)),
          .sin_width = static_cast<int>(sin.dim(-1)),
          .interleaved = interleaved};
}

// Sequences that fill all places are the rows of a dense batch, for which kernels are faster, with
// the same bits.
void take_as_batch(const TensorArg& places, AttentionLaunch& args) {
  if (!given(places)) return;
  const int64_t sequences = places.dim(0), longest = places.dim(1);
  const bool whole_rows = args.queries == args.keys, fills = args.keys == sequences * longest;
  const auto by_key = [](const AttentionTable& t) {
    return t.data == nullptr || (t.query == 0 && t.batch == 0);
  };
  const bool in_sequence = args.longest > 0;  // then the bias is that of every row of the batch
  if (args.keys == 0 || !fills || !(whole_rows || args.queries == sequences) ||
      !(in_sequence || by_key(args.bias)) || !by_key(args.keep))
    return;
  const int64_t queries = whole_rows ? longest : 1;
  for (AttentionRows* rows : {&args.q, &args.out}) rows->batch = queries * rows->row;
  for (AttentionRows* rows : {&args.k, &args.v}) rows->batch = longest * rows->row;
  for (AttentionTable* table : {&args.bias, &args.keep}) table->batch = longest * table->key;
  if (in_sequence) args.bias.batch = args.longest = 0;
  args.query_positions.batch = queries * args.query_positions.row;
  args.key_positions.batch = longest * args.key_positions.row;
  args.keep_queries.batch = queries * args.keep_queries.query;
  args.rotary.cos_batch = longest * args.rotary.cos_row;
  args.rotary.sin_batch = longest * args.rotary.sin_row;
  args.batch = sequences;
  args.queries = queries;
  args.keys = longest;
  args.starts_q = args.starts_k = nullptr;
  args.sequences = 0;
}

}  // namespace

AttentionLaunch attention_launch(const LaunchCall& call) {
  const auto attrs = decode<AttentionAttrs>(call.attrs);
  const TensorArg &q = call.in[kQ], &k = call.in[kK], &v = call.in[kV];
  const TensorArg starts_q = operand_at(call.in, kStartsQ),
                  starts_k = operand_at(call.in, kStartsK);
  AttentionLaunch args{
      .q = rows_of(q),
      .k = rows_of(k),
      .v = rows_of(v),
      .out = rows_of(call.out[0]),
      .batch = q.dim(0),
      .queries = q.dim(1),
      .keys = k.dim(1),
      .heads = static_cast<int>(q.dim(2)),
      .kv_heads = static_cast<int>(k.dim(2)),
      .head_dim = static_cast<int>(q.dim(3)),
      .value_dim = static_cast<int>(v.dim(3)),
      .bias = table_of(operand_at(call.in, kBias)),
      .keep = table_of(operand_at(call.in, kKeep)),
      .starts_q = starts_q.data,
      .starts_k = starts_k.data,
      .sequences = given(starts_q) ? static_cast<int>(starts_q.dim(0)) - 1 : 0,
      .starts_are_i64 = starts_q.dtype == DType::kI64,
      .rotary = rotary_of(operand_at(call.in, kCosines), operand_at(call.in, kSines),
                          attrs.rotary_interleaved),
      .scale = static_cast<float>(attrs.scale),
      .fill = static_cast<float>(attrs.fill),
      .causal = attrs.causal,
      .zero_nan_rows = attrs.zero_nan_rows,
      .masks_add = attrs.masks_add,
      .finite = attrs.causal ? reinterpret_cast<uint8_t*>(call.workspace) : nullptr,
      .backwards = call.backwards};
  // A single batch item of sequences: where it would end, whatever a view says of an axis of 1.
  if (args.starts_q != nullptr) {
    // Backwards a long first sequence comes last, which costs more than it gains where the L2 cache
    // holds everything.
    constexpr int64_t kCached = int64_t{32} << 20;
    const auto row_bytes = static_cast<int64_t>(size_bytes(q.dtype)) * q.dim(2) * q.dim(3);
    args.backwards = args.backwards && 4 * args.queries * row_bytes > kCached;
    for (AttentionRows* rows : {&args.q, &args.out}) rows->batch = args.queries * rows->row;
    for (AttentionRows* rows : {&args.k, &args.v}) rows->batch = args.keys * rows->row;
  }
  const TensorArg places = operand_at(call.in, kPlaces);
  const int64_t zero = given(places) ? places.dim(1) : args.keys;
  args.query_positions =
      positions_of(operand_at(call.in, kQueryPositions), operand_at(call.in, kQueryBuckets), zero);
  args.key_positions =
      positions_of(operand_at(call.in, kKeyPositions), operand_at(call.in, kKeyBuckets), zero);
  args.keep_queries = table_of(operand_at(call.in, kKeepQueries));
  args.zero_hidden_rows = attrs.zero_hidden_rows;
  args.by_position = args.query_positions.data != nullptr || args.key_positions.data != nullptr ||
                     args.keep_queries.data != nullptr || args.zero_hidden_rows;
  if (attrs.bias_in_sequence) args.longest = call.in[kPlaces].dim(1);
  take_as_batch(places, args);
  return args;
}

namespace {

void check_sequences(const PrepareCall& call) {
  const TensorArg starts_q = operand_at(call.in, kStartsQ),
                  starts_k = operand_at(call.in, kStartsK);
  if (!given(starts_q)) return;
  if (starts_q.elems() == 0)
    throw Error(ErrorCode::kInput, "attention: cu_seqlens_q must hold at least one start");
  if (starts_q.dtype != starts_k.dtype || starts_q.dim(0) != starts_k.dim(0)) {
    throw Error(ErrorCode::kInput,
                "attention: cu_seqlens_q and cu_seqlens_k differ in length or type: " +
                    std::to_string(starts_q.dim(0)) + " and " + std::to_string(starts_k.dim(0)));
  }
}

std::unique_ptr<ShapeState> prepare(const PrepareCall& call) {
  check_sequences(call);
  const TensorArg& k = call.in[kK];
  int64_t chunks = (k.dim(1) + kFiniteChunk - 1) / kFiniteChunk;
  // As rows of a batch, each with chunks of its own.
  if (given(operand_at(call.in, kPlaces))) chunks += call.in[kPlaces].dim(0);
  const bool causal = decode<AttentionAttrs>(call.attrs).causal;
  return workspace_only(causal ? static_cast<size_t>(k.dim(0) * k.dim(2) * chunks) : 0);
}

// ---- launch

using Kernel = cudaError_t (*)(const AttentionLaunch&, cudaStream_t);

void launch_with(const LaunchCall& call, Kernel kernel, bool looks_at_all_keys = false,
                 const AttentionQuantized& quantized = {}) {
  if (call.out[0].elems() == 0) return;
  AttentionLaunch args = attention_launch(call);
  args.quantized = quantized;
  const cudaStream_t stream = stream_of(call.execution);
  // Only where hidden keys have probability 0 can they be left out.
  const bool scan = args.causal && (args.masks_add || std::isinf(args.fill)) && !looks_at_all_keys;
  if (scan) check_cuda(launch_attention_finite(args, stream), "looking through attention values");
  check_cuda(kernel(args, stream), "Attention");
}
void launch_plain(const LaunchCall& call) {
  const bool fast = attention_f32_takes(attention_launch(call));
  launch_with(call, fast ? &launch_attention_f32 : &launch_attention_plain);
}
void launch_flash(const LaunchCall& call) { launch_with(call, &launch_attention_flash); }
void launch_tf32(const LaunchCall& call) { launch_with(call, &launch_attention_tf32); }
AttentionQuantized quantized_of(const LaunchCall& call) {
  const auto by = given_scale_behind(call);
  if (!by) return {};
  return {.q = by->q,
          .factors = by->factors,
          .scale = by->scale,
          .zero = by->zero,
          .to_f8 = call.next->out[0].dtype == DType::kF8E4M3};
}

}  // namespace

void launch_attention_sm90_step(const LaunchCall& call) {
  const AttentionLaunch args = attention_launch(call);
  const bool takes = attention_sm90_takes(args);
  const AttentionQuantized quantized = takes ? quantized_of(call) : AttentionQuantized{};
  if (takes) {
    launch_with(call, &launch_attention_sm90, attention_short_takes(args), quantized);
  } else {
    launch_with(call, &launch_attention_flash);
  }
  if (call.next != nullptr && quantized.q == nullptr) launch_quantize_rows(*call.next);
}

namespace {

bool joins(const Problem& own, const Problem& next) {
  return own.outputs[0].dtype == DType::kF16 && quantizes_heads_of(own, next);
}

}  // namespace

constexpr VariantSize kSm90Variants[] = {
    {.of = VariantSize::Of::kLength, .size = kSm90StepKeys, .repeats = true}};
constexpr VariantSize kFlashVariants[] = {
    {.of = VariantSize::Of::kLength, .size = kFlashStepKeys, .repeats = true}};

extern const KernelBody attention_flash_sm90;
constexpr KernelBody attention_flash_sm90{
    .supports = &supports_sm90,
    .numerics = &sm90_numerics,
    .strided_inputs = kStrided,
    .repeating_inputs = ~kMapped,
    .prepare = &prepare,
    .launch = &launch_attention_sm90_step,
    .joins = &joins,
    .may_be_joined = true,
    .variants = kSm90Variants,
};

extern const KernelBody attention_flash;
constexpr KernelBody attention_flash{
    .supports = &supports_flash,
    .numerics = &flash_numerics,
    .strided_inputs = kStrided,
    .prepare = &prepare,
    .launch = &launch_flash,
    .variants = kFlashVariants,
};

extern const KernelBody attention_flash_tf32;
constexpr KernelBody attention_flash_tf32{
    .supports = &supports_tf32,
    .numerics = &flash_tf32_numerics,
    .strided_inputs = kStrided,
    .prepare = &prepare,
    .launch = &launch_tf32,
    .variants = kFlashVariants,
};

extern const KernelBody attention_plain;
constexpr KernelBody attention_plain{
    .supports = &supports_plain,
    .numerics = &f32_numerics,
    .strided_inputs = kStrided,
    .prepare = &prepare,
    .launch = &launch_plain,
    .variants = kFlashVariants,
};

}  // namespace vernier::backend::cuda
