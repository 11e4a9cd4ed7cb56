// Inference of QuantizeLinear, DequantizeLinear and NegativeLogLikelihoodLoss. Contract: context.h;
// layouts at QuantizeAttrs and LossAttrs in core/attrs.h.
#include "rules/checks.h"

namespace vernier::rules {
namespace {

bool is_quantized_type(DType type) {
  if (is_small_float(type)) return type != DType::kF8E8M0;  // the type of scales
  return is_small_integer(type) || type == DType::kI8 || type == DType::kU8 ||
         type == DType::kI16 || type == DType::kU16;
}

// The scale fits x in one of the three layouts, and the zero point the scale.
void check_layout(InferContext& context, const QuantizeAttrs& attrs) {
  require_float(context, 1);
  const SymShape x = context.shape(0), scale = context.shape(1);
  if (attrs.block_size < 0)
    context.fail("block_size is " + std::to_string(attrs.block_size) + ", expected 0 or more");
  const bool one_number = scale.empty() || (scale.size() == 1 && scale[0] == Dim(1));
  if (attrs.block_size > 0) {
    if (scale.size() != x.size())
      context.fail("the scale has shape " + str(scale) + ", expected the rank of " + str(x) +
                   " for blocks");
    const size_t axis = context.normalize_axis(attrs.axis, context.rank(0));
    for (size_t i = 0; i < x.size(); ++i) {
      const Dim blocks = floordiv(x[i] + Dim(attrs.block_size - 1), attrs.block_size);
      context.unify(scale[i], i == axis ? blocks : x[i]);
    }
  } else if (!one_number) {
    require_rank(context, 1, 1);
    context.unify(scale[0], x[context.normalize_axis(attrs.axis, context.rank(0))]);
  }
  if (!context.has_input(2)) return;
  const SymShape zero = context.shape(2);
  const bool one_zero = zero.empty() || (zero.size() == 1 && zero[0] == Dim(1));
  if (one_number && one_zero) return;
  if (zero.size() != scale.size())
    context.fail("the zero point has shape " + str(zero) + ", the scale " + str(scale));
  for (size_t i = 0; i < zero.size(); ++i) context.unify(scale[i], zero[i]);
}

}  // namespace

void infer_quantize_linear(InferContext& context) {
  const auto attrs = context.attrs<QuantizeAttrs>();
  if (context.dtype(0) != DType::kI32) require_float(context, 0);
  check_layout(context, attrs);
  const DType type = attrs.dtype == DType::kUndefined ? DType::kU8 : attrs.dtype;
  if (!is_quantized_type(type))
    context.fail("quantizes to " + std::string(name(type)) +
                 ", expected a type of at most 16 bits");
  if (context.has_input(2) && context.dtype(2) != type) {
    context.fail("the zero point is " + std::string(name(context.dtype(2))) + ", the output " +
                 std::string(name(type)));
  }
  context.set_output(0, type, context.shape(0));
}

void infer_dequantize_linear(InferContext& context) {
  const auto attrs = context.attrs<QuantizeAttrs>();
  const DType from = context.dtype(0);
  if (!is_quantized_type(from) && from != DType::kI32)
    context.fail("input 0 is " + std::string(name(from)) + ", expected a quantized type or i32");
  check_layout(context, attrs);
  if (context.has_input(2)) require_same_type(context, 2);
  const DType type = attrs.dtype == DType::kUndefined ? context.dtype(1) : attrs.dtype;
  if (!is_float(type) || type == DType::kF8E8M0)
    context.fail("its output type is " + std::string(name(type)) + ", expected a float type");
  context.set_output(0, type, context.shape(0));
}

// scores [N, C, d...], targets [N, d...], weights [C] optional.
void infer_negative_log_likelihood(InferContext& context) {
  require_float(context, 0);
  const SymShape scores = context.shape(0), targets = context.shape(1);
  if (scores.size() < 2 || targets.size() + 1 != scores.size()) {
    context.fail("scores " + str(scores) + " and targets " + str(targets) +
                 ", expected [N, C, d...] and [N, d...]");
  }
  if (!is_integer(context.dtype(1)))
    context.fail("the targets are " + std::string(name(context.dtype(1))) + ", expected integers");
  for (size_t i = 0; i < targets.size(); ++i) context.unify(scores[i == 0 ? 0 : i + 1], targets[i]);
  if (context.has_input(2)) {
    require_same_type(context, 2);
    require_rank(context, 2, 1);
    context.unify(context.shape(2)[0], scores[1]);
  }
  const bool keeps = context.attrs<LossAttrs>().reduction == LossReduction::kNone;
  context.set_output(0, context.dtype(0), keeps ? targets : SymShape{});
}

}  // namespace vernier::rules
