// The rules of the operators, one row of ops.def each: which operands they take, their output types
// and shapes, and the cost of a node. There is no switch over OpKind and no second list.
#pragma once
#include <span>

#include "core/attr_codec.h"
#include "core/op_kind.h"
#include "core/tensor.h"
#include "rules/context.h"

namespace vernier::rules {

/// The operator's rule, from its row.
using Rule = void (*)(InferContext&);
Rule rule_of(OpKind kind);

/// Checks a node's operand counts against ops.def and applies its operator's rule.
void infer(InferContext& context);

/// Work of one node at concrete shapes.
struct Cost {
  double flops = 0;  ///< 2 per multiply-add, 1 per other arithmetic operation
  double bytes = 0;  ///< inputs read once plus outputs written once
};
struct CostCall {
  AttrView attrs;
  std::span<const Shape> in, out;
  std::span<const DType> in_types, out_types;
};
Cost cost(OpKind kind, const CostCall& call);

}  // namespace vernier::rules
