// Translation of ONNX Attention and RotaryEmbedding (opset 23). Contract: node_context.h,
// translations.h; meaning of the graph's operator: AttentionAttrs in core/attrs.h.
#include "onnx/attention.h"

#include <array>
#include <cmath>
#include <limits>

#include "core/attrs.h"
#include "onnx/translations.h"

namespace vernier::onnx {
namespace {

// q, k and v as [batch, seq, heads, head_dim], from [batch, heads, seq, head_dim] or
// [batch, seq, heads · head_dim].
ir::ValueId split_heads(NodeContext& node, ir::ValueId value, int64_t heads) {
  const SymShape shape = node.shape(value);
  if (shape.size() == 4) return node.transpose(value, {0, 2, 1, 3});
  if (heads < 1)
    node.fail("inputs of rank 3 need the attributes q_num_heads and kv_num_heads (at least 1)");
  return node.reshape(value, {shape[0], shape[1], heads, floordiv(shape[2], Dim(heads))});
}

// The mask for all keys. From opset 24 on, a mask for fewer keys hides the remaining ones; before,
// a mask for a single key applies to all. Sizes not known to differ are assumed to be equal.
ir::ValueId padded_mask(NodeContext& node, ir::ValueId mask, const Dim& keys) {
  const SymShape shape = node.shape(mask);
  if (node.opset() < 24 || shape.empty()) return mask;
  const bool is_shorter = shape.back() == Dim(1) || (equal(shape.back(), keys) == false &&
                                                     less_equal(shape.back(), keys) == true);
  if (!is_shorter || shape.back() == keys) return mask;
  const Dim missing = keys - shape.back();
  const ir::ValueId pads =
      node.emit(OpKind::kShapeValues, {}, ShapeValuesAttrs{.values = {0, missing}});
  const bool is_bool = node.dtype(mask) == DType::kBool;
  const ir::ValueId hidden = node.constant(
      Tensor::scalar(node.dtype(mask), is_bool ? 0 : -std::numeric_limits<double>::infinity()));
  return node.emit(OpKind::kPad, {mask, pads, hidden, node.constant_i64({-1})}, PadAttrs{});
}

void check_variant(NodeContext& node) {
  if (node.attrs().number("softcap", 0.0F) != 0) node.unsupported("it has a softcap");
  node.attrs().ignore("qk_matmul_output_mode");  // for output 3, which is not provided
  const int64_t precision = node.attrs().integer("softmax_precision", 1);
  if (precision != 1 && precision != 10 && precision != 16) {  // softmax computes in at least f32
    node.unsupported("softmax_precision " + std::to_string(precision) + " is wider than FLOAT");
  }
  for (const char* window : {"left_window_size", "right_window_size"}) {
    if (node.opset() >= 25 && node.attrs().integer(window, -1) >= 0) {
      node.unsupported(std::string("it has a ") + window);
    }
  }
  if (node.has_input(6)) node.unsupported("it has an input nonpad_kv_seqlen");
}

void translate_attention(NodeContext& node) {
  check_variant(node);
  const ir::ValueId q_input = node.input(0);
  const int64_t rank = node.rank(q_input);
  if (rank != 3 && rank != 4)
    node.fail("input 0 has rank " + std::to_string(rank) + "; expected 3 or 4");
  for (size_t i = 1; i < 3; ++i) {
    if (node.rank(node.input(i)) != rank) node.fail("inputs 0, 1 and 2 must have the same rank");
  }
  const int64_t q_heads = node.attrs().integer("q_num_heads", 0);
  const int64_t kv_heads = node.attrs().integer("kv_num_heads", 0);
  AttentionAttrs attrs;
  attrs.causal = node.attrs().flag("is_causal", 0);
  const ir::ValueId q = split_heads(node, q_input, q_heads);
  const ir::ValueId past_key = node.optional_input(4), past_value = node.optional_input(5);
  const KeyValue k =
      join_past(node, split_heads(node, node.input(1), kv_heads), past_key, node.wants_output(1));
  const KeyValue v =
      join_past(node, split_heads(node, node.input(2), kv_heads), past_value, node.wants_output(2));
  attrs.scale =
      node.attrs().has("scale") ? node.attrs().number("scale", 0) : default_scale(node, q);
  std::vector<ir::ValueId> inputs{q, k.full, v.full};
  ir::ValueId bias = node.optional_input(3), keep = ir::kNoValue;
  attrs.masks_add = attrs.causal || bias != ir::kNoValue;
  if (bias != ir::kNoValue) {
    bias = padded_mask(node, bias, node.shape(k.full)[1]);
    if (node.dtype(bias) == DType::kBool) std::swap(bias, keep);
  }
  const Dim past = past_key == ir::kNoValue ? Dim(0) : node.shape(past_key)[2];
  align_causal(node, q, k.full, past, attrs, keep);
  inputs.push_back(bias);
  inputs.push_back(keep);
  const ir::ValueId context = node.emit(OpKind::kAttention, std::move(inputs), attrs);
  const SymShape shape = node.shape(context);
  node.set_output(0, rank == 4 ? node.transpose(context, {0, 2, 1, 3})
                               : node.reshape(context, {shape[0], shape[1], shape[2] * shape[3]}));
  node.set_output(1, k.present);
  node.set_output(2, v.present);
}

// With position ids the tables have one row per position, otherwise one per batch and sequence
// entry.
void translate_rotary(NodeContext& node) {
  RotaryInputs rotary{.x = node.input(0), .cos = node.input(1), .sin = node.input(2)};
  rotary.heads = node.attrs().integer("num_heads", 0);
  rotary.rotary_dim = node.attrs().integer("rotary_embedding_dim", 0);
  rotary.interleaved = node.attrs().flag("interleaved", 0);
  if (const ir::ValueId positions = node.optional_input(3); positions != ir::kNoValue) {
    for (ir::ValueId* table : {&rotary.cos, &rotary.sin})
      *table = node.emit(OpKind::kGather, {*table, positions}, AxisAttrs{0});
  }
  node.set_output(0, rotate(node, rotary));
}

constexpr std::array kRows{
    Translation{"", "Attention", 23, translate_attention},
    Translation{"", "RotaryEmbedding", 23, translate_rotary},
};

}  // namespace

KeyValue join_past(NodeContext& node, ir::ValueId value, ir::ValueId past, bool wants_present) {
  KeyValue result{value, ir::kNoValue};
  if (past != ir::kNoValue) {
    const ir::ValueId earlier = node.transpose(past, {0, 2, 1, 3});
    result.full = node.emit(OpKind::kConcat, {earlier, result.full}, AxisAttrs{1});
  }
  if (wants_present) result.present = node.transpose(result.full, {0, 2, 1, 3});
  return result;
}

ir::ValueId positions(NodeContext& node, const Dim& first, const Dim& size, SymShape shape) {
  const auto scalar = [&](const Dim& value) {
    return node.emit(OpKind::kShapeValues, {}, ShapeValuesAttrs{.values = {value}, .scalar = true});
  };
  const ir::ValueId range =
      node.emit(OpKind::kRange, {scalar(first), scalar(first + size), scalar(Dim(1))});
  return node.reshape(range, std::move(shape));
}

void align_causal(NodeContext& node, ir::ValueId q, ir::ValueId k, const Dim& past,
                  AttentionAttrs& attrs, ir::ValueId& keep) {
  const Dim queries = node.shape(q)[1], keys = node.shape(k)[1];
  if (!attrs.causal || equal(queries + past, keys).value_or(false)) return;
  const ir::ValueId rows = positions(node, past, queries, {queries, 1});
  const ir::ValueId cols = positions(node, 0, keys, {1, keys});
  const ir::ValueId triangle = node.emit(OpKind::kLessOrEqual, {cols, rows});
  keep = keep == ir::kNoValue ? triangle : node.emit(OpKind::kAnd, {keep, triangle});
  attrs.causal = false;
}

double default_scale(NodeContext& node, ir::ValueId q) {
  const auto head_dim = node.shape(q)[3].as_constant();
  if (!head_dim) node.unsupported("its head size is not constant");
  return 1.0 / std::sqrt(static_cast<double>(*head_dim));
}

std::span<const Translation> attention_translations() { return kRows; }

}  // namespace vernier::onnx
