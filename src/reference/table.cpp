// Which evaluator belongs to which operator: expanded from ops.def. Contract: core/evaluator.h.
#include <algorithm>
#include <array>

#include "core/evaluator.h"
#include "core/value_rules.h"

namespace vernier {
namespace reference {
#define OP(kind, min_in, max_in, max_out, flags, attrs, points, infer, eval, cost) \
  void eval(const EvalCall& call);
#include "ops/ops.def"
#undef OP
}  // namespace reference

namespace {

// True if no output has elements, and no input has elements that the operator may refuse. Other
// sizes may be arbitrarily large, so no loop over them may run.
bool is_nothing(OpKind op, const EvalCall& call) {
  if ((flags(op) & kDataDependent) != 0) return false;
  const auto is_empty = [](const EvalTensor& y) {
    return y.dtype == DType::kUndefined || y.elems() == 0;
  };
  if (!std::ranges::all_of(call.out, is_empty)) return false;
  const std::vector<ValueRule> rules = value_rules(op, call.attrs, call.in.size());
  return std::ranges::none_of(rules, [&](const ValueRule& rule) {
    const EvalTensor* checked = call.optional(static_cast<size_t>(rule.input));
    return checked != nullptr && checked->elems() > 0;
  });
}

template <OpKind kOp, EvalFn kEvaluate>
void evaluate(const EvalCall& call) {
  if (!is_nothing(kOp, call)) kEvaluate(call);
}

}  // namespace

EvalFn evaluator(OpKind kind) {
  static constexpr std::array<EvalFn, 256> kEvaluators{
#define OP(kind, min_in, max_in, max_out, flags, attrs, points, infer, eval, cost) \
  &evaluate<OpKind::k##kind, &reference::eval>,
#include "ops/ops.def"
#undef OP
  };
  return kEvaluators[static_cast<size_t>(kind)];
}

}  // namespace vernier
