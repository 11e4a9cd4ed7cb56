// All pass functions, one per file of this folder. Each changes the graph and returns the number of
// changes; formula and conditions are at the top of its file. Order: pipeline.cpp.
#pragma once
#include "passes/pass.h"

namespace vernier::passes {

// ---- before raising
int infer(ir::Graph& graph);
int fold(ir::Graph& graph);
int fold(ir::Graph& graph, const Watch& watch);  ///< checked before every evaluation
int canonicalise(ir::Graph& graph);

// ---- raise: one mathematical concept each
int raise_layer_norm(ir::Graph& graph);
int raise_rms_norm(ir::Graph& graph);
int raise_gelu(ir::Graph& graph);
int raise_linear(ir::Graph& graph);
int raise_attention(ir::Graph& graph);
int raise_grouped_heads(ir::Graph& graph);
int raise_masked_mean(ir::Graph& graph);
int raise_l2_norm(ir::Graph& graph);

// ---- fuse: after precision is decided
int split_attention(ir::Graph& graph);  ///< only with attention=off
/// Those with scores by relative position that the device has no kernel for.
int split_refused_attention(ir::Graph& graph, const PassOptions& options);
int drop_transposes(ir::Graph& graph);
int fuse_conv_batch_norm(ir::Graph& graph);
int fuse_embed_norm(ir::Graph& graph);
int fuse_add_layer_norm(ir::Graph& graph);
int fuse_qkv(ir::Graph& graph);
int fuse_linear_activation(ir::Graph& graph);
int fuse_linear_residual(ir::Graph& graph);
int fuse_linear_add_layer_norm(ir::Graph& graph, const PassOptions& options);
int multiply_as_integers(ir::Graph& graph, const PassOptions& options);
int quantize_linear(ir::Graph& graph, const PassOptions& options);
int fold_weights(ir::Graph& graph);
int fold_weights(ir::Graph& graph, const PassOptions& options);  ///< but held_weights()
int quantize_weights(ir::Graph& graph, const PassOptions& options);
int slice_early(ir::Graph& graph);
int unpad(ir::Graph& graph);
int fuse_elementwise(ir::Graph& graph);

}  // namespace vernier::passes
