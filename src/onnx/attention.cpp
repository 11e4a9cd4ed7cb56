// Translation of ONNX Attention (opset 23) into the graph's Attention. Contract: node_context.h,
// translations.h; the meaning of the target stands at AttentionAttrs.
#include <array>
#include <cmath>

#include "core/attrs.h"
#include "onnx/translations.h"

namespace vernier::onnx {
namespace {

// q, k and v as [batch, seq, heads, head_dim], from [batch, heads, seq, head_dim] or
// [batch, seq, heads · head_dim].
ir::ValueId split_heads(NodeContext& node, ir::ValueId value, int64_t heads) {
  const SymShape shape = node.shape(value);
  if (shape.size() == 4) return node.transpose(value, {0, 2, 1, 3});
  if (heads < 1) node.fail("q_num_heads and kv_num_heads are needed for inputs of rank 3");
  return node.reshape(value, {shape[0], shape[1], heads, floordiv(shape[2], Dim(heads))});
}

struct KeyValue {
  ir::ValueId full;     // [batch, past + seq, heads, head_dim]
  ir::ValueId present;  // [batch, heads, past + seq, head_dim], or kNoValue where not wanted
};

// The keys (or values) behind those of earlier calls, which come as [batch, heads, past, head_dim].
KeyValue join_past(NodeContext& node, ir::ValueId value, ir::ValueId past, int64_t heads,
                   size_t present_index) {
  KeyValue result{split_heads(node, value, heads), ir::kNoValue};
  if (past != ir::kNoValue) {
    const ir::ValueId earlier = node.transpose(past, {0, 2, 1, 3});
    result.full = node.emit(OpKind::kConcat, {earlier, result.full}, AxisAttrs{1});
  }
  if (node.wants_output(present_index)) {
    result.present = node.transpose(result.full, {0, 2, 1, 3});
  }
  return result;
}

// [0, 1, ..., n) of axis 1 of `value`, with `first` added, as `shape`.
ir::ValueId positions(NodeContext& node, ir::ValueId value, const Dim& first, SymShape shape) {
  const auto scalar = [&](const Dim& size) {
    return node.emit(OpKind::kShapeValues, {}, ShapeValuesAttrs{.values = {size}, .scalar = true});
  };
  const ir::ValueId range = node.emit(
      OpKind::kRange, {scalar(first), scalar(first + node.shape(value)[1]), scalar(Dim(1))});
  return node.reshape(range, std::move(shape));
}

// Causality is counted from the first query: query i sees key j iff j <= i + past. The graph's
// Attention aligns the last query with the last key; the two agree where as many new keys as
// queries come in. Elsewhere the triangle becomes a mask [queries, keys] of what is kept.
ir::ValueId causal_keep(NodeContext& node, ir::ValueId q, ir::ValueId k, const Dim& past) {
  const Dim queries = node.shape(q)[1], keys = node.shape(k)[1];
  const ir::ValueId rows = positions(node, q, past, {queries, 1});
  const ir::ValueId cols = positions(node, k, 0, {1, keys});
  return node.emit(OpKind::kLessOrEqual, {cols, rows});
}

void check_variant(NodeContext& node) {
  if (node.attrs().number("softcap", 0.0F) != 0) node.unsupported("it has a softcap");
  node.attrs().ignore("qk_matmul_output_mode");  // of output 3, which is not provided
  const int64_t precision = node.attrs().integer("softmax_precision", 1);
  if (precision != 1 && precision != 10 && precision != 16) {  // softmax computes in f32 at least
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
    if (node.rank(node.input(i)) != rank) node.fail("inputs 0, 1 and 2 must have one rank");
  }
  const int64_t q_heads = node.attrs().integer("q_num_heads", 0);
  const int64_t kv_heads = node.attrs().integer("kv_num_heads", 0);
  AttentionAttrs attrs;
  attrs.causal = node.attrs().flag("is_causal", 0);
  const ir::ValueId q = split_heads(node, q_input, q_heads);
  const ir::ValueId past_key = node.optional_input(4), past_value = node.optional_input(5);
  const KeyValue k = join_past(node, node.input(1), past_key, kv_heads, 1);
  const KeyValue v = join_past(node, node.input(2), past_value, kv_heads, 2);
  const auto head_dim = node.shape(q)[3].as_constant();
  if (!node.attrs().has("scale") && !head_dim) node.unsupported("its head size is not a number");
  attrs.scale = node.attrs().has("scale") ? node.attrs().number("scale", 0)
                                          : 1.0 / std::sqrt(static_cast<double>(*head_dim));
  std::vector<ir::ValueId> inputs{q, k.full, v.full};
  ir::ValueId bias = node.optional_input(3), keep = ir::kNoValue;
  if (bias != ir::kNoValue) {
    attrs.zero_nan_rows = true;  // a query whose keys are all masked gives zeros
    if (node.dtype(bias) == DType::kBool) std::swap(bias, keep);
  }
  const Dim past = past_key == ir::kNoValue ? Dim(0) : node.shape(past_key)[2];
  if (attrs.causal && !equal(node.shape(q)[1] + past, node.shape(k.full)[1]).value_or(false)) {
    const ir::ValueId triangle = causal_keep(node, q, k.full, past);
    keep = keep == ir::kNoValue ? triangle : node.emit(OpKind::kAnd, {keep, triangle});
    attrs.causal = false;
  }
  inputs.push_back(bias);
  inputs.push_back(keep);
  const ir::ValueId context = node.emit(OpKind::kAttention, std::move(inputs), attrs);
  const SymShape shape = node.shape(context);
  node.set_output(0, rank == 4 ? node.transpose(context, {0, 2, 1, 3})
                               : node.reshape(context, {shape[0], shape[1], shape[2] * shape[3]}));
  node.set_output(1, k.present);
  node.set_output(2, v.present);
}

constexpr std::array kRows{
    Translation{"", "Attention", 23, translate_attention},
};

}  // namespace

std::span<const Translation> attention_translations() { return kRows; }

}  // namespace vernier::onnx
