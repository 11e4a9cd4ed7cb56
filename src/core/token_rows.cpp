// See token_rows.h.
#include "core/token_rows.h"

#include "core/error.h"

namespace vernier {
namespace {

template <class T>
int64_t count(const T* mask, int64_t rows, int64_t length, int64_t padding) {
  int64_t tokens = 0;
  for (int64_t r = 0; r < rows; ++r, mask += length)
    tokens += tokens_of_row(length, [&](int64_t s) { return equals_padding(mask[s], padding); });
  return tokens;
}

}  // namespace

bool is_token_mask(DType dtype) {
  switch (dtype) {
    case DType::kBool:
    case DType::kU8:
    case DType::kI8:
    case DType::kI32:
    case DType::kI64:
    case DType::kF32:
    case DType::kF64:
      return true;
    default:
      return false;
  }
}

int64_t count_tokens(DType dtype, const std::byte* mask, int64_t rows, int64_t length,
                     int64_t padding) {
  const auto as = [&]<class T>(T) {
    return count(reinterpret_cast<const T*>(mask), rows, length, padding);
  };
  switch (dtype) {
    case DType::kBool:
    case DType::kU8:
      return as(uint8_t{});
    case DType::kI8:
      return as(int8_t{});
    case DType::kI32:
      return as(int32_t{});
    case DType::kI64:
      return as(int64_t{});
    case DType::kF32:
      return as(float{});
    case DType::kF64:
      return as(double{});
    default:
      VERNIER_ASSERT(false, std::string(name(dtype)));
      return rows * length;
  }
}

}  // namespace vernier
