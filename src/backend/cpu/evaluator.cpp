// The last row of every operator: its naive FP64 evaluator as a kernel. Contract: per_op.h,
// core/evaluator.h. Converts operands to double or int64, evaluates, and rounds the results once.
// If exactly a narrow type is requested (compute==f16), it rounds at every rounding point as a
// device that computes in that type would: slow, for experiments with a precision.
#include "core/evaluator.h"

#include "backend/cpu/per_op.h"
#include "backend/elements.h"
#include "core/rounding.h"

namespace vernier::backend::cpu {
namespace {

void store(const EvalTensor& result, const TensorArg& t) {
  VERNIER_ASSERT(result.elems() == t.elems(), "evaluator changed its output's size");
  const auto width = static_cast<int64_t>(size_bytes(t.dtype));
  size_t next = 0;
  for_each_element(t, [&](int64_t at) {
    if (result.is_float())
      store_float(t.dtype, result.f[next++], t.data + at * width);
    else
      store_integer(t.dtype, result.i[next++], t.data + at * width);
  });
}

struct EvaluatorState final : KernelState {
  EvaluatorState(OpKind op, const Numerics& numerics) : rounding(rounding_of(op, numerics)) {}
  Rounding rounding;
};

void run_evaluator(OpKind op, const LaunchCall& call) {
  std::vector<EvalTensor> inputs(call.in.size());
  std::vector<const EvalTensor*> in(call.in.size(), nullptr);
  for (size_t i = 0; i < call.in.size(); ++i) {
    if (!given(call.in[i]) || (call.in[i].data == nullptr && call.in[i].elems() > 0)) continue;
    inputs[i] = loaded(call.in[i]);
    in[i] = &inputs[i];
  }
  std::vector<EvalTensor> out(call.out.size());
  for (size_t i = 0; i < call.out.size(); ++i) {
    if (given(call.out[i])) out[i] = shaped_like(call.out[i]);
  }
  const Rounding& rounding = static_cast<const EvaluatorState*>(call.state)->rounding;
  evaluator(op)({.attrs = call.attrs, .in = in, .out = out, .rounding = rounding});
  for (size_t i = 0; i < call.out.size(); ++i) {
    if (given(call.out[i]) && call.out[i].data != nullptr) store(out[i], call.out[i]);
  }
}

Support supports(const Problem&) { return yes(); }

bool is_operand(std::string_view point) {
  return point == "a" || point == "b" || point == "q" || point == "k" || point == "v";
}

// f64 throughout, except for types that are requested exactly.
Numerics numerics(const Problem& problem) {
  Numerics result = exact_numerics(problem);
  result.compute = result.accumulate = result.inner = DType::kF64;
  const Request& asked = problem.asked;
  const bool product = (flags(problem.op) & kProduct) != 0;
  const TypeRequest& besides = product ? asked.inner : asked.compute;
  if (asked.compute.exact) result.compute = asked.compute.type;
  if (asked.accumulate.exact) result.accumulate = asked.accumulate.type;
  if (asked.inner.exact) result.inner = asked.inner.type;
  const auto points = rounding_points(problem.op);
  for (size_t i = 0; i + 1 < points.size(); ++i) {
    const TypeRequest& type = product && is_operand(points[i]) ? asked.compute : besides;
    if (type.exact) result.points[i].type = type.type;
  }
  if (!points.empty() && besides.exact && !represents(besides.type, result.store))
    result.points[points.size() - 1].type = besides.type;
  return result;
}

template <OpKind kOp>
constexpr KernelBody kBody{
    .supports = &supports,
    .numerics = &numerics,
    .strided_inputs = kAllStrided,
    .create = [](const CreateCall& call) -> std::unique_ptr<KernelState> {
      return std::make_unique<EvaluatorState>(kOp, *call.numerics);
    },
    .launch = [](const LaunchCall& call) { run_evaluator(kOp, call); },
};

constexpr std::array<const KernelBody*, 256> kBodies{
#define OP(kind, ...) &kBody<OpKind::k##kind>,
#include "ops/ops.def"
#undef OP
};

}  // namespace

const KernelBody& evaluator_body(OpKind op) { return *kBodies[static_cast<size_t>(op)]; }

}  // namespace vernier::backend::cpu
