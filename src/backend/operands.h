// What kernels of all backends ask about their operands: which are present, their types and their
// layout in memory.
#pragma once
#include "backend/kernel.h"

namespace vernier::backend {

// ---- which operands are present

/// False for an absent input and an unwanted output.
inline bool given(const TensorArg& t) { return t.dtype != DType::kUndefined; }
/// Is operand `i` present? Trailing absent ones may be omitted from `operands`.
inline bool given(std::span<const TensorArg> operands, size_t i) {
  return i < operands.size() && given(operands[i]);
}
/// Operand `i`, or an absent one if it is omitted.
inline TensorArg operand_at(std::span<const TensorArg> operands, size_t i) {
  return i < operands.size() ? operands[i] : TensorArg{};
}

// ---- types

/// True for f16 and bf16.
constexpr bool is_16_bit_float(DType t) { return t == DType::kF16 || t == DType::kBF16; }

/// The storage types of operands; kUndefined for absent ones.
std::vector<DType> types_of(std::span<const Operand> operands);

/// Yes if every present output and float input is f32, else a reason that names the first one that
/// is not. Integer inputs (ids, masks) pass.
Support all_f32(const Problem& problem);
/// The same for any combination of f32, f16 and bf16: for kernels that widen and narrow.
Support all_up_to_f32(const Problem& problem);
/// Yes if all present float operands have one type: for kernels that move elements.
Support one_float_type(const Problem& problem);
/// Yes if the result has the type of input 0, whatever the others have.
Support keeps_type(const Problem& problem);
/// Yes if one_float_type or all_up_to_f32 is: for kernels that move elements, and round if an
/// operand and the result have different storage types.
Support movable(const Problem& problem);

// ---- shapes and strides

/// Number of axes.
inline size_t rank_of(const Operand& operand) { return operand.shape.size(); }
/// `axis` counted from the front.
inline int64_t positive_axis(int64_t axis, int64_t rank) { return axis < 0 ? axis + rank : axis; }

/// True if an operand of shape `own`, broadcast to `shape`, has one value for each element of the
/// axes [first_axis, rank), the same for all rows. The count is not enough: [4, 1] beside [4, 4].
bool is_per_row_element(const SymShape& own, const SymShape& shape, size_t first_axis);
/// True if `t` is row-major without gaps. Axes of size 1 may have any stride.
bool is_dense(const TensorArg& t);
/// Number of elements in axes [begin, end).
int64_t elems_between(const TensorArg& t, int begin, int end);
/// The stride of `t` along axis `axis` of a result of `rank` axes that it is broadcast to (aligned
/// at the last axis): 0 where it repeats.
inline int64_t broadcast_stride(const TensorArg& t, int axis, int rank) {
  const int own = axis - (rank - t.rank);
  return own < 0 || t.dim(own) == 1 ? 0 : t.stride(own);
}

/// Offsets of the rows of an array: it is viewed as [rows, cols], its outer axes have any strides,
/// and the last `inner_axes` axes are a row.
class Rows {
 public:
  explicit Rows(const TensorArg& t, int inner_axes = 1);
  Rows(int64_t count, int64_t step) : count_(count), step_(step) {}
  int64_t count() const { return count_; }
  /// True if row r is at r·step for every r.
  bool every(int64_t step) const { return count_ <= 1 || (uniform_ && step_ == step); }
  /// Offset of row r in elements.
  int64_t offset(int64_t r) const {
    if (uniform_) return r * step_;
    int64_t at = 0;
    for (int i = axes_ - 1; i >= 0; --i) {
      const auto k = static_cast<size_t>(i);
      at += r % shape_[k] * strides_[k];
      r /= shape_[k];
    }
    return at;
  }

 private:
  int axes_ = 0;
  bool uniform_ = true;
  int64_t count_ = 1, step_ = 0;
  std::array<int64_t, kMaxRank> shape_{}, strides_{};
};

/// Offsets of the lines of an array along `axis`: one line per position in the other axes, in
/// row-major order. The elements of a line are t.stride(axis) apart.
Rows lines_along(const TensorArg& t, int axis);

}  // namespace vernier::backend
