// cpu.attention.blocked: out = softmax(scale · q kᵀ + bias, masked) v without an [S, S] array.
// Contract: AttentionAttrs in core/attrs.h. Tile code for every Highway target: attention-inl.h.
//
// Shapes     q, k, v [B, S, H, D], any outer strides, last axis contiguous; k and v may have fewer
//            heads
// Types      q, k, v, bias, rotary tables and out: f32, f16 or bf16 in any combination; 16-bit
//            operands are widened when a tile or a key block is copied to scratch, results are
//            rounded once; computes and accumulates in f32
// Order      a running softmax over key blocks of 96 from key 0 on, so keys masked with -inf after
//            the last visible one change no bits
// Positions  scores by relative position are read by gathers, a vector of queries at a time; their
//            buckets are copied to the workspace as i32
// Special    rows that are all -inf give NaN (0 with zero_nan_rows, and with masks_add if the masks
//            make them so). NaN in a query, key, value or bias reaches every row that it reaches by
//            definition: with causal and fill = -inf, keys after the last visible one are skipped
//            only if they are finite
// Joins      a QuantizeRows of all heads of a query by a given scale: each head's part, when it is
//            stored
// Error      about (D + Sk)·2^-24 relative to Σ p|v|; exp within 2 ulp (bf16: 3)
// Workspace  about 250 KiB per part at D = 64; with rotary tables also rotated copies of q and k,
//            and f32 copies of 16-bit tables; with causal, or keep and masks_add, also a byte per
//            96 keys of a head
// Source     online normalizer, Milakov & Gimelshein, arXiv:1805.02867
#include "backend/cpu/kernels/attention/attention.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "backend/cpu/simd/convert.h"
#include "backend/supports.h"
#include "core/error.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/kernels/attention/attention.cpp"
#include <hwy/foreach_target.h>

#include "backend/cpu/kernels/attention/attention-inl.h"

HWY_BEFORE_NAMESPACE();
namespace vernier::backend::cpu {
namespace HWY_NAMESPACE {
int64_t TileQueries() { return tile_queries(); }
int64_t ScratchElems(int64_t head_dim, int64_t value_dim) {
  float* const base = nullptr;
  return TileScratch(base, head_dim, value_dim).end - base;
}
}  // namespace HWY_NAMESPACE
}  // namespace vernier::backend::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vernier::backend::cpu {
HWY_EXPORT(TileQueries);
HWY_EXPORT(ScratchElems);
HWY_EXPORT(AttendTask);
HWY_EXPORT(RowsAreFinite);

