// See token_rows.h.
#include "core/token_rows.h"

#include "core/error.h"

namespace vernier {
namespace {

// Calls visit(row, its number of tokens) for each row of a mask.
template <class T, class Visit>
void for_each_row(const T* mask, int64_t rows, int64_t length, int64_t padding,
                  const Visit& visit) {
  for (int64_t r = 0; r < rows; ++r, mask += length)
    visit(r, tokens_of_row(length, [&](int64_t s) { return equals_padding(mask[s], padding); }));
}

template <class Visit>
void visit_rows(DType dtype, const std::byte* mask, int64_t rows, int64_t length, int64_t padding,
                const Visit& visit) {
  const auto as = [&]<class T>(T) {
    for_each_row(reinterpret_cast<const T*>(mask), rows, length, padding, visit);
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
  }
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
  int64_t tokens = 0;
  visit_rows(dtype, mask, rows, length, padding,
             [&](int64_t, int64_t of_row) { tokens += of_row; });
  return tokens;
}

std::vector<int64_t> places_of_tokens(DType dtype, const std::byte* mask, int64_t rows,
                                      int64_t length, int64_t padding) {
  std::vector<int64_t> places;
  visit_rows(dtype, mask, rows, length, padding, [&](int64_t row, int64_t tokens) {
    for (int64_t s = 0; s < tokens; ++s) places.push_back(row * length + s);
  });
  return places;
}

Tensor zero_padding(const Tensor& values, const Tensor& mask, int64_t padding) {
  const int64_t rows = mask.shape()[0], length = mask.shape()[1];
  std::vector<std::byte> bytes(values.byte_span().begin(), values.byte_span().end());
  const size_t place = bytes.empty() ? 0 : bytes.size() / static_cast<size_t>(rows * length);
  visit_rows(mask.dtype(), mask.byte_span().data(), rows, length, padding,
             [&](int64_t row, int64_t tokens) {
               const auto at = [&](int64_t s) {
                 return bytes.begin() + (row * length + s) * static_cast<int64_t>(place);
               };
               std::fill(at(tokens), at(length), std::byte{0});
             });
  return Tensor::from_bytes(values.dtype(), values.shape(), bytes);
}

}  // namespace vernier
