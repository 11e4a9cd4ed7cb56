// The attribute structs of all operators that have attributes, as the IR, the FP64 evaluators and
// the kernels see them (ONNX spellings are translated at import). Contract: attr_codec.h.
// Axes are normalized at import or inference only where said; evaluators accept negative axes.
#pragma once
#include <string>
#include <vector>

#include "core/attr_codec.h"
#include "core/token_rule.h"

namespace vernier {

// ---- elementwise ---------------------------------------------------------------------------
/// LeakyRelu, Elu, Celu, ThresholdedRelu (alpha); Selu, HardSigmoid, Swish (alpha, beta as ONNX's
/// second parameter: Selu gamma, HardSigmoid beta).
struct ActivationAttrs {
  double alpha = 0, beta = 0;
  template <class V>
  void visit(V& v) {
    v("alpha", alpha);
    v("beta", beta);
  }
};
enum class GeluKind : uint8_t { kErf = 0, kTanh = 1 };
constexpr GeluKind last_value(GeluKind) { return GeluKind::kTanh; }
struct GeluAttrs {
  GeluKind kind = GeluKind::kErf;
  template <class V>
  void visit(V& v) {
    v("kind", kind);
  }
};
struct ModAttrs {
  bool fmod = false;
  template <class V>
  void visit(V& v) {
    v("fmod", fmod);
  }
};
struct BitShiftAttrs {
  bool left = true;
  template <class V>
  void visit(V& v) {
    v("left", left);
  }
};
struct IsInfAttrs {
  bool detect_negative = true, detect_positive = true;
  template <class V>
  void visit(V& v) {
    v("detect_negative", detect_negative);
    v("detect_positive", detect_positive);
  }
};
struct CastAttrs {
  DType to = DType::kF32;
  bool saturate = true;  ///< f8 targets only
  template <class V>
  void visit(V& v) {
    v("to", to);
    v("saturate", saturate);
  }
};
/// BitCast: the bits of `from` as a `to` of the same width. A typed graph has a narrower float of
/// its own for the input: it is taken as `from` first.
struct BitCastAttrs {
  DType from = DType::kF32, to = DType::kI32;
  template <class V>
  void visit(V& v) {
    v("from", from);
    v("to", to);
  }
};
/// A chain of elementwise operators run as one loop. `program` is one instruction per ';':
///   "Mul(%0,%1);Add(%2,%3)" — operand %i is input i for i < number of inputs, then the results of
/// the instructions in order; the last result is the output. Instruction attributes follow the
/// name in braces as the text form prints them: "Gelu{kind=1}(%0)".
struct FusedElementwiseAttrs {
  std::string program;
  template <class V>
  void visit(V& v) {
    v("program", program);
  }
};

// ---- one axis, several axes ----------------------------------------------------------------
struct AxisAttrs {  ///< Softmax, LogSoftmax, Hardmax, Concat, Gather, GatherElements, Flatten, …
  int64_t axis = 0;
  template <class V>
  void visit(V& v) {
    v("axis", axis);
  }
};
struct AxesAttrs {  ///< Squeeze, Unsqueeze; `given` false: Squeeze removes every size-1 axis
  std::vector<int64_t> axes;
  bool given = true;
  template <class V>
  void visit(V& v) {
    v("axes", axes);
    v("given", given);
  }
};
/// Reduce*: `axes` used when input 1 is absent; empty axes reduce all unless
/// `noop_with_empty_axes`.
struct ReduceAttrs {
  std::vector<int64_t> axes;
  bool keepdims = true;
  bool noop_with_empty_axes = false;
  template <class V>
  void visit(V& v) {
    v("axes", axes);
    v("keepdims", keepdims);
    v("noop_with_empty_axes", noop_with_empty_axes);
  }
};
struct ArgReduceAttrs {  ///< ArgMax, ArgMin
  int64_t axis = 0;
  bool keepdims = true, select_last_index = false;
  template <class V>
  void visit(V& v) {
    v("axis", axis);
    v("keepdims", keepdims);
    v("select_last_index", select_last_index);
  }
};
struct CumSumAttrs {  ///< CumSum, CumProd
  bool exclusive = false, reverse = false;
  template <class V>
  void visit(V& v) {
    v("exclusive", exclusive);
    v("reverse", reverse);
  }
};
struct TopKAttrs {
  int64_t axis = -1;
  bool largest = true, sorted = true;
  template <class V>
  void visit(V& v) {
    v("axis", axis);
    v("largest", largest);
    v("sorted", sorted);
  }
};
struct LpNormAttrs {
  int64_t axis = -1, p = 2;
  template <class V>
  void visit(V& v) {
    v("axis", axis);
    v("p", p);
  }
};

// ---- shapes and data movement --------------------------------------------------------------
struct TransposeAttrs {
  std::vector<int64_t> perm;  ///< always given (import writes the default explicitly)
  template <class V>
  void visit(V& v) {
    v("perm", perm);
  }
};
/// Reshape, Expand, ConstantOfShape without a shape input: the output shape is `shape`.
/// `has_shape` is true then, and false with a shape input. allowzero is Reshape's.
struct ShapeAttrs {
  SymShape shape;
  bool has_shape = false;
  bool allowzero = false;
  template <class V>
  void visit(V& v) {
    v("shape", shape);
    v("has_shape", has_shape);
    v("allowzero", allowzero);
  }
};
/// ConstantOfShape: the fill value and its type; shape as in ShapeAttrs.
struct ConstantOfShapeAttrs {
  DType dtype = DType::kF32;
  double value = 0;
  SymShape shape;
  bool has_shape = false;
  template <class V>
  void visit(V& v) {
    v("dtype", dtype);
    v("value", value);
    v("shape", shape);
    v("has_shape", has_shape);
  }
};
/// A small i64 tensor whose elements are size expressions; the host evaluates it once per shape.
/// `scalar`: rank 0 (one value), else rank 1.
struct ShapeValuesAttrs {
  SymShape values;
  DType dtype = DType::kI64;
  bool scalar = false;
  template <class V>
  void visit(V& v) {
    v("values", values);
    v("dtype", dtype);
    v("scalar", scalar);
  }
};
struct ShapeOfAttrs {  ///< ONNX Shape: sizes of axes [start, end)
  int64_t start = 0;
  int64_t end = INT64_MAX;
  template <class V>
  void visit(V& v) {
    v("start", start);
    v("end", end);
  }
};
struct SplitAttrs {
  int64_t axis = 0;
  int64_t num_outputs = 0;     ///< used when neither sizes nor input 1 are given
  std::vector<int64_t> sizes;  ///< empty: input 1, or equal parts
  template <class V>
  void visit(V& v) {
    v("axis", axis);
    v("num_outputs", num_outputs);
    v("sizes", sizes);
  }
};
/// A Slice with constant starts, axes and steps stores them here (`inline_starts`) and has no
/// inputs besides data: the output shape gives the counts. Otherwise inputs 1..4 as in ONNX 10+.
struct SliceAttrs {
  bool inline_starts = false;
  std::vector<int64_t> starts, axes, steps;  ///< starts non-negative when inline
  SymShape sizes;                            ///< output sizes of `axes` when inline
  template <class V>
  void visit(V& v) {
    v("inline_starts", inline_starts);
    v("starts", starts);
    v("axes", axes);
    v("steps", steps);
    v("sizes", sizes);
  }
};
struct GatherNDAttrs {
  int64_t batch_dims = 0;
  template <class V>
  void visit(V& v) {
    v("batch_dims", batch_dims);
  }
};
enum class ScatterReduction : uint8_t { kNone = 0, kAdd = 1, kMul = 2, kMin = 3, kMax = 4 };
constexpr ScatterReduction last_value(ScatterReduction) { return ScatterReduction::kMax; }
struct ScatterAttrs {  ///< ScatterElements (axis), ScatterND
  int64_t axis = 0;
  ScatterReduction reduction = ScatterReduction::kNone;
  template <class V>
  void visit(V& v) {
    v("axis", axis);
    v("reduction", reduction);
  }
};
struct TriluAttrs {
  bool upper = true;
  template <class V>
  void visit(V& v) {
    v("upper", upper);
  }
};
enum class PadMode : uint8_t { kConstant = 0, kReflect = 1, kEdge = 2, kWrap = 3 };
constexpr PadMode last_value(PadMode) { return PadMode::kWrap; }
struct PadAttrs {
  PadMode mode = PadMode::kConstant;
  template <class V>
  void visit(V& v) {
    v("mode", mode);
  }
};
struct CompressAttrs {
  int64_t axis = 0;
  bool flat = true;  ///< of all elements in row-major order; `axis` is not read
  template <class V>
  void visit(V& v) {
    v("axis", axis);
    v("flat", flat);
  }
};
struct UniqueAttrs {
  int64_t axis = 0;
  bool flat = true;    ///< as above
  bool sorted = true;  ///< false: in the order of the first occurrences
  template <class V>
  void visit(V& v) {
    v("axis", axis);
    v("flat", flat);
    v("sorted", sorted);
  }
};
/// Boxes are two opposite corners (y1, x1, y2, x2), or center and size (x, y, width, height).
struct NonMaxSuppressionAttrs {
  bool center_point_box = false;
  template <class V>
  void visit(V& v) {
    v("center_point_box", center_point_box);
  }
};
struct OneHotAttrs {
  int64_t axis = -1;
  template <class V>
  void visit(V& v) {
    v("axis", axis);
  }
};
struct EyeLikeAttrs {
  DType dtype = DType::kUndefined;  ///< undefined: that of the input
  int64_t k = 0;
  template <class V>
  void visit(V& v) {
    v("dtype", dtype);
    v("k", k);
  }
};
struct BlockSizeAttrs {  ///< DepthToSpace, SpaceToDepth; crd: column-row-depth order
  int64_t block_size = 1;
  bool crd = false;
  template <class V>
  void visit(V& v) {
    v("block_size", block_size);
    v("crd", crd);
  }
};
struct ReverseSequenceAttrs {  ///< 0 and 1 in either order
  int64_t batch_axis = 1, time_axis = 0;
  template <class V>
  void visit(V& v) {
    v("batch_axis", batch_axis);
    v("time_axis", time_axis);
  }
};

// ---- quantization and loss -----------------------------------------------------------------
/// QuantizeLinear (x, scale, zero_point) and DequantizeLinear (x, scale, zero_point). The scale is
/// one number, a list along `axis`, or of x's rank with one number per `block_size` elements along
/// `axis`. QuantizeLinear divides as ONNX does: the quotient is an f32, or an f64 where the scale
/// is one.
struct QuantizeAttrs {
  int64_t axis = 1, block_size = 0;
  DType dtype = DType::kUndefined;  ///< of the output; undefined: u8, or the scale's type
  bool saturate = true;             ///< f8 targets only
  template <class V>
  void visit(V& v) {
    v("axis", axis);
    v("block_size", block_size);
    v("dtype", dtype);
    v("saturate", saturate);
  }
};
enum class LossReduction : uint8_t { kNone = 0, kSum = 1, kMean = 2 };
constexpr LossReduction last_value(LossReduction) { return LossReduction::kMean; }
struct LossAttrs {  ///< NegativeLogLikelihoodLoss
  LossReduction reduction = LossReduction::kMean;
  bool ignores = false;  ///< targets equal to ignore_index are ignored
  int64_t ignore_index = 0;
  template <class V>
  void visit(V& v) {
    v("reduction", reduction);
    v("ignores", ignores);
    v("ignore_index", ignore_index);
  }
};

// ---- matrix products -----------------------------------------------------------------------
struct GemmAttrs {
  double alpha = 1, beta = 1;
  bool trans_a = false, trans_b = false;
  template <class V>
  void visit(V& v) {
    v("alpha", alpha);
    v("beta", beta);
    v("trans_a", trans_a);
    v("trans_b", trans_b);
  }
};
struct EinsumAttrs {
  std::string equation;
  template <class V>
  void visit(V& v) {
    v("equation", equation);
  }
};
enum class Activation : uint8_t { kNone = 0, kGeluErf = 1, kGeluTanh = 2, kRelu = 3, kTanh = 4 };
constexpr Activation last_value(Activation) { return Activation::kTanh; }
/// Linear: y = act(x·w + bias) (+ residual after act when given).  x [..., K], w [K, N] (or [N, K]
/// with trans_w), bias [N] optional, residual [..., N] optional.
struct LinearAttrs {
  Activation activation = Activation::kNone;
  bool trans_w = false;
  template <class V>
  void visit(V& v) {
    v("activation", activation);
    v("trans_w", trans_w);
  }
};
/// QuantizeRows: q = x·factor / scale + zero, the scale and zero of each row, [..., 1]:
///   low = min(x·factor, 0), high = max(x·factor, 0)
///   to q8:     scale = (high - low) / 254, zero = -(high + low) / 2 / scale
///   to f8e4m3: scale = max(high, -low) / 448; there is no zero, of output 2 neither
/// x [..., K], factor [K] optional (absent: 1). A row of zeros has scale, zero and q 0. Or with
/// scale and, of q8, zero as inputs 2 and 3, one number each, for all rows: then they are no
/// outputs, and what is beyond the type's largest number becomes that.
struct QuantizeRowsAttrs {
  DType to = DType::kQ8;
  template <class V>
  void visit(V& v) {
    v("to", to);
  }
};
/// QuantizedLinear: y = act((x − x_zero)·(w − w_zero)·x_scale·w_scale + bias) (+ residual). Inputs:
///   0 x [..., K], q8, i8 or u8, or f8e4m3
///   1 w [K, N] (or [N, K] with trans_w), q8, i8 or u8; of x f8e4m3 that type
///   2 x_scale, one number or [..., 1] 3 w_scale, one number or [N]
///   4 x_zero: of q8 a real number, or one for each row, [..., 1]; else one number of x's type
///   5 w_zero, one number or [N], w's type                                         (absent: 0)
///   6 bias [N] optional               7 residual [..., N] optional
/// A q8 or f8e4m3 weight is in units of w_scale. Where it is held as real numbers, packing rounds
/// it.
using QuantizedLinearAttrs = LinearAttrs;
/// WeightOnlyLinear: y = act(x·((w − zero)·scale) + bias) (+ residual). Inputs:
///   0 x [..., K], a float           1 w [K, N] (or [N, K] with trans_w), q8, q4, i8 or u8
///   2 scale, one number or [N]; with blocks [K / block_size rounded up, N]
///   3 zero, scale's shape or one number, w's type (absent: 0)
///   4 bias [N] optional             5 residual [..., N] optional
/// Rows k·block_size … of w share a scale; block_size 0: all rows do. With bits 4, i8 holds -8 … 7
/// and u8 holds 0 … 15. A q8 or q4 weight is in units of its scale. Where it is held as real
/// numbers, packing rounds it.
struct WeightOnlyLinearAttrs {
  Activation activation = Activation::kNone;
  bool trans_w = false;
  int64_t block_size = 0;
  int64_t bits = 8;
  template <class V>
  void visit(V& v) {
    v("activation", activation);
    v("trans_w", trans_w);
    v("block_size", block_size);
    v("bits", bits);
  }
};
/// LinearAddLayerNorm: y = LayerNorm(x·w + bias + residual)·scale + norm_bias over the last axis.
/// Inputs: x [..., K], w [K, N] (or [N, K] with trans_w), bias [N] optional, residual [..., N],
/// scale [N], norm_bias [N] optional.
struct LinearNormAttrs {
  bool trans_w = false;
  double epsilon = 1e-5;
  template <class V>
  void visit(V& v) {
    v("trans_w", trans_w);
    v("epsilon", epsilon);
  }
};
struct ConvAttrs {
  std::vector<int64_t> kernel_shape, strides, dilations,
      pads;  ///< empty: ones / zeros; pads begins then ends
  int64_t group = 1;
  int64_t auto_pad = 0;  ///< 0 NOTSET, 1 SAME_UPPER, 2 SAME_LOWER, 3 VALID
  std::vector<int64_t> output_padding, output_shape;  ///< ConvTranspose
  template <class V>
  void visit(V& v) {
    v("kernel_shape", kernel_shape);
    v("strides", strides);
    v("dilations", dilations);
    v("pads", pads);
    v("group", group);
    v("auto_pad", auto_pad);
    v("output_padding", output_padding);
    v("output_shape", output_shape);
  }
};
struct PoolAttrs {
  std::vector<int64_t> kernel_shape, strides, dilations, pads;
  int64_t auto_pad = 0;
  bool ceil_mode = false, count_include_pad = false;
  template <class V>
  void visit(V& v) {
    v("kernel_shape", kernel_shape);
    v("strides", strides);
    v("dilations", dilations);
    v("pads", pads);
    v("auto_pad", auto_pad);
    v("ceil_mode", ceil_mode);
    v("count_include_pad", count_include_pad);
  }
};
/// MaxPoolIndices: where the first maximum of each window of a MaxPool lies in the whole of x, row
/// by row, or with column_major the axes of a plane in the other order. −1: the window is all
/// padding.
struct PoolIndicesAttrs : PoolAttrs {
  bool column_major = false;
  template <class V>
  void visit(V& v) {
    PoolAttrs::visit(v);
    v("column_major", column_major);
  }
};

// ---- normalization, attention, embedding ---------------------------------------------------
struct NormAttrs {  ///< LayerNorm, RMSNorm, AddLayerNorm: over axes [axis, rank)
  int64_t axis = -1;
  double epsilon = 1e-5;
  template <class V>
  void visit(V& v) {
    v("axis", axis);
    v("epsilon", epsilon);
  }
};
struct GroupNormAttrs {  ///< GroupNormalization, InstanceNormalization (groups 0: one per channel)
  int64_t num_groups = 0;
  double epsilon = 1e-5;
  template <class V>
  void visit(V& v) {
    v("num_groups", num_groups);
    v("epsilon", epsilon);
  }
};
struct BatchNormAttrs {
  double epsilon = 1e-5;
  template <class V>
  void visit(V& v) {
    v("epsilon", epsilon);
  }
};
/// Attention: out = softmax(scale · q kᵀ + bias, masked) v, per batch and head.
/// Inputs (absent = none):
///   0 q [B, Sq, H, D]   1 k [B, Sk, Hk, D]   2 v [B, Sk, Hk, Dv]     (H a multiple of Hk)
///   3 bias, additive, float, broadcastable to [B, H, Sq, Sk]
///   4 keep, bool, broadcastable to [B, H, Sq, Sk]: scores where false become `fill`
///   5 cu_seqlens_q i32 [n+1]   6 cu_seqlens_k i32 [n+1]: variable length; then B is 1 and rows of
///     sequence i are [cu[i], cu[i+1]); causality applies within a sequence, bias and keep are read
///     at the packed rows (bias: unless bias_in_sequence), rows outside all sequences give 0
///   9 places [sequences, longest]: with 5 and 6; only its shape is read. No sequence has more than
///     `longest` keys, and each has just as many where all k have sequences · longest rows: then
///     the sequences are the rows of a dense batch
///   7 cos, 8 sin: rotary tables broadcastable to [B, S, 1, D]; applied to q and k before scaling
///   10 query_positions [B, Sq, H, P], 11 key_positions [B, Sk, H, P'], float: what relative
///     positions add to a score before it is scaled (DeBERTa's disentangled attention), for query i
///     and key j query_positions[i, .., query_buckets[i − j + Sk]] and
///     key_positions[j, .., key_buckets[i − j + Sk]]
///   12 query_buckets, 13 key_buckets: integers [Sq + Sk], each with its positions; with places
///     [sequences, longest] integers [2·longest], read at i − j + longest within a sequence
///   14 keep_queries, bool, broadcastable to [B, H, Sq, 1]: where false, keep is false for all keys
/// Output 0: [B, Sq, H, Dv].
struct AttentionAttrs {
  enum Input : size_t {
    kQ,
    kK,
    kV,
    kBias,
    kKeep,
    kStartsQ,
    kStartsK,
    kCosines,
    kSines,
    kPlaces,
    kQueryPositions,
    kKeyPositions,
    kQueryBuckets,
    kKeyBuckets,
    kKeepQueries
  };
  double scale = 1;
  bool causal = false;                  ///< key j is seen by query i iff j <= i + (Sk − Sq)
  double fill = -__builtin_huge_val();  ///< score where keep is false or causal hides the key
  bool zero_nan_rows = false;           ///< a NaN probability becomes 0 (exporters' IsNaN guard)
  /// Masks as ONNX Attention defines them: keep and causal add −inf to a score instead of replacing
  /// it by fill, so NaN stays NaN; if bias, keep and causal add −inf to all scores of a query, all
  /// its probabilities are 0.
  bool masks_add = false;
  bool rotary_interleaved = false;
  /// With places [sequences, longest]: bias is broadcastable to [1, H, longest, longest], and read
  /// at the places of query and key within their sequence.
  bool bias_in_sequence = false;
  /// If keep hides all keys of a query, its probabilities are 0.
  bool zero_hidden_rows = false;
  template <class V>
  void visit(V& v) {
    v("scale", scale);
    v("causal", causal);
    v("fill", fill);
    v("zero_nan_rows", zero_nan_rows);
    v("masks_add", masks_add);
    v("rotary_interleaved", rotary_interleaved);
    v("bias_in_sequence", bias_in_sequence);
    v("zero_hidden_rows", zero_hidden_rows);
  }
};
/// EmbedNorm: y = LayerNorm(sum_t table_t[ids_t]) over the last axis. Inputs: ids_0, table_0, …,
/// ids_{tables-1}, table_{tables-1}, scale [H], bias [H] optional. ids broadcast to one shape.
struct EmbedNormAttrs {
  int64_t tables = 1;
  double epsilon = 1e-5;
  template <class V>
  void visit(V& v) {
    v("tables", tables);
    v("epsilon", epsilon);
  }
};
/// L2Norm: y = x / max(√(sum of x² over the last axis), minimum).
struct L2NormAttrs {
  double minimum = 1e-12;
  template <class V>
  void visit(V& v) {
    v("minimum", minimum);
  }
};
/// TokenIndex: where the tokens of a padded batch lie, for steps that compute tokens only. Input 0:
/// a mask m [B, S] of integers, bool or float; what equals `padding` is padding. The tokens of a
/// row are what kept_of_row() keeps (core/token_rows.h): without the padding in front and behind
/// that is to be left out if nothing else is padding, else all S places.
/// Outputs, i32 but for the last:
///   0 rows [T]: b·S + s of token t, row by row; behind the last token 0
///   1 positions [T]: s of token t; behind the last token 0
///   2 starts [B + 1]: the first token of each row, and the number of all tokens
///   3 places [B, S]: the token at (b, s); of a place that is left out the first one of its row
///   4 ordinals [B + 1]: 0, 1, … B
///   5 kept [T], bool: token t is no padding; behind the last token false
/// Tokens beyond the first T are left out, with the starts behind them.
struct TokenIndexAttrs {
  int64_t padding = 0;    // these three first: rule_of() reads nothing behind them
  bool front = false;     ///< padding in front of a row's tokens is left out
  bool behind = true;     ///< padding behind them is
  SymShape tokens = {1};  ///< [T]
  template <class V>
  void visit(V& v) {
    visit_rule(v);
    v("tokens", tokens);
  }
  /// What a kernel needs of the encoded attributes; unlike decode(), it allocates nothing.
  static TokenRule rule_of(AttrView bytes) {
    detail::AttrReader reader{bytes};
    TokenIndexAttrs attrs{.tokens = {}};
    attrs.visit_rule(reader);
    return {attrs.padding, attrs.front, attrs.behind};
  }