namespace {

// The tile code: of the best instruction set, or of the one whose products are of bf16 pairs.
struct TileCode {
  int64_t (*tile_queries)();
  int64_t (*scratch_elems)(int64_t head_dim, int64_t value_dim);
  void (*attend)(const AttentionRun& run, const AttentionTask& task, int part);
};

#if (HWY_TARGETS & HWY_AVX3) && HWY_ARCH_X86
constexpr bool kPairsCompiled = true;
TileCode code_of_pairs() {
  return {&N_AVX3::TileQueries, &N_AVX3::ScratchElems, &N_AVX3::AttendTask};
}
#else
constexpr bool kPairsCompiled = false;
TileCode code_of_pairs() { return {}; }
#endif

// On one CPU a step always has the same code, so that its bits are the same.
bool multiplies_pairs(const KernelState* state) { return kPairsCompiled && state != nullptr; }
bool multiplies_tiles(const KernelState* state, const TensorArg& q, const TensorArg& v) {
  constexpr int64_t kElemsOfStep = kTileStepBytes / sizeof(uint16_t);
  return multiplies_pairs(state) && has_tiles() && q.dim(3) % kElemsOfStep == 0 &&
         v.dim(3) % kRowsOfTile == 0;
}
TileCode tile_code(const KernelState* state) {
  if (multiplies_pairs(state)) return code_of_pairs();
  return {HWY_DYNAMIC_DISPATCH(TileQueries), HWY_DYNAMIC_DISPATCH(ScratchElems),
          HWY_DYNAMIC_DISPATCH(AttendTask)};
}

Support supports(const Problem& problem) {
  Support operands = attention_operands(problem);
  if (!operands) return operands;
  const Dim& head_dim = problem.inputs[kQ].shape[3];
  if (problem.has_input(kCosines) && !is_constant({head_dim}))
    return no("rotary tables need a constant head size");
  return yes();
}

ScoreTable score_table(const TensorArg& t) {
  if (!given(t)) return {};
  return {.data = t.data,
          .batch = broadcast_stride(t, 0, 4),
          .head = broadcast_stride(t, 1, 4),
          .query = broadcast_stride(t, 2, 4),
          .key = broadcast_stride(t, 3, 4),
          .dtype = t.dtype};
}

// ---- rotary: q and k are rotated once into the workspace

// y[lo] = x[lo]·cos[lo] − x[hi]·sin[lo],  y[hi] = x[hi]·cos[hi] + x[lo]·sin[hi]; y may be x
void rotate_row(const float* x, float* y, int64_t width, const float* cos, const float* sin,
                const RotaryTable& table) {
  const int64_t half = width / 2;
  const bool full = table.width == width;
  for (int64_t i = 0; i < half; ++i) {
    const int64_t lo = table.interleaved ? 2 * i : i, hi = table.interleaved ? 2 * i + 1 : i + half;
    const int64_t at_lo = full ? lo : i, at_hi = full ? hi : i;
    const float a = x[lo], b = x[hi];
    y[lo] = a * cos[at_lo] - b * sin[at_lo];
    y[hi] = b * cos[at_hi] + a * sin[at_hi];
  }
  if (width % 2 == 1) y[width - 1] = x[width - 1];
}

RotaryTable rotary_table(const LaunchCall& call, const TensorArg& cos, const TensorArg& sin) {
  return {.cos = cos.as<const float>(),
          .sin = sin.as<const float>(),
          .cos_batch = broadcast_stride(cos, 0, 4),
          .cos_position = broadcast_stride(cos, 1, 4),
          .sin_batch = broadcast_stride(sin, 0, 4),
          .sin_position = broadcast_stride(sin, 1, 4),
          .width = cos.dim(-1),
          .interleaved = decode<AttentionAttrs>(call.attrs).rotary_interleaved};
}

// Rotates x [B, S, H, D] into dense `dst` and returns it as an operand.
TensorArg rotate(const LaunchCall& call, const RotaryTable& table, const TensorArg& x, float* dst) {
  const TensorArg y = dense_f32(x, dst);
  const int64_t rows = x.dim(0) * x.dim(1);
  const int64_t grain = std::max<int64_t>(1, 4096 / std::max<int64_t>(1, x.dim(2) * x.dim(3)));
  call.execution.threads->parallel_for(rows, grain, [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      const int64_t b = r / x.dim(1), s = r % x.dim(1);
      const float* cos = table.cos + b * table.cos_batch + s * table.cos_position;
      const float* sin = table.sin + b * table.sin_batch + s * table.sin_position;
      for (int64_t h = 0; h < x.dim(2); ++h) {
        const int64_t from = b * x.stride(0) + s * x.stride(1) + h * x.stride(2);
        const int64_t to = b * y.stride(0) + s * y.stride(1) + h * y.stride(2);
        rotate_row(read_f32(x, from, x.dim(3), dst + to), dst + to, x.dim(3), cos, sin, table);
      }
    }
  });
  return y;
}

// ---- sequences

struct Sequence {
  int64_t batch, q_begin, queries, k_begin, keys;
};

// The sequences of one call: one per batch item, or those between cu_seqlens.
class Sequences {
 public:
  explicit Sequences(const LaunchCall& call)
      : q_(call.in[kQ]),
        k_(call.in[kK]),
        starts_q_(operand_at(call.in, kStartsQ)),
        starts_k_(operand_at(call.in, kStartsK)) {
    if (!varlen()) return;
    check(starts_q_, q_.dim(1), "cu_seqlens_q");
    check(starts_k_, k_.dim(1), "cu_seqlens_k");
    if (starts_q_.dim(0) != starts_k_.dim(0)) {
      throw Error(ErrorCode::kInput, "attention: cu_seqlens_q and cu_seqlens_k differ in length: " +
                                         std::to_string(starts_q_.dim(0)) + " and " +
                                         std::to_string(starts_k_.dim(0)));
    }
  }
  bool varlen() const { return given(starts_q_); }
  /// Throws Error(kInput) where a sequence has more rows.
  void check_longest(int64_t longest) const {
    for (int64_t i = 0; i < count(); ++i) {
      const int64_t most = std::max(at(i).queries, at(i).keys);
      if (most <= longest) continue;
      throw Error(ErrorCode::kInput, "attention: a sequence has " + std::to_string(most) +
                                         " rows, and its places at most " +
                                         std::to_string(longest));
    }
  }
  int64_t count() const { return varlen() ? starts_q_.dim(0) - 1 : q_.dim(0); }
  Sequence at(int64_t i) const {
    if (!varlen()) return {i, 0, q_.dim(1), 0, k_.dim(1)};
    const int64_t q = start(starts_q_, i), k = start(starts_k_, i);
    return {0, q, start(starts_q_, i + 1) - q, k, start(starts_k_, i + 1) - k};
  }
  /// The first row of q after the last sequence.
  int64_t end_row() const { return varlen() ? start(starts_q_, count()) : q_.dim(1); }

