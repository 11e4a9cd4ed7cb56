// The fallback of mode int8: products that cost too much are kept in 16 bits, by measurement.
// Contract: docs/quantization.md "Fallback".
#pragma once
#include <map>
#include <string>
#include <vector>

#include "compile/pipeline.h"

namespace vernier::compiler {

struct Fallback {
  /// Of each ONNX node that is kept, by key: what was measured, for the ledger.
  std::map<std::string, std::string> why;
  std::vector<std::string> notes;
};

/// Measures what `job` would build of `model` in mode int8 (evaluate/product_errors.h) and adds
/// rules that keep products in 16 bits, those with the largest errors first, to its policy until
/// no output is off by more than options.int8_error. Products that a rule of the user's asks to be
/// int8 stay. A model that is too large to evaluate is not measured. The same model and options
/// give the same rules.
Fallback keep_fragile_products(const ir::Graph& model, Job& job);
/// Writes what was measured into the ledger.
void explain(const Fallback& fallback, plan::Plan& plan);

}  // namespace vernier::compiler
