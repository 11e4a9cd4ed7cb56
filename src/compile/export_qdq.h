// The Q/DQ model of `build --export-qdq`, and a build of such a model. Contract:
// docs/quantization.md "Q/DQ models for other runtimes".
#pragma once
#include <string>
#include <vector>

#include "compile/pipeline.h"
#include "onnx/qdq_model.h"

namespace vernier::compiler {

/// Before the work. Throws Error(kInput) where the options do not allow an export: no product can
/// be int8 or fp8, no static scales of int8, `model_path` itself would be replaced; Error(kMachine)
/// where the file cannot be written.
void check_export(const Job& job, const std::string& model_path);
/// After import. Throws Error(kInput) for a model whose opset is too old.
void check_export(const Job& job, const Compiled& imported);

/// A product as a build quantizes it.
struct TakenProduct {
  std::vector<passes::ProductName> names;  ///< of its ONNX nodes
  DType type = DType::kQ8;                 ///< or f8e4m3
  std::optional<passes::StaticRange> range = {};
};

/// Operands of the products that a build quantizes, as its engine has them. Throws Error(kInput)
/// where there are none, or where one cannot be written as Q/DQ: it is no MatMul or Gemm of f32 in
/// the main graph, its weight is not that of its node, or its scales are found at run time.
std::vector<onnx::QdqProduct> qdq_products(const ir::Graph& imported, const Job& job,
                                           const std::vector<TakenProduct>& taken);

/// Writes the model; returns what the user should know.
std::vector<std::string> write_export(const Job& job, const std::string& model_path,
                                      const std::vector<onnx::QdqProduct>& products);

/// Throws Error(kInput) for a model that an export wrote: it has scales, and takes no others.
void check_can_calibrate(const ir::Graph& imported, const std::string& model);

/// Of an imported model that an export wrote: takes its policy for `job`, unless the user gave a
/// mode or a policy; the rules of the options come behind it. Returns whether it did. Throws
/// Error(kInput) for a policy that is damaged, and for scales beside those of the model.
bool take_exported_policy(const ir::Graph& imported, Compiled& compiled, Job& job);

}  // namespace vernier::compiler
