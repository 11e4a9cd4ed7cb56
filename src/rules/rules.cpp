// The table of rules: see rules.h.
#include "rules/rules.h"

#include <array>

#include "rules/checks.h"

namespace vernier::rules {

#define OP(kind, min_in, max_in, max_out, flags, attrs, points, infer, eval, cost) \
  void infer(InferContext& context);                                               \
  Cost cost(const CostCall& call);
#include "ops/ops.def"
#undef OP

namespace {

struct Row {
  Rule infer;
  Cost (*cost)(const CostCall&);
};
constexpr std::array kRows{
#define OP(kind, min_in, max_in, max_out, flags, attrs, points, infer, eval, cost) \
  Row{&infer, &cost},
#include "ops/ops.def"
#undef OP
};

void check_arity(const InferContext& context) {
  const Arity expected = arity(context.op());
  const auto in = static_cast<int>(context.num_inputs());
  const auto out = static_cast<int>(context.num_outputs());
  if (in < expected.min_in || (expected.max_in >= 0 && in > expected.max_in)) {
    context.fail("has " + std::to_string(in) + " inputs, expected " +
                 std::to_string(expected.min_in) +
                 (expected.max_in < 0 ? " or more" : " to " + std::to_string(expected.max_in)));
  }
  if (expected.max_out >= 0 && out > expected.max_out) {
    context.fail("has " + std::to_string(out) + " outputs, expected at most " +
                 std::to_string(expected.max_out));
  }
  for (size_t i = 0; i < context.num_inputs(); ++i) {
    if (requires_input(context.op(), i) && !context.has_input(i))
      context.fail("required input " + std::to_string(i) + " is absent");
  }
}

}  // namespace

Rule rule_of(OpKind kind) { return kRows[static_cast<size_t>(kind)].infer; }

void infer(InferContext& context) {
  check_arity(context);
  try {
    rule_of(context.op())(context);
    check_values(context);
  } catch (const Refusal&) {
    throw;
  } catch (const Error& error) {
    // Errors of sizes and attributes (overflow, division by zero) get the node's name.
    if (error.code() != ErrorCode::kInput) throw;
    context.fail(error.what());
  }
}

Cost cost(OpKind kind, const CostCall& call) { return kRows[static_cast<size_t>(kind)].cost(call); }

}  // namespace vernier::rules
