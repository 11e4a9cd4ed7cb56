// Writes a copy of a model whose products are quantized: QuantizeLinear and DequantizeLinear around
// their operands, everything else as it was. Contract: docs/quantization.md "Q/DQ models for other
// runtimes".
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "core/tensor.h"
#include "vernier/limits.h"

namespace vernier::onnx {

/// The oldest opset whose DequantizeLinear takes `type` (i8 or f8e4m3) and one scale for each
/// column.
int64_t oldest_qdq_opset(DType type);

/// Why a model of an older opset (0: none) cannot be written with operands of `type` (i8 or
/// f8e4m3), and what to do.
std::string opset_message(int64_t opset, DType type);

/// A MatMul or Gemm of the main graph, and its operands.
struct QdqProduct {
  size_t node = 0;             ///< its number in the file
  std::string name;            ///< for messages
  DType type = DType::kI8;     ///< of both operands in the file, or f8e4m3
  Tensor w;                    ///< w / factor: f8e4m3, or whole numbers of -127 … 127, i8 or q8
  bool trans_w = false;        ///< w is [N, K], else [K, N]
  Tensor w_scales;             ///< f32 [N]
  float x_scale = 1;           ///< positive
  int x_zero = 0;              ///< -127 … 127; of f8e4m3 0
  std::vector<float> factors;  ///< of x's K columns; empty: 1
};

struct QdqOptions {
  std::string policy;  ///< for those who read the model (int8_operands.h), as JSON
  /// Weights of this size in all go into "<file>.data": ONNX files are limited to 2 GiB.
  uint64_t external_from = uint64_t{1} << 30;
  Limits limits = {};  ///< max_bytes: of the two files as they are read and made
};

/// The model at `path`, of which `products` is not empty, with
///   x (· factors) → QuantizeLinear → DequantizeLinear → product   one for all that read x so
///   w in 8 bits → DequantizeLinear → product
/// in a new file. Nodes without a name get the one that Vernier calls them by. Weights that nobody
/// reads any longer are left out. External data are copied into the new file or its data file.
/// Throws Error(kInput): an opset before oldest_qdq_opset(), a product that is no MatMul or Gemm,
/// external data that are missing or that the new files would replace; Error(kMachine) where the
/// files cannot be written.
void write_qdq_model(const std::filesystem::path& path, const std::filesystem::path& to,
                     const std::vector<QdqProduct>& products, const QdqOptions& options);

}  // namespace vernier::onnx
