// Translation of ONNX Attention and RotaryEmbedding (opset 23) and FlexAttention. Contract:
// node_context.h, translations.h; meaning of the graph's operator: AttentionAttrs in core/attrs.h.
#include "onnx/attention.h"

#include <array>
#include <cmath>
#include <limits>

#include "core/attrs.h"
#include "onnx/element_types.h"
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

// The type that softmax is asked to compute in, or q's where that is wide enough: softmax computes
// in f32 at least.
DType softmax_type(NodeContext& node, DType q) {
  const int64_t precision = node.attrs().integer("softmax_precision", 1);
  const DType asked = element_type(precision, "attribute 'softmax_precision'");
  if (!is_float(asked))
    node.fail("softmax_precision is " + std::string(name(asked)) + "; expected a float type");
  return asked == DType::kF64 ? asked : q;
}

ir::ValueId all_of(NodeContext& node, ir::ValueId a, ir::ValueId b) {
  return a == ir::kNoValue ? b : node.emit(OpKind::kAnd, {a, b});
}

// Which keys a query may see by their places: query i stands behind `past` keys, or, where the
// number of valid keys is given for each row, at the end of these.
class Places {
 public:
  Places(NodeContext& node, ir::ValueId q, ir::ValueId k, Dim past, ir::ValueId valid)
      : node_(node),
        queries_(node.shape(q)[1]),
        keys_(node.shape(k)[1]),
        past_(std::move(past)),
        batch_(node.shape(q)[0]) {
    if (valid != ir::kNoValue) valid_ = node.reshape(valid, {batch_, 1, 1, 1});
  }

  ir::ValueId causal() { return node_.emit(OpKind::kLessOrEqual, {keys(), queries()}); }
  /// At most so many keys before and behind the query's own place; below 0: any number.
  ir::ValueId window(int64_t left, int64_t right) {
    ir::ValueId keep = ir::kNoValue;
    const auto number = [this](int64_t n) {
      return node_.constant(Tensor::scalar(DType::kI64, static_cast<double>(n)));
    };
    if (left >= 0) {
      const ir::ValueId first = node_.emit(OpKind::kSub, {queries(), number(left)});
      keep = node_.emit(OpKind::kLessOrEqual, {first, keys()});
    }
    if (right >= 0) {
      const ir::ValueId last = node_.emit(OpKind::kAdd, {queries(), number(right)});
      keep = all_of(node_, keep, node_.emit(OpKind::kLessOrEqual, {keys(), last}));
    }
    return keep;
  }
  ir::ValueId valid() { return node_.emit(OpKind::kLess, {keys(), valid_}); }

 private:
  // By row where the numbers of keys are.
  ir::ValueId queries() {
    if (valid_ == ir::kNoValue) return positions(node_, past_, queries_, {queries_, 1});
    const ir::ValueId first = node_.emit(OpKind::kSub, {valid_, size_number(node_, queries_)});
    return node_.emit(OpKind::kAdd, {positions(node_, 0, queries_, {queries_, 1}), first});
  }
  ir::ValueId keys() { return positions(node_, 0, keys_, {1, keys_}); }

  NodeContext& node_;
  Dim queries_, keys_, past_, batch_;
  ir::ValueId valid_ = ir::kNoValue;  // [B, 1, 1, 1]
};

// ---- attention as products and a softmax, where its scores are read or capped, or its softmax is
// wider than its products

struct Parts {
  ir::ValueId q, k, v;     // [B, S, H, D]
  ir::ValueId bias, keep;  // or kNoValue
  double scale = 1, softcap = 0;
  DType softmax = DType::kF32;
};

// [B, Hk, …] as [B, heads, …]: each head several times.
ir::ValueId repeated_heads(NodeContext& node, ir::ValueId x, const Dim& heads) {
  const SymShape own = node.shape(x);
  if (own[1] == heads) return x;
  const Dim times = floordiv(heads, own[1]);
  const ir::ValueId apart = node.reshape(x, {own[0], own[1], 1, own[2], own[3]});
  const ShapeAttrs each{.shape = {own[0], own[1], times, own[2], own[3]}, .has_shape = true};
  return node.reshape(node.emit(OpKind::kExpand, {apart}, each), {own[0], heads, own[2], own[3]});
}

