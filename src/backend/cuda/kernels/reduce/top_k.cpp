// The TopK row of kernels.def; kernel in top_k.cu. Contract: TopKAttrs in core/attrs.h. k is the
// size of the outputs; `sorted` changes nothing: the result always is.
#include "backend/cuda/kernels/reduce/top_k.h"

#include "backend/cuda/body.h"
#include "backend/cuda/check.h"
#include "core/error.h"

namespace vernier::backend::cuda {
namespace {

Support supports_top_k(const Problem& problem) {
  const DType type = problem.inputs[0].dtype;
  if (!is_integer(type) && !is_float(type)) return no("no order of " + std::string(name(type)));
  if (size_bytes(type) == 1 && is_float(type)) return no("no order of " + std::string(name(type)));
  return one_float_type(problem);
}

/// Both outputs have one shape; one of them may be unwanted.
const TensorArg& any_output(std::span<const TensorArg> out) {
  return given(out, 0) ? out[0] : out[1];
}
int axis_of(AttrView attrs, const TensorArg& x) {
  return static_cast<int>(positive_axis(decode<TopKAttrs>(attrs).axis, x.rank));
}

std::unique_ptr<ShapeState> prepare_top_k(const PrepareCall& call) {
  const TensorArg& x = call.in[0];
  const int axis = axis_of(call.attrs, x);
  const int64_t k = any_output(call.out).dim(axis);
  if (k > x.dim(axis)) {
    throw Error(ErrorCode::kInput, "TopK: k = " + std::to_string(k) + " is more than the " +
                                       std::to_string(x.dim(axis)) + " elements of axis " +
                                       std::to_string(axis));
  }
  return workspace_only(top_k_workspace(array_of(x), axis, k));
}

BitOrder order_of(DType type) {
  if (is_float(type)) return BitOrder::kFloat;
  return is_signed_integer(type) ? BitOrder::kSigned : BitOrder::kUnsigned;
}
uint64_t infinity_of(DType type) {
  switch (type) {
    case DType::kF16:
      return 0x7c00;
    case DType::kBF16:
      return 0x7f80;
    case DType::kF32:
      return 0x7f800000;
    default:
      return 0x7ff0000000000000;
  }
}

void launch_top_k(const LaunchCall& call) {
  const TensorArg& x = call.in[0];
  const int axis = axis_of(call.attrs, x);
  check_cuda(top_k({.x = array_of(x),
                    .values = optional_array(call.out, 0),
                    .indices = optional_array(call.out, 1),
                    .axis = axis,
                    .k = any_output(call.out).dim(axis),
                    .largest = decode<TopKAttrs>(call.attrs).largest,
                    .order = order_of(x.dtype),
                    .infinity = infinity_of(x.dtype),
                    .scratch = call.workspace},
                   stream_of(call.execution)),
             "TopK");
}

}  // namespace

extern const KernelBody top_k_select;
constexpr KernelBody top_k_select{
    .supports = &supports_top_k,
    .numerics = &exact_numerics,
    .strided_inputs = 1,
    .prepare = &prepare_top_k,
    .launch = &launch_top_k,
};

}  // namespace vernier::backend::cuda
