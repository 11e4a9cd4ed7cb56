// ONNX element type numbers and the element types they map to. A table of our own, because the
// protos of installed packages are often older than the models.
#pragma once
#include <optional>
#include <string>

#include "core/dtype.h"
#include "core/tensor.h"

namespace vernier::onnx {

/// The element type of ONNX's number. Throws Error(kInput) "<where>: element type STRING ..." for
/// the types that Vernier does not support and for unknown numbers.
DType element_type(int64_t number, const std::string& where);
/// The type whose numbers hold ONNX's 4-bit type: i8 of INT4, u8 of UINT4. Empty for all others.
std::optional<DType> type_of_4_bits(int64_t number);
/// Does ONNX pack several elements of the type into a byte (types of 4 and 2 bits)?
inline bool is_packed(DType dtype) { return element_bits(dtype) < 8 && size_bytes(dtype) > 0; }
/// Bytes of `elems` elements of a packed type; the last one may be filled in part.
int64_t packed_bytes(DType dtype, int64_t elems);
/// The tensor's bytes as ONNX's raw_data has them.
std::string packed(const Tensor& tensor);
/// The inverse for a packed type: an element in each byte. `bytes` has packed_bytes() of them.
Tensor unpacked(DType dtype, const Shape& shape, const std::byte* bytes);
/// The ONNX number of a storage type.
int64_t element_type_number(DType dtype);
/// "FLOAT16", or "number 99" when unknown.
std::string element_type_name(int64_t number);

}  // namespace vernier::onnx
