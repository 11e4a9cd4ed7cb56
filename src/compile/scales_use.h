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
/// Without those that are empty.
passes::StaticRanges static_ranges(const Scales& scales);
/// The scales without what only a reader wants to know: what an engine records.
Scales recorded(const Scales& scales);

/// Where the scales of operands come from.
enum class OperandScales { kByRow, kStatic };

/// Follows a build: which of its products the scales know.
class ScalesUse {
 public:
  /// Both must outlive it.
  ScalesUse(const Scales& scales, const std::string& file, OperandScales operands)
      : scales_(scales), file_(file), operands_(operands), factors_(column_factors(scales)) {
    if (operands == OperandScales::kStatic) ranges_ = static_ranges(scales);
  }
  const passes::ColumnFactors& factors() const { return factors_; }
  /// None where operands take the scales of their rows.
  const passes::StaticRanges& ranges() const { return ranges_; }
  /// A product of `graph` that takes int8 operands. Throws Error(kInput) where the scales have
  /// another number of factors than x has channels.
  void take(const ir::Graph& graph, const ir::Node& linear, const Tensor& weight);
  /// After all products: throws Error(kInput) where static scales were asked for and one of them
  /// has no range. It lists their operands.
  void check_ranges() const;
  /// Products without factors, by name.
  std::vector<std::string> notes() const;

 private:
  const Scales& scales_;
  const std::string& file_;
  OperandScales operands_;
  passes::ColumnFactors factors_;
  passes::StaticRanges ranges_;
  std::vector<std::string> missing_, without_range_;
  int taken_ = 0;
};

}  // namespace vernier::compiler