 private:
  static int64_t start(const TensorArg& t, int64_t i) {
    return load_integer(t.dtype,
                        t.data + static_cast<size_t>(i * t.stride(0)) * size_bytes(t.dtype));
  }
  static void check(const TensorArg& starts, int64_t rows, const std::string& which) {
    bool good = starts.elems() > 0 && start(starts, 0) == 0;
    for (int64_t i = 1; good && i < starts.dim(0); ++i)
      good = start(starts, i - 1) <= start(starts, i) && start(starts, i) <= rows;
    if (good) return;
    throw Error(ErrorCode::kInput,
                "attention: " + which + " must ascend from 0 to at most " + std::to_string(rows));
  }
  const TensorArg &q_, &k_;
  TensorArg starts_q_, starts_k_;
};

// ---- run

size_t f32_bytes(const TensorArg& x) {
  return round_to_line(static_cast<size_t>(x.elems()) * sizeof(float));
}
size_t part_bytes(const TileCode& code, int64_t head_dim, int64_t value_dim) {
  const auto elems = static_cast<size_t>(code.scratch_elems(head_dim, value_dim));
  return round_to_line(elems * sizeof(float));
}

// Does a mask of this call depend on keys or values being finite?
bool needs_finite(const AttentionAttrs& attrs, std::span<const TensorArg> in) {
  return attrs.causal || (attrs.masks_add && (given(in, kKeep) || given(in, kKeepQueries)));
}

FiniteRows finite_rows(const TensorArg& k, std::byte* flags) {
  return {.flags = reinterpret_cast<uint8_t*>(flags),
          .heads = k.dim(2),
          .chunks = (k.dim(1) + kKeyBlock - 1) / kKeyBlock};
}
size_t finite_bytes(const TensorArg& k) {
  return round_to_line(static_cast<size_t>(k.dim(0) * k.dim(2) * finite_rows(k, nullptr).chunks));
}

// The buckets of scores by relative position as i32, and some more that lanes without a query read.
size_t bucket_bytes(const TensorArg& buckets) {
  return given(buckets)
             ? round_to_line(static_cast<size_t>(buckets.elems() + kBucketSpread) * sizeof(int32_t))
             : 0;
}

// A tile's rows of positions are indexed with 32 bits.
void check_step(const TensorArg& positions) {
  constexpr int64_t kMostElems = std::numeric_limits<int32_t>::max() / kBucketSpread;
  if (!given(positions)) return;
  const int64_t step = std::max(positions.stride(1), positions.dim(3));
  if (step <= kMostElems) return;
  throw Error(ErrorCode::kInput, "attention: rows of scores by relative position are " +
                                     std::to_string(step) + " elements apart, at most " +
                                     std::to_string(kMostElems) + " are supported");
}

std::unique_ptr<ShapeState> prepare(const PrepareCall& call) {
  const TileCode code = tile_code(call.state);
  for (size_t i : {kQueryPositions, kKeyPositions}) check_step(operand_at(call.in, i));
  size_t bytes = part_bytes(code, call.in[kQ].dim(3), call.in[kV].dim(3)) *
                 static_cast<size_t>(call.execution.threads->size());
  if (given(call.in, kCosines)) {
    bytes += f32_bytes(call.in[kQ]) + f32_bytes(call.in[kK]);
    for (size_t i : {kCosines, kSines}) {
      if (is_16_bit_float(call.in[i].dtype)) bytes += f32_bytes(call.in[i]);
    }
  }
  if (needs_finite(decode<AttentionAttrs>(call.attrs), call.in)) bytes += finite_bytes(call.in[kK]);
  for (size_t i : {kQueryBuckets, kKeyBuckets}) bytes += bucket_bytes(operand_at(call.in, i));
  return workspace_only(bytes);
}

