// Broadcasting of concrete shapes: see broadcast.h.
#include "core/broadcast.h"

#include <algorithm>

namespace vernier {

Shape broadcast_shape(std::span<const int64_t> a, std::span<const int64_t> b) {
  const size_t rank = std::max(a.size(), b.size());
  Shape out(rank, 1);
  for (size_t i = 1; i <= rank; ++i) {
    const int64_t x = i <= a.size() ? a[a.size() - i] : 1;
    const int64_t y = i <= b.size() ? b[b.size() - i] : 1;
    if (x != y && x != 1 && y != 1) {
      throw Error(ErrorCode::kInput, "shapes " + str(a) + " and " + str(b) +
                                         " do not broadcast: sizes " + std::to_string(x) + " and " +
                                         std::to_string(y) + " differ and neither is 1");
    }
    out[rank - i] = x == 1 ? y : x;
  }
  return out;
}

Shape broadcast_strides(std::span<const int64_t> shape, std::span<const int64_t> out) {
  VERNIER_ASSERT(shape.size() <= out.size(), str(shape) + " to " + str(out));
  const Shape dense = row_major_strides(shape);
  Shape strides(out.size(), 0);
  const size_t missing = out.size() - shape.size();
  for (size_t i = 0; i < shape.size(); ++i) {
    VERNIER_ASSERT(shape[i] == 1 || shape[i] == out[missing + i], str(shape) + " to " + str(out));
    if (shape[i] != 1) strides[missing + i] = dense[i];
  }
  return strides;
}

}  // namespace vernier
