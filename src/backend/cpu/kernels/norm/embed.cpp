// cpu.embed_norm.rows: y = LayerNorm(sum of table rows named by ids); cpu.masked_mean.columns:
// y[b, h] = Σ_s x[b, s, h]·m[b, s] / max(Σ_s m[b, s], minimum). Contract: EmbedNormAttrs,
// MaskedMeanAttrs in core/attrs.h. ids i32 or i64, an id outside its table is Error(kInput).
// EmbedNorm takes tables, scale and bias of f32, f16 and bf16 in any combination, computes in f32
// and rounds once (convert.h); MaskedMean is f32.
#include <algorithm>

#include "backend/cpu/index.h"
#include "backend/cpu/kernels/norm/norm.h"
#include "backend/cpu/simd/convert.h"

namespace vernier::backend::cpu {
namespace {

constexpr int64_t kMaxTables = 8;
// For messages, so that launches build no strings.
constexpr std::array<std::string_view, kMaxTables> kTableNames{
    "embedding table 0", "embedding table 1", "embedding table 2", "embedding table 3",
    "embedding table 4", "embedding table 5", "embedding table 6", "embedding table 7"};

Support supports_embed(const Problem& problem) {
  Support floats = all_up_to_f32(problem);
  if (!floats) return floats;
  if (problem.attrs_as<EmbedNormAttrs>().tables > kMaxTables)
    return no("more than 8 tables are not supported");
  return yes();
}

// The ids of one table by output row: strides along the axes of the rows.
struct Ids {
  const TensorArg* ids;
  int64_t rows;  // of the table
  std::array<int64_t, kMaxRank> strides{};

