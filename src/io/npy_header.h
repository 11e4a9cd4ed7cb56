// The header of NumPy's .npy format, versions 1 to 3: type, order and shape of one array.
#pragma once
#include <cstddef>
#include <span>
#include <string>

#include "core/dtype.h"
#include "core/tensor.h"

namespace vernier::io {

struct NpyHeader {
  DType dtype = DType::kUndefined;
  bool fortran_order = false;
  Shape shape;
  size_t header_bytes = 0;  ///< where the elements begin
  size_t data_bytes = 0;    ///< of all elements
};

/// Longest header that is read; NumPy's own are 128 bytes.
inline constexpr size_t kMaxNpyHeader = 65536;

/// This many bytes are enough to know how long a header is.
inline constexpr size_t kNpyHeaderStart = 12;
/// Bytes before the elements, from the first kNpyHeaderStart bytes of an array (or all, if there
/// are fewer). Throws as parse_npy_header().
size_t npy_header_bytes(std::span<const std::byte> start, const std::string& where);

/// Parses the beginning of an array's bytes (all of them, or at least kMaxNpyHeader).
/// Throws Error(kInput) "<where>: ..." for damaged headers and for types that are not read.
NpyHeader parse_npy_header(std::span<const std::byte> bytes, const std::string& where);

/// The bytes before the elements of a row-major array, version 1.0, a multiple of 64 long.
std::string make_npy_header(DType dtype, const Shape& shape);

}  // namespace vernier::io
