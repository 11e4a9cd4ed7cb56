// Inference shared by many operators (same type and shape, broadcasting) and the simple cost
// functions. Contract: context.h.
#include <algorithm>

#include "rules/checks.h"

namespace vernier::rules {

void infer_same(InferContext& context) {
  context.set_output(0, context.dtype(0), context.shape(0));
}

void infer_same_float(InferContext& context) {
  require_float(context, 0);
  infer_same(context);
}

namespace {

// Input 0 is an integer or bool tensor; the others have its type (infer_broadcast).
void require_bits(InferContext& context) {
  if (!is_float(context.dtype(0))) return;
  context.fail("input 0 has type " + std::string(name(context.dtype(0))) +
               ", expected an integer type or bool");
}

}  // namespace

void infer_same_integer(InferContext& context) {
  require_bits(context);
  infer_same(context);
}

void infer_identity(InferContext& context) {
  infer_same(context);
  if (auto values = context.values(0)) context.set_values(0, std::move(*values));
}

void infer_broadcast(InferContext& context) {
  SymShape shape = context.shape(0);
  for (size_t i = 1; i < context.num_inputs(); ++i) {
    if (context.dtype(i) != context.dtype(0)) {
      context.fail("input " + std::to_string(i) + " has type " +
                   std::string(name(context.dtype(i))) + ", expected " +
                   std::string(name(context.dtype(0))) + " as input 0");
    }
    shape = broadcast(context, shape, context.shape(i));
  }
  context.set_output(0, context.dtype(0), std::move(shape));
}

void infer_broadcast_float(InferContext& context) {
  require_float(context, 0);
  infer_broadcast(context);
}

void infer_broadcast_integer(InferContext& context) {
  require_bits(context);
  infer_broadcast(context);
}

Cost cost_none(const CostCall&) { return {}; }

Cost cost_elementwise(const CostCall& call) {
  Cost cost;
  double most = 0;  // a reduction reads its input, an expansion writes its output
  for (size_t i = 0; i < call.in.size(); ++i) {
    const auto count = static_cast<double>(num_elems(call.in[i]));
    cost.bytes += count * static_cast<double>(size_bytes(call.in_types[i]));
    most = std::max(most, count);
  }
  for (size_t i = 0; i < call.out.size(); ++i) {
    const auto count = static_cast<double>(num_elems(call.out[i]));
    cost.bytes += count * static_cast<double>(size_bytes(call.out_types[i]));
    cost.flops += count;
  }
  cost.flops = std::max(cost.flops, most);
  return cost;
}

}  // namespace vernier::rules
