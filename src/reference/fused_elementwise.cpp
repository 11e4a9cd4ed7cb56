// FP64 evaluator of FusedElementwise: the program's instructions, one whole tensor at a time. Each
// result is an inner result (Rounding::inner); the last one also passes the point "out".
// Contract: FusedElementwiseAttrs in core/attrs.h, core/elementwise_program.h.
#include <algorithm>

#include "core/attrs.h"
#include "core/elementwise_program.h"
#include "reference/elementwise.h"

namespace vernier::reference {
namespace {

EvalTensor run_instruction(const Instruction& instruction,
                           std::span<const EvalTensor* const> values, const Rounding& rounding) {
  std::vector<const EvalTensor*> operands;
  std::vector<DType> types;
  Shape shape;
  for (int index : instruction.operands) {
    operands.push_back(values[index]);
    // Floats of several storage types are converted to registers of one type.
    const DType type = operands.back()->dtype;
    types.push_back(is_float(type) && type != DType::kF64 ? DType::kF32 : type);
    shape = broadcast_shape(shape, operands.back()->shape);
  }
  EvalTensor result(result_type(instruction, types), shape);
  evaluator(instruction.op)({instruction.attrs, operands, std::span(&result, 1), Rounding{}});
  for (double& v : result.f) v = rounding.inner(v);
  return result;
}

}  // namespace

void eval_fused_elementwise(const EvalCall& call) {
  const std::string text = decode<FusedElementwiseAttrs>(call.attrs).program;
  const std::vector<Instruction> program = parse_elementwise_program(text, call.in.size());
  std::vector<const EvalTensor*> values(call.in.begin(), call.in.end());
  std::vector<EvalTensor> results;
  results.reserve(program.size());  // `values` points into it
  for (const Instruction& instruction : program) {
    results.push_back(run_instruction(instruction, values, call.rounding));
    values.push_back(&results.back());
  }
  EvalTensor& y = call.out[0];
  const DType made = results.back().dtype;
  VERNIER_ASSERT(y.dtype == made || (is_float(y.dtype) && is_float(made)), text);
  VERNIER_ASSERT(y.shape == results.back().shape, text);
  y.f = std::move(results.back().f);
  y.i = std::move(results.back().i);
  for (double& v : y.f) v = call.rounding(0, v);
}

}  // namespace vernier::reference
