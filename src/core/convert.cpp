// Conversion of tensors, without doubles in between for the common types: see convert.h.
#include "core/convert.h"

#include <cstdint>
#include <cstring>

#include "core/error.h"
#include "core/threads.h"

namespace vernier {
namespace {

constexpr int64_t kMinElems = int64_t{1} << 18;  // per thread

template <uint16_t (*Round)(float)>
Tensor narrowed(const Tensor& t, DType type) {
  return Tensor::filled(type, t.shape(), [&t](std::byte* bytes) {
    in_parallel(t.elems(), kMinElems, [&](int64_t begin, int64_t end) {
      for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
        float value = 0;
        std::memcpy(&value, t.data() + i * sizeof value, sizeof value);
        const uint16_t bits = Round(value);
        std::memcpy(bytes + i * sizeof bits, &bits, sizeof bits);
      }
    });
  });
}

}  // namespace

Tensor converted(const Tensor& t, DType type) {
  VERNIER_ASSERT(is_float(t.dtype()) && is_float(type));
  if (type == t.dtype()) return t;
  if (t.dtype() == DType::kF32 && type == DType::kF16) return narrowed<&f32_to_f16>(t, type);
  if (t.dtype() == DType::kF32 && type == DType::kBF16) return narrowed<&f32_to_bf16>(t, type);
  std::vector<double> values(static_cast<size_t>(t.elems()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = t.float_at(static_cast<int64_t>(i));
  return Tensor::from(type, t.shape(), std::span<const double>(values));
}

bool is_aligned(const Tensor& t) {
  constexpr uintptr_t kAlignment = 64;
  return reinterpret_cast<uintptr_t>(t.data()) % kAlignment == 0;
}

Tensor aligned(const Tensor& t) {
  return is_aligned(t) ? t : Tensor::from_bytes(t.dtype(), t.shape(), t.byte_span());
}

}  // namespace vernier
