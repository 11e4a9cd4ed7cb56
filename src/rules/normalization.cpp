// Inference of LayerNorm, RMSNorm, AddLayerNorm, BatchNormalization, GroupNormalization, EmbedNorm,
// L2Norm, MaskedMean, TokenIndex and ZeroPadding. Contract: context.h; formulas: src/reference and
// core/attrs.h.
#include <algorithm>

#include "core/token_rows.h"
#include "rules/checks.h"

namespace vernier::rules {
namespace {

// Scale and bias broadcast to the normalized axes.
void check_scale(InferContext& context, size_t input, const SymShape& data, size_t first_axis) {
  if (!context.has_input(input)) return;
  require_float(context, input);
  require_fits(context, input,
               SymShape(data.begin() + static_cast<int64_t>(first_axis), data.end()));
}

// Rows of `shape`, which end with axes [axis, rank), have elements.
void require_rows(InferContext& context, const SymShape& shape, size_t axis) {
  for (size_t i = axis; i < shape.size(); ++i) {
    if (equal(shape[i], 0) == true)
      context.fail("normalizes over axis " + std::to_string(i) + " of " + str(shape) +
                   ", which is empty");
    context.require_at_most(1, shape[i]);
  }
}

// One number per channel in input `i`.
void check_per_channel(InferContext& context, size_t i, const Dim& channels) {
  require_float(context, i);
  require_rank(context, i, 1);
  context.unify(context.shape(i)[0], channels);
}

// Statistics of a row are f32 (f64 for f64 data), with size 1 on the normalized axes.
DType statistics_type(DType data) { return data == DType::kF64 ? DType::kF64 : DType::kF32; }

}  // namespace

void infer_layer_norm(InferContext& context) {
  require_float(context, 0);
  const SymShape x = context.shape(0);
  const size_t axis = context.normalize_axis(context.attrs<NormAttrs>().axis, context.rank(0));
  require_rows(context, x, axis);
  // ONNX lets scale and bias broadcast to the whole of x.
  check_scale(context, 1, x, 0);
  check_scale(context, 2, x, 0);
  context.set_output(0, context.dtype(0), x);
  SymShape rows = x;
  for (size_t i = axis; i < rows.size(); ++i) rows[i] = 1;
  for (size_t i = 1; i < 3; ++i) context.set_output(i, statistics_type(context.dtype(0)), rows);
}

void infer_rms_norm(InferContext& context) {
  require_float(context, 0);
  require_rows(context, context.shape(0),
               context.normalize_axis(context.attrs<NormAttrs>().axis, context.rank(0)));
  check_scale(context, 1, context.shape(0), 0);
  infer_same(context);
}

void infer_add_layer_norm(InferContext& context) {
  require_float(context, 0);
  require_same_type(context, 1);
  const SymShape sum = broadcast(context, context.shape(0), context.shape(1));
  const auto rank = static_cast<int64_t>(sum.size());
  const size_t axis = context.normalize_axis(context.attrs<NormAttrs>().axis, rank);
  require_rows(context, sum, axis);
  check_scale(context, 2, sum, axis);
  check_scale(context, 3, sum, axis);
  context.set_output(0, context.dtype(0), sum);
  context.set_output(1, context.dtype(0), sum);
}

void infer_batch_normalization(InferContext& context) {
  require_float(context, 0);
  const Dim channels = context.rank(0) < 2 ? Dim(1) : context.shape(0)[1];
  for (size_t i = 1; i < 5; ++i) check_per_channel(context, i, channels);
  infer_same(context);
}

void infer_group_normalization(InferContext& context) {
  require_float(context, 0);
  if (context.rank(0) < 2) {
    context.fail("input 0 has shape " + str(context.shape(0)) +
                 ", expected [batch, channels, spatial...]");
  }
  const int64_t groups = context.attrs<GroupNormAttrs>().num_groups;
  const Dim channels = context.shape(0)[1];
  if (groups < 0 || (groups > 0 && mod(channels, groups) != Dim(0))) {
    context.fail(channels.str() + " channels are not divisible into " + std::to_string(groups) +
                 " groups");
  }
  for (size_t i = 1; i < 3; ++i) check_per_channel(context, i, channels);
  infer_same(context);
}

// Inputs: (ids, table) per table, scale, bias optional.
void infer_embed_norm(InferContext& context) {
  const int64_t tables = context.attrs<EmbedNormAttrs>().tables;
  const auto inputs = static_cast<int64_t>(context.num_inputs());
  const auto scale = static_cast<size_t>(2 * std::clamp<int64_t>(tables, 0, inputs));
  const bool fits = tables >= 1 && tables <= inputs && scale < context.num_inputs();
  if (!fits || context.num_inputs() > scale + 2) {
    context.fail("has " + std::to_string(context.num_inputs()) +
                 " inputs, expected ids and table for each of " + std::to_string(tables) +
                 " tables, then scale and optionally bias");
  }
  SymShape ids;
  Dim width = context.shape(scale).empty() ? Dim(1) : context.shape(scale).back();
  for (size_t t = 0; t < scale; t += 2) {
    if (!is_integer(context.dtype(t)))
      context.fail("ids in input " + std::to_string(t) + " must be integers");
    require_rank(context, t + 1, 2);
    require_float(context, t + 1);
    ids = broadcast(context, ids, context.shape(t));
    width = context.unify(width, context.shape(t + 1)[1]);
  }
  for (size_t i = scale; i < context.num_inputs(); ++i) {
    if (i == scale || context.has_input(i)) check_per_channel(context, i, width);
  }
  ids.push_back(width);
  context.set_output(0, context.dtype(1), std::move(ids));
}

void infer_l2_norm(InferContext& context) {
  require_float(context, 0);
  if (context.rank(0) < 1)
    context.fail("input 0 has shape " + str(context.shape(0)) + ", expected rank 1 or more");
  infer_same(context);
}

void infer_token_index(InferContext& context) {
  require_rank(context, 0, 2);
  if (!is_token_mask(context.dtype(0))) {
    context.fail("a mask of " + std::string(name(context.dtype(0))) +
                 " cannot be counted, only of bool, integers and f32");
  }
  const SymShape mask = context.shape(0);
  const auto attrs = context.attrs<TokenIndexAttrs>();
  require_between(context, "padding", attrs.padding, -kLargestNumber);
  if (attrs.tokens.size() != 1)
    context.fail("the list of tokens has shape " + str(attrs.tokens) + ", expected one size");
  context.require_at_most(0, attrs.tokens[0]);
  context.set_output(0, DType::kI32, attrs.tokens);
  context.set_output(1, DType::kI32, attrs.tokens);
  context.set_output(2, DType::kI32, {mask[0] + Dim(1)});
  context.set_output(3, DType::kI32, mask);
  context.set_output(4, DType::kI32, {mask[0] + Dim(1)});
  context.set_output(5, DType::kBool, attrs.tokens);
}

void infer_zero_padding(InferContext& context) {
  require_float(context, 0);
  require_rank(context, 1, 2);
  if (!is_token_mask(context.dtype(1))) {
    context.fail("a mask of " + std::string(name(context.dtype(1))) +
                 " cannot be counted, only of bool, integers and f32");
  }
  require_between(context, "padding", context.attrs<ZeroPaddingAttrs>().padding, -kLargestNumber);
  const SymShape mask = context.shape(1);
  SymShape y = context.shape(0);
  if (y.size() < 2) context.fail("input 0 has shape " + str(y) + ", expected rank 2 or more");
  if (context.has_input(2)) {
    require_rank(context, 2, 2);
    if (context.dtype(2) != DType::kI32)
      context.fail("input 2 is " + std::string(name(context.dtype(2))) + ", expected i32");
    context.unify(context.shape(2)[0], mask[0]);
    context.unify(context.shape(2)[1], mask[1]);
    context.unify(y[0], Dim(1));
  } else {
    context.unify(y[0], mask[0]);
    context.unify(y[1], mask[1]);
  }
  y[0] = mask[0];
  y[1] = mask[1];
  context.set_output(0, context.dtype(0), std::move(y));
}

void infer_masked_mean(InferContext& context) {
  require_float(context, 0);
  require_rank(context, 0, 3);
  require_rank(context, 1, 2);
  const SymShape x = context.shape(0), mask = context.shape(1);
  context.unify(x[0], mask[0]);
  context.unify(x[1], mask[1]);
  context.set_output(0, context.dtype(0), {x[0], x[2]});
}

}  // namespace vernier::rules
