// Operands in plain types: see operands.h.
#include "backend/cuda/operands.h"

#include "backend/cuda/check.h"

namespace vernier::backend::cuda {
namespace {

// The bytes of a constant, wherever they are.
std::vector<std::byte> constant_bytes(const CreateCall& call, size_t i) {
  if (i >= call.constant_inputs.size() || call.constant_inputs[i].data == nullptr) return {};
  const TensorArg& arg = call.constant_inputs[i];
  std::vector<std::byte> bytes(static_cast<size_t>(arg.elems()) * size_bytes(arg.dtype));
  if (bytes.empty()) return bytes;
  const cudaStream_t stream = stream_of(call.execution);
  check_cuda(cudaMemcpyAsync(bytes.data(), arg.data, bytes.size(), cudaMemcpyDefault, stream),
             "reading a constant back");
  check_cuda(cudaStreamSynchronize(stream), "reading a constant back");
  return bytes;
}

template <class T, class Load>
std::vector<T> constant_values(const CreateCall& call, size_t i, const Load& load) {
  const std::vector<std::byte> bytes = constant_bytes(call, i);
  std::vector<T> values;
  if (bytes.empty()) return values;
  const DType type = call.constant_inputs[i].dtype;
  for (size_t at = 0; at < bytes.size(); at += size_bytes(type))
    values.push_back(load(type, bytes.data() + at));
  return values;
}

}  // namespace

Array array_of(const TensorArg& t) {
  Array a{t.data, t.dtype, t.rank, {}, {}};
  for (int i = 0; i < t.rank; ++i) {
    a.size[i] = t.dim(i);
    a.stride[i] = t.stride(i);
  }
  return a;
}

Array optional_array(std::span<const TensorArg> operands, size_t i) {
  return given(operands, i) ? array_of(operands[i]) : Array{};
}

std::vector<int64_t> constant_integers(const CreateCall& call, size_t i) {
  return constant_values<int64_t>(call, i, &load_integer);
}
std::vector<double> constant_floats(const CreateCall& call, size_t i) {
  return constant_values<double>(call, i, &load_float);
}

Support movable(const Problem& problem) {
  Support support = one_float_type(problem);
  return support ? support : all_up_to_f32(problem);
}

Numerics moving_numerics(const Problem& problem) {
  return one_float_type(problem) ? exact_numerics(problem) : f32_numerics(problem);
}

}  // namespace vernier::backend::cuda
