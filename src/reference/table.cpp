// Which evaluator belongs to which operator: expanded from ops.def. Contract: core/evaluator.h.
#include <array>

#include "core/evaluator.h"

namespace vernier {
namespace reference {
#define OP(kind, min_in, max_in, max_out, flags, attrs, points, infer, eval, cost) \
  void eval(const EvalCall& call);
#include "ops/ops.def"
#undef OP
}  // namespace reference

EvalFn evaluator(OpKind kind) {
  static constexpr std::array<EvalFn, 256> kEvaluators{
#define OP(kind, min_in, max_in, max_out, flags, attrs, points, infer, eval, cost) &reference::eval,
#include "ops/ops.def"
#undef OP
  };
  return kEvaluators[static_cast<size_t>(kind)];
}

}  // namespace vernier
