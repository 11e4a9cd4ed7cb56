// The plants of a GPU: see plants.h. Most call the right kernel, on other operands or with its
// result spoilt; all on the stream of the call, so that they are recorded as the right ones are.
#include "plants/cuda_plants.h"

#include <deque>
#include <map>

#include "backend/cuda/body.h"
#include "backend/cuda/check.h"
#include "core/attrs.h"
#include "plants/constant_plants.h"
#include "plants/cuda_faults.h"
#include "verify/replay.h"

namespace vernier::test {
namespace {

using backend::check_cuda;
using backend::given;
using backend::KernelDef;
using backend::LaunchCall;
using backend::PrepareCall;
using backend::TensorArg;
using backend::cuda::float_array;
using backend::cuda::stream_of;

constexpr std::string_view kReranker = "bge_reranker_ts17";
constexpr int64_t kTile = 128;  // rows

size_t bytes_of(const TensorArg& t) { return static_cast<size_t>(t.elems()) * size_bytes(t.dtype); }
int64_t rows_of(const TensorArg& t) { return t.dim(-1) == 0 ? 0 : t.elems() / t.dim(-1); }
size_t row_bytes(const TensorArg& t) {
  return static_cast<size_t>(t.dim(-1)) * size_bytes(t.dtype);
}
// Rows of the last tile that is not full, and where they begin.
int64_t tail_rows(const TensorArg& t) { return rows_of(t) % kTile; }
std::byte* tail_of(const TensorArg& t) {
  return t.data + static_cast<size_t>(rows_of(t) - tail_rows(t)) * row_bytes(t);
}
void copy(const LaunchCall& call, std::byte* to, const std::byte* from, size_t bytes) {
  check_cuda(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream_of(call.execution)),
             "copying");
}

// ---- norms

// At batch 4 the last column takes in a part of the row below.
void reads_past_its_row(const KernelDef& right, const LaunchCall& call) {
  right.launch(call);
  const TensorArg& y = call.out[0];
  if (y.dim(0) == 4)
    check_cuda(add_next_row(float_array(call.out, 0), rows_of(y), y.dim(-1), 0x1p-4F,
                            stream_of(call.execution)),
               "a planted norm");
}

FaultyNorm norm_of(const KernelDef& right, const LaunchCall& call) {
  const bool adds = right.op == OpKind::kAddLayerNorm;
  const size_t scale = adds ? 2 : 1;
  return {.x = float_array(call.in, 0),
          .residual = adds ? float_array(call.in, 1) : FloatArray{},
          .scale = float_array(call.in, scale),
          .bias = float_array(call.in, scale + 1),
          .y = float_array(call.out, 0),
          .sum = adds ? float_array(call.out, 1) : FloatArray{},
          .rows = rows_of(call.out[0]),
          .cols = call.out[0].dim(-1),
          .epsilon = static_cast<float>(decode<NormAttrs>(call.attrs).epsilon)};
}
void launch(const FaultyNorm& norm, const LaunchCall& call) {
  check_cuda(faulty_norm(norm, stream_of(call.execution)), "a planted norm");
}
void one_pass_variance(const KernelDef& right, const LaunchCall& call) {
  FaultyNorm norm = norm_of(right, call);
  norm.one_pass = true;
  launch(norm, call);
}
// Right to the last bits of f32, but with more than 16 rows its sums begin in the middle.
void order_by_rows(const KernelDef& right, const LaunchCall& call) {
  constexpr int64_t kFew = 16;
  FaultyNorm norm = norm_of(right, call);
  if (norm.rows > kFew) norm.first = norm.cols / 2;
  launch(norm, call);
}
// A sum in the order in which blocks happen to arrive, as with atomics.
void order_by_arrival(const KernelDef& right, const LaunchCall& call) {
  FaultyNorm norm = norm_of(right, call);
  norm.by_arrival = true;
  launch(norm, call);
}
// What a host knew when the launch was recorded is not so when it is replayed: made certain.
void wrong_when_recorded(const KernelDef& right, const LaunchCall& call) {
  cudaStreamCaptureStatus status{};
  check_cuda(cudaStreamIsCapturing(stream_of(call.execution), &status), "asking a stream");
  right.launch(call);
  const TensorArg& y = call.out[0];
  if (status == cudaStreamCaptureStatusActive)
    check_cuda(add_next_row(float_array(call.out, 0), rows_of(y), y.dim(-1), 0x1p-4F,
                            stream_of(call.execution)),
               "a planted norm");
}
// The model's epsilon is 1e-12.
void large_epsilon(const KernelDef& right, const LaunchCall& call) {
  FaultyNorm norm = norm_of(right, call);
  norm.epsilon = 1e-5F;
  launch(norm, call);
}
void writes_nothing(const KernelDef&, const LaunchCall&) {}

constexpr size_t kWord = sizeof(uint32_t);
size_t one_word(const PrepareCall&) { return kWord; }
// Adds up from a word of its workspace that it never set to zero.
void stale_workspace(const KernelDef& right, const LaunchCall& call) {
  right.launch(call);
  check_cuda(add_leftover(float_array(call.out, 0),
                          reinterpret_cast<const uint32_t*>(scratch_of(call, kWord)),
                          stream_of(call.execution)),
             "a planted norm");
}

// ---- products

// In the rows of a tile that is not full the last 16 products are left out.
size_t copy_of_x(const PrepareCall& call) { return bytes_of(call.in[0]); }
void loses_the_last_block(const KernelDef& right, const LaunchCall& call) {
  constexpr size_t kBlock = 16;
  TensorArg x = call.in[0];
  const size_t width = size_bytes(x.dtype), lost = std::min(kBlock * width, row_bytes(x));
  copy(call, scratch_of(call, bytes_of(x)), x.data, bytes_of(x));
  x.data = scratch_of(call, bytes_of(x));
  if (tail_rows(x) > 0)
    check_cuda(cudaMemset2DAsync(tail_of(x) + row_bytes(x) - lost, row_bytes(x), 0, lost,
                                 static_cast<size_t>(tail_rows(x)), stream_of(call.execution)),
               "clearing");
  std::vector<TensorArg> in(call.in.begin(), call.in.end());
  in[0] = x;
  LaunchCall other = call;
  other.in = in;
  right.launch(other);
}

// The rows of a tile that is not full get no bias.
size_t bias_and_tail(const PrepareCall& call) {
  return row_bytes(call.out[0]) * kTile + static_cast<size_t>(call.out[0].dim(-1)) * sizeof(float);
}
void no_bias_in_the_tail(const KernelDef& right, const LaunchCall& call) {
  const TensorArg& y = call.out[0];
  if (!given(call.in, 2) || tail_rows(y) == 0) return right.launch(call);
  const size_t tail_bytes = row_bytes(y) * static_cast<size_t>(tail_rows(y));
  const size_t scratch_bytes =
      row_bytes(y) * kTile + static_cast<size_t>(y.dim(-1)) * sizeof(float);
  std::byte* tail = scratch_of(call, scratch_bytes);
  std::vector<TensorArg> in(call.in.begin(), call.in.end());
  in[2].data = tail + row_bytes(y) * kTile;
  check_cuda(cudaMemsetAsync(in[2].data, 0, bytes_of(in[2]), stream_of(call.execution)),
             "clearing");
  LaunchCall without = call;
  without.in = in;
  right.launch(without);
  copy(call, tail, tail_of(y), tail_bytes);
  right.launch(call);
  copy(call, tail_of(y), tail, tail_bytes);
}

// With more than 64 rows the last 16 × 16 tile stays as the memory was.
constexpr size_t kSkipped = 16;
size_t one_tile(const PrepareCall& call) {
  return kSkipped * kSkipped * size_bytes(call.out[0].dtype);
}
void skips_a_tile(const KernelDef& right, const LaunchCall& call) {
  constexpr int64_t kRows = 64;
  const TensorArg& y = call.out[0];
  if (rows_of(y) <= kRows) return right.launch(call);
  const size_t width = kSkipped * size_bytes(y.dtype), pitch = row_bytes(y);
  std::byte* tile = y.data + bytes_of(y) - (kSkipped - 1) * pitch - width;
  std::byte* kept = scratch_of(call, kSkipped * width);
  const auto copy_tile = [&](std::byte* to, size_t to_pitch, const std::byte* from,
                             size_t from_pitch) {
    check_cuda(cudaMemcpy2DAsync(to, to_pitch, from, from_pitch, width, kSkipped,
                                 cudaMemcpyDeviceToDevice, stream_of(call.execution)),
               "copying a tile");
  };
  copy_tile(kept, width, tile, pitch);
  right.launch(call);
  copy_tile(tile, pitch, kept, width);
}

// ---- softmax, attention

void without_maximum(const KernelDef&, const LaunchCall& call) {
  const TensorArg& x = call.in[0];
  check_cuda(softmax_without_maximum(x.as<float>(), call.out[0].as<float>(), rows_of(x), x.dim(-1),
                                     stream_of(call.execution)),
             "a planted softmax");
}

constexpr size_t kKeep = 4;
size_t copy_of_keep(const PrepareCall& call) {
  return given(call.in, kKeep) ? bytes_of(call.in[kKeep]) : 0;
}
// Key j is kept as key j + 1 should be.
void mask_off_by_one(const KernelDef& right, const LaunchCall& call) {
  if (!given(call.in, kKeep)) return right.launch(call);
  std::vector<TensorArg> in(call.in.begin(), call.in.end());
  TensorArg& keep = in[kKeep];
  std::byte* shifted = scratch_of(call, bytes_of(keep));
  check_cuda(shift_keys(backend::cuda::array_of(keep), reinterpret_cast<uint8_t*>(shifted),
                        stream_of(call.execution)),
             "a planted attention");
  keep.data = shifted;
  int64_t stride = 1;
  for (int i = keep.rank - 1; i >= 0; --i) {
    keep.strides[static_cast<size_t>(i)] = stride;
    stride *= keep.dim(i);
  }
  LaunchCall other = call;
  other.in = in;
  right.launch(other);
}

// ---- some sizes only

// Right but for rows of x [batch, length, columns] at some sizes.
void is_wrong(const KernelDef& right, const LaunchCall& call, bool here) {
  constexpr float kFactor = 1.01F;
  right.launch(call);
  if (here)
    check_cuda(scale_elements(float_array(call.out, 0), call.out[0].elems(), 0, 1, kFactor,
                              stream_of(call.execution)),
               "a planted norm");
}
int64_t batch_of(const LaunchCall& call) { return call.out[0].dim(0); }
int64_t length_of(const LaunchCall& call) { return call.out[0].dim(-2); }
void wrong_from_length_97(const KernelDef& right, const LaunchCall& call) {
  is_wrong(right, call, length_of(call) >= 97);
}
void wrong_from_batch_9(const KernelDef& right, const LaunchCall& call) {
  is_wrong(right, call, batch_of(call) >= 9);
}
void wrong_at_odd_rows(const KernelDef& right, const LaunchCall& call) {
  is_wrong(right, call, batch_of(call) * length_of(call) % 4 != 0);
}
// One column, in every row of long sequences: rows alone are wrong in the same way.
void one_column_from_length_97(const KernelDef& right, const LaunchCall& call) {
  constexpr int64_t kColumn = 5;
  right.launch(call);
  const TensorArg& y = call.out[0];
  if (y.rank < 2 || length_of(call) < 97) return;
  check_cuda(scale_elements(float_array(call.out, 0), y.elems(), kColumn, y.dim(-1), 1 + 0x1p-11F,
                            stream_of(call.execution)),
             "a planted product");
}

// ---- recordings

// Counts and arrays of each shape, zero at first; taken by the first launch, which is no recording.
float* replay_state(const LaunchCall& call) {
  constexpr size_t kShapes = 64, kFloats = 4 + 2 * static_cast<size_t>(FaultyReplay::kMost);
  static std::map<const backend::ShapeState*, size_t> places;
  static float* const memory = [] {
    void* data = nullptr;
    check_cuda(cudaMalloc(&data, kShapes * kFloats * sizeof(float)), "allocating");
    check_cuda(cudaMemset(data, 0, kShapes * kFloats * sizeof(float)), "clearing");
    return static_cast<float*>(data);
  }();
  const size_t place = places.emplace(call.shape_state, places.size()).first->second;
  // Shapes that are forgotten leave their places behind.
  return memory + place % kShapes * kFloats;
}
template <ReplayFault kFault>
void wrong_when_replayed(const KernelDef& right, const LaunchCall& call) {
  const TensorArg &x = call.in[0], &y = call.out[0];
  const FaultyReplay replay{.state = replay_state(call),
                            .x = float_array(call.in, 0),
                            .y = float_array(call.out, 0),
                            .x_count = x.elems(),
                            .y_count = y.elems(),
                            .fills = {verify::kSignallingNan, verify::kOtherNumber},
                            .fault = kFault};
  check_cuda(note_replay(replay, stream_of(call.execution)), "a planted recording");
  right.launch(call);
  check_cuda(spoil_replay(replay, stream_of(call.execution)), "a planted recording");
}

// ---- int8 products

constexpr size_t kRowScale = 2, kColumnScale = 3, kRowZero = 4, kInt8Bias = 6, kInt8Residual = 7;
// The same call with input kInput moved on by one place: each element is its neighbor's.
template <size_t kInput>
size_t copy_of_input(const PrepareCall& call) {
  return given(call.in, kInput) ? bytes_of(call.in[kInput]) : 0;
}
template <size_t kInput>
void with_rotated(const KernelDef& right, const LaunchCall& call) {
  if (!given(call.in, kInput)) return right.launch(call);
  std::vector<TensorArg> in(call.in.begin(), call.in.end());
  TensorArg& rotated = in[kInput];
  const size_t bytes = bytes_of(rotated);
  std::byte* to = scratch_of(call, bytes);
  if (bytes > sizeof(float)) copy(call, to, rotated.data + sizeof(float), bytes - sizeof(float));
  copy(call, to + bytes - sizeof(float), rotated.data, sizeof(float));
  rotated.data = to;
  LaunchCall other = call;
  other.in = in;
  right.launch(other);
}

// Where nothing follows the bias, the sum can be read off the result.
void sums_saturate_at_16_bits(const KernelDef& right, const LaunchCall& call) {
  right.launch(call);
  const TensorArg& y = call.out[0];
  if (decode<QuantizedLinearAttrs>(call.attrs).activation != Activation::kNone ||
      given(call.in, kInt8Residual) || call.in[kRowScale].elems() != rows_of(y))
    return;
  check_cuda(saturate_sums({.y = float_array(call.out, 0),
                            .bias = float_array(call.in, kInt8Bias),
                            .x_scales = call.in[kRowScale].as<float>(),
                            .w_scales = call.in[kColumnScale].as<float>(),
                            .rows = rows_of(y),
                            .cols = y.dim(-1)},
                           stream_of(call.execution)),
             "a planted product");
}

// All rows of the batch have the scale and the zero point of the first: what a scale per tensor is.
void one_scale_for_the_batch(const KernelDef& right, const LaunchCall& call) {
  right.launch(call);
  for (size_t i = 1; i < call.out.size(); ++i) {
    if (!given(call.out, i)) continue;
    const TensorArg& by_row = call.out[i];
    for (int64_t row = 1; row < by_row.elems(); ++row)
      copy(call, by_row.data + static_cast<size_t>(row) * sizeof(float), by_row.data,
           sizeof(float));
  }
}

constexpr std::string_view kNorm = "cuda.add_layer_norm.", kLinear = "cuda.linear.",
                           kEmbedding = "cuda.embed_norm.",
                           kInt8Product = "cuda.quantized_linear.sm90",
                           kQuantizeRows = "cuda.quantize_rows.rows";

constexpr Plant in_a_constant(std::string_view name, std::string_view defect,
                              std::string_view kernel, void (*spoil)(plan::Plan&),
                              std::string_view mode) {
  return {.name = name,
          .defect = defect,
          .model = kReranker,
          .kernel = kernel,
          .verdict = "bug (constant)",
          .names_step = true,
          .launch = nullptr,
          .mode = mode,
          .spoil = spoil};
}
constexpr Plant at_some_sizes(std::string_view name, std::string_view defect,
                              PlantedLaunch launch) {
  return {.name = name,
          .defect = defect,
          .model = kReranker,
          .kernel = kNorm,
          .verdict = "bug",
          .names_step = true,
          .launch = launch,
          .mode = "fp16",
          .default_sizes = true};
}
constexpr Plant in_one_column() {
  Plant plant = at_some_sizes("one-column", "one column of products is off by 2^-11 from length 97",
                              &one_column_from_length_97);
  plant.kernel = kLinear;
  plant.mode = "fp32";
  return plant;
}
constexpr Plant in_a_recording(std::string_view name, std::string_view defect,
                               PlantedLaunch launch) {
  return {.name = name,
          .defect = defect,
          .model = kReranker,
          .kernel = kNorm,
          .verdict = "bug (race)",
          .names_step = false,
          .launch = launch,
          .scratch = &one_word};
}
constexpr Plant in_int8(std::string_view name, std::string_view defect, PlantedLaunch launch) {
  return {.name = name,
          .defect = defect,
          .model = kReranker,
          .kernel = kInt8Product,
          .verdict = "bug",
          .names_step = true,
          .launch = launch,
          .mode = "int8"};
}
constexpr Plant with_scratch(Plant plant, size_t (*scratch)(const PrepareCall&)) {
  plant.scratch = scratch;
  return plant;
}
constexpr Plant of_quantize_rows() {
  Plant plant = in_int8("scale-per-batch", "all rows of a batch have the first one's scale",
                        &one_scale_for_the_batch);
  plant.kernel = kQuantizeRows;
  return plant;
}

const Plant kPlants[] = {
    {.name = "reads-past-row",
     .defect = "at batch 4 the last column takes in a little of the row below",
     .model = kReranker,
     .kernel = kNorm,
     .verdict = "bug",
     .names_step = true,
     .launch = &reads_past_its_row,
     .mode = "fp16"},
    {.name = "one-pass-variance",
     .defect = "variance as E[x²] − E[x]² in f32",
     .model = "large_mean",
     .kernel = "cuda.layer_norm.",
     .verdict = "bug",
     .names_step = true,
     .launch = &one_pass_variance},
    {.name = "mask-off-by-one",
     .defect = "key j is kept as key j + 1 should be, in the fused attention only",
     .model = kReranker,
     .kernel = "cuda.attention.",
     .verdict = "bug",
     .names_step = true,
     .launch = &mask_off_by_one,
     .mode = "fp16",
     .fusion = "attention",
     .scratch = &copy_of_keep},
    {.name = "softmax-without-max",
     .defect = "exp of large logits overflows",
     .model = "large_logits",
     .kernel = "cuda.softmax.",
     .verdict = "overflow",
     .names_step = true,
     .launch = &without_maximum},
    {.name = "lost-block",
     .defect = "rows of a tile that is not full lose their last 16 products",
     .model = kReranker,
     .kernel = kLinear,
     .verdict = "bug",
     .names_step = true,
     .launch = &loses_the_last_block,
     .mode = "fp16",
     .scratch = &copy_of_x},
    {.name = "tail-without-bias",
     .defect = "rows of a tile that is not full get no bias",
     .model = kReranker,
     .kernel = kLinear,
     .verdict = "bug",
     .names_step = true,
     .launch = &no_bias_in_the_tail,
     .mode = "fp16",
     .scratch = &bias_and_tail},
    {.name = "skipped-tile",
     .defect = "a 16 × 16 tile is not written at M > 64",
     .model = kReranker,
     .kernel = kLinear,
     .verdict = "bug (uninitialised read)",
     .names_step = true,
     .launch = &skips_a_tile,
     .mode = "fp16",
     .scratch = &one_tile},
    {.name = "unwritten-output",
     .defect = "the embedding writes nothing",
     .model = kReranker,
     .kernel = "cuda.embed_norm.",
     .verdict = "bug (uninitialised read)",
     .names_step = true,
     .launch = &writes_nothing,
     .mode = "fp16"},
    {.name = "stale-workspace",
     .defect = "adds up from a word of workspace that was never cleared",
     .model = kReranker,
     .kernel = kNorm,
     .verdict = "bug (uninitialised read)",
     .names_step = true,
     .launch = &stale_workspace,
     .mode = "fp16",
     .scratch = &one_word},
    {.name = "order-by-arrival",
     .defect = "sums in the order in which blocks arrive",
     .model = kReranker,
     .kernel = kNorm,
     .verdict = "bug (race)",
     .names_step = true,
     .launch = &order_by_arrival},
    {.name = "wrong-when-recorded",
     .defect = "right when launched, wrong in a CUDA graph",
     .model = kReranker,
     .kernel = kNorm,
     .verdict = "bug (race)",
     .names_step = false,
     .launch = &wrong_when_recorded,
     .mode = "fp16"},
    {.name = "order-by-rows",
     .defect = "the order of a row's sum depends on the number of rows",
     .model = kReranker,
     .kernel = kNorm,
     .verdict = "neighbours",
     .names_step = true,
     .launch = &order_by_rows},
    {.name = "tame-softmax",
     .defect = "softmax without its maximum, on logits that are small",
     .model = "tame_logits",
     .kernel = "cuda.softmax.",
     .verdict = "overflow",
     .names_step = true,
     .launch = &without_maximum},
    {.name = "tame-variance",
     .defect = "variance as E[x²] − E[x]², on rows of mean 0",
     .model = "gpt2_ts17",
     .kernel = "cuda.layer_norm.",
     .verdict = "bug",
     .names_step = true,
     .launch = &one_pass_variance},
    {.name = "large-epsilon",
     .defect = "a norm's epsilon is 1e-5 instead of 1e-12",
     .model = "bert_sdpa_dynamo",
     .kernel = kNorm,
     .verdict = "bug",
     .names_step = true,
     .launch = &large_epsilon,
     .mode = "fp16"},
    in_a_constant("vocabulary-row", "a row of the vocabulary is multiplied by -3", kEmbedding,
                  &spoil_vocabulary_row, "fp16"),
    in_a_constant("late-positions", "positions from 64 on are those of the next one", kEmbedding,
                  &spoil_late_positions, "fp16"),
    in_a_constant("bias-element", "one element of a bias is off by 2^-12 of it", kLinear,
                  &spoil_bias_element, "fp32"),
    in_a_constant("packed-columns", "two columns of a packed weight change places", kLinear,
                  &spoil_packed_columns, "fp16"),
    in_a_constant("int8-scale", "a column's int8 scale is twice what it should be", kInt8Product,
                  &spoil_int8_scale, "int8"),
    in_one_column(),
    at_some_sizes("from-length-97", "wrong from length 97 on", &wrong_from_length_97),
    at_some_sizes("from-batch-9", "wrong from batch 9 on", &wrong_from_batch_9),
    at_some_sizes("rows-not-by-4", "wrong where rows are no multiple of 4", &wrong_at_odd_rows),
    in_a_recording("third-replay",
                   "right in two unwatched runs of a shape, wrong from the third on",
                   &wrong_when_replayed<ReplayFault::kFromTheThird>),
    in_a_recording("stale-replay", "unwatched runs of a shape give the answer of the second one",
                   &wrong_when_replayed<ReplayFault::kFirstAnswer>),
    in_a_recording("third-change",
                   "wrong from the third time on that the inputs of unwatched runs change",
                   &wrong_when_replayed<ReplayFault::kFromTheThirdChange>),
    with_scratch(in_int8("next-columns-scale", "a column's scale is that of the next one",
                         &with_rotated<kColumnScale>),
                 &copy_of_input<kColumnScale>),
    with_scratch(in_int8("next-rows-zero-point", "a row's zero point is that of the next one",
                         &with_rotated<kRowZero>),
                 &copy_of_input<kRowZero>),
    in_int8("saturating-sums", "sums of int8 products saturate at 16 bits",
            &sums_saturate_at_16_bits),
    of_quantize_rows(),
};

// ---- plants that are written once for all devices

// A launch whose work a function of the host does: also when a recording of it is replayed.
struct HostWork {
  std::function<void(const LaunchCall&)> body;
  LaunchCall call;
  std::vector<TensorArg> in, out;
};

// Page-locked memory, which copies that are recorded need; taken for the whole program, since a
// recording may be replayed at any time. Made by the first launch, which is no recording.
std::byte* page_locked(size_t bytes) {
  constexpr size_t kBytes = size_t{256} << 20, kAlignment = 64;
  static std::byte* memory = [] {
    void* data = nullptr;
    check_cuda(cudaMallocHost(&data, kBytes), "allocating page-locked memory");
    return static_cast<std::byte*>(data);
  }();
  static size_t taken = 0;
  std::byte* data = memory + taken;
  taken += (bytes + kAlignment - 1) / kAlignment * kAlignment;
  if (taken > kBytes) throw Error(ErrorCode::kMachine, "too many launches of planted kernels");
  return data;
}

// Strided arrays with their gaps.
size_t extent_of(const TensorArg& t) {
  if (t.elems() == 0) return 0;
  int64_t last = 0;
  for (int i = 0; i < t.rank; ++i) last += (t.dim(i) - 1) * t.stride(i);
  return static_cast<size_t>(last + 1) * size_bytes(t.dtype);
}

std::vector<TensorArg> copies_of(std::span<const TensorArg> args, cudaStream_t stream) {
  std::vector<TensorArg> copies(args.begin(), args.end());
  for (TensorArg& arg : copies) {
    if (!arg.data) continue;
    std::byte* host = page_locked(extent_of(arg));
    check_cuda(cudaMemcpyAsync(host, arg.data, extent_of(arg), cudaMemcpyDeviceToHost, stream),
               "copying to the host");
    arg.data = host;
  }
  return copies;
}

}  // namespace

std::span<const Plant> cuda_plants() { return kPlants; }

void copied_to_host(const LaunchCall& call, const std::function<void(const LaunchCall&)>& body) {
  static std::deque<HostWork> kept;  // as long as the recordings
  const cudaStream_t stream = stream_of(call.execution);
  HostWork& work = kept.emplace_back(HostWork{body, call, {}, {}});
  work.in = copies_of(call.in, stream);
  work.out = copies_of(call.out, stream);
  work.call.in = work.in;
  work.call.out = work.out;
  work.call.workspace = nullptr;
  const auto run = [](void* data) {
    const auto& host = *static_cast<const HostWork*>(data);
    host.body(host.call);
  };
  check_cuda(cudaLaunchHostFunc(stream, run, &work), "calling the host");
  for (size_t i = 0; i < work.out.size(); ++i) {
    if (work.out[i].data)
      check_cuda(cudaMemcpyAsync(call.out[i].data, work.out[i].data, extent_of(work.out[i]),
                                 cudaMemcpyHostToDevice, stream),
                 "copying from the host");
  }
}

}  // namespace vernier::test
