// The rows cuda.linear.narrow, of a few columns, and cuda.linear.tensor_cores and
// cuda.linear.plain, which take any size and alignment and are tried last; and what the rows
// of Linear share. Kernels in linear_narrow.cu and linear_plain.cu.
#include "backend/cuda/kernels/linear/linear_plain.h"

#include <algorithm>
#include <charconv>

#include "backend/cuda/check.h"
#include "backend/cuda/kernels/linear/linear.h"
#include "backend/cuda/kernels/linear/row_buckets.h"
#include "backend/cuda/product_numerics.h"
#include "core/threads.h"

namespace vernier::backend::cuda {

bool is_weight_transposed(const Problem& problem) {
  return problem.op == OpKind::kLinearAddLayerNorm ? problem.attrs_as<LinearNormAttrs>().trans_w
                                                   : problem.attrs_as<LinearAttrs>().trans_w;
}
WeightShape weight_shape(const Problem& problem) {
  const SymShape& shape = problem.inputs[1].shape;
  const int64_t first = shape[0].constant(), second = shape[1].constant();
  return is_weight_transposed(problem) ? WeightShape{second, first} : WeightShape{first, second};
}

std::string weight_layout(std::string_view kind, DType type, const WeightShape& shape) {
  return std::string(kind) + ' ' + std::string(name(type)) + " K=" + std::to_string(shape.k) +
         " N=" + std::to_string(shape.n);
}
WeightShape weight_shape_of(std::string_view layout) {
  const auto number = [layout](std::string_view key) {
    int64_t value = 0;
    const size_t at = layout.find(key);
    if (at != std::string_view::npos)
      std::from_chars(layout.data() + at + key.size(), layout.data() + layout.size(), value);
    return value;
  };
  return {number("K="), number("N=")};
}

Support supports_weight_matrix(const Problem& problem) {
  const Operand& weight = problem.inputs[1];
  if (!weight.is_constant()) return no("the weight is not a constant");
  if (rank_of(weight) != 2) return no("the weight is not a matrix");
  if (product(weight.shape) == Dim(0)) return no("the weight is empty");
  return yes();
}
Support supports_residual(const Problem& problem, size_t residual) {
  if (problem.has_input(residual) &&
      str(problem.inputs[residual].shape) != str(problem.outputs[0].shape))
    return no("the residual is broadcast");
  return yes();
}
Support supports_constant_weight(const Problem& problem) {
  const Support weight = supports_weight_matrix(problem);
  return weight ? supports_residual(problem, 3) : weight;
}

namespace {

template <class Bits>
void transpose(const std::byte* from, std::byte* to, int64_t rows, int64_t cols) {
  const auto* src = reinterpret_cast<const Bits*>(from);
  auto* dst = reinterpret_cast<Bits*>(to);
  // In blocks that stay in the cache.
  constexpr int64_t kBlock = 64, kLeastElems = int64_t{1} << 18;  // of a thread
  const int64_t blocks = (cols + kBlock - 1) / kBlock;
  in_parallel(blocks, std::max(int64_t{1}, kLeastElems / (rows * kBlock + 1)),
              [=](int64_t begin, int64_t end) {
                for (int64_t r0 = 0; r0 < rows; r0 += kBlock) {
                  for (int64_t c0 = begin * kBlock; c0 < end * kBlock; c0 += kBlock) {
                    for (int64_t c = c0; c < std::min(cols, c0 + kBlock); ++c) {
                      for (int64_t r = r0; r < std::min(rows, r0 + kBlock); ++r)
                        dst[c * rows + r] = src[r * cols + c];
                    }
                  }
                }
              });
}

}  // namespace

void transpose_weight(size_t elem_bytes, const std::byte* src, std::byte* dst, int64_t rows,
                      int64_t cols) {
  elem_bytes == 4   ? transpose<uint32_t>(src, dst, rows, cols)
  : elem_bytes == 2 ? transpose<uint16_t>(src, dst, rows, cols)
                    : transpose<uint8_t>(src, dst, rows, cols);
}

Support is_type_or_f32(const Problem& problem, size_t input, DType type) {
  if (!problem.has_input(input)) return yes();
  const DType got = problem.inputs[input].dtype;
  if (got == type || got == DType::kF32) return yes();
  return no("input " + std::to_string(input) + " is " + std::string(name(got)) +
            ", this kernel takes " + std::string(name(type)) + " or f32");
}

int64_t rows_of(const TensorArg& x) { return elems_between(x, 0, x.rank - 1); }

namespace {

Support supports_any(const Problem& problem) {
  if (rank_of(problem.inputs[1]) != 2) return no("the weight is not a matrix");
  if (problem.has_input(3) && str(problem.inputs[3].shape) != str(problem.outputs[0].shape))
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

Support supports_narrow(const Problem& problem) {
  Support support = supports_float_product(problem);
  if (support) support = supports_any(problem);
  if (!support) return support;
  if (problem.inputs[0].dtype != problem.inputs[1].dtype)
    return no("operands have different types");
  constexpr int64_t kMaxCols = 7;
  const SymShape& shape = problem.inputs[1].shape;
  const Dim& cols = shape[problem.attrs_as<LinearAttrs>().trans_w ? 0 : 1];
  if (!cols.is_constant() || cols.constant() > kMaxCols)
    return no("it has more than " + std::to_string(kMaxCols) + " columns");
  return yes();
}
Numerics narrow_numerics(const Problem& problem) {
  return is_16_bit_float(problem.inputs[0].dtype) ? tensor_core_numerics(problem)
                                                  : float_product_numerics(problem);
}

LinearOperand operand(std::span<const TensorArg> operands, size_t i) {
  if (!given(operands, i)) return {};
  return {operands[i].data, operands[i].dtype};
}

LinearPlain product_of(const LaunchCall& call) {
  const auto attrs = decode<LinearAttrs>(call.attrs);
  const TensorArg &x = call.in[0], &y = call.out[0];
  return {.x = operand(call.in, 0),
          .w = operand(call.in, 1),
          .bias = operand(call.in, 2),
          .residual = operand(call.in, 3),
          .y = operand(call.out, 0),
          .m = rows_of(x),
          .n = y.dim(-1),
          .k = static_cast<int>(x.dim(-1)),
          .trans_w = attrs.trans_w,
          .activation = static_cast<int>(attrs.activation)};
}
template <bool kTensorCores>
void launch(const LaunchCall& call) {
  check_cuda(launch_linear_plain(product_of(call), kTensorCores, stream_of(call.execution)),
             "Linear");
}
void launch_narrow(const LaunchCall& call) {
  check_cuda(launch_linear_narrow(product_of(call), stream_of(call.execution)), "Linear");
}

}  // namespace

extern const KernelBody linear_narrow, linear_tensor_cores, linear_plain;
constexpr KernelBody linear_narrow{
    .supports = &supports_narrow,
    .numerics = &narrow_numerics,
    .prepare = &prepare_rows,
    .launch = &launch_narrow,
};
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
