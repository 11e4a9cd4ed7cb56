// ONNX element type numbers and the element types they map to. A table of our own, because the
// protos of installed packages are often older than the models.
#pragma once
#include <string>

#include "core/dtype.h"

namespace vernier::onnx {

/// The element type of ONNX's number. Throws Error(kInput) "<where>: element type INT4 ..." for the
/// types that Vernier does not support and for unknown numbers.
DType element_type(int64_t number, const std::string& where);
/// The ONNX number of a storage type.
int64_t element_type_number(DType dtype);
/// "FLOAT16", or "number 99" when unknown.
std::string element_type_name(int64_t number);

}  // namespace vernier::onnx
