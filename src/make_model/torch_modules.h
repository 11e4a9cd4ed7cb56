// Modules of Transformers as PyTorch's exporter writes them: linear layers, norms, activations,
// attention in parts, masks. Shapes are those of PyTorch: x [batch, length, hidden].
#pragma once
#include "make_model/torch_graph.h"

namespace vernier::make_model {

// Trained-like spreads: a linear layer keeps the scale of its input, the rest is small around 0,
// and the gains of norms lie around 1.
double linear_deviation(int64_t in);
inline constexpr double kBiasDeviation = 0.05;
inline Spread embedding_spread() { return {.deviation = 0.05}; }

/// Batch and length as values of rank 0.
struct Sizes {
  Value batch, length;
};
Sizes sizes_of(const Scope& scope, const Value& x);

struct LinearSizes {
  int64_t in = 0, out = 0;
  bool outliers = false;  ///< it writes into a residual stream that has outlier channels
};
/// nn.Linear on more than two axes: MatMul with the transposed weight, then Add.
Value linear(const Scope& scope, const Value& x, const LinearSizes& sizes);
/// nn.Linear on two axes: Gemm. `output` renames the result (graph outputs).
Value gemm(const Scope& scope, const Value& x, const LinearSizes& sizes, const Value& output = "");

struct NormSizes {
  int64_t hidden = 0;
  float epsilon = 0;
  bool outliers = false;  ///< gains of the outlier channels are larger
};
Value layer_norm(const Scope& scope, const Value& x, const NormSizes& sizes);

/// nn.GELU() in parts: x · (erf(x / √2) + 1) · 0.5
Value erf_gelu(const Scope& scope, const Value& x);
/// gelu_new in parts: 0.5 · x · (1 + tanh(√(2/π) · (x + 0.044715 · x³)))
Value tanh_gelu(const Scope& scope, const Value& x);

/// An embedding table's rows at `ids`.
Value embedding(const Scope& scope, const Value& ids, int64_t rows, int64_t hidden);

struct Heads {
  int64_t heads = 0, size = 0;
  int64_t hidden() const { return heads * size; }
};
/// [batch, length, hidden] → [batch, length, heads, size]
Value split_heads(const Scope& scope, const Value& x, const Sizes& sizes, const Heads& heads);
/// softmax(q kᵀ/√size + mask) v, [batch, length, hidden]; q, k and v as split_heads() gives them.
/// `mask` is additive.
struct AttentionInputs {
  Value q, k, v, mask;
};
Value attention(const Scope& scope, const AttentionInputs& inputs, const Sizes& sizes,
                const Heads& heads);

/// What positions may see: 0 or f32's lowest number, f32 [batch, 1, length, length].
struct MaskInputs {
  Value x;     ///< hidden states
  Value keep;  ///< attention mask [batch, length], or "" for none
  bool causal = false;
};
struct Mask {
  Value additive;
  Sizes sizes;  ///< of x, on the way
};
Mask attention_mask(const Scope& scope, const MaskInputs& inputs);

}  // namespace vernier::make_model