 private:
  template <class V>
  void visit_rule(V& v) {
    v("padding", padding);
    v("front", front);
    v("behind", behind);
  }
};
/// ZeroPadding: y[b, s, …] = x[b, s, …] where the place (b, s) holds a token of the mask m [B, S],
/// as tokens_of_row() has them (core/token_rows.h), else 0. Input 0: x [B, S, …]; input 1: m. With
/// input 2, places [B, S] of a TokenIndex of m, x is packed, [1, T, …]: y[b, s, …] = x[0, p, …],
/// where p counts up from places[b, s] of the row's first token, if p lies before T, else 0.
struct ZeroPaddingAttrs {
  int64_t padding = 0;
  template <class V>
  void visit(V& v) {
    v("padding", padding);
  }
};
/// MaskedMean: y[b, h] = sum_s x[b, s, h]·m[b, s] / max(sum_s m[b, s], minimum). x [B, S, H], m [B,
/// S].
struct MaskedMeanAttrs {
  double minimum = 1e-9;
  template <class V>
  void visit(V& v) {
    v("minimum", minimum);
  }
};
// ---- recurrent -----------------------------------------------------------------------------
enum class RecurrentDirection : uint8_t { kForward = 0, kReverse = 1, kBidirectional = 2 };
constexpr RecurrentDirection last_value(RecurrentDirection) {
  return RecurrentDirection::kBidirectional;
}
/// The functions of x, with a = alpha and b = beta.
enum class RecurrentFunction : uint8_t {
  kSigmoid = 0,
  kTanh = 1,
  kRelu = 2,
  kAffine = 3,           ///< a·x + b
  kLeakyRelu = 4,        ///< x, or a·x below 0
  kThresholdedRelu = 5,  ///< x, or 0 below a
  kScaledTanh = 6,       ///< a·tanh(b·x)
  kHardSigmoid = 7,      ///< a·x + b, clamped to [0, 1]
  kElu = 8,              ///< x, or a·(eˣ − 1) below 0
  kSoftsign = 9,
  kSoftplus = 10,
};
constexpr RecurrentFunction last_value(RecurrentFunction) { return RecurrentFunction::kSoftplus; }
/// RNN, GRU, LSTM of G = 1, 3 (z, r, h), 4 (i, o, f, c) gates and D directions; formulas as in
/// ONNX. Inputs (absent = zeros, or whole sequences):
///   0 x [S, B, I]   1 w [D, G·H, I]   2 r [D, G·H, H]   3 bias [D, 2·G·H], of w then of r
///   4 lengths [B], in [0, S]: later steps of y are 0, and a reversed sequence begins at its end
///   5 initial_h [D, B, H]   6 initial_c [D, B, H] and 7 peepholes [D, 3·H] (i, o, f): LSTM
/// Outputs: 0 y [S, D, B, H]   1 the last h [D, B, H]   2 the last c [D, B, H], LSTM.
struct RecurrentAttrs {
  enum Input : size_t { kX, kW, kR, kBias, kLengths, kInitialH, kInitialC, kPeepholes };
  RecurrentDirection direction = RecurrentDirection::kForward;
  /// RecurrentFunction by number, and their parameters: for each direction RNN f, GRU f g, LSTM f g
  /// h. Always given.
  std::vector<int64_t> functions;
  std::vector<double> alpha, beta;
  double clip = __builtin_huge_val();  ///< operands of functions are clamped to [-clip, clip]
  bool linear_before_reset = false;    ///< GRU
  template <class V>
  void visit(V& v) {
    v("direction", direction);
    v("functions", functions);
    v("alpha", alpha);
    v("beta", beta);
    v("clip", clip);
    v("linear_before_reset", linear_before_reset);
  }
};
/// LinearAttention: a state S [D, Dv] per batch and key head is carried over the steps t,
///   S ← exp(decay)·S;   S ← S + k ⊗ v, or with beta S + beta·k ⊗ (v − Sᵀk);   out = scale·Sᵀq
/// Inputs (absent = none):
///   0 q [B, T, H, D]   1 k [B, T, Hk, D]   2 v [B, T, Hk, Dv]     (H a multiple of Hk)
///   3 the first S [B, Hk, D, Dv] (zeros)
///   4 decay, broadcastable to [B, T, Hk, D]   5 beta, broadcastable to [B, T, Hk]
/// Outputs: 0 [B, T, H, Dv]   1 the last S [B, Hk, D, Dv], of input 3's type if it is given.
struct LinearAttentionAttrs {
  enum Input : size_t { kQ, kK, kV, kState, kDecay, kBeta };
  double scale = 1;
  template <class V>
  void visit(V& v) {
    v("scale", scale);
  }
};

// ---- images ---------------------------------------------------------------------------------
enum class Interpolation : uint8_t { kNearest = 0, kLinear = 1, kCubic = 2 };
constexpr Interpolation last_value(Interpolation) { return Interpolation::kCubic; }
enum class Padding : uint8_t { kZeros = 0, kBorder = 1, kReflection = 2 };
constexpr Padding last_value(Padding) { return Padding::kReflection; }
struct GridSampleAttrs {
  Interpolation mode = Interpolation::kLinear;
  Padding padding = Padding::kZeros;
  bool align_corners = false;
  template <class V>
  void visit(V& v) {
    v("mode", mode);
    v("padding", padding);
    v("align_corners", align_corners);
  }
};
struct RoiAlignAttrs {
  bool half_pixel = true;  ///< false: corners without the shift of 0.5, regions of 1 pixel or more
  int64_t height = 1, width = 1;
  int64_t sampling_ratio = 0;  ///< samples per bin and axis; 0: one per pixel of the bin
  double spatial_scale = 1;
  /// The result is not the mean of a bin's samples, but the largest of their terms: of the pixels
  /// around each sample, each times its weight (as the reference of ONNX and ONNX Runtime).
  bool max = false;
  template <class V>
  void visit(V& v) {
    v("half_pixel", half_pixel);
    v("height", height);
    v("width", width);
    v("sampling_ratio", sampling_ratio);
    v("spatial_scale", spatial_scale);
    v("max", max);
  }
};
/// Resize; strings as in ONNX. Inputs x, roi, scales, sizes.
struct ResizeAttrs {
  Interpolation mode = Interpolation::kNearest;
  std::string coordinate_mode = "half_pixel", nearest_mode = "round_prefer_floor",
              aspect_policy = "stretch";
  double cubic_a = -0.75, extrapolation_value = 0;
  bool exclude_outside = false, antialias = false;
  std::vector<int64_t> axes;
  template <class V>
  void visit(V& v) {
    v("mode", mode);
    v("coordinate_mode", coordinate_mode);
    v("nearest_mode", nearest_mode);
    v("aspect_policy", aspect_policy);
    v("cubic_a", cubic_a);
    v("extrapolation_value", extrapolation_value);
    v("exclude_outside", exclude_outside);
    v("antialias", antialias);
    v("axes", axes);
  }
};

}  // namespace vernier
