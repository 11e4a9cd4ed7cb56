// BERT, XLM-R and MiniLM as PyTorch's exporter writes Hugging Face's modules of these names.
#include "make_model/architectures.h"

namespace vernier::make_model {
namespace {

constexpr int64_t kPadding = 1;  // XLM-R's padding id; its positions start after it

using onnx::SmallArray;

bool is_xlmr(const Geometry& g) { return g.family == "xlmr"; }
float epsilon(const Geometry& g) { return is_xlmr(g) ? 1e-5F : 1e-12F; }

// 0, 1, … of `length` from a table that the module holds: buffer[:, :length]
Value leading(const Scope& scope, const Value& buffer, const Value& length) {
  const Value axis = scope.integers({1}), start = scope.integers({0});
  const Value end = scope.unsqueeze(length, {0});
  return scope.op("Slice", {buffer, start, end, axis, scope.integers({1})});
}

Value counting(const Scope& scope, int64_t count, int64_t step) {
  SmallArray numbers{DType::kI64, {1, count}, {}, {}};
  for (int64_t i = 0; i < count; ++i) numbers.integers.push_back(i * step);
  return scope.constant(std::move(numbers));
}

// Padding stays at its own position, the other tokens are counted from the next one.
Value xlmr_positions(const Scope& scope) {
  const Value padding = scope.op("Equal", {"input_ids", scope.integer(kPadding)});
  const Value token = scope.op("Cast", {scope.op("Not", {padding})}, {{"to", kToInt32}});
  const Value axis = scope.constant({DType::kI32, {}, {1}, {}});
  const Value counted = scope.op("Mul", {scope.op("CumSum", {token, axis}), token});
  const Value positions = scope.op("Cast", {counted}, {{"to", kToInt64}});
  return scope.op("Add", {positions, scope.integer(kPadding)});
}

struct Ids {
  Value positions, types;
  int64_t position_rows = 0, type_rows = 0;
};

Ids bert_ids(const Scope& scope, const Geometry& g) {
  const Value length = scope.size("input_ids", 1);
  const Value buffer = counting(scope, g.positions, 1);
  return {leading(scope, buffer, length), "token_type_ids", g.positions, 2};
}

Ids xlmr_ids(const Scope& scope, const Geometry& g) {
  const int64_t rows = g.positions + kPadding + 1;
  const Value positions = xlmr_positions(scope);
  const Value batch = scope.size("input_ids", 0), length = scope.size("input_ids", 1);
  const Value zeros = leading(scope, counting(scope, rows, 0), length);
  return {positions, scope.expand(zeros, {batch, length}), rows, 1};
}

Value embeddings(const Scope& scope, const Geometry& g) {
  const Ids ids = is_xlmr(g) ? xlmr_ids(scope, g) : bert_ids(scope, g);
  const Value words = embedding(scope.in("word_embeddings"), "input_ids", g.vocabulary, g.hidden);
  const Value types =
      embedding(scope.in("token_type_embeddings"), ids.types, ids.type_rows, g.hidden);
  const Value sum = scope.op("Add", {words, types});
  const Value positions =
      embedding(scope.in("position_embeddings"), ids.positions, ids.position_rows, g.hidden);
  const Value all = scope.op("Add", {sum, positions});
  return layer_norm(scope.in("LayerNorm"), all, {g.hidden, epsilon(g), true});
}

Value self_attention(const Scope& scope, const Value& x, const Mask& mask, const Geometry& g) {
  const auto project = [&](const char* module) {
    const Value projected = linear(scope.in(module), x, {g.hidden, g.hidden});
    return split_heads(scope, projected, mask.sizes, g.split());
  };
  AttentionInputs inputs;
  inputs.q = project("query");
  inputs.k = project("key");
  inputs.v = project("value");
  inputs.mask = mask.additive;
  return attention(scope, inputs, mask.sizes, g.split());
}

// LayerNorm(dense(y) + x)
Value add_and_norm(const Scope& scope, const Value& y, const Value& x, const Geometry& g,
                   int64_t width) {
  const Value dense = linear(scope.in("dense"), y, {width, g.hidden});
  return layer_norm(scope.in("LayerNorm"), scope.op("Add", {dense, x}),
                    {g.hidden, epsilon(g), true});
}

Value layer(const Scope& scope, const Value& x, const Mask& mask, const Geometry& g) {
  const Scope attention = scope.in("attention");
  const Value context = self_attention(attention.in("self"), x, mask, g);
  const Value middle = add_and_norm(attention.in("output"), context, x, g, g.hidden);
  const Scope inner = scope.in("intermediate");
  const Value wide = linear(inner.in("dense"), middle, {g.hidden, g.ffn});
  const Value active = erf_gelu(inner.in("intermediate_act_fn"), wide);
  return add_and_norm(scope.in("output"), active, middle, g, g.ffn);
}

Value first_token(const Scope& scope, const Value& x) {
  return scope.op("Gather", {x, scope.integer(0)}, {{"axis", int64_t{1}}});
}

void bert_head(const Scope& root, const Value& x, const Geometry& g) {
  const Scope pooler = root.in("bert").in("pooler");
  const Value dense = gemm(pooler.in("dense"), first_token(pooler, x), {g.hidden, g.hidden});
  const Value pooled = pooler.in("activation").op("Tanh", {dense});
  gemm(root.in("classifier"), pooled, {g.hidden, 1}, "logits");
}

void xlmr_head(const Scope& root, const Value& x, const Geometry& g) {
  const Scope head = root.in("classifier");
  const Value dense = gemm(head.in("dense"), first_token(head, x), {g.hidden, g.hidden});
  gemm(head.in("out_proj"), head.op("Tanh", {dense}), {g.hidden, 1}, "logits");
}

// The mean over kept tokens, as a vector of length 1.
void embedder_head(const Scope& root, const Value& x) {
  const Value mask = root.unsqueeze("attention_mask", {2});
  const Value keep = root.op("Cast", {mask}, {{"to", kToFloat}});
  const Value axes = root.integers({1});
  const onnx::NodeAttribute drop{"keepdims", int64_t{0}};
  const Value sum = root.op("ReduceSum", {root.op("Mul", {x, keep}), axes}, {drop});
  const Value count = root.op("ReduceSum", {keep, axes}, {drop});
  const Value mean = root.op("Div", {sum, root.op("Clip", {count, root.number(1e-9F), ""})});
  const Value norm =
      root.op("ReduceL2", {mean}, {{"axes", std::vector<int64_t>{1}}, {"keepdims", int64_t{1}}});
  const Value safe = root.op("Clip", {norm, root.number(1e-12F), ""});
  const Value wide = root.op("Expand", {safe, root.op("Shape", {mean})});
  root.op("Div", {mean, wide}, {}, "sentence_embedding");
}

}  // namespace

void make_encoder(TorchGraph& graph, const Geometry& g) {
  const Scope root(graph);
  const std::vector<onnx::NamedSize> tokens{"batch", "seq"};
  graph.writer().add_input("input_ids", DType::kI64, tokens);
  graph.writer().add_input("attention_mask", DType::kI64, tokens);
  if (!is_xlmr(g)) graph.writer().add_input("token_type_ids", DType::kI64, tokens);
  const Scope model = g.family == "minilm" ? root : root.in(is_xlmr(g) ? "roberta" : "bert");
  Value x = embeddings(model.in("embeddings"), g);
  const Mask mask = attention_mask(model, {x, "attention_mask"});
  for (int64_t i = 0; i < g.layers; ++i)
    x = layer(model.in("encoder").in("layer." + std::to_string(i)), x, mask, g);
  if (g.family == "minilm") {
    embedder_head(root, x);
    graph.writer().add_output("sentence_embedding", DType::kF32, {"batch", g.hidden});
    return;
  }
  is_xlmr(g) ? xlmr_head(root, x, g) : bert_head(root, x, g);
  graph.writer().add_output("logits", DType::kF32, {"batch", int64_t{1}});
}

}  // namespace vernier::make_model
