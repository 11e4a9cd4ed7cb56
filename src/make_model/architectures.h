// The architectures of `vernier make-model`, each in its own file make_model_<family>.cpp.
#pragma once
#include <string>

#include "make_model/torch_modules.h"

namespace vernier::make_model {

/// What is made; sizes are checked before (make_model.cpp).
struct Geometry {
  std::string family;
  int64_t layers = 0, hidden = 0, heads = 0, ffn = 0;
  int64_t vocabulary = 0;  ///< rows of the word table; of vit: classes
  int64_t positions = 0;   ///< longest sequence
  Heads split() const { return {heads, hidden / heads}; }
};

/// bert and xlmr: a classifier with logits [batch, 1]. minilm: sentence_embedding [batch, hidden].
void make_encoder(TorchGraph& graph, const Geometry& geometry);
/// logits [batch, length, vocabulary]
void make_gpt2(TorchGraph& graph, const Geometry& geometry);
/// pixel_values [batch, 3, 224, 224] → logits [batch, classes]
void make_vit(TorchGraph& graph, const Geometry& geometry);

}  // namespace vernier::make_model