// Looks through v, and k if its scores may be added to, once and with all threads.
void find_finite_rows(const AttentionRun& run, ThreadTeam& threads) {
  const FiniteRows& finite = run.finite;
  const auto rows_are_finite = HWY_DYNAMIC_DISPATCH(RowsAreFinite);
  threads.parallel_for(
      run.k.dim(0) * finite.heads * finite.chunks, 1, [&](int64_t begin, int64_t end, int) {
        for (int64_t i = begin; i < end; ++i) {
          const int64_t chunk = i % finite.chunks, head = i / finite.chunks % finite.heads,
                        batch = i / finite.chunks / finite.heads;
          const int64_t first = chunk * kKeyBlock, last = std::min(run.k.dim(1), first + kKeyBlock);
          uint8_t known = 0;
          if (run.masks_add && rows_are_finite(run.k, batch, head, first, last))
            known |= FiniteRows::kKeys;
          if (run.causal && rows_are_finite(run.v, batch, head, first, last))
            known |= FiniteRows::kValues;
          finite.at(batch, head, chunk) = known;
        }
      });
}

// Copies the buckets; throws Error(kInput) where one is not of the positions.
const int32_t* take_buckets(const TensorArg& buckets, int64_t size, std::byte* copy) {
  auto* dst = reinterpret_cast<int32_t*>(copy);
  const int64_t count = buckets.elems();
  for (int64_t i = 0; i < count; ++i) {
    const int64_t bucket =
        load_integer(buckets.dtype, buckets.data + static_cast<size_t>(i * buckets.stride(0)) *
                                                       size_bytes(buckets.dtype));
    if (bucket < 0 || bucket >= size) {
      throw Error(ErrorCode::kInput, "attention: a relative position has the bucket " +
                                         std::to_string(bucket) + ", allowed is 0 to " +
                                         std::to_string(size - 1));
    }
    dst[i] = static_cast<int32_t>(bucket);
  }
  std::fill_n(dst + count, kBucketSpread, 0);
  return dst;
}

PositionTable position_table(const TensorArg& positions, const TensorArg& buckets,
                             std::byte*& workspace) {
  if (!given(positions)) return {};
  std::byte* const copy = workspace;
  workspace += bucket_bytes(buckets);
  return {.data = positions.data,
          .batch = positions.stride(0),
          .row = positions.stride(1),
          .head = positions.stride(2),
          .dtype = positions.dtype,
          .buckets = take_buckets(buckets, positions.dim(3), copy)};
}

AttentionRun make_run(const LaunchCall& call, const TileCode& code) {
  const auto attrs = decode<AttentionAttrs>(call.attrs);
  AttentionRun run{.q = call.in[kQ],
                   .k = call.in[kK],
                   .v = call.in[kV],
                   .out = call.out[0],
                   .bias = score_table(operand_at(call.in, kBias)),
                   .keep = score_table(operand_at(call.in, kKeep)),
                   .keep_queries = score_table(operand_at(call.in, kKeepQueries)),
                   .scale = static_cast<float>(attrs.scale),
                   .fill = static_cast<float>(attrs.fill),
                   .causal = attrs.causal,
                   .zero_nan_rows = attrs.zero_nan_rows,
                   .masks_add = attrs.masks_add,
                   .zero_hidden_rows = attrs.zero_hidden_rows,
                   .heads_per_kv = call.in[kQ].dim(2) / call.in[kK].dim(2),
                   .bf16_products = multiplies_pairs(call.state),
                   .on_tiles = multiplies_tiles(call.state, call.in[kQ], call.in[kV])};
  std::byte* workspace = call.workspace;
  const auto take = [&workspace](const TensorArg& t) {
    auto* at = reinterpret_cast<float*>(workspace);
    workspace += f32_bytes(t);
    return at;
  };
  const auto table = [&](size_t i) {
    if (call.in[i].dtype == DType::kF32) return call.in[i];
    const TensorArg wide = dense_f32(call.in[i], take(call.in[i]));
    widen_array(call.in[i], wide.as<float>(), *call.execution.threads);
    return wide;
  };
  if (given(call.in, kCosines)) {
    const TensorArg cos = table(kCosines), sin = table(kSines);
    const RotaryTable rotary = rotary_table(call, cos, sin);
    run.q = rotate(call, rotary, call.in[kQ], take(call.in[kQ]));
    run.k = rotate(call, rotary, call.in[kK], take(call.in[kK]));
  }
  if (needs_finite(attrs, call.in)) {
    run.finite = finite_rows(run.k, workspace);
    workspace += finite_bytes(run.k);
    find_finite_rows(run, *call.execution.threads);
  }
  const TensorArg places = operand_at(call.in, kPlaces);
  run.no_distance = given(places) ? places.dim(1) : call.in[kK].dim(1);
  run.query_positions = position_table(operand_at(call.in, kQueryPositions),
                                       operand_at(call.in, kQueryBuckets), workspace);
  run.key_positions = position_table(operand_at(call.in, kKeyPositions),
                                     operand_at(call.in, kKeyBuckets), workspace);
  if (call.next != nullptr) run.next = GivenRows::of(*call.next);
  run.scratch = reinterpret_cast<float*>(workspace);
  run.scratch_step =
      static_cast<int64_t>(part_bytes(code, run.q.dim(3), run.v.dim(3)) / sizeof(float));
  return run;
}

