// Modules as the exporter writes them: see torch_modules.h.
#include "make_model/torch_modules.h"

#include <cmath>
#include <limits>
#include <numbers>

namespace vernier::make_model {
namespace {

constexpr double kNormDeviation = 0.2;  // of gains, around 1

Spread weight_spread(const LinearSizes& sizes) {
  return {.mean = 0, .deviation = linear_deviation(sizes.in), .outliers = sizes.outliers};
}

std::vector<onnx::NodeAttribute> perm(std::vector<int64_t> axes) {
  return {{"perm", std::move(axes)}};
}

}  // namespace

double linear_deviation(int64_t in) { return 0.6 / std::sqrt(static_cast<double>(in)); }

Sizes sizes_of(const Scope& scope, const Value& x) {
  const Value batch = scope.size(x, 0);
  return {batch, scope.size(x, 1)};
}

Value linear(const Scope& scope, const Value& x, const LinearSizes& sizes) {
  const Value bias = scope.parameter("bias", {sizes.out}, {.deviation = kBiasDeviation});
  const Value weight = scope.graph().weight(scope.graph().anonymous("MatMul"),
                                            {sizes.in, sizes.out}, weight_spread(sizes));
  return scope.op("Add", {bias, scope.op("MatMul", {x, weight})});
}

Value gemm(const Scope& scope, const Value& x, const LinearSizes& sizes, const Value& output) {
  const Value weight = scope.parameter("weight", {sizes.out, sizes.in}, weight_spread(sizes));
  const Value bias = scope.parameter("bias", {sizes.out}, {.deviation = kBiasDeviation});
  return scope.op("Gemm", {x, weight, bias},
                  {{"alpha", 1.0F}, {"beta", 1.0F}, {"transB", int64_t{1}}}, output);
}

Value layer_norm(const Scope& scope, const Value& x, const NormSizes& sizes) {
  const Value gain =
      scope.parameter("weight", {sizes.hidden},
                      {.mean = 1, .deviation = kNormDeviation, .outliers = sizes.outliers});
  const Value bias = scope.parameter("bias", {sizes.hidden}, {.deviation = kBiasDeviation});
  return scope.op("LayerNormalization", {x, gain, bias},
                  {{"axis", int64_t{-1}}, {"epsilon", sizes.epsilon}});
}

Value erf_gelu(const Scope& scope, const Value& x) {
  const Value scaled = scope.op("Div", {x, scope.number(std::numbers::sqrt2_v<float>)});
  const Value sum = scope.op("Add", {scope.op("Erf", {scaled}), scope.number(1)});
  const Value product = scope.op("Mul", {x, sum});
  return scope.op("Mul", {product, scope.number(0.5F)});
}

Value tanh_gelu(const Scope& scope, const Value& x) {
  const Value half = scope.op("Mul", {x, scope.number(0.5F)});
  const Value cube = scope.op("Pow", {x, scope.number(3)});
  const Value inner = scope.op("Add", {x, scope.op("Mul", {cube, scope.number(0.044715F)})});
  const auto factor = static_cast<float>(std::sqrt(2 / std::numbers::pi));
  const Value scaled = scope.op("Mul", {inner, scope.number(factor)});
  const Value sum = scope.op("Add", {scope.op("Tanh", {scaled}), scope.number(1)});
  return scope.op("Mul", {half, sum});
}

Value embedding(const Scope& scope, const Value& ids, int64_t rows, int64_t hidden) {
  return scope.op("Gather", {scope.parameter("weight", {rows, hidden}, embedding_spread()), ids});
}

Value split_heads(const Scope& scope, const Value& x, const Sizes& sizes, const Heads& heads) {
  const Value shape = scope.shape({sizes.batch, sizes.length, heads.heads, heads.size});
  return scope.op("Reshape", {x, shape}, {{"allowzero", int64_t{0}}});
}

Value attention(const Scope& scope, const AttentionInputs& inputs, const Sizes& sizes,
                const Heads& heads) {
  const Value q = scope.op("Transpose", {inputs.q}, perm({0, 2, 1, 3}));
  const Value v = scope.op("Transpose", {inputs.v}, perm({0, 2, 1, 3}));
  const Value k = scope.op("Transpose", {inputs.k}, perm({0, 2, 3, 1}));
  const auto scale = static_cast<float>(1 / std::sqrt(static_cast<double>(heads.size)));
  Value scores = scope.op("MatMul", {q, k});
  scores = scope.op("Mul", {scores, scope.number(scale)});
  scores = scope.op("Add", {scores, inputs.mask});
  const Value probabilities = scope.op("Softmax", {scores}, {{"axis", int64_t{-1}}});
  const Value context = scope.op("MatMul", {probabilities, v});
  const Value rows = scope.op("Transpose", {context}, perm({0, 2, 1, 3}));
  const Value shape = scope.shape({sizes.batch, sizes.length, heads.hidden()});
  return scope.op("Reshape", {rows, shape}, {{"allowzero", int64_t{0}}});
}

namespace {

// keep[batch][key] gathered at flat positions of shape [batch, 1, 1, key].
Value kept_keys(const Scope& scope, const Value& keep, const Value& batch_index,
                const Value& key_index) {
  const Value length =
      scope.op("Gather", {scope.op("Shape", {keep}), scope.integers({1})}, {{"axis", int64_t{0}}});
  const Value flat = scope.op("Flatten", {keep}, {{"axis", int64_t{2}}});
  const Value at = scope.op("Add", {key_index, scope.op("Mul", {batch_index, length})});
  const Value found = scope.op("Gather", {flat, at}, {{"axis", int64_t{0}}});
  const Value shape = scope.op("Shape", {at});
  const Value list =
      scope.op("Reshape", {found, scope.integers({-1})}, {{"allowzero", int64_t{0}}});
  const Value same = scope.op("Concat", {shape}, {{"axis", int64_t{0}}});
  const Value shaped = scope.op("Reshape", {list, same}, {{"allowzero", int64_t{0}}});
  return scope.op("Cast", {shaped}, {{"to", kToBool}});
}

}  // namespace

Mask attention_mask(const Scope& scope, const MaskInputs& inputs) {
  const bool padded = !inputs.keep.empty();
  const Value keep = padded ? scope.op("Cast", {inputs.keep}, {{"to", kToBool}}) : Value();
  const Value length = scope.size(inputs.x, 1);
  const Value keys = padded ? scope.size(keep, 1) : length;
  const Value batch = scope.size(inputs.x, 0);
  const Value batch_index = padded ? scope.unsqueeze(scope.range(batch), {1, 2, 3}) : Value();
  const Value row = scope.unsqueeze(scope.range(length), {0, 1, 3});
  const Value column =
      padded || inputs.causal ? scope.unsqueeze(scope.range(keys), {0, 1, 2}) : Value();
  Value seen;
  if (inputs.causal) {
    seen = scope.op("LessOrEqual", {column, row});
  } else {
    seen = scope.op("GreaterOrEqual", {row, scope.integer(0)});  // PyTorch's "sees everything"
  }
  if (padded) {
    const Value always = scope.op("ConstantOfShape", {scope.integers({})},
                                  {{"value", onnx::SmallArray{DType::kBool, {1}, {1}, {}}}});
    seen = scope.op("And", {always, scope.op("Cast", {seen}, {{"to", kToBool}})});
    seen = scope.op("And", {seen, kept_keys(scope, keep, batch_index, column)});
  }
  const Value everywhere = scope.expand(seen, {batch, int64_t{-1}, length, keys});
  const Value zero = scope.number(0), lowest = scope.number(std::numeric_limits<float>::lowest());
  return {scope.op("Where", {everywhere, zero, lowest}), {batch, length}};
}

}  // namespace vernier::make_model
