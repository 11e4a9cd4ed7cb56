// The table of ONNX element types: see element_types.h.
#include "onnx/element_types.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "core/error.h"

namespace vernier::onnx {
namespace {

struct Row {
  std::string_view name;
  DType dtype;  // kUndefined: known but refused
};
// By ONNX's number (TensorProto.DataType of the IR specification).
constexpr std::array<Row, 27> kTypes{{
    {"UNDEFINED", DType::kUndefined},
    {"FLOAT", DType::kF32},
    {"UINT8", DType::kU8},
    {"INT8", DType::kI8},
    {"UINT16", DType::kU16},
    {"INT16", DType::kI16},
    {"INT32", DType::kI32},
    {"INT64", DType::kI64},
    {"STRING", DType::kUndefined},
    {"BOOL", DType::kBool},
    {"FLOAT16", DType::kF16},
    {"DOUBLE", DType::kF64},
    {"UINT32", DType::kU32},
    {"UINT64", DType::kU64},
    {"COMPLEX64", DType::kUndefined},
    {"COMPLEX128", DType::kUndefined},
    {"BFLOAT16", DType::kBF16},
    {"FLOAT8E4M3FN", DType::kF8E4M3},
    {"FLOAT8E4M3FNUZ", DType::kF8E4M3FNUZ},
    {"FLOAT8E5M2", DType::kF8E5M2},
    {"FLOAT8E5M2FNUZ", DType::kF8E5M2FNUZ},
    {"UINT4", DType::kU4},
    {"INT4", DType::kI4},
    {"FLOAT4E2M1", DType::kF4E2M1},
    {"FLOAT8E8M0", DType::kF8E8M0},
    {"UINT2", DType::kU2},
    {"INT2", DType::kI2},
}};

// How many of them ONNX packs into a byte, the first one in its lowest bits.
size_t elements_per_byte(DType dtype) { return is_packed(dtype) ? 8 / element_bits(dtype) : 1; }

bool known(int64_t number) { return number >= 0 && static_cast<size_t>(number) < kTypes.size(); }

}  // namespace

std::string element_type_name(int64_t number) {
  if (!known(number)) return "number " + std::to_string(number);
  return std::string(kTypes[number].name);
}

DType element_type(int64_t number, const std::string& where) {
  const DType dtype = known(number) ? kTypes[number].dtype : DType::kUndefined;
  if (dtype == DType::kUndefined) {
    throw Error(ErrorCode::kInput, where + ": element type " + element_type_name(number) +
                                       " is not supported. Export the model with float, integer or "
                                       "bool tensors");
  }
  return dtype;
}

int64_t packed_bytes(DType dtype, int64_t elems) {
  const auto per_byte = static_cast<int64_t>(elements_per_byte(dtype));
  return elems / per_byte + (elems % per_byte != 0 ? 1 : 0);
}

std::string packed(const Tensor& tensor) {
  const size_t per_byte = elements_per_byte(tensor.dtype());
  const auto* elements = reinterpret_cast<const uint8_t*>(tensor.data());
  if (per_byte == 1) return {reinterpret_cast<const char*>(elements), tensor.bytes()};
  const size_t bits = element_bits(tensor.dtype());
  std::string bytes(static_cast<size_t>(packed_bytes(tensor.dtype(), tensor.elems())), '\0');
  for (size_t i = 0; i < static_cast<size_t>(tensor.elems()); ++i) {
    const unsigned code = elements[i] & ((1u << bits) - 1);
    const auto held = static_cast<uint8_t>(bytes[i / per_byte]);
    bytes[i / per_byte] = static_cast<char>(held | code << (i % per_byte * bits));
  }
  return bytes;
}

Tensor unpacked(DType dtype, const Shape& shape, const std::byte* bytes) {
  const size_t bits = element_bits(dtype), per_byte = elements_per_byte(dtype);
  return Tensor::filled(dtype, shape, [&](std::byte* to) {
    for (size_t i = 0; i < static_cast<size_t>(num_elems(shape)); ++i) {
      const auto held = std::to_integer<unsigned>(bytes[i / per_byte]);
      const unsigned code = (held >> (i % per_byte * bits)) & ((1u << bits) - 1);
      to[i] = static_cast<std::byte>(code);
      if (!is_float(dtype)) store_integer(dtype, code, to + i);  // its sign fills the byte
    }
  });
}

std::optional<DType> type_of_4_bits(int64_t number) {
  const std::string_view type = known(number) ? kTypes[number].name : "";
  if (type == "INT4") return DType::kI8;
  if (type == "UINT4") return DType::kU8;
  return std::nullopt;
}

int64_t element_type_number(DType dtype) {
  const auto row = std::find_if(kTypes.begin() + 1, kTypes.end(),
                                [&](const Row& r) { return r.dtype == dtype; });
  VERNIER_ASSERT(dtype != DType::kUndefined && row != kTypes.end(), std::string(name(dtype)));
  return row - kTypes.begin();
}

}  // namespace vernier::onnx
