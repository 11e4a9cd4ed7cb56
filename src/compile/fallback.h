// The fallback of modes int8, w8 and w4: products that cost too much are kept in 16 bits (of w4, in
// w8), by measurement.
// Contract: docs/quantization.md "Fallback".
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "compile/pipeline.h"

namespace vernier::compiler {

struct Fallback {
  /// Of each ONNX node that is kept, by key: what was measured, for the ledger.
  std::map<std::string, std::string> why;
  std::vector<std::string> notes;
};

/// Measures what `job` would build of `model` in a mode that quantizes (evaluate/product_errors.h)
/// and adds rules that keep products in the wider type, those with the largest errors first, to its
/// policy until no output is off by more than options.int8_error. Products that a rule of the
/// user's asks to be quantized stay. A model that is too large to evaluate is not measured. The
/// same model and options give the same rules. `exact`: the job's plan of exact constants, where it
/// is made already.
Fallback keep_fragile_products(const ir::Graph& model, Job& job, std::optional<plan::Plan> exact);
/// Writes what was measured into the ledger.
void explain(const Fallback& fallback, plan::Plan& plan);

}  // namespace vernier::compiler
