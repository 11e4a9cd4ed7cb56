// The ordered list of passes, the only one. Contract: pass.h.
#include <array>

#include "passes/pass.h"
#include "passes/passes.h"

namespace vernier::passes {

std::span<const Pass> pipeline() {
  static constexpr std::array kPasses{
      // name, phase, optional, function
      Pass{"infer", Phase::kRaise, false, &infer},
      Pass{"fold", Phase::kRaise, false, nullptr, nullptr, nullptr, &fold},
      Pass{"canonicalise", Phase::kRaise, false, &canonicalise},
      Pass{"layer_norm", Phase::kRaise, false, &raise_layer_norm},
      Pass{"rms_norm", Phase::kRaise, false, &raise_rms_norm},
      Pass{"gelu", Phase::kRaise, false, &raise_gelu},
      Pass{"linear", Phase::kRaise, false, &raise_linear},
      Pass{"raise_attention", Phase::kRaise, false, &raise_attention},
      Pass{"masked_mean", Phase::kRaise, false, &raise_masked_mean},
      Pass{"l2_norm", Phase::kRaise, false, &raise_l2_norm},
      // Raising leaves adjacent transposes and reshapes.
      Pass{"canonicalise_raised", Phase::kRaise, false, &canonicalise},
      Pass{"grouped_heads", Phase::kRaise, false, &raise_grouped_heads},
      // First, so that the weights that it leaves are constants for the passes below.
      Pass{"integer_products", Phase::kFuse, true, nullptr, &fold_weights, &multiply_as_integers},
      // Raising always runs, so that roles keep their meaning; `off` splits the composite again.
      Pass{"attention", Phase::kFuse, true, nullptr, &split_attention, &split_refused_attention},
      Pass{"transposed_elementwise", Phase::kFuse, true, &drop_transposes},
      Pass{"conv_batch_norm", Phase::kFuse, true, &fuse_conv_batch_norm},
      Pass{"embed_norm", Phase::kFuse, true, &fuse_embed_norm},
      // Before linear_residual: docs/decisions/0013-sums-belong-to-norms.md.
      Pass{"add_layer_norm", Phase::kFuse, true, &fuse_add_layer_norm},
      Pass{"qkv_merge", Phase::kFuse, true, &fuse_qkv},
      Pass{"linear_activation", Phase::kFuse, true, &fuse_linear_activation},
      Pass{"linear_residual", Phase::kFuse, true, &fuse_linear_residual},
      Pass{"linear_add_layer_norm", Phase::kFuse, true, nullptr, nullptr,
           &fuse_linear_add_layer_norm},
      Pass{"slice_early", Phase::kFuse, true, &slice_early},
      // Behind all that knows Linear.
      Pass{"quantize", Phase::kFuse, true, nullptr, nullptr, &quantize_linear},
      Pass{"weight_only", Phase::kFuse, true, nullptr, &fold_weights, &quantize_weights},
      // Behind all that makes nodes of tokens.
      Pass{"unpad", Phase::kFuse, true, &unpad},
      Pass{"elementwise_chain", Phase::kFuse, true, &fuse_elementwise},
  };
  return kPasses;
}

}  // namespace vernier::passes
