// Seeded small ONNX models for the precision contract: streams of [b, 6, 16] through what
// exporters write (Linear, Gemm, attention, norms, GELU, views, tables), with residuals and
// diamonds.
#pragma once
#include <random>
#include <string>
#include <vector>

#include "onnx/model_builder.h"

namespace vernier::precision::testing {

inline constexpr int64_t kSeq = 6, kWidth = 16, kVocabulary = 20;

/// What the generator knows about one ONNX node, without asking the compiler.
struct RandomNode {
  std::string name, op;
  std::string composite;  ///< "LayerNorm" or "Gelu" if it is part of one written in primitives
};

struct RandomModel {
  onnx::ModelBuilder builder{17};
  std::vector<RandomNode> nodes;
};

/// Inputs x f32 [b, 6, 16], ids i64 [b, 6], mask f32 [b, 1, 1, 6]; outputs y (and sometimes z).
/// The same state of `random` gives the same model.
RandomModel random_model(std::mt19937_64& random);

}  // namespace vernier::precision::testing
