// FP64 evaluators that move elements: Concat, Split, Slice, Tile, Pad, Trilu, NonZero,
// DepthToSpace, SpaceToDepth, ReverseSequence. Contract: core/evaluator.h.
#include <algorithm>

#include "core/attrs.h"
#include "core/axis_ranges.h"
#include "reference/layout.h"

namespace vernier::reference {
namespace {

struct SliceStarts {
  std::vector<int64_t> starts, axes, steps;
};

SliceStarts slice_starts(const EvalCall& call) {
  const auto attrs = decode<SliceAttrs>(call.attrs);
  if (attrs.inline_starts) return {attrs.starts, attrs.axes, attrs.steps};
  SliceStarts s;
  s.starts = call.in[1]->i;
  const auto input = [&](size_t i) { return i < call.in.size() ? call.in[i] : nullptr; };
  for (size_t i = 0; i < s.starts.size(); ++i) {
    s.axes.push_back(input(3) ? input(3)->i[i] : static_cast<int64_t>(i));
    s.steps.push_back(input(4) ? input(4)->i[i] : 1);
  }
  return s;
}

// Source coordinate of padded coordinate `at` (before begin: negative), or −1 for the fill value.
int64_t padded_source(PadMode mode, int64_t at, int64_t size) {
  if (at >= 0 && at < size) return at;
  switch (mode) {
    case PadMode::kConstant:
      return -1;
    case PadMode::kEdge:
      return std::clamp<int64_t>(at, 0, size - 1);
    case PadMode::kWrap:
      return floormod(at, size);
    case PadMode::kReflect: {
      if (size == 1) return 0;
      const int64_t period = 2 * (size - 1);
      const int64_t phase = floormod(at, period);
      return phase < size ? phase : period - phase;
    }
  }
  return -1;
}

// The begin of the padding of each axis.
Shape pad_begins(const EvalCall& call) {
  const Shape &in = call.in[0]->shape, &out = call.out[0].shape;
  std::vector<AxisPadding> paddings(in.size());
  const EvalTensor* axes = call.in.size() > 3 ? call.in[3] : nullptr;
  const size_t count = axes ? axes->i.size() : in.size();
  for (size_t i = 0; i < count; ++i) {
    paddings[axes ? normalize_axis(axes->i[i], in.size()) : i] = {call.in[1]->i[i],
                                                                  call.in[1]->i[count + i]};
  }
  Shape begins;
  for (size_t axis = 0; axis < in.size(); ++axis) {
    check_padding(paddings[axis], {axis, in[axis], out[axis]});
    begins.push_back(paddings[axis].begin);
  }
  return begins;
}

}  // namespace

void eval_concat(const EvalCall& call) {
  EvalTensor& y = call.out[0];
  const size_t axis = normalize_axis(decode<AxisAttrs>(call.attrs).axis, y.rank());
  const AxisView out = view_axis(y.shape, axis);
  int64_t first = 0;
  for (const EvalTensor* x : call.in) {
    const AxisView in = x->rank() == 0 ? AxisView{} : view_axis(x->shape, axis);
    for (int64_t o = 0; o < in.outer; ++o) {
      for (int64_t k = 0; k < in.size * in.inner; ++k)
        copy_element(*x, o * in.size * in.inner + k, y, out.at(o, first, 0) + k);
    }
    first += in.size;
  }
}

void eval_split(const EvalCall& call) {
  const EvalTensor& x = *call.in[0];
  const auto attrs = decode<SplitAttrs>(call.attrs);
  const size_t axis = normalize_axis(attrs.axis, x.rank());
  const AxisView in = view_axis(x.shape, axis);
  const auto parts = static_cast<int64_t>(call.out.size());
  const int64_t chunk = (in.size + parts - 1) / parts;
  const EvalTensor* given = call.in.size() > 1 ? call.in[1] : nullptr;
  int64_t first = 0;
  for (size_t p = 0; p < call.out.size(); ++p) {
    EvalTensor& y = call.out[p];
    // An unwanted part has no shape: its size comes from the attribute or input.
    const int64_t size = !attrs.sizes.empty() ? attrs.sizes[p]
                         : given != nullptr   ? given->i[p]
                                              : std::min(chunk, in.size - first);
    const bool wanted = y.dtype != DType::kUndefined;
    check_part({first, size}, {axis, in.size, wanted ? y.shape[axis] : size});
    if (wanted) {
      for (int64_t o = 0; o < in.outer; ++o) {
        for (int64_t k = 0; k < size * in.inner; ++k)
          copy_element(x, in.at(o, first, 0) + k, y, o * size * in.inner + k);
      }
    }
    first += size;
  }
}

void eval_slice(const EvalCall& call) {
  const EvalTensor& x = *call.in[0];
  const SliceStarts s = slice_starts(call);
  std::vector<AxisSlice> slices(x.rank());
  for (size_t i = 0; i < s.axes.size(); ++i) {
    const size_t axis = normalize_axis(s.axes[i], x.rank());
    slices[axis] = slice_from({s.starts[i], s.steps[i]}, x.shape[axis]);
  }
  Shape strides = row_major_strides(x.shape);
  int64_t first = 0;
  for (size_t axis = 0; axis < slices.size(); ++axis) {
    check_slice(slices[axis], {axis, x.shape[axis], call.out[0].shape[axis]});
    first += slices[axis].start * strides[axis];
    if (call.out[0].shape[axis] > 1) strides[axis] *= slices[axis].step;
  }
  copy_strided(x, first, strides, call.out[0]);
}

void eval_tile(const EvalCall& call) {
  const EvalTensor& x = *call.in[0];
  const Shape strides = row_major_strides(x.shape);
  walk_coordinates(call.out[0].shape, [&](int64_t flat, const Shape& at) {
    int64_t from = 0;
    for (size_t i = 0; i < at.size(); ++i) from += at[i] % x.shape[i] * strides[i];
    copy_element(x, from, call.out[0], flat);
  });
}

void eval_pad(const EvalCall& call) {
  const EvalTensor& x = *call.in[0];
  EvalTensor& y = call.out[0];
  const PadMode mode = decode<PadAttrs>(call.attrs).mode;
  const EvalTensor* fill = call.in.size() > 2 ? call.in[2] : nullptr;
  if (mode != PadMode::kConstant && x.elems() == 0 && y.elems() != 0)
    throw Error(ErrorCode::kInput, "an empty tensor has no elements to pad with");
  const Shape begins = pad_begins(call);
  const Shape strides = row_major_strides(x.shape);
  walk_coordinates(y.shape, [&](int64_t flat, const Shape& at) {
    int64_t from = 0;
    for (size_t i = 0; i < at.size() && from >= 0; ++i) {
      const int64_t source = padded_source(mode, at[i] - begins[i], x.shape[i]);
      from = source < 0 ? -1 : from + source * strides[i];
    }
    if (from >= 0)
      copy_element(x, from, y, flat);
    else if (fill != nullptr)
      copy_element(*fill, 0, y, flat);
  });
}

void eval_trilu(const EvalCall& call) {
  const EvalTensor& x = *call.in[0];
  EvalTensor& y = call.out[0];
  if (x.rank() < 2)
    throw Error(ErrorCode::kInput, "Trilu needs at least a matrix, got shape " + str(x.shape));
  const bool upper = decode<TriluAttrs>(call.attrs).upper;
  const int64_t k = call.in.size() > 1 && call.in[1] ? call.in[1]->i.at(0) : 0;
  const int64_t rows = x.shape[x.rank() - 2], cols = x.shape[x.rank() - 1];
  for (int64_t flat = 0; flat < x.elems(); ++flat) {
    const int64_t diagonal = flat % cols - flat / cols % rows;
    if (upper ? diagonal >= k : diagonal <= k) copy_element(x, flat, y, flat);
  }
}

void eval_non_zero(const EvalCall& call) {
  const EvalTensor& x = *call.in[0];
  std::vector<Shape> found;
  walk_coordinates(x.shape, [&](int64_t flat, const Shape& at) {
    const auto k = static_cast<size_t>(flat);
    if (x.is_float() ? x.f[k] != 0 : x.i[k] != 0) found.push_back(at);
  });
  const auto count = static_cast<int64_t>(found.size());
  call.out[0] = EvalTensor(DType::kI64, {static_cast<int64_t>(x.rank()), count});
  for (size_t axis = 0; axis < x.rank(); ++axis) {
    for (size_t n = 0; n < found.size(); ++n)
      call.out[0].i[axis * found.size() + n] = found[n][axis];
  }
}

// Depth is [b, b, c] (depth-column-row) or [c, b, b] (column-row-depth).
void eval_depth_to_space(const EvalCall& call) {
  const EvalTensor& x = *call.in[0];
  const auto attrs = decode<BlockSizeAttrs>(call.attrs);
  const int64_t b = attrs.block_size, channels = call.out[0].shape[1];
  const Shape strides = row_major_strides(x.shape);
  walk_coordinates(call.out[0].shape, [&](int64_t flat, const Shape& at) {
    const int64_t block = at[2] % b * b + at[3] % b;
    const int64_t depth = attrs.crd ? at[1] * b * b + block : block * channels + at[1];
    copy_element(
        x,
        at[0] * strides[0] + depth * strides[1] + at[2] / b * strides[2] + at[3] / b * strides[3],
        call.out[0], flat);
  });
}

void eval_space_to_depth(const EvalCall& call) {
  const EvalTensor& x = *call.in[0];
  const auto attrs = decode<BlockSizeAttrs>(call.attrs);
  const int64_t b = attrs.block_size, channels = x.shape[1];
  const Shape strides = row_major_strides(x.shape);
  walk_coordinates(call.out[0].shape, [&](int64_t flat, const Shape& at) {
    const int64_t block = attrs.crd ? at[1] % (b * b) : at[1] / channels;
    const int64_t channel = attrs.crd ? at[1] / (b * b) : at[1] % channels;
    copy_element(x,
                 at[0] * strides[0] + channel * strides[1] + (at[2] * b + block / b) * strides[2] +
                     (at[3] * b + block % b) * strides[3],
                 call.out[0], flat);
  });
}

// y[t, b] = x[sequence_lens[b] − 1 − t, b] for t < sequence_lens[b], x[t, b] from there on.
void eval_reverse_sequence(const EvalCall& call) {
  const EvalTensor& x = *call.in[0];
  const std::vector<int64_t>& lengths = call.in[1]->i;
  const auto attrs = decode<ReverseSequenceAttrs>(call.attrs);
  const auto batch = static_cast<size_t>(attrs.batch_axis);
  const auto time = static_cast<size_t>(attrs.time_axis);
  for (size_t b = 0; b < lengths.size(); ++b) {
    if (lengths[b] >= 0 && lengths[b] <= x.shape[time]) continue;
    throw Error(ErrorCode::kInput, "sequence_lens is " + std::to_string(lengths[b]) +
                                       " at element " + std::to_string(b) + ", outside [0, " +
                                       std::to_string(x.shape[time]) + "]");
  }
  const int64_t stride = row_major_strides(x.shape)[time];
  walk_coordinates(x.shape, [&](int64_t flat, const Shape& at) {
    const int64_t length = lengths[at[batch]];
    const int64_t from = at[time] < length ? length - 1 - at[time] : at[time];
    copy_element(x, flat + (from - at[time]) * stride, call.out[0], flat);
  });
}

}  // namespace vernier::reference