void zero_rows(const LaunchCall& call, int64_t batch, int64_t begin, int64_t end) {
  const TensorArg& out = call.out[0];
  std::optional<QuantizeRowsLaunch> next;
  if (call.next != nullptr) next.emplace(*call.next);
  for (int64_t s = begin; s < end; ++s) {
    std::byte* row = element(out, batch * out.stride(0) + s * out.stride(1));
    const auto bytes = static_cast<size_t>(out.dim(2) * out.dim(3)) * size_bytes(out.dtype);
    std::fill(row, row + bytes, std::byte{0});
    if (next) next->run(batch * out.dim(1) + s);
  }
}

// The bias of a sequence whose places it is read at, as if it were read at the packed rows.
ScoreTable bias_of(const ScoreTable& in_sequence, const Sequence& s) {
  ScoreTable bias = in_sequence;
  if (bias.data == nullptr) return bias;
  bias.data -= (s.q_begin * bias.query + s.k_begin * bias.key) *
               static_cast<int64_t>(size_bytes(bias.dtype));
  return bias;
}

// Query tiles per task: 4 share a copied key block; fewer where there would be too few tasks.
int64_t tiles_per_task(int64_t total_tiles, int threads) {
  return std::clamp<int64_t>(total_tiles / (4 * threads), 1, kTilesPerGroup);
}

// Heads that one thread has together, because their results share a line of the cache; one where
// there would be too few for all threads.
int64_t heads_together(const AttentionRun& run, int64_t sequences, int threads) {
  constexpr int64_t kLine = 64;
  const int64_t heads = run.q.dim(2);
  const auto elem = static_cast<int64_t>(run.next.q != nullptr ? 1 : size_bytes(run.out.dtype));
  const int64_t together = kLine / (run.v.dim(3) * elem);
  const bool fits = together > 1 && heads % together == 0;
  return fits && sequences * heads / together >= 4 * threads ? together : 1;
}

