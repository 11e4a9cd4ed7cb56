// The rows cuda.linear.tensor_cores and cuda.linear.plain, which any size and alignment can take
// and which stand last; and what the rows of Linear share. Kernels in linear_plain.cu.
#include "backend/cuda/kernels/linear_plain.h"

#include "backend/cuda/check.h"
#include "backend/cuda/kernels/linear.h"
#include "backend/cuda/kernels/product_numerics.h"

namespace vernier::backend::cuda {

WeightShape weight_shape(const Problem& problem) {
  const SymShape& shape = problem.inputs[1].shape;
  const int64_t first = shape[0].constant(), second = shape[1].constant();
  return problem.attrs_as<LinearAttrs>().trans_w ? WeightShape{second, first}
                                                 : WeightShape{first, second};
}

Support supports_constant_weight(const Problem& problem) {
  const Operand& weight = problem.inputs[1];
  if (weight.constant == nullptr) return no("the weight is not a constant");
  if (rank_of(weight) != 2) return no("the weight is not a matrix");
  if (weight.constant->elems() == 0) return no("the weight is empty");
  if (has(problem, 3) && str(problem.inputs[3].shape) != str(problem.outputs[0].shape))
    return no("the residual is broadcast");
  return yes();
}

Support is_type_or_f32(const Problem& problem, size_t input, DType type) {
  if (!has(problem, input)) return yes();
  const DType got = problem.inputs[input].dtype;
  if (got == type || got == DType::kF32) return yes();
  return no("input " + std::to_string(input) + " is " + std::string(name(got)) +
            ", this kernel takes " + std::string(name(type)) + " or f32");
}

int64_t rows_of(const TensorArg& x) { return elems_between(x, 0, x.rank - 1); }

namespace {

Support supports_any(const Problem& problem) {
  if (rank_of(problem.inputs[1]) != 2) return no("the weight is not a matrix");
  if (has(problem, 3) && str(problem.inputs[3].shape) != str(problem.outputs[0].shape))
    return no("the residual is broadcast");
  return yes();
}
Support supports_16(const Problem& problem) {
  const Support types = supports_tensor_cores(problem);
  return types ? supports_any(problem) : types;
}
Support supports_plain(const Problem& problem) {
  const Support types = supports_float_product(problem);
  return types ? supports_any(problem) : types;
}

LinearOperand operand(std::span<const TensorArg> operands, size_t i) {
  if (!has(operands, i)) return {};
  return {operands[i].data, operands[i].dtype};
}

template <bool kTensorCores>
void launch(const LaunchCall& call) {
  const auto attrs = decode<LinearAttrs>(call.attrs);
  const TensorArg &x = call.in[0], &y = call.out[0];
  check_cuda(launch_linear_plain({.x = operand(call.in, 0),
                                  .w = operand(call.in, 1),
                                  .bias = operand(call.in, 2),
                                  .residual = operand(call.in, 3),
                                  .y = operand(call.out, 0),
                                  .m = rows_of(x),
                                  .n = y.dim(-1),
                                  .k = static_cast<int>(x.dim(-1)),
                                  .trans_w = attrs.trans_w,
                                  .activation = static_cast<int>(attrs.activation)},
                                 kTensorCores, stream_of(call.execution)),
             "Linear");
}

}  // namespace

extern const KernelBody linear_tensor_cores, linear_plain;
constexpr KernelBody linear_tensor_cores{
    .supports = &supports_16,
    .numerics = &tensor_core_numerics,
    .launch = &launch<true>,
};
constexpr KernelBody linear_plain{
    .supports = &supports_plain,
    .numerics = &float_product_numerics,
    .launch = &launch<false>,
};

}  // namespace vernier::backend::cuda