// Output 0 as [B, S, H, D]; sets output 3.
ir::ValueId attend_in_parts(NodeContext& node, const Parts& parts) {
  const int64_t mode = node.attrs().integer("qk_matmul_output_mode", 0);
  if (mode < 0 || mode > 3)
    node.fail("qk_matmul_output_mode is " + std::to_string(mode) + "; expected 0 to 3");
  const DType type = node.dtype(parts.q);
  const auto number = [&](double value) { return node.constant(Tensor::scalar(type, value)); };
  const ir::ValueId q = node.transpose(parts.q, {0, 2, 1, 3});
  const Dim heads = node.shape(q)[1];
  const ir::ValueId k = repeated_heads(node, node.transpose(parts.k, {0, 2, 3, 1}), heads);
  const ir::ValueId v = repeated_heads(node, node.transpose(parts.v, {0, 2, 1, 3}), heads);
  ir::ValueId scores =
      node.emit(OpKind::kMul, {node.emit(OpKind::kMatMul, {q, k}), number(parts.scale)});
  if (parts.softcap > 0) {
    const ir::ValueId part = node.emit(OpKind::kDiv, {scores, number(parts.softcap)});
    scores = node.emit(OpKind::kMul, {node.emit(OpKind::kTanh, {part}), number(parts.softcap)});
  }
  const double infinity = std::numeric_limits<double>::infinity();
  ir::ValueId bias = parts.bias;
  if (parts.keep != ir::kNoValue) {
    const ir::ValueId hides = node.emit(OpKind::kWhere, {parts.keep, number(0), number(-infinity)});
    bias = bias == ir::kNoValue ? hides : node.emit(OpKind::kAdd, {bias, hides});
  }
  const ir::ValueId masked =
      bias == ir::kNoValue ? scores : node.emit(OpKind::kAdd, {scores, bias});
  ir::ValueId probabilities =
      node.emit(OpKind::kSoftmax, {node.cast(masked, parts.softmax)}, AxisAttrs{-1});
  probabilities = node.cast(probabilities, type);
  if (bias != ir::kNoValue) {
    // A query that sees no key has no probabilities.
    const ir::ValueId most =
        node.emit(OpKind::kReduceMax, {bias}, ReduceAttrs{.axes = {-1}, .keepdims = true});
    const ir::ValueId none = node.emit(OpKind::kEqual, {most, number(-infinity)});
    probabilities = node.emit(OpKind::kWhere, {none, number(0), probabilities});
  }
  const std::array<ir::ValueId, 4> asked{scores, scores, masked, probabilities};
  node.set_output(3, node.wants_output(3) ? asked[static_cast<size_t>(mode)] : ir::kNoValue);
  return node.transpose(node.emit(OpKind::kMatMul, {probabilities, v}), {0, 2, 1, 3});
}

void translate_attention(NodeContext& node) {
  const ir::ValueId q_input = node.input(0);
  const DType type = node.dtype(q_input), softmax = softmax_type(node, type);
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
  const ir::ValueId valid = node.optional_input(6);
  if (valid != ir::kNoValue && past_key != ir::kNoValue)
    node.fail("nonpad_kv_seqlen (input 6) goes without past_key (input 4)");
  const KeyValue k =
      join_past(node, split_heads(node, node.input(1), kv_heads), past_key, node.wants_output(1));
  const KeyValue v =
      join_past(node, split_heads(node, node.input(2), kv_heads), past_value, node.wants_output(2));
  attrs.scale =
      node.attrs().has("scale") ? node.attrs().number("scale", 0) : default_scale(node, q);
  ir::ValueId bias = node.optional_input(3), keep = ir::kNoValue;
  if (bias != ir::kNoValue) {
    bias = padded_mask(node, bias, node.shape(k.full)[1]);
    if (node.dtype(bias) == DType::kBool) std::swap(bias, keep);
  }
  const Dim past = past_key == ir::kNoValue ? Dim(0) : node.shape(past_key)[2];
  Places places(node, q, k.full, past, valid);
  const int64_t left = node.opset() < 25 ? -1 : node.attrs().integer("left_window_size", -1);
  const int64_t right = node.opset() < 25 ? -1 : node.attrs().integer("right_window_size", -1);
  if (left >= 0 || right >= 0) keep = all_of(node, keep, places.window(left, right));
  if (valid != ir::kNoValue) keep = all_of(node, keep, places.valid());
  attrs.masks_add = attrs.causal || bias != ir::kNoValue || keep != ir::kNoValue;
  const double softcap = node.attrs().number("softcap", 0.0F);
  const bool in_parts = softcap > 0 || node.wants_output(3) || softmax != type;
  if (attrs.causal && (in_parts || valid != ir::kNoValue)) {
    keep = all_of(node, keep, places.causal());
    attrs.causal = false;
  }
  ir::ValueId context = ir::kNoValue;
  if (in_parts) {
    context = attend_in_parts(node, {q, k.full, v.full, bias, keep, attrs.scale, softcap, softmax});
  } else {
    node.attrs().ignore("qk_matmul_output_mode");  // of output 3
    align_causal(node, q, k.full, past, attrs, keep);
    context = node.emit(OpKind::kAttention, {q, k.full, v.full, bias, keep}, attrs);
  }
  const SymShape shape = node.shape(context);
  node.set_output(0, rank == 4 ? node.transpose(context, {0, 2, 1, 3})
                               : node.reshape(context, {shape[0], shape[1], shape[2] * shape[3]}));
  node.set_output(1, k.present);
  node.set_output(2, v.present);
}

