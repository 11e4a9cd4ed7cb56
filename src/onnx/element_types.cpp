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
    {"FLOAT8E4M3FNUZ", DType::kUndefined},
    {"FLOAT8E5M2", DType::kF8E5M2},
    {"FLOAT8E5M2FNUZ", DType::kUndefined},
    {"UINT4", DType::kUndefined},
    {"INT4", DType::kUndefined},
    {"FLOAT4E2M1", DType::kUndefined},
    {"FLOAT8E8M0", DType::kUndefined},
    {"UINT2", DType::kUndefined},
    {"INT2", DType::kUndefined},
}};

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
