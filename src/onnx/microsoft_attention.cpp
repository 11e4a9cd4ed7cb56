// Translations of ONNX Runtime's Attention, QAttention, MultiHeadAttention and RotaryEmbedding
// (domain com.microsoft) into the graph's Attention. Source: ONNX Runtime's
// docs/ContribOperators.md. Contract: node_context.h, translations.h; meaning of the graph's
// operator: AttentionAttrs.
#include <array>

#include "core/attrs.h"
#include "onnx/attention.h"
#include "onnx/translations.h"

namespace vernier::onnx {
namespace {

constexpr double kAbsorbs = -1e30;  // a score plus this equals this in f32 and f64

// Queries [batch, seq, heads, head_dim], keys and values after their past, and what modifies the
// scores.
struct Operands {
  ir::ValueId q, k, v;
  Dim past = 0;
  ir::ValueId mask = ir::kNoValue;  // integers, > 0 where a key is seen, or lengths
  ir::ValueId bias = ir::kNoValue;  // added, broadcast to [batch, heads, queries, keys]
};

ir::ValueId as_i64(NodeContext& node, ir::ValueId value) {
  CastAttrs attrs;
  attrs.to = DType::kI64;
  return node.dtype(value) == DType::kI64 ? value : node.emit(OpKind::kCast, {value}, attrs);
}

// Lengths [batch], or ends and starts [2 · batch]: key j is seen iff start <= j < end.
ir::ValueId keep_of_lengths(NodeContext& node, ir::ValueId mask, const Dim& batch,
                            const Dim& keys) {
  const Dim count = node.shape(mask)[0];
  if (equal(count, batch * Dim(3) + Dim(2)) == true)
    node.unsupported("its mask holds cumulative lengths of packed sequences");
  const SymShape row{batch, 1, 1, 1};
  const ir::ValueId places = positions(node, 0, keys, {1, 1, 1, keys});
  const ir::ValueId bounds = as_i64(node, mask);
  if (equal(count, batch * Dim(2)) != true)
    return node.emit(OpKind::kLess, {places, node.reshape(bounds, row)});
  const ir::ValueId pairs = node.reshape(bounds, {2, batch, 1, 1, 1});
  SplitAttrs halves;
  halves.num_outputs = 2;
  const auto parts = node.emit_all(OpKind::kSplit, {pairs}, encode(halves), 2);
  const ir::ValueId below = node.emit(OpKind::kLess, {places, node.reshape(parts[0], row)});
  const ir::ValueId from =
      node.emit(OpKind::kGreaterOrEqual, {places, node.reshape(parts[1], row)});
  return node.emit(OpKind::kAnd, {below, from});
}

// The mask as bool, broadcast to [batch, heads, queries, keys].
ir::ValueId keep_of(NodeContext& node, ir::ValueId mask, const Dim& batch, const Dim& keys) {
  const DType dtype = node.dtype(mask);
  if (!is_integer(dtype) && dtype != DType::kBool)
    node.fail("the mask has type " + std::string(name(dtype)) + "; expected integers");
  const SymShape shape = node.shape(mask);
  if (shape.size() == 1) return keep_of_lengths(node, mask, batch, keys);
  SymShape spread;
  if (shape.size() == 2) spread = {shape[0], 1, 1, shape[1]};
  if (shape.size() == 3) spread = {shape[0], 1, shape[1], shape[2]};
  if (spread.empty())
    node.unsupported("its mask has " + std::to_string(shape.size()) + " dimensions");
  const ir::ValueId seen =
      dtype == DType::kBool
          ? mask
          : node.emit(OpKind::kGreater, {mask, node.constant(Tensor::scalar(dtype, 0))});
  return node.reshape(seen, std::move(spread));
}

// The filter value is added to the scores of masked keys. If it absorbs every score, the scores
// are replaced by it, as the passes do with exported masks.
ir::ValueId masked(NodeContext& node, Operands& operands, double filter, AttentionAttrs& attrs) {
  if (operands.mask == ir::kNoValue) return ir::kNoValue;
  const Dim keys = node.shape(operands.k)[1];
  const ir::ValueId keep = keep_of(node, operands.mask, node.shape(operands.q)[0], keys);
  if (filter <= kAbsorbs) {
    attrs.fill = filter;
    return keep;
  }
  const DType dtype = node.dtype(operands.q);
  const auto scalar = [&](double value) { return node.constant(Tensor::scalar(dtype, value)); };
  const ir::ValueId penalty = node.emit(OpKind::kWhere, {keep, scalar(0), scalar(filter)});
  operands.bias =
      operands.bias == ir::kNoValue ? penalty : node.emit(OpKind::kAdd, {operands.bias, penalty});
  return ir::kNoValue;
}

// Reads the attributes that both operators have and sets output 0.
void attend(NodeContext& node, Operands operands) {
  AttentionAttrs attrs;
  attrs.causal = node.attrs().flag("unidirectional", 0);
  const double filter = node.attrs().number("mask_filter_value", -10000.0F);
  const double scale = node.attrs().number("scale", 0.0F);
  attrs.scale = scale != 0 ? scale : default_scale(node, operands.q);
  ir::ValueId keep = masked(node, operands, filter, attrs);
  align_causal(node, operands.q, operands.k, operands.past, attrs, keep);
  const ir::ValueId context = node.emit(
      OpKind::kAttention, {operands.q, operands.k, operands.v, operands.bias, keep}, attrs);
  const SymShape shape = node.shape(context);
  node.set_output(0, node.reshape(context, {shape[0], shape[1], shape[2] * shape[3]}));
}

int64_t head_count(NodeContext& node) {
  const int64_t heads = node.attrs().required_integer("num_heads");
  if (heads < 1)
    node.fail("attribute 'num_heads' is " + std::to_string(heads) + "; expected at least 1");
  return heads;
}

// [batch, seq, heads · head_dim] to [batch, seq, heads, head_dim].
ir::ValueId split_heads(NodeContext& node, ir::ValueId value, int64_t heads) {
  const SymShape shape = node.shape(value);
  if (equal(mod(shape[2], heads), 0) == false)
    node.fail(shape[2].str() + " columns are not divisible into " + std::to_string(heads) +
              " heads");
  return node.reshape(value, {shape[0], shape[1], heads, floordiv(shape[2], heads)});
}

std::vector<ir::ValueId> split(NodeContext& node, ir::ValueId value, int64_t axis,
                               std::vector<int64_t> sizes) {
  SplitAttrs attrs;
  attrs.axis = axis;
  attrs.sizes = std::move(sizes);
  const size_t count = attrs.sizes.size();
  return node.emit_all(OpKind::kSplit, {value}, encode(attrs), count);
}

// ---- Attention: one projection to q, k and v -------------------------------------------------

void check_attention(NodeContext& node) {
  if (node.attrs().flag("do_rotary", 0)) node.unsupported("it has do_rotary");
  node.attrs().ignore("rotary_embedding_dim");  // of do_rotary
  if (node.attrs().flag("past_present_share_buffer", 0) || node.has_input(6))
    node.unsupported("its past and present share a buffer");
}

std::vector<int64_t> projection_sizes(NodeContext& node, ir::ValueId weights) {
  if (const auto sizes = node.attrs().optional_integers("qkv_hidden_sizes")) {
    if (sizes->size() != 3) {
      node.fail("attribute 'qkv_hidden_sizes' has " + std::to_string(sizes->size()) +
                " items; expected 3");
    }
    return *sizes;
  }
  const auto columns = node.shape(weights)[1].as_constant();
  if (!columns) node.unsupported("the width of its weights is not constant");
  return {*columns / 3, *columns / 3, *columns - *columns / 3 * 2};
}

// past and present are [2, batch, heads, length, head_dim], keys before values.
void join_stacked_past(NodeContext& node, ir::ValueId past, Operands& operands) {
  std::array<ir::ValueId, 2> earlier{ir::kNoValue, ir::kNoValue};
  if (past != ir::kNoValue) {
    const SymShape s = node.shape(past);
    if (s.size() != 5) node.fail("past has shape " + str(s) + "; expected rank 5");
    const auto parts = split(node, past, 0, {1, 1});
    for (size_t i = 0; i < 2; ++i) earlier[i] = node.reshape(parts[i], {s[1], s[2], s[3], s[4]});
    operands.past = s[3];
  }
  const bool wanted = node.wants_output(1);
  const KeyValue k = join_past(node, operands.k, earlier[0], wanted);
  const KeyValue v = join_past(node, operands.v, earlier[1], wanted);
  operands.k = k.full;
  operands.v = v.full;
  if (!wanted) return;
  SymShape one = node.shape(k.present);
  one.insert(one.begin(), 1);
  node.set_output(
      1, node.emit(OpKind::kConcat, {node.reshape(k.present, one), node.reshape(v.present, one)},
                   AxisAttrs{0}));
}

// What Attention and QAttention have in different places.
struct Projected {
  ir::ValueId x, weights, bias, mask, past, added;  // the last three may be absent
};

void attend_projected(NodeContext& node, const Projected& in) {
  const int64_t heads = head_count(node);
  const ir::ValueId x = in.x, weights = in.weights, bias = in.bias;
  if (node.rank(x) != 3 || node.rank(weights) != 2) {
    node.fail("the input and the weights have shapes " + str(node.shape(x)) + " and " +
              str(node.shape(weights)) + "; expected ranks 3 and 2");
  }
  std::vector<ir::ValueId> linear{x, weights};
  if (bias != ir::kNoValue) linear.push_back(bias);
  const std::vector<int64_t> sizes = projection_sizes(node, weights);
  const ir::ValueId all = node.emit(OpKind::kLinear, std::move(linear), LinearAttrs{});
  const auto parts = split(node, all, 2, sizes);
  Operands operands{.q = split_heads(node, parts[0], heads),
                    .k = split_heads(node, parts[1], heads),
                    .v = split_heads(node, parts[2], heads)};
  operands.mask = in.mask;
  operands.bias = in.added;
  join_stacked_past(node, in.past, operands);
  attend(node, operands);
}

void translate_attention(NodeContext& node) {
  check_attention(node);
  attend_projected(node, {.x = node.input(0),
                          .weights = node.input(1),
                          .bias = node.optional_input(2),
                          .mask = node.optional_input(3),
                          .past = node.optional_input(4),
                          .added = node.optional_input(5)});
}

// The same of integers: their scales are inputs 3 and 4, their zero points 6 and 7.
void translate_quantized_attention(NodeContext& node) {
  if (node.attrs().flag("do_rotary", 0)) node.unsupported("it has do_rotary");
  if (node.attrs().flag("past_present_share_buffer", 0))
    node.unsupported("its past and present share a buffer");
  const auto real = [&](size_t value, int64_t axis) {
    QuantizeAttrs attrs;
    attrs.axis = axis;
    std::vector<ir::ValueId> inputs{node.input(value), node.input(value + 3)};
    if (const ir::ValueId zero = node.optional_input(value + 6); zero != ir::kNoValue)
      inputs.push_back(zero);
    return node.emit(OpKind::kDequantizeLinear, std::move(inputs), attrs);
  };
  attend_projected(node, {.x = real(0, 2),
                          .weights = real(1, 1),
                          .bias = node.input(2),
                          .mask = node.optional_input(5),
                          .past = node.optional_input(8),
                          .added = ir::kNoValue});
}

// ---- MultiHeadAttention: q, k and v are already projected ------------------------------------

// Parts of [batch, seq, heads, parts, head_dim], each [batch, seq, heads · head_dim].
std::vector<ir::ValueId> unpacked(NodeContext& node, ir::ValueId packed, int64_t count) {
  const SymShape s = node.shape(packed);
  auto parts = split(node, packed, 3, std::vector<int64_t>(static_cast<size_t>(count), 1));
  for (ir::ValueId& part : parts) part = node.reshape(part, {s[0], s[1], s[2] * s[4]});
  return parts;
}

// q, k and v [batch, seq, heads · head_dim] from each layout that the operator allows; keys and
// values of cross-attention may be [batch, heads, seq, head_dim].
std::array<ir::ValueId, 3> projected(NodeContext& node) {
  const ir::ValueId q = node.input(0);
  const ir::ValueId k = node.optional_input(1), v = node.optional_input(2);
  const int64_t rank_k = k == ir::kNoValue ? 0 : node.rank(k);
  const int64_t rank_v = v == ir::kNoValue ? 0 : node.rank(v);
  if (node.rank(q) == 5 && rank_k == 0 && rank_v == 0) {
    const auto parts = unpacked(node, q, 3);
    return {parts[0], parts[1], parts[2]};
  }
  if (node.rank(q) == 3 && rank_k == 5 && rank_v == 0) {
    const auto parts = unpacked(node, k, 2);
    return {q, parts[0], parts[1]};
  }
  if (node.rank(q) == 3 && (rank_k == 3 || rank_k == 4) && rank_v == rank_k) return {q, k, v};
  const auto shape = [&](ir::ValueId value) {
    return value == ir::kNoValue ? std::string("absent") : str(node.shape(value));
  };
  node.fail("query " + shape(q) + ", key " + shape(k) + " and value " + shape(v) +
            " are not a supported combination of shapes");
}

void check_multi_head(NodeContext& node) {
  if (node.has_input(8) || node.has_input(9))
    node.unsupported("its past and present share a buffer");
  if (node.has_input(6) != node.has_input(7))
    node.fail("past_key and past_value must both be given or both be absent");
}

// Adds the parts of the projections' bias; keys and values of rank 4 already include it.
void add_bias(NodeContext& node, ir::ValueId bias, std::array<ir::ValueId, 3>& qkv) {
  std::vector<int64_t> sizes;
  const bool projected_already = node.rank(qkv[1]) == 4;
  for (size_t i = 0; i < 3; ++i) {
    const SymShape& s = node.shape(qkv[i]);
    const auto width = (s.size() == 4 ? s[1] * s[3] : s[2]).as_constant();
    if (!width) node.unsupported("its bias covers sizes that are not constant");
    sizes.push_back(*width);
  }
  const auto parts = split(node, bias, 0, sizes);
  for (size_t i = 0; i < 3; ++i) {
    if (i == 0 || !projected_already) qkv[i] = node.emit(OpKind::kAdd, {qkv[i], parts[i]});
  }
}

void translate_multi_head_attention(NodeContext& node) {
  check_multi_head(node);
  const int64_t heads = head_count(node);
  std::array<ir::ValueId, 3> qkv = projected(node);
  if (const ir::ValueId bias = node.optional_input(3); bias != ir::kNoValue)
    add_bias(node, bias, qkv);
  for (ir::ValueId& value : qkv) {
    value = node.rank(value) == 4 ? node.transpose(value, {0, 2, 1, 3})
                                  : split_heads(node, value, heads);
  }
  Operands operands{.q = qkv[0], .k = qkv[1], .v = qkv[2]};
  operands.mask = node.optional_input(4);
  operands.bias = node.optional_input(5);
  const ir::ValueId past_key = node.optional_input(6), past_value = node.optional_input(7);
  if (past_key != ir::kNoValue) {
    if (node.rank(past_key) != 4 || node.rank(past_value) != 4)
      node.fail("past_key and past_value must have rank 4");
    operands.past = node.shape(past_key)[2];
  }
  const KeyValue k = join_past(node, operands.k, past_key, node.wants_output(1));
  const KeyValue v = join_past(node, operands.v, past_value, node.wants_output(2));
  operands.k = k.full;
  operands.v = v.full;
  node.set_output(1, k.present);
  node.set_output(2, v.present);
  attend(node, operands);
}

// ---- RotaryEmbedding -------------------------------------------------------------------------

// position_ids are [batch, seq], or one number: the first position.
void translate_rotary(NodeContext& node) {
  if (node.attrs().flag("is_packed_batching", 0)) node.unsupported("its batch is packed");
  if (node.attrs().number("scale", 1.0F) != 1) node.unsupported("it has a scale");
  RotaryInputs rotary{.x = node.input(0), .cos = node.input(2), .sin = node.input(3)};
  rotary.rotary_dim = node.attrs().integer("rotary_embedding_dim", 0);
  rotary.interleaved = node.attrs().flag("interleaved", 0);
  rotary.heads = node.attrs().integer("num_heads", 0);
  const SymShape shape = node.shape(rotary.x), table = node.shape(rotary.cos);
  if (table.size() != 2) node.fail("cos_cache has shape " + str(table) + "; expected rank 2");
  if (rotary.heads == 0 && shape.size() == 3) {  // the head size follows from the tables
    const auto heads = floordiv(shape[2], table[1] * Dim(2)).as_constant();
    if (!heads) node.unsupported("its head size is not constant");
    rotary.heads = *heads;
  }
  ir::ValueId places = node.input(1);
  if (node.rank(places) == 1) {
    if (shape.size() < 3) node.fail("input 0 has shape " + str(shape) + "; expected rank 3 or 4");
    const Dim length = shape[shape.size() == 3 ? 1 : 2];
    places = node.emit(OpKind::kAdd, {as_i64(node, node.reshape(places, {1, 1})),
                                      positions(node, 0, length, {1, length})});
  }
  for (ir::ValueId* cache : {&rotary.cos, &rotary.sin})
    *cache = node.emit(OpKind::kGather, {*cache, places}, AxisAttrs{0});
  node.set_output(0, rotate(node, rotary));
}

constexpr std::string_view kDomain = "com.microsoft";
constexpr std::array kRows{
    Translation{kDomain, "Attention", 1, translate_attention},
    Translation{kDomain, "QAttention", 1, translate_quantized_attention},
    Translation{kDomain, "MultiHeadAttention", 1, translate_multi_head_attention},
    Translation{kDomain, "RotaryEmbedding", 1, translate_rotary},
};

}  // namespace

std::span<const Translation> microsoft_attention_translations() { return kRows; }

}  // namespace vernier::onnx
