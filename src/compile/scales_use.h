// What a build takes of a scales file: the factors of its products, checked against the model, and
// what the user should know. Contract: docs/quantization.md "Scales files".
#pragma once
#include <string>
#include <vector>

#include "compile/scales.h"
#include "ir/graph.h"
#include "passes/pass.h"

namespace vernier::compiler {

/// Throws Error(kInput) where the file at `model_path` is not the one that the scales are of.
void check_scales_model(const Scales& scales, const std::string& file,
                        const std::string& model_path);
/// Throws Error(kInput) where the scales name a node that the model does not have.
void check_scales_names(const Scales& scales, const std::string& file, const ir::Graph& raised);
/// As a pass takes them.
passes::ColumnFactors column_factors(const Scales& scales);
/// The scales without what only a reader wants to know: what an engine records.
Scales recorded(const Scales& scales);

/// Follows a build: which of its products the scales know.
class ScalesUse {
 public:
  /// Both must outlive it.
  ScalesUse(const Scales& scales, const std::string& file)
      : scales_(scales), file_(file), factors_(column_factors(scales)) {}
  const passes::ColumnFactors& factors() const { return factors_; }
  /// A product that takes int8 operands. Throws Error(kInput) where the scales have another number
  /// of factors than x has channels.
  void take(const ir::Node& linear, const Tensor& weight);
  /// Products without factors, by name.
  std::vector<std::string> notes() const;

 private:
  const Scales& scales_;
  const std::string& file_;
  passes::ColumnFactors factors_;
  std::vector<std::string> missing_;
  int taken_ = 0;
};

}  // namespace vernier::compiler
