// GPT-2 as PyTorch's exporter writes Hugging Face's GPT2LMHeadModel, without a cache.
#include "make_model/architectures.h"

namespace vernier::make_model {
namespace {

constexpr float kEpsilon = 1e-5F;

// GPT-2's Conv1D: a Gemm on [tokens, in] with the weight as it is used, [in, out].
Value conv1d(const Scope& scope, const Value& x, const LinearSizes& sizes) {
  const Sizes outer = sizes_of(scope, x);
  const Value width = scope.size(x, 2);
  const Value rows =
      scope.op("Reshape", {x, scope.shape({int64_t{-1}, width})}, {{"allowzero", int64_t{0}}});
  const Spread spread{
      .mean = 0, .deviation = linear_deviation(sizes.in), .outliers = sizes.outliers};
  const Value weight = scope.parameter("weight", {sizes.in, sizes.out}, spread);
  const Value bias = scope.parameter("bias", {sizes.out}, {.deviation = kBiasDeviation});
  const Value product = scope.op("Gemm", {rows, weight, bias}, {{"alpha", 1.0F}, {"beta", 1.0F}});
  return scope.op("Reshape", {product, scope.shape({outer.batch, outer.length, sizes.out})},
                  {{"allowzero", int64_t{0}}});
}

Value self_attention(const Scope& scope, const Value& x, const Value& mask, const Geometry& g) {
  const Value projected = conv1d(scope.in("c_attn"), x, {g.hidden, 3 * g.hidden});
  const std::vector<Value> parts = scope.split(projected, {g.hidden, g.hidden, g.hidden}, 2);
  const Sizes sizes = sizes_of(scope, parts[1]);
  AttentionInputs inputs;
  inputs.k = split_heads(scope, parts[1], sizes, g.split());
  inputs.v = split_heads(scope, parts[2], sizes, g.split());
  inputs.q = split_heads(scope, parts[0], sizes_of(scope, parts[0]), g.split());
  inputs.mask = mask;
  const Value context = attention(scope, inputs, sizes, g.split());
  return conv1d(scope.in("c_proj"), context, {g.hidden, g.hidden, true});
}

Value layer(const Scope& scope, const Value& x, const Value& mask, const Geometry& g) {
  const Value before = layer_norm(scope.in("ln_1"), x, {g.hidden, kEpsilon});
  const Value middle = scope.op("Add", {self_attention(scope.in("attn"), before, mask, g), x});
  const Scope mlp = scope.in("mlp");
  const Value after = layer_norm(scope.in("ln_2"), middle, {g.hidden, kEpsilon});
  const Value wide = conv1d(mlp.in("c_fc"), after, {g.hidden, g.ffn});
  const Value active = tanh_gelu(mlp.in("act"), wide);
  return scope.op("Add", {middle, conv1d(mlp.in("c_proj"), active, {g.ffn, g.hidden, true})});
}

}  // namespace

void make_gpt2(TorchGraph& graph, const Geometry& g) {
  const Scope root(graph), model = root.in("transformer");
  graph.writer().add_input("input_ids", DType::kI64, {"batch", "seq"});
  graph.writer().add_input("attention_mask", DType::kI64, {"batch", "seq"});
  const Value words = embedding(model.in("wte"), "input_ids", g.vocabulary, g.hidden);
  const Value positions = model.unsqueeze(model.range(model.size(words, 1)), {0});
  Value x = model.op("Add", {words, embedding(model.in("wpe"), positions, g.positions, g.hidden)});
  const Mask mask = attention_mask(model, {x, "attention_mask", true});
  for (int64_t i = 0; i < g.layers; ++i)
    x = layer(model.in("h." + std::to_string(i)), x, mask.additive, g);
  x = layer_norm(model.in("ln_f"), x, {g.hidden, kEpsilon});
  // The head is the word table transposed; the exporter stores it a second time.
  const Value head = graph.weight(graph.anonymous("MatMul"), {g.hidden, g.vocabulary},
                                  embedding_spread(), "transformer.wte.weight");
  root.in("lm_head").op("MatMul", {x, head}, {}, "logits");
  graph.writer().add_output("logits", DType::kF32, {"batch", "seq", g.vocabulary});
}

}  // namespace vernier::make_model
