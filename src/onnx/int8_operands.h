// The operands of 8 bits of products in a Q/DQ model that Vernier wrote (qdq_model.h). Such a file
// says in its metadata which products are quantized, and the policy of the build that wrote it.
// Import reads their QuantizeLinear and DequantizeLinear as what they were written from: roundings
// of operands (docs/decisions/0017-int8-is-a-rounding.md), not operators of the model. Contract:
// docs/quantization.md "Q/DQ models for other runtimes".
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "onnx/onnx.pb.h"

namespace vernier::onnx {

/// What the metadata entry kInt8Key holds, as JSON.
struct Int8Metadata {
  struct Product {
    std::string output;    ///< of the product's node
    bool factors = false;  ///< a Mul before QuantizeLinear has the factors of x's columns
  };
  std::string policy;  ///< as precision/policy_file.h reads it
  std::vector<Product> products;
};

inline constexpr const char* kInt8Key = "vernier.int8";

/// Adds the entry to the model. Throws Error(kInput) for names that are not UTF-8.
void add_int8_metadata(proto::ModelProto& model, const Int8Metadata& metadata);
/// The model's entry; nothing if it has none. Throws Error(kInput) for one that is damaged or of
/// another version.
std::optional<Int8Metadata> find_int8_metadata(const proto::ModelProto& model);

/// MatMul(DequantizeLinear(QuantizeLinear(x·factors)), DequantizeLinear(w)) ⇒ MatMul(x, w), the
/// same of a Gemm: w in f32, and Graph::int8_operands for the node. `graph`: as imported.
///   requires: a product of `metadata`; both operands i8, or both f8e4m3; scales and zero points
///   that are constants; for x one scale, and one zero point of -127 … 127 (f8e4m3: 0, and it
///   saturates) in both nodes; for w one scale for each column and no zero points
/// Products that are no longer so stay as they are. Returns how many were taken.
int take_int8_operands(ir::Graph& graph, const Int8Metadata& metadata);

}  // namespace vernier::onnx
