// ONNX element type numbers and the element types they map to. A table of our own, because the
// protos of installed packages are often older than the models.
#pragma once
#include <optional>
#include <string>

#include "core/dtype.h"

namespace vernier::onnx {

/// The element type of ONNX's number. Throws Error(kInput) "<where>: element type INT4 ..." for the
/// types that Vernier does not support and for unknown numbers.
DType element_type(int64_t number, const std::string& where);
/// The type whose numbers hold ONNX's 4-bit type: i8 of INT4, u8 of UINT4. Empty for all others.
std::optional<DType> type_of_4_bits(int64_t number);
/// The ONNX number of a storage type.
int64_t element_type_number(DType dtype);
/// "FLOAT16", or "number 99" when unknown.
std::string element_type_name(int64_t number);

}  // namespace vernier::onnx
