// Operands as device code takes them: see body.h.
#include "backend/cuda/body.h"

#include <bit>

#include "backend/cuda/check.h"

namespace vernier::backend::cuda {

static_assert(kMaxAxes == kMaxRank);

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

Divisor divisor_of(int64_t size) {
  VERNIER_ASSERT(size >= 1 && size <= int64_t{1} << 31);
  const auto d = static_cast<uint64_t>(size);
  const auto shift = static_cast<uint32_t>(std::bit_width(d - 1));  // 2^shift >= d
  const uint64_t magic = ((uint64_t{1} << 32) * ((uint64_t{1} << shift) - d)) / d + 1;
  return {static_cast<uint32_t>(d), static_cast<uint32_t>(magic), shift};
}

StridedIndex strided_index(std::span<const int64_t> sizes, std::span<const int64_t> strides) {
  StridedIndex index;
  int64_t count = 1;
  for (size_t i = 0; i < sizes.size(); ++i) {
    count *= sizes[i];
    if (sizes[i] == 1) continue;
    const int last = index.axes - 1;
    if (last >= 0 && index.strides[last] == strides[i] * sizes[i]) {
      index.sizes[last] *= sizes[i];
      index.strides[last] = strides[i];
      continue;
    }
    VERNIER_ASSERT(index.axes < kMaxAxes);
    index.sizes[index.axes] = sizes[i];
    index.strides[index.axes] = strides[i];
    ++index.axes;
  }
  index.is_small = count < int64_t{1} << 31;
  for (int i = 0; i < index.axes && index.is_small && count > 0; ++i)
    index.divisors[i] = divisor_of(index.sizes[i]);
  return index;
}

StridedIndex strided_index(const TensorArg& t, int begin, int end) {
  const auto first = static_cast<size_t>(begin), count = static_cast<size_t>(end - begin);
  return strided_index(std::span(t.shape).subspan(first, count),
                       std::span(t.strides).subspan(first, count));
}

bool is_aligned(const FloatArray& array, int64_t lanes) {
  const auto bytes = static_cast<uintptr_t>(lanes) * size_bytes(array.type);
  return reinterpret_cast<uintptr_t>(array.data) % std::min<uintptr_t>(bytes, 16) == 0;
}

bool is_aligned(const FloatArray& array, const StridedIndex& rows, int64_t lanes) {
  for (int i = 0; i < rows.axes; ++i) {
    if (rows.strides[i] % lanes != 0) return false;
  }
  return is_aligned(array, lanes);
}

DType common_type(std::span<const FloatArray> arrays) {
  DType common = DType::kUndefined;
  for (const FloatArray& array : arrays) {
    if (array.data == nullptr || array.type == common) continue;
    if (common != DType::kUndefined) return DType::kUndefined;
    common = array.type;
  }
  return common;
}

int64_t common_lanes(std::span<const FloatArray> arrays) {
  return is_16_bit_float(common_type(arrays)) ? 8 : 4;
}

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

}  // namespace

std::vector<double> constant_floats(const CreateCall& call, size_t i) {
  const std::vector<std::byte> bytes = constant_bytes(call, i);
  std::vector<double> values;
  if (bytes.empty()) return values;
  const DType type = call.constant_inputs[i].dtype;
  for (size_t at = 0; at < bytes.size(); at += size_bytes(type))
    values.push_back(load_float(type, bytes.data() + at));
  return values;
}

}  // namespace vernier::backend::cuda
