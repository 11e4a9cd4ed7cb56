// Checks that inference functions share: see checks.h.
#include "rules/checks.h"

namespace vernier::rules {

void require_same_type(InferContext& context, size_t i, size_t as) {
  if (context.dtype(i) == context.dtype(as)) return;
  context.fail("input " + std::to_string(i) + " has type " + std::string(name(context.dtype(i))) +
               ", expected " + std::string(name(context.dtype(as))) + " as input " +
               std::to_string(as));
}

void require_float(InferContext& context, size_t i) {
  if (is_float(context.dtype(i))) return;
  context.fail("input " + std::to_string(i) + " has type " + std::string(name(context.dtype(i))) +
               ", expected a float type");
}

void require_rank(InferContext& context, size_t i, int64_t rank) {
  if (context.rank(i) == rank) return;
  context.fail("input " + std::to_string(i) + " has shape " + str(context.shape(i)) +
               ", expected rank " + std::to_string(rank));
}

void require_fits(InferContext& context, size_t i, const SymShape& target) {
  const SymShape shape = context.shape(i);
  const std::string mismatch = "input " + std::to_string(i) + " of shape " + str(shape) +
                               " does not broadcast to " + str(target);
  if (shape.size() > target.size()) context.fail(mismatch);
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    const Dim& wanted = target[target.size() - shape.size() + axis];
    if (shape[axis] == Dim(1)) continue;
    if (equal(shape[axis], wanted) == false) context.fail(mismatch);
    context.unify(shape[axis], wanted);
  }
}

double tensor_bytes(const CostCall& call) {
  double bytes = 0;
  for (size_t i = 0; i < call.in.size(); ++i)
    bytes += static_cast<double>(num_elems(call.in[i])) *
             static_cast<double>(size_bytes(call.in_types[i]));
  for (size_t i = 0; i < call.out.size(); ++i)
    bytes += static_cast<double>(num_elems(call.out[i])) *
             static_cast<double>(size_bytes(call.out_types[i]));
  return bytes;
}

}  // namespace vernier::rules
