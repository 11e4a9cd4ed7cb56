// The sites of a model: values that int8 products read, the products, and the steps of the FP32
// engine that read them too. Contract: docs/quantization.md "Calibration".
#pragma once
#include <string>
#include <vector>

#include "calibrate/choose.h"
#include "compile/pipeline.h"

namespace vernier::calibration {

struct Site {
  std::string x;                       ///< ONNX name; may be empty
  std::vector<std::string> products;   ///< as scales files name them
  std::vector<ProductWeight> weights;  ///< of the products, merged ones as one
  int64_t channels = 0;
  int32_t step = plan::kNone;  ///< of the FP32 plan: its first input is x
};

/// The sites of these products, in their order. Products that no step of `plan` computes as a
/// product of its own are left out, with a note.
std::vector<Site> sites_of(const std::vector<compiler::QuantizedProduct>& products,
                           const plan::Plan& plan, std::vector<std::string>& notes);

}  // namespace vernier::calibration
