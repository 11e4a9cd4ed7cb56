// Inference of the operators that move elements: Concat, Split, Slice, Gather*, Scatter*, Tile,
// Pad, OneHot, NonZero, DepthToSpace, SpaceToDepth, ReverseSequence. Contract: context.h.
#include <algorithm>
#include <array>
#include <numeric>

#include "rules/checks.h"

namespace vernier::rules {
namespace {

constexpr std::array<size_t, 1> kFirst{0};
constexpr int64_t kMaxBlock = int64_t{1} << 20;  // of DepthToSpace: its square must be a valid size

std::vector<int64_t> constant_list(InferContext& context, size_t index, const char* what) {
  auto list = context.integers(index);
  if (!list) {
    context.fail(std::string("the ") + what + " in input " + std::to_string(index) +
                 " are not constant");
  }
  return std::move(*list);
}

// Is the input absent, or are its contents known?
bool is_known(InferContext& context, size_t i) {
  return !context.has_input(i) || context.values(i).has_value();
}

// A start or end counted from the front, clamped into [low, high]; negative counts from the end.
// The same as slice_from() of core/axis_ranges.h: no axis is longer than kMaxArrayElems.
Dim slice_bound(InferContext& context, const Dim& bound, const Dim& size, const Dim& low,
                const Dim& high) {
  if (const auto at = bound.as_constant()) {
    if (*at > kMaxArrayElems) return high;
    if (*at < -kMaxArrayElems) return low;
    return *at < 0 ? max(size + bound, low) : min(bound, high);
  }
  if (less_equal(bound, -1) == true) return max(size + bound, low);
  // The sign of an expression such as total − length must be known: it may not be negative.
  context.require_equal(min(bound, 0), 0);
  return min(bound, high);
}

// An end at a limit of 32 bits means the end of the axis, as ONNX recommends.
Dim far_end(const Dim& end) {
  if (end == Dim(INT32_MAX)) return INT64_MAX;
  return end == Dim(INT32_MIN) || end == Dim(-INT32_MAX) ? Dim(INT64_MIN) : end;
}

Dim slice_size(InferContext& context, const Dim& size, const Dim& start, const Dim& end,
               int64_t step) {
  if (step == 0) context.fail("a step is 0");
  require_between(context, "a step", step, -kLargestNumber);
  if (step > 0) {
    const Dim first = slice_bound(context, start, size, 0, size);
    const Dim last = slice_bound(context, far_end(end), size, 0, size);
    return max(floordiv(last - first + Dim(step - 1), step), 0);
  }
  const Dim first = slice_bound(context, start, size, -1, size - Dim(1));
  const Dim last = slice_bound(context, far_end(end), size, -1, size - Dim(1));
  return max(floordiv(first - last - Dim(step + 1), -step), 0);
}

// Elements start, start + step, …, `size` of them, lie on an axis of `whole`.
void require_slice(InferContext& context, const Dim& whole, int64_t start, int64_t step,
                   const Dim& size) {
  context.require_at_most(0, size);
  const Dim last = Dim(start) + (size - Dim(1)) * Dim(step), some = min(size, 1);
  // If the slice may be empty, an empty one has no conditions.
  const auto inside = [&](const Dim& position) {
    const Dim end = position + Dim(1);
    if (at_most(end, whole) != true) context.require_at_most(some * end, whole);
  };
  inside(step > 0 ? last : Dim(start));
  if (step < 0) context.require_at_most((size - Dim(1)) * Dim(-step), Dim(start));
}

void infer_inline_slice(InferContext& context, const SliceAttrs& attrs) {
  const size_t count = attrs.axes.size();
  if (attrs.starts.size() != count || attrs.steps.size() != count || attrs.sizes.size() != count)
    context.fail("starts, axes, steps and sizes differ in length");
  SymShape out = context.shape(0);
  std::vector<size_t> axes;
  for (size_t i = 0; i < count; ++i) {
    axes.push_back(context.normalize_axis(attrs.axes[i], context.rank(0)));
    const size_t axis = axes.back();
    require_distinct(context, axes);
    if (attrs.steps[i] == 0) context.fail("a step is 0");
    require_between(context, "a step", attrs.steps[i], -kLargestNumber);
    const Dim last = Dim(attrs.starts[i]) + (attrs.sizes[i] - Dim(1)) * Dim(attrs.steps[i]);
    const bool empty = attrs.sizes[i] == Dim(0);
    if (!empty && (attrs.starts[i] < 0 || less_equal(out[axis], Dim(attrs.starts[i])) == true ||
                   less_equal(out[axis], last) == true || less_equal(last, -1) == true)) {
      context.fail("slice [" + std::to_string(attrs.starts[i]) + " .. " + last.str() +
                   "] leaves axis " + std::to_string(axis) + " of " + str(context.shape(0)));
    }
    if (!empty) require_slice(context, out[axis], attrs.starts[i], attrs.steps[i], attrs.sizes[i]);
    out[axis] = attrs.sizes[i];
  }
  context.set_output(0, context.dtype(0), std::move(out));
}

// Sizes of the parts of Split, by sizes, input 1 or equal parts (the last may be smaller).
SymShape split_sizes(InferContext& context, const SplitAttrs& attrs, const Dim& size) {
  if (!attrs.sizes.empty()) return {attrs.sizes.begin(), attrs.sizes.end()};
  if (context.has_input(1)) {
    require_list(context, 1);
    if (auto values = context.values(1)) return std::move(*values);
    SymShape parts;
    const auto axis = context.normalize_axis(attrs.axis, context.rank(0));
    for (size_t i = 0, count = list_length(context, 1); i < count; ++i)
      parts.push_back(data_size(context, axis, size, i));
    return parts;
  }
  const auto outputs = static_cast<int64_t>(context.num_outputs());
  const int64_t parts = attrs.num_outputs > 0 ? attrs.num_outputs : outputs;
  if (parts != outputs || parts < 1) {
    context.fail("splits into " + std::to_string(parts) + " parts but has " +
                 std::to_string(outputs) + " outputs");
  }
  const Dim chunk = floordiv(size + Dim(parts - 1), parts);
  SymShape sizes(static_cast<size_t>(parts), chunk);
  sizes.back() = size - chunk * Dim(parts - 1);
  return sizes;
}

}  // namespace

// ONNX requires equal ranks; models of 2020 also join scalars into a list, as ONNX Runtime allows.
void infer_concat(InferContext& context) {
  const auto listed = [&](size_t i) {
    return context.shape(i).empty() ? SymShape{1} : context.shape(i);
  };
  SymShape out = listed(0);
  const size_t axis =
      context.normalize_axis(context.attrs<AxisAttrs>().axis, static_cast<int64_t>(out.size()));
  std::vector<size_t> data{0};
  for (size_t i = 1; i < context.num_inputs(); ++i) {
    data.push_back(i);
    const SymShape in = listed(i);
    if (in.size() != out.size() || context.dtype(i) != context.dtype(0)) {
      context.fail("input " + std::to_string(i) + " is " + std::string(name(context.dtype(i))) +
                   str(context.shape(i)) + ", input 0 is " + std::string(name(context.dtype(0))) +
                   str(context.shape(0)));
    }
    for (size_t k = 0; k < out.size(); ++k)
      out[k] = k == axis ? out[k] + in[k] : context.unify(out[k], in[k]);
  }
  context.set_output(0, context.dtype(0), std::move(out));
  propagate_moved_values(context, data);
}

void infer_split(InferContext& context) {
  const auto attrs = context.attrs<SplitAttrs>();
  const size_t axis = context.normalize_axis(attrs.axis, context.rank(0));
  const Dim size = context.shape(0)[axis];
  const SymShape sizes = split_sizes(context, attrs, size);
  if (sizes.size() != context.num_outputs()) {
    context.fail("splits into " + std::to_string(sizes.size()) + " parts but has " +
                 std::to_string(context.num_outputs()) + " outputs");
  }
  Dim sum = 0;
  for (const Dim& d : sizes) {
    if (less_equal(d, -1) == true) context.fail("parts " + str(sizes) + " have a negative size");
    context.require_at_most(0, d);
    sum = sum + d;
  }
  if (equal(sum, size) == false)
    context.fail("parts " + str(sizes) + " do not add up to " + size.str());
  const bool by_data = attrs.sizes.empty() && !is_known(context, 1);
  if (!by_data) context.unify(sum, size);
  SymShape out = context.shape(0);
  for (size_t i = 0; i < sizes.size(); ++i) {
    out[axis] = sizes[i];
    context.set_output(i, context.dtype(0), out);
  }
  propagate_moved_values(context, kFirst);
}

namespace {

// The axes that `count` entries describe: of input `index`, or the first ones; empty if only the
// data says which.
std::optional<std::vector<size_t>> described_axes(InferContext& context, size_t index,
                                                  size_t count) {
  std::vector<size_t> axes(count);
  std::iota(axes.begin(), axes.end(), size_t{0});
  if (context.has_input(index)) {
    if (!context.values(index)) return std::nullopt;
    axes.clear();
    for (int64_t axis : constant_list(context, index, "axes"))
      axes.push_back(context.normalize_axis(axis, context.rank(0)));
  }
  if (axes.size() != count) {
    context.fail("has " + std::to_string(axes.size()) + " axes, expected " + std::to_string(count));
  }
  require_distinct(context, axes);
  if (count > context.shape(0).size()) {
    context.fail("has entries for " + std::to_string(count) + " axes, input 0 has shape " +
                 str(context.shape(0)));
  }
  return axes;
}

// A Slice whose starts, ends, axes or steps only the data says.
void infer_unknown_slice(InferContext& context) {
  const size_t count = list_length(context, 1);
  for (size_t i = 2; i <= 4; ++i) {
    if (context.has_input(i) && list_length(context, i) != count)
      context.fail("starts, ends, axes and steps differ in length");
  }
  if (count > context.shape(0).size())
    context.fail("has entries for " + std::to_string(count) + " axes, input 0 has shape " +
                 str(context.shape(0)));
  const auto axes = described_axes(context, 3, count);
  SymShape out = context.shape(0);
  for (size_t axis = 0; axis < out.size(); ++axis) {
    if (!axes || std::ranges::find(*axes, axis) != axes->end())
      out[axis] = data_size(context, axis, context.shape(0)[axis]);
  }
  context.set_output(0, context.dtype(0), std::move(out));
}

}  // namespace

void infer_slice(InferContext& context) {
  const auto attrs = context.attrs<SliceAttrs>();
  if (attrs.inline_starts) {
    infer_inline_slice(context, attrs);
    propagate_moved_values(context, kFirst);
    return;
  }
  if (!context.has_input(1) || !context.has_input(2)) context.fail("has no starts or no ends");
  for (size_t i = 1; i <= 4; ++i) require_list(context, i);
  const auto starts = context.values(1), ends = context.values(2);
  if (!starts || !ends || !is_known(context, 3) || !is_known(context, 4))
    return infer_unknown_slice(context);
  std::vector<int64_t> axes(starts->size()), steps(starts->size(), 1);
  for (size_t i = 0; i < axes.size(); ++i) axes[i] = static_cast<int64_t>(i);
  if (context.has_input(3)) axes = constant_list(context, 3, "axes");
  if (context.has_input(4)) steps = constant_list(context, 4, "steps");
  if (ends->size() != starts->size() || axes.size() != starts->size() ||
      steps.size() != starts->size())
    context.fail("starts, ends, axes and steps differ in length");
  SymShape out = context.shape(0);
  std::vector<size_t> sliced;
  for (size_t i = 0; i < axes.size(); ++i) {
    const size_t axis = context.normalize_axis(axes[i], context.rank(0));
    sliced.push_back(axis);
    require_distinct(context, sliced);
    out[axis] = slice_size(context, context.shape(0)[axis], (*starts)[i], (*ends)[i], steps[i]);
  }
  context.set_output(0, context.dtype(0), std::move(out));
  propagate_moved_values(context, kFirst);
}

void infer_gather(InferContext& context) {
  require_integer(context, 1);
  const SymShape& data = context.shape(0);
  const SymShape& indices = context.shape(1);
  const auto axis = static_cast<std::ptrdiff_t>(
      context.normalize_axis(context.attrs<AxisAttrs>().axis, context.rank(0)));
  SymShape out(data.begin(), data.begin() + axis);
  out.insert(out.end(), indices.begin(), indices.end());
  out.insert(out.end(), data.begin() + axis + 1, data.end());
  context.set_output(0, context.dtype(0), std::move(out));
  propagate_moved_values(context, kFirst);
}

namespace {

// Indices of GatherElements and ScatterElements (input 1): of the data's rank, and no longer than
// the data on any axis but `axis`.
void check_element_indices(InferContext& context, int64_t axis) {
  require_integer(context, 1);
  const size_t along = context.normalize_axis(axis, context.rank(0));
  const SymShape &data = context.shape(0), &indices = context.shape(1);
  if (data.size() != indices.size())
    context.fail("data " + str(data) + " and indices " + str(indices) + " differ in rank");
  for (size_t i = 0; i < data.size(); ++i) {
    if (i == along) continue;
    if (less_equal(indices[i], data[i]) == false) {
      context.fail("indices " + str(indices) + " reach outside data " + str(data) + " on axis " +
                   std::to_string(i) + ": only axis " + std::to_string(along) + " may be longer");
    }
    context.require_at_most(indices[i], data[i]);
  }
}

}  // namespace

void infer_gather_elements(InferContext& context) {
  check_element_indices(context, context.attrs<AxisAttrs>().axis);
  context.set_output(0, context.dtype(0), context.shape(1));
  propagate_moved_values(context, kFirst);
}

void infer_gather_nd(InferContext& context) {
  require_integer(context, 1);
  const int64_t batch = context.attrs<GatherNDAttrs>().batch_dims;
  const SymShape& data = context.shape(0);
  const SymShape& indices = context.shape(1);
  const auto depth = indices.empty() ? std::nullopt : indices.back().as_constant();
  if (!depth || batch < 0 || batch >= context.rank(1) || batch > context.rank(0) ||
      *depth > context.rank(0) - batch) {
    context.fail("indices " + str(indices) + " do not fit data " + str(data) + " with batch_dims " +
                 std::to_string(batch));
  }
  SymShape out;
  for (size_t i = 0; i + 1 < indices.size(); ++i) {
    out.push_back(static_cast<int64_t>(i) < batch ? context.unify(data[i], indices[i])
                                                  : indices[i]);
  }
  out.insert(out.end(), data.begin() + static_cast<std::ptrdiff_t>(batch + *depth), data.end());
  context.set_output(0, context.dtype(0), std::move(out));
  propagate_moved_values(context, kFirst);
}

void infer_scatter_elements(InferContext& context) {
  const auto attrs = context.attrs<ScatterAttrs>();
  if (context.rank(0) != context.rank(1) || context.rank(1) != context.rank(2))
    context.fail("data, indices and updates differ in rank");
  check_element_indices(context, attrs.axis);
  require_same_type(context, 2);
  for (size_t i = 0; i < context.shape(1).size(); ++i)
    context.unify(context.shape(1)[i], context.shape(2)[i]);
  context.set_output(0, context.dtype(0), context.shape(0));
  if (attrs.reduction == ScatterReduction::kNone)
    propagate_moved_values(context, std::array<size_t, 2>{0, 2});
}

void infer_scatter_nd(InferContext& context) {
  require_integer(context, 1);
  require_same_type(context, 2);
  const SymShape& data = context.shape(0);
  const SymShape& indices = context.shape(1);
  const auto depth = indices.empty() ? std::nullopt : indices.back().as_constant();
  if (!depth || *depth > context.rank(0))
    context.fail("indices " + str(indices) + " do not fit data " + str(data));
  SymShape expected(indices.begin(), indices.end() - 1);
  expected.insert(expected.end(), data.begin() + static_cast<std::ptrdiff_t>(*depth), data.end());
  if (expected.size() != context.shape(2).size())
    context.fail("updates are " + str(context.shape(2)) + ", expected " + str(expected));
  for (size_t i = 0; i < expected.size(); ++i) context.unify(expected[i], context.shape(2)[i]);
  context.set_output(0, context.dtype(0), context.shape(0));
  if (context.attrs<ScatterAttrs>().reduction == ScatterReduction::kNone)
    propagate_moved_values(context, std::array<size_t, 2>{0, 2});
}

namespace {

void infer_unknown_tile(InferContext& context) {
  const Dim count = product(context.shape(1)), rank = context.rank(0);
  if (equal(count, rank) == false)
    context.fail("has " + count.str() + " repeats for input " + str(context.shape(0)));
  context.require_equal(count, rank);
  SymShape out = context.shape(0);
  for (size_t axis = 0; axis < out.size(); ++axis) {
    if (!(out[axis] == Dim(0))) out[axis] = data_size(context, axis);
  }
  context.set_output(0, context.dtype(0), std::move(out));
}

void infer_unknown_pad(InferContext& context) {
  const size_t count = list_length(context, 1);
  const size_t entries = context.has_input(3) ? list_length(context, 3) : context.shape(0).size();
  if (count != 2 * entries) {
    context.fail("has " + std::to_string(count) + " pads for " + std::to_string(entries) +
                 " axes, expected a begin and an end for each");
  }
  const auto axes = described_axes(context, 3, entries);
  SymShape out = context.shape(0);
  for (size_t axis = 0; axis < out.size(); ++axis) {
    if (!axes || std::ranges::find(*axes, axis) != axes->end())
      out[axis] = data_size(context, axis);
  }
  context.set_output(0, context.dtype(0), std::move(out));
}

}  // namespace

void infer_tile(InferContext& context) {
  require_list(context, 1);
  const auto repeats = context.values(1);
  if (!repeats) return infer_unknown_tile(context);
  if (repeats->size() != context.shape(0).size()) {
    context.fail("has " + std::to_string(repeats->size()) + " repeats for input " +
                 str(context.shape(0)));
  }
  SymShape out = context.shape(0);
  for (size_t i = 0; i < out.size(); ++i) {
    if (less_equal((*repeats)[i], -1) == true)
      context.fail("repeats " + str(*repeats) + " have a negative number");
    context.require_at_most(0, (*repeats)[i]);
    out[i] = out[i] * (*repeats)[i];
  }
  context.set_output(0, context.dtype(0), std::move(out));
  if (is_constant(*context.output_shape(0))) propagate_moved_values(context, kFirst);
}

void infer_pad(InferContext& context) {
  for (size_t i : {size_t{1}, size_t{3}}) require_list(context, i);
  if (context.has_input(2)) {
    require_same_type(context, 2);
    require_one_element(context, 2);
  }
  const auto pads = context.values(1);
  if (!pads || !is_known(context, 3)) return infer_unknown_pad(context);
  std::vector<int64_t> axes(context.shape(0).size());
  for (size_t i = 0; i < axes.size(); ++i) axes[i] = static_cast<int64_t>(i);
  if (context.has_input(3)) axes = constant_list(context, 3, "axes");
  if (pads->size() != 2 * axes.size()) {
    context.fail("has " + std::to_string(pads->size()) + " pads for " +
                 std::to_string(axes.size()) + " axes, expected a begin and an end for each");
  }
  for (const Dim& pad : *pads) {
    if (const auto number = pad.as_constant())
      require_between(context, "a pad", *number, -kLargestNumber);
  }
  SymShape out = context.shape(0);
  std::vector<size_t> padded;
  for (size_t i = 0; i < axes.size(); ++i) {
    padded.push_back(context.normalize_axis(axes[i], context.rank(0)));
    require_distinct(context, padded);
    Dim& size = out[padded.back()];
    const bool repeats = context.attrs<PadAttrs>().mode != PadMode::kConstant;
    if (repeats && ((*pads)[i] != Dim(0) || (*pads)[i + axes.size()] != Dim(0))) {
      if (size == Dim(0)) context.fail("an empty tensor has no elements to pad with");
      context.require_at_most(1, size);
    }
    size = size + (*pads)[i] + (*pads)[i + axes.size()];
    if (less_equal(size, -1) == true) {
      context.fail("axis " + std::to_string(padded.back()) + " of " + str(context.shape(0)) +
                   " would have " + size.str() + " elements");
    }
    context.require_at_most(0, size);
  }
  context.set_output(0, context.dtype(0), std::move(out));
  propagate_moved_values(context, std::array<size_t, 2>{0, 2});
}

void infer_trilu(InferContext& context) {
  if (context.rank(0) < 2)
    context.fail("input is " + str(context.shape(0)) + ", expected at least a matrix");
  if (context.has_input(1)) {
    require_integer(context, 1);
    require_one_element(context, 1);
  }
  infer_same(context);
}

void infer_one_hot(InferContext& context) {
  if (context.dtype(0) == DType::kBool) context.fail("the indices are bool, expected numbers");
  if (context.rank(2) != 1 || equal(context.shape(2)[0], 2) == false)
    context.fail("values must be [off, on], got shape " + str(context.shape(2)));
  context.require_equal(context.shape(2)[0], 2);
  require_one_element(context, 1);
  const size_t axis =
      context.normalize_axis(context.attrs<OneHotAttrs>().axis, context.rank(0) + 1);
  Dim depth;
  if (const Tensor* constant = context.constant(1); constant && is_float(constant->dtype())) {
    const double number = constant->elems() == 1 ? constant->float_at(0) : -1;
    constexpr double kLargest = 0x1p40;
    if (!(number >= 0 && number <= kLargest))
      context.fail("the depth is " + std::to_string(number));
    depth = static_cast<int64_t>(number);
  } else if (const auto values = context.values(1); values && values->size() == 1) {
    depth = values->front();
  } else {
    depth = data_size(context, axis);
  }
  if (less_equal(depth, -1) == true) context.fail("the depth " + depth.str() + " is negative");
  context.require_at_most(0, depth);
  SymShape out = context.shape(0);
  out.insert(out.begin() + static_cast<std::ptrdiff_t>(axis), depth);
  context.set_output(0, context.dtype(2), std::move(out));
}

void infer_non_zero(InferContext& context) {
  const auto rank = context.rank(0);
  std::optional<Dim> count;
  if (const Tensor* constant = context.constant(0)) {
    int64_t found = 0;
    for (int64_t i = 0; i < constant->elems(); ++i) {
      found +=
          is_float(constant->dtype()) ? constant->float_at(i) != 0 : constant->integer_at(i) != 0;
    }
    count = found;
  }
  const Dim size = count ? *count : context.fresh_size("nonzero", product(context.shape(0)));
  context.set_output(0, DType::kI64, {rank, size});
}

void infer_depth_to_space(InferContext& context) {
  const int64_t block = context.attrs<BlockSizeAttrs>().block_size;
  const SymShape& in = context.shape(0);
  if (in.size() != 4 || block < 1)
    context.fail("input " + str(in) + " with block size " + std::to_string(block));
  require_between(context, "the block size", block, 1, kMaxBlock);
  if (equal(mod(in[1], block * block), 0) == false) {
    context.fail("channels " + in[1].str() + " are not a multiple of " +
                 std::to_string(block * block));
  }
  context.require_equal(mod(in[1], block * block), 0);
  context.set_output(
      0, context.dtype(0),
      {in[0], floordiv(in[1], block * block), in[2] * Dim(block), in[3] * Dim(block)});
}

void infer_space_to_depth(InferContext& context) {
  const int64_t block = context.attrs<BlockSizeAttrs>().block_size;
  const SymShape& in = context.shape(0);
  if (in.size() != 4 || block < 1)
    context.fail("input " + str(in) + " with block size " + std::to_string(block));
  require_between(context, "the block size", block, 1, kMaxBlock);
  for (size_t axis : {2, 3}) {
    if (mod(in[axis], block).as_constant().value_or(0) != 0)
      context.fail("size " + in[axis].str() + " is not a multiple of " + std::to_string(block));
    context.require_equal(mod(in[axis], block), 0);
  }
  context.set_output(
      0, context.dtype(0),
      {in[0], in[1] * Dim(block * block), floordiv(in[2], block), floordiv(in[3], block)});
}

void infer_reverse_sequence(InferContext& context) {
  const auto attrs = context.attrs<ReverseSequenceAttrs>();
  const bool batch_first = attrs.batch_axis == 0 && attrs.time_axis == 1;
  const bool time_first = attrs.batch_axis == 1 && attrs.time_axis == 0;
  if (!batch_first && !time_first) {
    context.fail("batch_axis is " + std::to_string(attrs.batch_axis) + " and time_axis " +
                 std::to_string(attrs.time_axis) + ", expected 0 and 1 in either order");
  }
  const SymShape& in = context.shape(0);
  if (in.size() < 2) context.fail("input is " + str(in) + ", expected at least a matrix");
  if (context.dtype(1) != DType::kI64 || context.rank(1) != 1) {
    context.fail("sequence_lens is " + std::string(name(context.dtype(1))) + str(context.shape(1)) +
                 ", expected a list of i64");
  }
  context.unify(in[attrs.batch_axis], context.shape(1)[0]);
  context.set_output(0, context.dtype(0), in);
  propagate_moved_values(context, kFirst);
}

}  // namespace vernier::rules
