// See token_rows.h.
#include "core/token_rows.h"

#include "core/error.h"

namespace vernier {
namespace {

// Calls visit(row, its places that are kept) for each row of a mask; `rule` null: its tokens.
template <class T, class Visit>
void for_each_row(const T* mask, int64_t rows, int64_t length, int64_t padding,
                  const TokenRule* rule, const Visit& visit) {
  for (int64_t r = 0; r < rows; ++r, mask += length) {
    const auto is_padding = [&](int64_t s) { return equals_padding(mask[s], padding); };
    visit(r, rule != nullptr ? kept_of_row(length, *rule, is_padding)
                             : tokens_of_row(length, is_padding));
  }
}

template <class Visit>
void visit_rows(DType dtype, const std::byte* mask, int64_t rows, int64_t length, int64_t padding,
                const TokenRule* rule, const Visit& visit) {
  const auto as = [&]<class T>(T) {
    for_each_row(reinterpret_cast<const T*>(mask), rows, length, padding, rule, visit);
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
                     const TokenRule& rule) {
  int64_t tokens = 0;
  visit_rows(dtype, mask, rows, length, rule.padding, &rule,
             [&](int64_t, const TokenSpan& kept) { tokens += kept.count; });
  return tokens;
}

std::vector<int64_t> places_of_tokens(DType dtype, const std::byte* mask, int64_t rows,
                                      int64_t length, const TokenRule& rule) {
  std::vector<int64_t> places;
  visit_rows(dtype, mask, rows, length, rule.padding, &rule,
             [&](int64_t row, const TokenSpan& kept) {
               for (int64_t s = kept.first; s < kept.end(); ++s) places.push_back(row * length + s);
             });
  return places;
}

TokenSpan tokens_of_row(DType dtype, const std::byte* row, int64_t length, int64_t padding) {
  TokenSpan tokens;
  visit_rows(dtype, row, 1, length, padding, nullptr,
             [&](int64_t, const TokenSpan& found) { tokens = found; });
  return tokens;
}

Tensor zero_padding(const Tensor& values, const Tensor& mask, int64_t padding) {
  const int64_t rows = mask.shape()[0], length = mask.shape()[1];
  std::vector<std::byte> bytes(values.byte_span().begin(), values.byte_span().end());
  const auto place = std::ssize(bytes) == 0 ? 0 : std::ssize(bytes) / (rows * length);
  visit_rows(mask.dtype(), mask.byte_span().data(), rows, length, padding, nullptr,
             [&](int64_t row, const TokenSpan& tokens) {
               const auto at = [&](int64_t s) {
                 return bytes.begin() + (row * length + s) * place;
               };
               std::fill(at(0), at(tokens.first), std::byte{0});
               std::fill(at(tokens.end()), at(length), std::byte{0});
             });
  return Tensor::from_bytes(values.dtype(), values.shape(), bytes);
}

}  // namespace vernier
