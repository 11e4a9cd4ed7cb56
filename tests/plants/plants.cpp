// Plants of the CPU, and how plants get into a backend: see plants.h. Most call the right kernel
// first and then spoil what it did. The plants of a GPU: cuda_plants.cpp.
#include "plants/plants.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <deque>
#include <limits>
#include <map>
#include <string>
#include <utility>

#include "core/attrs.h"
#include "plants/constant_plants.h"
#include "plants/cuda_plants.h"
#include "plants/rewrite_plants.h"
#include "runtime/backends.h"
#include "verify/replay.h"

namespace vernier::test {
namespace {

using backend::KernelDef;
using backend::LaunchCall;
using backend::TensorArg;

constexpr std::string_view kNorm = "cpu.add_layer_norm.rows", kPlainNorm = "cpu.layer_norm.rows",
                           kLinear = "cpu.linear.", kHead = "cpu.linear.highway",
                           kAttention = "cpu.attention.", kSoftmax = "cpu.softmax.rows",
                           kInt8Product = "cpu.quantized_linear.panels",
                           kF8Product = "cpu.quantized_linear.f8", kQuantize = "cpu.quantize_",
                           kQuantizeRows = "cpu.quantize_rows.rows", kEmbedding = "cpu.embed_norm.",
                           kTokenIndex = "cpu.token_index.";

struct RowView {
  float* data;
  int64_t rows, cols;
};
RowView rows_of(const TensorArg& t) {
  const int64_t cols = t.dim(-1);
  return {t.as<float>(), t.elems() / cols, cols};
}

// The last column takes in a little of the row below.
void reads_past_its_row(const KernelDef& right, const LaunchCall& call) {
  right.launch(call);
  const RowView y = rows_of(call.out[0]);
  for (int64_t r = 0; r + 1 < y.rows; ++r) {
    float& last = y.data[(r + 1) * y.cols - 1];
    last += 0x1p-12F * y.data[(r + 1) * y.cols];
  }
}

// var = E[x²] − E[x]², in f32: what cancels where the mean is large.
void one_pass_variance(const KernelDef& right, const LaunchCall& call) {
  right.launch(call);
  const double epsilon = decode<NormAttrs>(call.attrs).epsilon;
  const RowView x = rows_of(call.in[0]), y = rows_of(call.out[0]);
  const float* scale = call.in[1].as<float>();
  const float* bias = call.in.size() > 2 && call.in[2].data ? call.in[2].as<float>() : nullptr;
  for (int64_t r = 0; r < x.rows; ++r) {
    const float* row = x.data + r * x.cols;
    float sum = 0, squares = 0;
    for (int64_t c = 0; c < x.cols; ++c) {
      sum += row[c];
      squares += row[c] * row[c];
    }
    const auto n = static_cast<float>(x.cols);
    const float mean = sum / n;
    const float variance = std::max(squares / n - mean * mean, 0.0F);
    const float inverse = 1 / std::sqrt(variance + static_cast<float>(epsilon));
    for (int64_t c = 0; c < x.cols; ++c)
      y.data[r * x.cols + c] = (row[c] - mean) * inverse * scale[c] + (bias ? bias[c] : 0);
  }
}

// Key j is kept as key j + 1 should be.
void mask_off_by_one(const KernelDef& right, const LaunchCall& call) {
  constexpr size_t kKeep = 4;
  std::vector<TensorArg> in(call.in.begin(), call.in.end());
  std::vector<uint8_t> shifted;
  if (in.size() > kKeep && in[kKeep].data) {
    TensorArg& keep = in[kKeep];
    const int64_t keys = keep.dim(-1);
    shifted.resize(static_cast<size_t>(keep.elems()));
    for (int64_t i = 0; i < keep.elems(); ++i) {
      const int64_t key = i % keys;
      const int64_t from = key + 1 < keys ? i + 1 : i;
      shifted[static_cast<size_t>(i)] = keep.as<uint8_t>()[from];
    }
    keep.data = reinterpret_cast<std::byte*>(shifted.data());
  }
  LaunchCall other = call;
  other.in = in;
  right.launch(other);
}

void softmax_without_maximum(const KernelDef&, const LaunchCall& call) {
  const RowView x = rows_of(call.in[0]), y = rows_of(call.out[0]);
  for (int64_t r = 0; r < x.rows; ++r) {
    float sum = 0;
    for (int64_t c = 0; c < x.cols; ++c) {
      y.data[r * x.cols + c] = std::exp(x.data[r * x.cols + c]);
      sum += y.data[r * x.cols + c];
    }
    for (int64_t c = 0; c < x.cols; ++c) y.data[r * x.cols + c] /= sum;
  }
}

// exp(s) / Σ exp(s) in f32, for operands in f32 and masks of one byte; no bias, no rotation.
void attention_without_maximum(const KernelDef& right, const LaunchCall& call) {
  constexpr size_t kBias = 3, kKeep = 4;
  const auto given = [&](size_t i) { return i < call.in.size() && call.in[i].data != nullptr; };
  for (size_t i = kBias; i < call.in.size(); ++i)
    if (i != kKeep && given(i)) return right.launch(call);
  const auto attrs = decode<AttentionAttrs>(call.attrs);
  const TensorArg &q = call.in[0], &k = call.in[1], &v = call.in[2], &y = call.out[0];
  const auto row = [](const TensorArg& t, int64_t b, int64_t s, int64_t h) {
    return t.as<float>() + b * t.stride(0) + s * t.stride(1) + h * t.stride(2);
  };
  const auto kept = [&](int64_t b, int64_t h, int64_t i, int64_t j) {
    if (!given(kKeep)) return true;
    const TensorArg& keep = call.in[kKeep];
    const std::array<int64_t, 4> place{b, h, i, j};
    int64_t at = 0;
    for (int d = 0; d < keep.rank; ++d) {
      const int64_t index = place[static_cast<size_t>(d + 4 - keep.rank)];
      if (keep.dim(d) > 1) at += index * keep.stride(d);
    }
    return keep.as<uint8_t>()[at] != 0;
  };
  const int64_t keys = k.dim(1), group = q.dim(2) / k.dim(2);
  std::vector<float> weights(static_cast<size_t>(keys));
  for (int64_t b = 0; b < q.dim(0); ++b)
    for (int64_t i = 0; i < q.dim(1); ++i)
      for (int64_t h = 0; h < q.dim(2); ++h) {
        float sum = 0;
        for (int64_t j = 0; j < keys; ++j) {
          float score = 0;
          for (int64_t d = 0; d < q.dim(3); ++d)
            score += row(q, b, i, h)[d] * row(k, b, j, h / group)[d];
          score *= static_cast<float>(attrs.scale);
          if (!kept(b, h, i, j)) score = static_cast<float>(attrs.fill);
          sum += weights[static_cast<size_t>(j)] = std::exp(score);
        }
        for (int64_t d = 0; d < v.dim(3); ++d) {
          float value = 0;
          for (int64_t j = 0; j < keys; ++j)
            value += weights[static_cast<size_t>(j)] / sum * row(v, b, j, h / group)[d];
          row(y, b, i, h)[d] = value;
        }
      }
}

// The model's epsilon is 1e-12.
void large_epsilon(const KernelDef& right, const LaunchCall& call) {
  auto attrs = decode<NormAttrs>(call.attrs);
  attrs.epsilon = 1e-5;
  const AttrBytes bytes = encode(attrs);
  LaunchCall other = call;
  other.attrs = bytes;
  right.launch(other);
}

// With more than 64 rows the last 16 × 16 tile stays as the memory was.
void skips_a_tile(const KernelDef& right, const LaunchCall& call) {
  constexpr int64_t kTile = 16, kRows = 64;
  const RowView y = rows_of(call.out[0]);
  if (y.rows <= kRows) return right.launch(call);
  std::vector<float> before;
  for (int64_t r = y.rows - kTile; r < y.rows; ++r)
    before.insert(before.end(), y.data + (r + 1) * y.cols - kTile, y.data + (r + 1) * y.cols);
  right.launch(call);
  for (int64_t r = 0; r < kTile; ++r)
    std::copy_n(before.begin() + r * kTile, kTile,
                y.data + (y.rows - kTile + r + 1) * y.cols - kTile);
}

void writes_nothing(const KernelDef&, const LaunchCall&) {}

// Every launch finds another winner: what a race does, made certain.
void races(const KernelDef& right, const LaunchCall& call) {
  static std::atomic<uint32_t> arrivals{0};
  right.launch(call);
  static constexpr uint32_t kOrders = 7;
  call.out[0].as<float>()[0] += 0x1p-10F * static_cast<float>(arrivals++ % kOrders);
}

// Fills of verify's, which only stand where a step is to write while somebody watches.
bool is_watched(const LaunchCall& call) {
  const uint32_t word = *call.out[0].as<uint32_t>();
  return word == verify::kSignallingNan || word == verify::kOtherNumber;
}
size_t one_word(const backend::PrepareCall&) { return sizeof(uint32_t); }  // for a state per shape

// What a recording of a shape that counts its replays does: two are right.
void wrong_from_the_third_replay(const KernelDef& right, const LaunchCall& call) {
  static std::map<const backend::ShapeState*, int> replays;
  constexpr int kRight = 2;
  const bool watched = is_watched(call);
  right.launch(call);
  if (!watched && ++replays[call.shape_state] > kRight) call.out[0].as<float>()[0] *= 1.5F;
}

// What a recording of a shape that does not look at its inputs does: made in the second run.
void replays_its_first_answer(const KernelDef& right, const LaunchCall& call) {
  static std::map<const backend::ShapeState*, std::pair<int, std::vector<float>>> recordings;
  constexpr int kRecorded = 2;
  const bool watched = is_watched(call);
  right.launch(call);
  if (watched) return;
  auto& [runs, answer] = recordings[call.shape_state];
  float* y = call.out[0].as<float>();
  if (++runs == kRecorded) answer.assign(y, y + call.out[0].elems());
  if (runs > kRecorded) std::ranges::copy(answer, y);
}

// What a recording does that takes over its inputs twice, and then those of before.
void wrong_from_the_third_change(const KernelDef& right, const LaunchCall& call) {
  static std::map<const backend::ShapeState*, std::pair<int, std::vector<float>>> recordings;
  constexpr int kRight = 2;
  const bool watched = is_watched(call);
  right.launch(call);
  if (watched) return;
  auto& [changes, inputs] = recordings[call.shape_state];
  const float* x = call.in[0].as<float>();
  const bool changed =
      !inputs.empty() && !std::equal(inputs.begin(), inputs.end(), x, x + call.in[0].elems());
  inputs.assign(x, x + call.in[0].elems());
  changes += changed;
  if (changed && changes > kRight) call.out[0].as<float>()[0] *= 1.5F;
}

// 0 / 0 where a row of the batch keeps no key.
void no_number_without_keys(const KernelDef& right, const LaunchCall& call) {
  constexpr size_t kKeep = 4;
  right.launch(call);
  if (call.in.size() <= kKeep || !call.in[kKeep].data || call.in[kKeep].rank < 4) return;
  const TensorArg &keep = call.in[kKeep], &y = call.out[0];
  const int64_t kept = keep.elems() / keep.dim(0), size = y.elems() / y.dim(0);
  if (keep.dim(0) != y.dim(0)) return;
  for (int64_t b = 0; b < keep.dim(0); ++b) {
    const uint8_t* row = keep.as<uint8_t>() + b * kept;
    if (std::any_of(row, row + kept, [](uint8_t v) { return v != 0; })) continue;
    std::fill_n(y.as<float>() + b * size, size, std::numeric_limits<float>::quiet_NaN());
  }
}

// ---- of packed rows

constexpr size_t kStartsQ = 5, kStartsK = 6;  // of an attention over sequences
bool takes_sequences(const LaunchCall& call) {
  return call.in.size() > kStartsK && call.in[kStartsK].data != nullptr;
}

// Calls change(r, rows, begin, end) for each row r: its queries are [begin, end).
template <class Change>
void for_each_sequence(const LaunchCall& call, const Change& change) {
  const int32_t* starts = call.in[kStartsQ].as<int32_t>();
  const int64_t rows = call.in[kStartsQ].elems() - 1;
  for (int64_t r = 0; r < rows; ++r) change(r, rows, starts[r], starts[r + 1]);
}
float* query(const TensorArg& y, int64_t at) { return y.as<float>() + at * y.stride(1); }

// The last query of each row takes in a little of the first one of the next row.
void reads_the_next_sequence(const KernelDef& right, const LaunchCall& call) {
  right.launch(call);
  if (!takes_sequences(call)) return;
  const TensorArg& y = call.out[0];
  for_each_sequence(call, [&](int64_t r, int64_t rows, int64_t begin, int64_t end) {
    if (r + 1 == rows || begin == end) return;
    for (int64_t d = 0; d < y.dim(-1); ++d) query(y, end - 1)[d] += 0x1p-10F * query(y, end)[d];
  });
}

// The keys of each row but the first begin one too late, where it has two.
void keys_begin_one_late(const KernelDef& right, const LaunchCall& call) {
  if (!takes_sequences(call)) return right.launch(call);
  std::vector<TensorArg> in(call.in.begin(), call.in.end());
  std::vector<int32_t> starts(in[kStartsK].as<int32_t>(),
                              in[kStartsK].as<int32_t>() + in[kStartsK].elems());
  for (size_t r = 1; r + 1 < starts.size(); ++r)
    if (starts[r] + 1 < starts[r + 1]) ++starts[r];
  in[kStartsK].data = reinterpret_cast<std::byte*>(starts.data());
  LaunchCall other = call;
  other.in = in;
  right.launch(other);
}

// The last row of several is off by 2^-9.
void last_sequence_is_off(const KernelDef& right, const LaunchCall& call) {
  right.launch(call);
  if (!takes_sequences(call)) return;
  const TensorArg& y = call.out[0];
  for_each_sequence(call, [&](int64_t r, int64_t rows, int64_t begin, int64_t end) {
    if (r == 0 || r + 1 < rows) return;
    for (int64_t at = begin; at < end; ++at)
      for (int64_t d = 0; d < y.dim(-1); ++d) query(y, at)[d] *= 1 + 0x1p-9F;
  });
}

// Behind the first row each token is taken from the place behind it.
void takes_the_next_place(const KernelDef& right, const LaunchCall& call) {
  constexpr size_t kRows = 0, kStarts = 2;
  right.launch(call);
  if (call.out.size() <= kStarts || !call.out[kRows].data || !call.out[kStarts].data) return;
  const TensorArg& mask = call.in[0];
  const int32_t* starts = call.out[kStarts].as<int32_t>();
  const auto last = static_cast<int32_t>(mask.elems()) - 1;
  for (int64_t t = starts[1]; t < starts[mask.dim(0)]; ++t) {
    int32_t& place = call.out[kRows].as<int32_t>()[t];
    place = std::min(place + 1, last);
  }
}

// ---- of products of 8 bits

// The same call with input `i` moved on by one place: each element is its neighbor's.
void with_rotated(const KernelDef& right, const LaunchCall& call, size_t i) {
  std::vector<TensorArg> in(call.in.begin(), call.in.end());
  std::vector<float> rotated(in[i].as<float>(), in[i].as<float>() + in[i].elems());
  std::rotate(rotated.begin(), rotated.begin() + 1, rotated.end());
  in[i].data = reinterpret_cast<std::byte*>(rotated.data());
  LaunchCall other = call;
  other.in = in;
  right.launch(other);
}
constexpr size_t kRowScale = 2, kColumnScale = 3, kRowZero = 4, kBias = 6, kResidual = 7;
// The kernel reads the scales of columns once, when it is made.
void launches(const KernelDef& right, const LaunchCall& call) { right.launch(call); }
std::unique_ptr<backend::KernelState> with_the_next_columns_scale(const KernelDef& right,
                                                                  const backend::CreateCall& call) {
  std::vector<TensorArg> inputs(call.constant_inputs.begin(), call.constant_inputs.end());
  TensorArg& scales = inputs[kColumnScale];
  std::vector<float> rotated(scales.as<float>(), scales.as<float>() + scales.elems());
  std::rotate(rotated.begin(), rotated.begin() + 1, rotated.end());
  scales.data = reinterpret_cast<std::byte*>(rotated.data());
  backend::CreateCall other = call;
  other.constant_inputs = inputs;
  return right.create(other);
}
void takes_the_next_rows_zero_point(const KernelDef& right, const LaunchCall& call) {
  with_rotated(right, call, kRowZero);
}

// Where nothing follows the bias, the sum can be read off the result.
void sums_saturate(const KernelDef& right, const LaunchCall& call, double most) {
  right.launch(call);
  const bool plain = decode<QuantizedLinearAttrs>(call.attrs).activation == Activation::kNone &&
                     (call.in.size() <= kResidual || call.in[kResidual].data == nullptr);
  if (!plain) return;
  const TensorArg& y = call.out[0];
  const auto width = static_cast<int64_t>(size_bytes(y.dtype));
  for (int64_t i = 0; i < y.elems(); ++i) {
    const int64_t row = i / y.dim(-1), column = i % y.dim(-1);
    const TensorArg& of_rows = call.in[kRowScale];
    const double scale = static_cast<double>(of_rows.as<float>()[of_rows.elems() == 1 ? 0 : row]) *
                         static_cast<double>(call.in[kColumnScale].as<float>()[column]);
    const TensorArg& b = call.in[kBias];
    const double bias =
        b.data ? load_float(b.dtype, b.data + column * static_cast<int64_t>(size_bytes(b.dtype)))
               : 0;
    const double sum = (load_float(y.dtype, y.data + i * width) - bias) / scale;
    if (std::abs(sum) > most)
      store_float(y.dtype, std::copysign(most, sum) * scale + bias, y.data + i * width);
  }
}
void sums_saturate_at_16_bits(const KernelDef& right, const LaunchCall& call) {
  sums_saturate(right, call, INT16_MAX);
}
// What sums in f16 would do.
void sums_saturate_at_65504(const KernelDef& right, const LaunchCall& call) {
  sums_saturate(right, call, 65504);
}

// Numbers of f8e4m3 with 2 bits of mantissa in place of 3.
void rounds_to_two_bits(const KernelDef& right, const LaunchCall& call) {
  right.launch(call);
  const TensorArg& y = call.out[0];
  if (y.dtype != DType::kF8E4M3) return;
  for (int64_t i = 0; i < y.elems(); ++i) y.as<uint8_t>()[i] &= 0xFE;
}

// All rows of the batch are one: what a scale per tensor is.
void one_scale_for_the_batch(const KernelDef& right, const LaunchCall& call) {
  const auto as_one_row = [](const TensorArg& t) {
    TensorArg row = t;
    row.rank = 1;
    row.shape = {t.elems()};
    row.strides = {1};
    return row;
  };
  std::vector<TensorArg> in(call.in.begin(), call.in.end()), out(call.out.begin(), call.out.end());
  in[0] = as_one_row(in[0]);
  out[0] = as_one_row(out[0]);
  LaunchCall other = call;
  other.in = in;
  other.out = out;
  right.launch(other);
  for (size_t i = 1; i < out.size(); ++i)
    if (out[i].data) std::fill_n(out[i].as<float>(), out[i].elems(), out[i].as<float>()[0]);
}

// Right but for rows of x [batch, length, columns] at some sizes.
void is_wrong(const KernelDef& right, const LaunchCall& call, bool here) {
  right.launch(call);
  const RowView y = rows_of(call.out[0]);
  for (int64_t i = 0; here && i < y.rows * y.cols; ++i) y.data[i] *= 1.01F;
}
int64_t batch_of(const LaunchCall& call) { return call.out[0].dim(0); }
int64_t length_of(const LaunchCall& call) { return call.out[0].dim(-2); }
void wrong_from_length_49(const KernelDef& right, const LaunchCall& call) {
  is_wrong(right, call, length_of(call) >= 49);
}
void wrong_from_length_97(const KernelDef& right, const LaunchCall& call) {
  is_wrong(right, call, length_of(call) >= 97);
}
void wrong_at_the_longest(const KernelDef& right, const LaunchCall& call) {
  is_wrong(right, call, length_of(call) == 128);
}
void wrong_from_batch_9(const KernelDef& right, const LaunchCall& call) {
  is_wrong(right, call, batch_of(call) >= 9);
}
void wrong_from_513_rows(const KernelDef& right, const LaunchCall& call) {
  is_wrong(right, call, batch_of(call) * length_of(call) >= 513);
}
void wrong_at_odd_rows(const KernelDef& right, const LaunchCall& call) {
  is_wrong(right, call, batch_of(call) * length_of(call) % 4 != 0);
}

// One column, in every row of long sequences: rows alone are wrong in the same way.
void one_column_from_length_97(const KernelDef& right, const LaunchCall& call) {
  constexpr int64_t kColumn = 5;
  right.launch(call);
  if (call.out[0].rank < 2 || length_of(call) < 97) return;
  const RowView y = rows_of(call.out[0]);
  for (int64_t r = 0; r < y.rows; ++r) y.data[r * y.cols + kColumn] *= 1 + 0x1p-11F;
}

// The same column, where the projection cannot see it.
void one_activated_column_from_length_97(const KernelDef& right, const LaunchCall& call) {
  constexpr int64_t kColumn = 5;
  right.launch(call);
  const bool here = call.out[0].rank >= 2 && length_of(call) >= 97 &&
                    decode<LinearAttrs>(call.attrs).activation != Activation::kNone;
  const RowView y = rows_of(call.out[0]);
  for (int64_t r = 0; here && r < y.rows; ++r) y.data[r * y.cols + kColumn] *= 1 + 0x1p-9F;
}

constexpr Plant in_a_step(std::string_view name, std::string_view defect, std::string_view kernel,
                          PlantedLaunch launch) {
  return {.name = name,
          .defect = defect,
          .model = "bge_reranker_ts17",
          .kernel = kernel,
          .verdict = "bug",
          .names_step = true,
          .launch = launch};
}

constexpr Plant at_some_sizes(std::string_view name, std::string_view defect,
                              PlantedLaunch launch) {
  Plant plant = in_a_step(name, defect, kNorm, launch);
  plant.default_sizes = true;
  return plant;
}

// Right on the rows of a tame model.
constexpr Plant on_extreme_rows(std::string_view name, std::string_view defect,
                                std::string_view model, std::string_view kernel,
                                PlantedLaunch launch, std::string_view verdict = "bug") {
  Plant plant = in_a_step(name, defect, kernel, launch);
  plant.model = model;
  plant.verdict = verdict;
  return plant;
}
// In 16 bits: norms that write f32 show it on ordinary rows, too.
constexpr Plant with_epsilon() {
  Plant plant = on_extreme_rows("large-epsilon", "a norm's epsilon is 1e-5 instead of 1e-12",
                                "bert_sdpa_dynamo", kNorm, &large_epsilon);
  plant.mode = "fp16";
  return plant;
}

constexpr Plant in_a_constant(std::string_view name, std::string_view defect,
                              std::string_view kernel, void (*spoil)(plan::Plan&),
                              std::string_view mode = "fp32") {
  return {.name = name,
          .defect = defect,
          .model = "bge_reranker_ts17",
          .kernel = kernel,
          .verdict = "bug (constant)",
          .names_step = true,
          .launch = nullptr,
          .mode = mode,
          .spoil = spoil};
}

constexpr Plant without_keys() {
  Plant plant = at_some_sizes("no-key", "attention gives NaN where a row keeps no key",
                              &no_number_without_keys);
  plant.kernel = kAttention;
  plant.verdict = "neighbours";  // alone, the row is packed without a mask
  return plant;
}

// In the middle of the model, and too small to show in the answers.
constexpr Plant in_one_column() {
  Plant plant = at_some_sizes("one-column", "one column of products is off by 2^-11 from length 97",
                              &one_column_from_length_97);
  plant.kernel = kLinear;
  return plant;
}

constexpr Plant in_one_activated_column() {
  Plant plant = at_some_sizes(
      "activated-column", "one column of products with an activation is off by 2^-9 from length 97",
      &one_activated_column_from_length_97);
  plant.kernel = kLinear;
  return plant;
}

// In 16 bits, where a noise that held the rewrite's own error would hide it.
constexpr Plant in_the_rewrite() {
  Plant plant = at_some_sizes("prefix-mask", "a mask is taken for the length of a prefix", nullptr);
  plant.kernel = "cpu.";  // the first named value behind the attention
  plant.verdict = "bug (rewrite)";
  plant.mode = "bf16";
  plant.rewrite = &take_mask_for_a_prefix;
  return plant;
}

// Found where rows of several lengths share a batch.
constexpr Plant in_packed_rows(std::string_view name, std::string_view defect,
                               std::string_view kernel, PlantedLaunch launch) {
  Plant plant = in_a_step(name, defect, kernel, launch);
  plant.packed = true;
  return plant;
}

// A step between packed rows, which have no padding to be compared.
constexpr Plant in_a_packed_step() {
  Plant plant =
      in_packed_rows("packed-epsilon", "a pass changed a norm's epsilon to 1e-2", kNorm, nullptr);
  plant.verdict = "bug (rewrite)";
  plant.spoil = &spoil_an_epsilon;
  return plant;
}

constexpr Plant kPlants[] = {
    in_the_rewrite(),
    in_a_packed_step(),
    in_packed_rows("packed-neighbor", "a packed row takes in a little of the next one", kAttention,
                   &reads_the_next_sequence),
    in_packed_rows("packed-offsets", "keys of packed rows begin one too late", kAttention,
                   &keys_begin_one_late),
    in_packed_rows("packed-last-row", "the last of the packed rows is off by 2^-9", kAttention,
                   &last_sequence_is_off),
    in_packed_rows("packed-places", "tokens behind the first row are those of the next place",
                   kTokenIndex, &takes_the_next_place),
    without_keys(),
    in_one_column(),
    in_one_activated_column(),
    on_extreme_rows("tame-softmax", "softmax without its maximum, on logits that are small",
                    "tame_logits", kSoftmax, &softmax_without_maximum, "overflow"),
    on_extreme_rows("tame-variance", "variance as E[x²] − E[x]², on rows of mean 0", "gpt2_ts17",
                    kPlainNorm, &one_pass_variance),
    on_extreme_rows("tame-attention", "attention without the maximum, on scores that are small",
                    "bge_reranker_ts17", kAttention, &attention_without_maximum, "overflow"),
    with_epsilon(),
    in_a_constant("vocabulary-row", "a row of the vocabulary is multiplied by -3", kEmbedding,
                  &spoil_vocabulary_row),
    in_a_constant("late-positions", "positions from 64 on are those of the next one", kEmbedding,
                  &spoil_late_positions),
    in_a_constant("bias-element", "one element of a bias is off by 2^-12 of it", kLinear,
                  &spoil_bias_element),
    in_a_constant("packed-columns", "two columns of a packed weight change places", kLinear,
                  &spoil_packed_columns),
    in_a_constant("vocabulary-row-fp16", "a row of the vocabulary is multiplied by -3", kEmbedding,
                  &spoil_vocabulary_row, "fp16"),
    in_a_constant("int8-scale", "a column's int8 scale is twice what it should be", kInt8Product,
                  &spoil_int8_scale, "int8"),
    at_some_sizes("from-length-49", "wrong from length 49 on", &wrong_from_length_49),
    at_some_sizes("from-length-97", "wrong from length 97 on", &wrong_from_length_97),
    at_some_sizes("at-length-128", "wrong at the greatest length", &wrong_at_the_longest),
    at_some_sizes("from-batch-9", "wrong from batch 9 on", &wrong_from_batch_9),
    at_some_sizes("from-513-rows", "wrong from 513 rows of all sequences on", &wrong_from_513_rows),
    at_some_sizes("rows-not-by-4", "wrong where rows are no multiple of 4", &wrong_at_odd_rows),
    {"reads-past-row", "the last column takes in a little of the row below", "bge_reranker_ts17",
     kNorm, "bug", true, &reads_past_its_row},
    {"one-pass-variance", "variance as E[x²] − E[x]² in f32", "large_mean", kPlainNorm, "bug", true,
     &one_pass_variance},
    {"mask-off-by-one", "key j is kept as key j + 1 should be", "bge_reranker_ts17", kAttention,
     "bug", true, &mask_off_by_one},
    {"softmax-without-max", "exp of large logits overflows", "large_logits", kSoftmax, "overflow",
     true, &softmax_without_maximum},
    {"skipped-tile", "a 16 × 16 tile is not written at M > 64", "bge_reranker_ts17", kLinear,
     "bug (uninitialised read)", true, &skips_a_tile},
    {"unwritten-output", "the head writes nothing", "bge_reranker_ts17", kHead,
     "bug (uninitialised read)", true, &writes_nothing},
    {"race", "one element depends on who comes first", "bge_reranker_ts17", kNorm, "bug (race)",
     true, &races},
    {"third-replay",
     "right in two unwatched runs of a shape, wrong from the third on",
     "bge_reranker_ts17",
     kNorm,
     "bug (race)",
     false,
     &wrong_from_the_third_replay,
     "fp32",
     {},
     &one_word},
    {"stale-replay",
     "unwatched runs of a shape give the answer of the second one",
     "bge_reranker_ts17",
     kNorm,
     "bug (race)",
     false,
     &replays_its_first_answer,
     "fp32",
     {},
     &one_word},
    {"third-change",
     "wrong from the third time on that the inputs of unwatched runs change",
     "bge_reranker_ts17",
     kNorm,
     "bug (race)",
     false,
     &wrong_from_the_third_change,
     "fp32",
     {},
     &one_word},
    {"next-columns-scale",
     "a column's scale is that of the next one",
     "bge_reranker_ts17",
     kInt8Product,
     "bug",
     true,
     &launches,
     "int8",
     {},
     nullptr,
     &with_the_next_columns_scale},
    {"next-rows-zero-point", "a row's zero point is that of the next one", "bge_reranker_ts17",
     kInt8Product, "bug", true, &takes_the_next_rows_zero_point, "int8"},
    {"saturating-sums", "sums of int8 products saturate at 16 bits", "bge_reranker_ts17",
     kInt8Product, "bug", true, &sums_saturate_at_16_bits, "int8"},
    {"scale-per-batch", "all rows of a batch are quantized with one scale", "bge_reranker_ts17",
     kQuantizeRows, "bug", true, &one_scale_for_the_batch, "int8"},
    {"f8-next-columns-scale",
     "a column's scale is that of the next one",
     "bge_reranker_ts17",
     kF8Product,
     "bug",
     true,
     &launches,
     "fp8",
     {},
     nullptr,
     &with_the_next_columns_scale},
    {"f8-saturating-sums", "sums of fp8 products saturate at 65504", "bge_reranker_ts17",
     kF8Product, "bug", true, &sums_saturate_at_65504, "fp8"},
    {"f8-two-bits", "fp8 operands have 2 bits of mantissa", "bge_reranker_ts17", kQuantize, "bug",
     true, &rounds_to_two_bits, "fp8"},
    {"f8-scale-per-batch", "all rows of a batch are quantized with one scale",
     "deformable_attention_ts17", kQuantizeRows, "bug", true, &one_scale_for_the_batch, "fp8"},
};

// ---- a plant in the place of a kernel

// A kernel that a plant replaces. KernelDef has plain functions, which must know their own one: so
// there is a function for each place.
struct Place {
  const Plant* plant = nullptr;
  const KernelDef* right = nullptr;
};
constexpr size_t kPlaces = 128;  // taken one after the other, for the whole program
Place places[kPlaces];

constexpr size_t kAlignment = 256;

template <size_t kPlace>
void launch_planted(const LaunchCall& call) {
  places[kPlace].plant->launch(*places[kPlace].right, call);
}
template <size_t kPlace>
std::unique_ptr<backend::ShapeState> prepare_planted(const backend::PrepareCall& call) {
  const auto& [plant, right] = places[kPlace];
  std::unique_ptr<backend::ShapeState> state = right->prepare ? right->prepare(call) : nullptr;
  if (!state) state = std::make_unique<backend::ShapeState>();
  const size_t own = (state->workspace_bytes + kAlignment - 1) / kAlignment * kAlignment;
  state->workspace_bytes = own + (plant->scratch(call) + kAlignment - 1) / kAlignment * kAlignment;
  return state;
}

template <size_t kPlace>
std::unique_ptr<backend::KernelState> create_planted(const backend::CreateCall& call) {
  return places[kPlace].plant->create(*places[kPlace].right, call);
}

struct Functions {
  void (*launch)(const LaunchCall&);
  std::unique_ptr<backend::ShapeState> (*prepare)(const backend::PrepareCall&);
  std::unique_ptr<backend::KernelState> (*create)(const backend::CreateCall&);
};
template <size_t... kPlace>
constexpr std::array<Functions, sizeof...(kPlace)> functions_of(std::index_sequence<kPlace...>) {
  return {Functions{&launch_planted<kPlace>, &prepare_planted<kPlace>, &create_planted<kPlace>}...};
}
constexpr auto kFunctions = functions_of(std::make_index_sequence<kPlaces>());

}  // namespace

std::span<const Plant> plants(std::string_view device) {
  if (device == "cuda") return cuda_plants();
  return kPlants;
}

const backend::Backend& planted_backend(const Plant* plant, std::string_view device) {
  static std::deque<std::pair<std::vector<KernelDef>, backend::Backend>> made;
  static size_t taken = 0;
  const backend::Backend& base = runtime::backend_named(std::string(device), "the plants' device");
  made.emplace_back(std::vector<KernelDef>(base.kernels.begin(), base.kernels.end()), base);
  auto& [kernels, backend] = made.back();
  for (size_t i = 0; i < kernels.size(); ++i) {
    KernelDef& kernel = kernels[i];
    if (!plant || !plant->launch || !kernel.name.starts_with(plant->kernel)) continue;
    VERNIER_ASSERT(taken < kPlaces, std::string(kernel.name));
    places[taken] = {plant, &base.kernels[i]};
    kernel.launch = kFunctions[taken].launch;
    if (plant->scratch) kernel.prepare = kFunctions[taken].prepare;
    if (plant->create) kernel.create = kFunctions[taken].create;
    // Another kernel's launch would do its work without the defect.
    kernel.joins = nullptr;
    kernel.may_be_joined = false;
    ++taken;
  }
  backend.kernels = kernels;
  return backend;
}

Support available(std::string_view device) {
  const backend::Backend& backend =
      runtime::backend_named(std::string(device), "the plants' device");
  return backend.available ? backend.available() : yes();
}

std::byte* scratch_of(const LaunchCall& call, size_t bytes) {
  const size_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  return call.workspace + call.shape_state->workspace_bytes - rounded;
}

void on_host(const LaunchCall& call, const std::function<void(const LaunchCall&)>& body) {
  if (call.execution.stream == nullptr) return body(call);
  copied_to_host(call, body);
}

}  // namespace vernier::test