void launch(const LaunchCall& call) {
  const Sequences sequences(call);
  if (call.out[0].elems() == 0) return;
  const TileCode code = tile_code(call.state);
  const AttentionRun run = make_run(call, code);
  const bool in_sequence = decode<AttentionAttrs>(call.attrs).bias_in_sequence;
  const bool reads_places = in_sequence || run.query_positions.data || run.key_positions.data;
  if (reads_places && sequences.varlen())
    sequences.check_longest(operand_at(call.in, kPlaces).dim(1));
  if (sequences.varlen()) zero_rows(call, 0, sequences.end_row(), run.out.dim(1));
  const auto attend = code.attend;
  const int64_t tile = code.tile_queries(), heads = run.q.dim(2);
  ThreadTeam& threads = *call.execution.threads;
  int64_t tiles = 0;
  for (int64_t i = 0; i < sequences.count(); ++i)
    tiles += (sequences.at(i).queries + tile - 1) / tile * heads;
  const int64_t step = tile * tiles_per_task(tiles, threads.size());
  const int64_t together = heads_together(run, sequences.count(), threads.size());
  threads.parallel_for(threads.size(), 1, [&](int64_t first, int64_t last, int part) {
    for (int64_t dealt = first; dealt < last; ++dealt) {
      // One task behind, so that a task knows the next one.
      std::optional<AttentionTask> before;
      AttentionRun run_before;
      const auto attend_before = [&](const AttentionTask* next) {
        if (!before) return;
        before->next = next;
        attend(run_before, *before, part);
      };
      for (int64_t i = 0; i < sequences.count(); ++i) {
        const Sequence s = sequences.at(i);
        AttentionRun own = run;
        if (in_sequence) own.bias = bias_of(run.bias, s);
        if (s.keys == 0 && dealt == 0) zero_rows(call, s.batch, s.q_begin, s.q_begin + s.queries);
        for (int64_t head = 0; s.keys > 0 && head < heads; ++head) {
          for (int64_t q = 0; q < s.queries; q += step) {
            // Each part gets early and late blocks (with causal: light and heavy ones).
            if ((i * heads / together + head / together + q / step) % threads.size() != dealt)
              continue;
            const AttentionTask task{.batch = s.batch,
                                     .head = head,
                                     .q_begin = s.q_begin + q,
                                     .queries = std::min(step, s.queries - q),
                                     .sequence_q_begin = s.q_begin,
                                     .k_begin = s.k_begin,
                                     .keys = s.keys,
                                     .causal_offset = s.keys - s.queries};
            attend_before(&task);
            before = task;
            run_before = own;
          }
        }
      }
      attend_before(nullptr);
    }
  });
}

// ---- bf16

Support supports_bf16(const Problem& problem) {
  Support support = supports(problem);
  if (!support) return support;
  for (size_t i : {kQ, kK, kV}) {
    if (problem.inputs[i].dtype != DType::kBF16)
      return no("input " + std::to_string(i) + " is " + std::string(name(problem.inputs[i].dtype)) +
                ", this kernel takes bf16");
  }
  if (problem.has_input(kCosines)) return no("heads are rotated, which this kernel does not do");
  const auto head_dim = problem.inputs[kQ].shape[3].as_constant();
  if (!head_dim || *head_dim % 2 != 0) return no("the head size is not an even constant");
  return yes();
}

// q, k and v are bf16 already; the probabilities are rounded relative to the running maximum.
Numerics bf16_numerics(const Problem& problem) {
  Numerics numerics = f32_numerics(problem);
  constexpr size_t kProbabilities = 4;
  numerics.compute = DType::kBF16;
  for (size_t i = 0; i < 3; ++i) numerics.points[i].type = DType::kBF16;
  numerics.points[kProbabilities] = {
      .type = DType::kBF16, .block = kKeyBlock, .scale = PointRounding::Scale::kUnnormalised};
  return numerics;
}

bool joins(const Problem& own, const Problem& next) {
  return quantizes_heads_of(own, next) && is_given_q8(next);
}

// Made where the CPU multiplies pairs; without it the step is computed in f32.
struct PairsState final : KernelState {};

}  // namespace

void launch_attention_blocked(const LaunchCall& call) { launch(call); }

// q, k, v, bias, keep, and the scores by relative position.
constexpr uint32_t kStrided = 0x1f | 1U << kQueryPositions | 1U << kKeyPositions;

constexpr VariantSize kVariants[] = {
    {.of = VariantSize::Of::kLength, .size = kKeyBlock, .repeats = true}};

extern const KernelBody attention_bf16;
constexpr KernelBody attention_bf16{
    .supports = &supports_bf16,
    .numerics = &bf16_numerics,
    .strided_inputs = kStrided,
    .create = [](const CreateCall&) -> std::unique_ptr<KernelState> {
      if (!kPairsCompiled || !cpu_has_bf16()) return nullptr;
      return std::make_unique<PairsState>();
    },
    .prepare = &prepare,
    .launch = &launch,
    .joins = &joins,
    .variants = kVariants,
};

extern const KernelBody attention_blocked;
constexpr KernelBody attention_blocked{
    .supports = &supports,
    .numerics = &f32_numerics,
    .strided_inputs = kStrided,
    .prepare = &prepare,
    .launch = &launch_attention_blocked,
    .joins = &joins,
    .may_be_joined = true,
    .variants = kVariants,
};

}  // namespace vernier::backend::cpu
#endif