  Ids(const TensorArg& ids_arg, const TensorArg& table_arg, const TensorArg& out)
      : ids(&ids_arg), rows(table_arg.dim(0)) {
    const int axes = out.rank - 1;
    for (int i = 0; i < axes; ++i) strides[i] = broadcast_stride(ids_arg, i, axes);
  }
  /// The table's row for output row r.
  int64_t row(int64_t r, const TensorArg& out) const {
    int64_t at = 0;
    for (int i = out.rank - 2; i >= 0; --i) {
      at += r % out.dim(i) * strides[i];
      r /= out.dim(i);
    }
    return positive_axis(read_index(*ids, at), rows);
  }
};

// Workspace in rows of `width` floats: scale and bias, then a row of the table and the result of
// each part. Used where those are stored in 16 bits.
float* embed_buffer(const LaunchCall& call, size_t index) {
  const auto width = static_cast<size_t>(call.out[0].dim(-1));
  return reinterpret_cast<float*>(call.workspace + index * round_to_line(width * sizeof(float)));
}
std::unique_ptr<ShapeState> prepare_embed_norm(const PrepareCall& call) {
  const auto is_wide = [](const TensorArg& t) { return !is_16_bit_float(t.dtype); };
  if (std::ranges::all_of(call.in, is_wide) && is_wide(call.out[0])) return workspace_only(0);
  const auto width = static_cast<size_t>(call.out[0].dim(-1));
  const auto threads = static_cast<size_t>(call.execution.threads->size());
  return workspace_only((2 + 2 * threads) * round_to_line(width * sizeof(float)));
}

// y = sum of the table rows of output row r.
void add_rows(const LaunchCall& call, size_t tables, int64_t r, float* buffer, float* y) {
  const TensorArg& out = call.out[0];
  const int64_t width = out.dim(-1);
  for (size_t t = 0; t < 2 * tables; t += 2) {
    const TensorArg& table = call.in[t + 1];
    const int64_t at = Ids(call.in[t], table, out).row(r, out) * width;
    if (t == 0) {
      widen(table.dtype, element(table, at), y, width);
      continue;
    }
    const float* row = read_f32(table, at, width, buffer);
    for (int64_t c = 0; c < width; ++c) y[c] += row[c];
  }
}

void launch_embed_norm(const LaunchCall& call) {
  const auto attrs = decode<EmbedNormAttrs>(call.attrs);
  const TensorArg& out = call.out[0];
  const int64_t width = out.dim(-1), rows = elems_between(out, 0, out.rank - 1);
  if (rows == 0 || width == 0) return;
  const auto tables = static_cast<size_t>(attrs.tables), parameters = 2 * tables;
  for (size_t t = 0; t < parameters; t += 2)
    check_indices(call.in[t], call.in[t + 1].dim(0), kTableNames[t / 2]);
  const bool has_bias = call.in.size() > parameters + 1 && call.in[parameters + 1].data != nullptr;
  const float* scale = read_f32(call.in[parameters], 0, width, embed_buffer(call, 0));
  const float* bias =
      has_bias ? read_f32(call.in[parameters + 1], 0, width, embed_buffer(call, 1)) : nullptr;
  const int64_t grain = std::max<int64_t>(1, 2048 / width);
  call.execution.threads->parallel_for(rows, grain, [&](int64_t begin, int64_t end, int part) {
    const size_t own = 2 + 2 * static_cast<size_t>(part);
    for (int64_t r = begin; r < end; ++r) {
      float* y = place_f32(out, r * width, embed_buffer(call, own + 1));
      add_rows(call, tables, r, embed_buffer(call, own), y);
      layer_norm_row({.x = y,
                      .scale = scale,
                      .bias = bias,
                      .y = y,
                      .cols = width,
                      .epsilon = static_cast<float>(attrs.epsilon)});
      write_f32(out, r * width, width, y);
    }
  });
}

Support supports_masked_mean(const Problem& problem) {
  Support floats = all_f32(problem);
  if (!floats) return floats;
  const DType mask = problem.inputs[1].dtype;
  if (mask != DType::kF32 && mask != DType::kI64 && mask != DType::kI32 && mask != DType::kBool)
    return no("the mask has type " + std::string(name(mask)));
  return yes();
}

float mask_at(const TensorArg& mask, int64_t at) {
  if (mask.dtype == DType::kF32) return mask.as<const float>()[at];
  return static_cast<float>(read_index(mask, at));
}

constexpr int64_t kColumns = 64;  // one thread's columns at a time: 4 lines of each row

// Rows one after the other, so masked rows at the end change no bits.
void mean_columns(const LaunchCall& call, int64_t b, int64_t first, int64_t columns) {
  const TensorArg &x = call.in[0], &mask = call.in[1];
  const int64_t seq = x.dim(1), width = x.dim(2);
  std::array<float, kColumns> sums{};
  float total = 0;
  for (int64_t s = 0; s < seq; ++s) {
    const float m = mask_at(mask, b * seq + s);
    const float* row = x.as<const float>() + b * x.stride(0) + s * x.stride(1) + first;
    total += m;
    for (int64_t c = 0; c < columns; ++c) sums[c] += row[c] * m;
  }
  const float divisor =
      std::max(total, static_cast<float>(decode<MaskedMeanAttrs>(call.attrs).minimum));
  float* y = call.out[0].as<float>() + b * width + first;
  for (int64_t c = 0; c < columns; ++c) y[c] = sums[c] / divisor;
}

void launch_masked_mean(const LaunchCall& call) {
  const int64_t batch = call.in[0].dim(0), width = call.in[0].dim(2);
  const int64_t blocks = (width + kColumns - 1) / kColumns;
  call.execution.threads->parallel_for(batch * blocks, 2, [&](int64_t begin, int64_t end, int) {
    for (int64_t k = begin; k < end; ++k) {
      const int64_t first = k % blocks * kColumns;
      mean_columns(call, k / blocks, first, std::min(kColumns, width - first));
    }
  });
}

}  // namespace

extern const KernelBody embed_norm_rows, masked_mean_columns;
constexpr KernelBody embed_norm_rows{
    .supports = &supports_embed,
    .numerics = &f32_numerics,
    .prepare = &prepare_embed_norm,
    .launch = &launch_embed_norm,
};
constexpr KernelBody masked_mean_columns{
    .supports = &supports_masked_mean,
    .numerics = &f32_numerics,
    .strided_inputs = 1,
    .launch = &launch_masked_mean,
};

}  // namespace vernier::backend::cpu
