// OpDef: what the compiler knows of an operator, from its row in ops.def. Behaviour hangs here as
// function pointers; there is no switch over OpKind and no second list. The evaluator of an
// operator is core/evaluator.h's evaluator(kind), its attribute text core/op_attrs.h's.
#pragma once
#include "core/op_attrs.h"
#include "core/op_kind.h"
#include "ir/graph.h"
#include "ops/infer.h"
#include "ops/views.h"

namespace vernier::ops {

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

struct OpDef {
  OpKind kind;
  std::string_view name;
  int min_in, max_in;  ///< max −1: any number
  int max_out;         ///< −1: any number
  uint32_t flags;
  void (*infer)(InferContext&);
  Cost (*cost)(const CostCall&);
  LayoutFn layout;  ///< views only, else null
};

const OpDef& def(OpKind kind);

}  // namespace vernier::ops
