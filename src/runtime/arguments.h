// What kernels get for the values of a plan: shapes, strides, types, and where constants lie.
#pragma once
#include <span>

#include "backend/kernel.h"
#include "runtime/device_weights.h"
#include "runtime/engine_impl.h"

namespace vernier::runtime {

class Arguments {
 public:
  /// `weights`: in the device's memory; null where that is the host's. All must outlive it.
  Arguments(const Engine::Impl& engine, const DeviceWeights* weights)
      : engine_(engine), weights_(weights) {}

  /// Is the device's memory the host's?
  bool on_host() const { return weights_ == nullptr; }
  /// Not where on_host().
  const DeviceWeights& weights() const { return *weights_; }
  const std::byte* constant_data(int32_t blob) const;
  /// Of a constant: with its data, whatever the sizes.
  backend::TensorArg constant(const plan::PlanValue& value) const;
  /// Shape, strides and type of a value for sizes with these slots; data only of constants. Throws
  /// Error(kInput) for a negative size or more than kMaxArrayElems elements.
  backend::TensorArg value(int32_t index, std::span<const int64_t> slots) const;
  /// Of a packed input: without data where the kernel's state has the packed bytes.
  backend::TensorArg packed(size_t step, const plan::PackedInput& packed) const;

 private:
  const Engine::Impl& engine_;
  const DeviceWeights* weights_;
};

/// The bytes of an array without gaps.
inline size_t bytes_of(const backend::TensorArg& arg) {
  return static_cast<size_t>(arg.elems()) * size_bytes(arg.dtype);
}

}  // namespace vernier::runtime