// ---- FlexAttention of ai.onnx.preview: graphs of the model change scores and probabilities

// x, or what the graph of an attribute makes of it.
ir::ValueId modified(NodeContext& node, const std::string& attribute, ir::ValueId x) {
  if (!node.attrs().has(attribute)) return x;
  const std::vector<ir::ValueId> results = node.inline_graph(attribute, std::span(&x, 1));
  if (results.size() != 1)
    node.fail("graph '" + attribute + "' has " + std::to_string(results.size()) +
              " outputs; expected 1");
  const SymShape given = node.shape(x), got = node.shape(results[0]);
  bool fits = given.size() == got.size() && node.dtype(results[0]) == node.dtype(x);
  for (size_t axis = 0; fits && axis < given.size(); ++axis)
    fits = equal(given[axis], got[axis]) != false;
  if (!fits)
    node.fail("graph '" + attribute + "' gives " + std::string(name(node.dtype(results[0]))) +
              str(got) + "; expected " + std::string(name(node.dtype(x))) + str(given));
  return results[0];
}

// As the operator's function body: q and k are each scaled by √scale.
void translate_flex_attention(NodeContext& node) {
  for (size_t i = 0; i < 3; ++i) {
    if (node.rank(node.input(i)) != 4)
      node.fail("input " + std::to_string(i) + " has shape " + str(node.shape(node.input(i))) +
                "; expected rank 4");
  }
  const ir::ValueId q = node.input(0);
  const DType type = node.dtype(q);
  DType inner = type == DType::kF64 ? type : DType::kF32;
  if (node.attrs().has("softmax_precision"))
    inner = element_type(node.attrs().required_integer("softmax_precision"), "softmax_precision");
  if (!is_float(inner)) node.fail("softmax_precision is no float type");
  const double scale =
      node.attrs().has("scale") ? node.attrs().number("scale", 0) : default_scale(node, q);
  if (scale < 0) node.unsupported("its scale is negative");
  const Dim heads = node.shape(q)[1];
  const auto scaled = [&](ir::ValueId x) {
    const ir::ValueId root = node.constant(Tensor::scalar(type, std::sqrt(scale)));
    return node.emit(OpKind::kMul, {x, root});
  };
  const ir::ValueId k = node.transpose(repeated_heads(node, node.input(1), heads), {0, 1, 3, 2});
  const ir::ValueId v = repeated_heads(node, node.input(2), heads);
  const ir::ValueId products = node.emit(OpKind::kMatMul, {scaled(q), scaled(k)});
  const ir::ValueId scores = modified(node, "score_mod", node.cast(products, inner));
  const ir::ValueId probabilities = node.emit(OpKind::kSoftmax, {scores}, AxisAttrs{-1});
  const ir::ValueId weights = modified(node, "prob_mod", probabilities);
  const ir::ValueId y = node.emit(OpKind::kMatMul, {weights, node.cast(v, inner)});
  node.set_output(0, node.cast(y, type));
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
    Translation{"ai.onnx.preview", "FlexAttention", 1, translate_flex_attention},
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

ir::ValueId size_number(NodeContext& node, const Dim& size) {
  if (node.depends_on_data(size)) node.unsupported("a size of its operands depends on data");
  return node.emit(OpKind::kShapeValues, {}, ShapeValuesAttrs{.values = {size}, .scalar = true});
}

ir::ValueId positions(NodeContext& node, const Dim& first, const Dim& size, SymShape shape) {
  const ir::ValueId begin = size_number(node, first), end = size_number(node, first + size);
  const ir::ValueId range = node.emit(OpKind::kRange, {begin, end, size_number(node, Dim(1))});
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
