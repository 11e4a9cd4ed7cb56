// Tensor: an immutable typed array that shares its bytes (constants, inputs, outputs).
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "vernier/dtype.h"
#include "vernier/error.h"

namespace vernier {

using Shape = std::vector<int64_t>;

/// Upper bound of the elements of an array: no machine holds more, and 16 bytes each fit 64 bits.
inline constexpr int64_t kMaxArrayElems = int64_t{1} << 48;
/// Product of the sizes; 1 for a scalar. Throws Error(kInput) if a size is negative or the product
/// passes kMaxArrayElems; sizes of 0 count as 1 there, so that no product of some of them (a
/// stride, a row) does either.
int64_t num_elems(std::span<const int64_t> shape);
/// "[2, 3, 768]"
std::string str(std::span<const int64_t> shape);
/// "[0, 7]": where element `flat` of a row-major array of this shape is.
std::string position_text(int64_t flat, std::span<const int64_t> shape);
/// Row-major strides in elements.
Shape row_major_strides(std::span<const int64_t> shape);

/// An immutable dense row-major array. Copies share the bytes; `owner` may be any owner of them
/// (a vector, a mapped file). Bytes are 64-byte aligned when made by filled(), from_bytes() or
/// from().
class Tensor {
 public:
  Tensor() = default;
  /// Shares `data`, which must stay valid while `owner` lives and hold size_bytes() bytes.
  Tensor(DType dtype, Shape shape, std::shared_ptr<const void> owner, const std::byte* data);
  /// fill(bytes) writes the array's bytes, all of them.
  static Tensor filled(DType dtype, Shape shape, const std::function<void(std::byte*)>& fill);
  /// Copies bytes.size() bytes, which must equal the size of the array.
  static Tensor from_bytes(DType dtype, Shape shape, std::span<const std::byte> bytes);
  /// Converts values to `dtype`, rounding to nearest or wrapping.
  static Tensor from(DType dtype, Shape shape, std::span<const double> values);
  static Tensor from(DType dtype, Shape shape, std::span<const int64_t> values);
  static Tensor scalar(DType dtype, double value);
  static Tensor i64(std::vector<int64_t> values);  ///< one dimension

  bool defined() const { return data_ != nullptr || dtype_ != DType::kUndefined; }
  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  size_t rank() const { return shape_.size(); }
  int64_t elems() const { return elems_; }
  size_t bytes() const { return static_cast<size_t>(elems_) * vernier::size_bytes(dtype_); }
  const std::byte* data() const { return data_; }
  std::span<const std::byte> byte_span() const { return {data_, bytes()}; }
  /// Element i of a float tensor as double, or of an integer/bool tensor as int64.
  double float_at(int64_t i) const;
  int64_t integer_at(int64_t i) const;
  /// All elements of an integer or bool tensor.
  std::vector<int64_t> integers() const;
  /// Same bytes under another shape with the same number of elements.
  Tensor reshaped(Shape shape) const;

 private:
  DType dtype_ = DType::kUndefined;
  Shape shape_;
  int64_t elems_ = 0;
  std::shared_ptr<const void> owner_;
  const std::byte* data_ = nullptr;
};

/// Arrays by name, in the order of whoever gave them.
using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

}  // namespace vernier
