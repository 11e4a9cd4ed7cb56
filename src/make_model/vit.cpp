// ViT as PyTorch's exporter writes Hugging Face's ViTForImageClassification, at 224x224 pixels.
#include "make_model/architectures.h"

namespace vernier::make_model {
namespace {

constexpr float kEpsilon = 1e-12F;
constexpr int64_t kChannels = 3, kImage = 224, kPatch = 16;
constexpr int64_t kPatches = (kImage / kPatch) * (kImage / kPatch);

// Patches [batch, 3, 224, 224] → [batch, 196, hidden], by a convolution that steps by whole
// patches.
Value patches(const Scope& scope, const Value& pixels, const Geometry& g) {
  const Scope projection = scope.in("projection");
  const Value weight =
      projection.parameter("weight", {g.hidden, kChannels, kPatch, kPatch},
                           {.deviation = linear_deviation(kChannels * kPatch * kPatch)});
  const Value bias = projection.parameter("bias", {g.hidden}, {.deviation = kBiasDeviation});
  const std::vector<int64_t> patch{kPatch, kPatch};
  const Value planes = projection.op("Conv", {pixels, weight, bias},
                                     {{"dilations", std::vector<int64_t>{1, 1}},
                                      {"group", int64_t{1}},
                                      {"kernel_shape", patch},
                                      {"pads", std::vector<int64_t>{0, 0, 0, 0}},
                                      {"strides", patch}});
  const Value sizes = scope.op("Shape", {planes});
  const Value axes = scope.integers({0}), start = scope.integers({0});
  const Value leading = scope.op("Slice", {sizes, start, scope.integers({2}), axes});
  const Value shape = scope.op("Concat", {leading, scope.integers({-1})}, {{"axis", int64_t{0}}});
  const Value rows = scope.op("Reshape", {planes, shape}, {{"allowzero", int64_t{0}}});
  return scope.op("Transpose", {rows}, {{"perm", std::vector<int64_t>{0, 2, 1}}});
}

Value embeddings(const Scope& scope, const Geometry& g) {
  const Value batch = scope.size("pixel_values", 0);
  const Value rows = patches(scope.in("patch_embeddings"), "pixel_values", g);
  const Value token = scope.parameter("cls_token", {1, 1, g.hidden}, embedding_spread());
  const Value first = scope.expand(token, {batch, int64_t{-1}, int64_t{-1}});
  const Value all = scope.op("Concat", {first, rows}, {{"axis", int64_t{1}}});
  const Value positions =
      scope.parameter("position_embeddings", {1, kPatches + 1, g.hidden}, embedding_spread());
  return scope.op("Add", {all, positions});
}

Value self_attention(const Scope& scope, const Value& x, const Value& mask, const Geometry& g) {
  const Sizes sizes = sizes_of(scope, x);
  const auto project = [&](const char* module) {
    return split_heads(scope, linear(scope.in(module), x, {g.hidden, g.hidden}), sizes, g.split());
  };
  AttentionInputs inputs;
  inputs.q = project("q_proj");
  inputs.k = project("k_proj");
  inputs.v = project("v_proj");
  inputs.mask = mask;
  const Value context = attention(scope, inputs, sizes, g.split());
  return linear(scope.in("o_proj"), context, {g.hidden, g.hidden, true});
}

Value layer(const Scope& scope, const Value& x, const Value& mask, const Geometry& g) {
  const Value before = layer_norm(scope.in("layernorm_before"), x, {g.hidden, kEpsilon});
  const Value middle = scope.op("Add", {self_attention(scope.in("attention"), before, mask, g), x});
  const Value after = layer_norm(scope.in("layernorm_after"), middle, {g.hidden, kEpsilon});
  const Scope mlp = scope.in("mlp");
  const Value wide = linear(mlp.in("fc1"), after, {g.hidden, g.ffn});
  const Value narrow =
      linear(mlp.in("fc2"), erf_gelu(mlp.in("activation_fn"), wide), {g.ffn, g.hidden, true});
  return scope.op("Add", {narrow, middle});
}

}  // namespace

void make_vit(TorchGraph& graph, const Geometry& g) {
  const Scope root(graph), model = root.in("vit");
  graph.writer().add_input("pixel_values", DType::kF32, {"batch", kChannels, kImage, kImage});
  Value x = embeddings(model.in("embeddings"), g);
  const Mask mask = attention_mask(model, {x, ""});
  for (int64_t i = 0; i < g.layers; ++i)
    x = layer(model.in("layers." + std::to_string(i)), x, mask.additive, g);
  x = layer_norm(model.in("layernorm"), x, {g.hidden, kEpsilon});
  const Value first = root.op("Gather", {x, root.integer(0)}, {{"axis", int64_t{1}}});
  gemm(root.in("classifier"), first, {g.hidden, g.vocabulary}, "logits");
  graph.writer().add_output("logits", DType::kF32, {"batch", g.vocabulary});
}

}  // namespace vernier::make_model
