// Index operands: see index.h.
#include "backend/cpu/index.h"

#include "core/error.h"

namespace vernier::backend::cpu {

int read_axis(const TensorArg& axes, int64_t at, const TensorArg& x, std::string_view what) {
  const int64_t axis = read_index(axes, at), rank = x.rank;
  if (axis >= -rank && axis < rank) return static_cast<int>(positive_axis(axis, rank));
  throw Error(ErrorCode::kInput, std::string(what) + ": axis " + std::to_string(axis) +
                                     " is outside [" + std::to_string(-rank) + ", " +
                                     std::to_string(rank) + ") of an input of rank " +
                                     std::to_string(rank));
}

void check_indices(const TensorArg& indices, int64_t size, std::string_view what) {
  const int64_t count = indices.elems();
  for (int64_t i = 0; i < count; ++i) {
    const int64_t index = read_index(indices, i);
    if (index >= -size && index < size) continue;
    throw Error(ErrorCode::kInput, std::string(what) + ": index " + std::to_string(index) +
                                       " at position " + std::to_string(i) +
                                       " is outside its table of " + std::to_string(size) +
                                       " entries; allowed are " + std::to_string(-size) + " to " +
                                       std::to_string(size - 1));
  }
}

}  // namespace vernier::backend::cpu
