// Arguments of kernels: see arguments.h.
#include "runtime/arguments.h"

#include <algorithm>
#include <array>

namespace vernier::runtime {
namespace {

void set_shape(backend::TensorArg& arg, std::span<const int64_t> shape) {
  arg.rank = static_cast<int>(shape.size());
  std::copy(shape.begin(), shape.end(), arg.shape.begin());
  int64_t stride = 1;
  for (size_t i = shape.size(); i > 0; --i) {
    arg.strides[i - 1] = stride;
    stride *= shape[i - 1];
  }
}

}  // namespace

const std::byte* Arguments::constant_data(int32_t blob) const {
  return weights_ ? weights_->blob(blob) : engine_.plan.blob(blob).bytes.data();
}

backend::TensorArg Arguments::constant(const plan::PlanValue& value) const {
  backend::TensorArg arg;
  arg.dtype = value.dtype;
  set_shape(arg, engine_.plan.blob_of(value).shape);
  // Kernels never write to an input.
  arg.data = const_cast<std::byte*>(constant_data(value.constant));
  return arg;
}

backend::TensorArg Arguments::value(int32_t index, std::span<const int64_t> slots) const {
  const plan::PlanValue& value = engine_.plan.value(index);
  if (value.kind == plan::PlanValue::Kind::kConstant) return constant(value);
  const Engine::Impl::ValueSlots& own = engine_.slots_of(index);
  const auto at = [&](int32_t slot) { return slots[slot]; };
  backend::TensorArg arg;
  arg.dtype = value.dtype;
  std::array<int64_t, backend::kMaxRank> sizes{};
  const std::span<const int64_t> shape = std::span(sizes).first(own.shape.size());
  std::ranges::transform(own.shape, sizes.begin(), at);
  num_elems(shape);
  set_shape(arg, shape);
  std::ranges::transform(own.strides, arg.strides.begin(), at);
  return arg;
}

backend::TensorArg Arguments::packed(size_t step, const plan::PackedInput& packed) const {
  const plan::Blob& blob = engine_.plan.blob(packed.blob);
  backend::TensorArg arg;
  arg.dtype = blob.dtype;
  set_shape(arg, blob.shape);
  const auto again = engine_.repacked.find(static_cast<int32_t>(step));
  if (again == engine_.repacked.end()) return arg;
  for (const auto& [input, plain] : again->second.plain) {
    if (input == packed.input) arg.data = const_cast<std::byte*>(plain.data());
  }
  return arg;
}

}  // namespace vernier::runtime
