// Translations of ONNX Runtime's fused encoder operators (domain com.microsoft) into the operators
// they were fused from, so that the passes see the same graph as without that fusion. Source:
// ONNX Runtime's docs/ContribOperators.md. Attention is in microsoft_attention.cpp. Contract:
// node_context.h, translations.h.
#include <algorithm>
#include <array>
#include <numeric>

#include "core/attrs.h"
#include "onnx/attention.h"
#include "onnx/translations.h"

namespace vernier::onnx {
namespace {

// ---- residual and norm ----------------------------------------------------------------------

constexpr float kEpsilon = 1e-12F;  // default of the norms

// norm(input + skip + bias), and the sum as output 3. Outputs 1 and 2 are for training.
void skip_norm(NodeContext& node, OpKind norm, std::vector<ir::ValueId> scales, ir::ValueId bias) {
  NormAttrs attrs;
  attrs.epsilon = node.attrs().number("epsilon", kEpsilon);
  ir::ValueId sum = node.emit(OpKind::kAdd, {node.input(0), node.input(1)});
  if (bias != ir::kNoValue) sum = node.emit(OpKind::kAdd, {sum, bias});
  scales.insert(scales.begin(), sum);
  node.set_output(0, node.emit(norm, std::move(scales), attrs));
  if (node.wants_output(3)) node.set_output(3, sum);
}

void translate_skip_layer_norm(NodeContext& node) {
  std::vector<ir::ValueId> scales{node.input(2)};
  if (node.has_input(3)) scales.push_back(node.input(3));
  skip_norm(node, OpKind::kLayerNorm, std::move(scales), node.optional_input(4));
}

void translate_skip_rms_norm(NodeContext& node) {
  skip_norm(node, OpKind::kRMSNorm, {node.input(2)}, node.optional_input(3));
}

// ---- embedding ------------------------------------------------------------------------------

// The number of tokens in each row that are not padding: ones of `mask` [batch, seq], i32 [batch].
ir::ValueId count_tokens(NodeContext& node, ir::ValueId mask) {
  const ir::ValueId one = node.constant(Tensor::scalar(node.dtype(mask), 1));
  const ir::ValueId real = node.emit(OpKind::kEqual, {mask, one});
  CastAttrs to_i32;
  to_i32.to = DType::kI32;
  ReduceAttrs over_row;
  over_row.axes = {1};
  over_row.keepdims = false;
  return node.emit(OpKind::kReduceSum, {node.emit(OpKind::kCast, {real}, to_i32)}, over_row);
}

// 0, 1, … for the columns of `ids`, as exporters write it: a slice of all positions of the table.
// For a table larger than any model's the positions are computed in each run.
ir::ValueId default_positions(NodeContext& node, ir::ValueId ids, ir::ValueId table) {
  constexpr int64_t kMaxListed = 1 << 17;
  const auto rows = node.shape(table)[0].as_constant();
  if (!rows) node.unsupported("its position table has no fixed number of rows");
  const Dim columns = node.shape(ids)[1];
  if (node.depends_on_data(columns)) node.unsupported("the number of its ids depends on data");
  if (*rows > kMaxListed) return positions(node, 0, columns, {columns});
  std::vector<int64_t> all(static_cast<size_t>(*rows));
  std::iota(all.begin(), all.end(), 0);
  const ir::ValueId end =
      node.emit(OpKind::kShapeValues, {}, ShapeValuesAttrs{.values = {columns}});
  return node.emit(OpKind::kSlice, {node.constant_i64(std::move(all)), node.constant_i64({0}), end},
                   SliceAttrs{});
}

// LayerNorm(words[ids] + positions[0, 1, …] + segments[segment ids])
void translate_embed_layer_norm(NodeContext& node) {
  const ir::ValueId ids = node.input(0), position_table = node.input(3);
  if (node.rank(ids) != 2 || node.rank(position_table) != 2)
    node.fail("input_ids and position_embedding must have rank 2");
  const auto look_up = [&](ir::ValueId table, ir::ValueId rows) {
    return node.emit(OpKind::kGather, {table, rows}, AxisAttrs{0});
  };
  ir::ValueId places = node.optional_input(8);
  if (places == ir::kNoValue) places = default_positions(node, ids, position_table);
  ir::ValueId sum =
      node.emit(OpKind::kAdd, {look_up(node.input(2), ids), look_up(position_table, places)});
  if (node.has_input(1) != node.has_input(4))
    node.fail("segment_ids and segment_embedding must both be given or both be absent");
  if (node.has_input(1))
    sum = node.emit(OpKind::kAdd, {sum, look_up(node.input(4), node.input(1))});
  NormAttrs attrs;
  attrs.epsilon = node.attrs().number("epsilon", kEpsilon);
  node.set_output(0, node.emit(OpKind::kLayerNorm, {sum, node.input(5), node.input(6)}, attrs));
  node.attrs().ignore("mask_index_type");  // of output 1, for inference of its shape
  const ir::ValueId mask = node.optional_input(7);
  if (node.wants_output(1)) {
    const ConstantOfShapeAttrs zeros{
        .dtype = DType::kI32, .shape = {node.shape(ids)[0]}, .has_shape = true};
    node.set_output(1, mask != ir::kNoValue ? count_tokens(node, mask)
                                            : node.emit(OpKind::kConstantOfShape, {}, zeros));
  }
  if (node.wants_output(2)) node.set_output(2, sum);
}

// ---- activations ----------------------------------------------------------------------------

ir::ValueId biased(NodeContext& node, ir::ValueId x, ir::ValueId bias) {
  return bias == ir::kNoValue ? x : node.emit(OpKind::kAdd, {x, bias});
}

template <GeluKind kKind>
void translate_gelu(NodeContext& node) {
  const ir::ValueId x = biased(node, node.input(0), node.optional_input(1));
  node.set_output(0, node.emit(OpKind::kGelu, {x}, GeluAttrs{kKind}));
}

void translate_gemm_fast_gelu(NodeContext& node) {
  const ir::ValueId product = node.emit(OpKind::kMatMul, {node.input(0), node.input(1)});
  const ir::ValueId x = biased(node, product, node.optional_input(2));
  node.set_output(0, node.emit(OpKind::kGelu, {x}, GeluAttrs{GeluKind::kTanh}));
}

// left · gelu(right) of the halves of x + bias.
void translate_bias_split_gelu(NodeContext& node) {
  const ir::ValueId x = biased(node, node.input(0), node.input(1));
  SplitAttrs halves;
  halves.axis = -1;
  halves.num_outputs = 2;
  const auto parts = node.emit_all(OpKind::kSplit, {x}, encode(halves), 2);
  const ir::ValueId gate = node.emit(OpKind::kGelu, {parts[1]}, GeluAttrs{GeluKind::kErf});
  node.set_output(0, node.emit(OpKind::kMul, {parts[0], gate}));
}

void translate_quick_gelu(NodeContext& node) {
  const ActivationAttrs attrs{.alpha = node.attrs().number("alpha", 1.702F)};
  node.set_output(0, node.emit(OpKind::kSwish, {node.input(0)}, attrs));
}

// ---- matrix product -------------------------------------------------------------------------

// The operand with its batch axes moved to the front (transBatch: [rows, batch…, cols]) and its
// matrices transposed (trans).
ir::ValueId operand(NodeContext& node, size_t index, const char* trans, const char* trans_batch) {
  const ir::ValueId x = node.input(index);
  const auto rank = static_cast<size_t>(node.rank(x));
  std::vector<int64_t> perm(rank);
  std::iota(perm.begin(), perm.end(), 0);
  if (node.attrs().flag(trans_batch, 0) && rank > 2)
    std::rotate(perm.begin(), perm.begin() + 1, perm.end() - 1);
  if (node.attrs().flag(trans, 0) && rank > 1) std::swap(perm[rank - 2], perm[rank - 1]);
  return std::is_sorted(perm.begin(), perm.end()) ? x : node.transpose(x, std::move(perm));
}

// alpha · a · b
void translate_fused_matmul(NodeContext& node) {
  const ir::ValueId a = operand(node, 0, "transA", "transBatchA");
  const ir::ValueId b = operand(node, 1, "transB", "transBatchB");
  ir::ValueId y = node.emit(OpKind::kMatMul, {a, b});
  if (const double alpha = node.attrs().number("alpha", 1.0F); alpha != 1)
    y = node.emit(OpKind::kMul, {y, node.constant(Tensor::scalar(node.dtype(y), alpha))});
  node.set_output(0, y);
}

constexpr std::string_view kDomain = "com.microsoft";
constexpr std::array kRows{
    Translation{kDomain, "SkipLayerNormalization", 1, translate_skip_layer_norm},
    Translation{kDomain, "SkipSimplifiedLayerNormalization", 1, translate_skip_rms_norm},
    Translation{kDomain, "EmbedLayerNormalization", 1, translate_embed_layer_norm},
    Translation{kDomain, "Gelu", 1, translate_gelu<GeluKind::kErf>},
    Translation{kDomain, "BiasGelu", 1, translate_gelu<GeluKind::kErf>},
    Translation{kDomain, "FastGelu", 1, translate_gelu<GeluKind::kTanh>},
    Translation{kDomain, "GemmFastGelu", 1, translate_gemm_fast_gelu},
    Translation{kDomain, "BiasSplitGelu", 1, translate_bias_split_gelu},
    Translation{kDomain, "QuickGelu", 1, translate_quick_gelu},
    Translation{kDomain, "FusedMatMul", 1, translate_fused_matmul},
};

}  // namespace

std::span<const Translation> microsoft_translations() { return kRows; }

}  // namespace vernier::onnx
