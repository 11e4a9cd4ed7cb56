// How large values become because of a model's constants, known without data, and requests for f32
// where a narrower type cannot hold them. Contract: docs/precision.md "Constants that do not fit".
#pragma once
#include <string>
#include <vector>

#include "core/tensor_facts.h"
#include "ir/graph.h"

namespace vernier::precision {

/// The known range of a value: the finite constants of the graph propagated through arithmetic.
/// Everything that depends on data counts as a number in [0, 1], like a mask.
struct Reach {
  double least = 0, most = 1;
  double peak() const;
};
/// The ranges of a model's constants, read once for many requests of it.
class ConstantRanges {
 public:
  explicit ConstantRanges(const ir::Graph& model);
  /// Null for an array that is none of the model's.
  const Reach* find(const Tensor& constant) const { return known_.find(constant); }

 private:
  TensorFacts<Reach> known_;
};

/// By ValueId. Infinite constants are ignored: they are infinite in every type. `known`: of these
/// the ranges need not be read; may be null.
std::vector<Reach> constant_reach(const ir::Graph& graph, const ConstantRanges* known = nullptr);

/// Requests f32 for values whose constants exceed the requested type (with kRangeMargin): results
/// are stored, and products take their operands, in f32. Binds like the range audit, over the mode
/// and over floors of rules; exact rules (==) are kept. Needs the requests of ask_mode and
/// apply_rules. `known`: as above. Returns a note for each node that it raised.
std::vector<std::string> keep_constants_finite(ir::Graph& raised,
                                               const ConstantRanges* known = nullptr);

}  // namespace vernier::precision
