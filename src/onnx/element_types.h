// ONNX element type numbers and what they are here. Our own table: packaged protos are often older
// than the models that are met.
#pragma once
#include <string>

#include "core/dtype.h"

namespace vernier::onnx {

/// The element type of ONNX's number. Throws Error(kInput) "<where>: element type INT4 ..." for the
/// types that have no counterpart here and for unknown numbers.
DType element_type(int64_t number, const std::string& where);
/// ONNX's number of a type that can be stored.
int64_t element_type_number(DType dtype);
/// "FLOAT16", or "number 99" when unknown.
std::string element_type_name(int64_t number);

}  // namespace vernier::onnx
