// What the translations of the attention operators share. Values are [batch, seq, heads, head_dim]
// as the graph's Attention takes them (AttentionAttrs), unless a comment says otherwise.
#pragma once
#include "onnx/node_context.h"

namespace vernier::onnx {

struct KeyValue {
  ir::ValueId full;     ///< [batch, past + seq, heads, head_dim]
  ir::ValueId present;  ///< [batch, heads, past + seq, head_dim], or kNoValue where not wanted
};
/// Appends the keys (or values) to those of earlier calls: [batch, heads, past, head_dim], or
/// kNoValue.
KeyValue join_past(NodeContext& node, ir::ValueId value, ir::ValueId past, bool wants_present);

/// A size as a number, i64.
ir::ValueId size_number(NodeContext& node, const Dim& size);
/// 0, 1, …, size − 1 with `first` added (i64), as `shape`.
ir::ValueId positions(NodeContext& node, const Dim& first, const Dim& size, SymShape shape);

/// ONNX aligns causality at the first query: query i sees key j iff j <= i + past. The graph's
/// Attention aligns the last query with the last key; the two agree if there are as many new keys
/// as queries. Otherwise the triangle is combined with `keep` (or becomes it) and attrs.causal is
/// cleared.
void align_causal(NodeContext& node, ir::ValueId q, ir::ValueId k, const Dim& past,
                  AttentionAttrs& attrs, ir::ValueId& keep);

/// 1 / √head_dim of q. Unsupported if the size is not constant.
double default_scale(NodeContext& node, ir::ValueId q);

struct RotaryInputs {
  ir::ValueId x;           ///< [batch, heads, seq, head_dim] or [batch, seq, heads · head_dim]
  ir::ValueId cos, sin;    ///< [batch or 1, seq, rotary_dim / 2]
  int64_t heads = 0;       ///< of an x of rank 3
  int64_t rotary_dim = 0;  ///< leading part of head_dim that is rotated; 0: all
  bool interleaved = false;
};
/// x with its pairs rotated, in x's shape: (a, b) becomes (a·cos − b·sin, a·sin + b·cos), where
/// pairs are (x[i], x[i + rotary_dim / 2]), or (x[2i], x[2i + 1]) when interleaved.
ir::ValueId rotate(NodeContext& node, const RotaryInputs& rotary);

}  // namespace vernier::onnx
