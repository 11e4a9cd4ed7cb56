// Small checks that inference functions share: types, ranks, shapes that must fit another.
// All fail through InferContext::fail, naming the node.
#pragma once
#include "rules/context.h"
#include "rules/rules.h"

namespace vernier::rules {

/// Input `i` has the type of input `as`.
void require_same_type(InferContext& context, size_t i, size_t as = 0);
/// Input `i` is a float tensor.
void require_float(InferContext& context, size_t i);
void require_rank(InferContext& context, size_t i, int64_t rank);
/// Input `i` broadcasts to `target` without changing it: its sizes, aligned at the right, are 1 or
/// equal (unified).
void require_fits(InferContext& context, size_t i, const SymShape& target);
/// Runs `body`; an Error it throws is reported as the node's.
template <class Body>
auto with_node(InferContext& context, const Body& body) {
  try {
    return body();
  } catch (const Error& error) {
    context.fail(error.what());
  }
}

/// Bytes of all inputs and outputs, each once.
double tensor_bytes(const CostCall& call);

// Inference functions of ops.def that others build on.
void infer_same(InferContext& context);
void infer_broadcast(InferContext& context);

}  // namespace vernier::rules
