// cpu.zero_padding.rows: a row's padding becomes 0, and packed tokens go back to their places.
// Contract: ZeroPaddingAttrs in core/attrs.h. All arrays dense.
#include <algorithm>
#include <cstring>

#include "backend/body.h"
#include "backend/operands.h"
#include "core/attrs.h"
#include "core/threads.h"
#include "core/token_rows.h"

namespace vernier::backend::cpu {
namespace {

struct Tokens {
  TokenSpan places;
  int64_t first = 0;  // the row of x that the first one takes
};

Tokens tokens_of(const LaunchCall& call, int64_t row, int64_t padding) {
  const TensorArg& mask = call.in[1];
  const int64_t length = mask.dim(1);
  const auto bytes = static_cast<size_t>(length) * size_bytes(mask.dtype);
  TokenSpan places = tokens_of_row(
      mask.dtype, static_cast<const std::byte*>(mask.data) + static_cast<size_t>(row) * bytes,
      length, padding);
  const int64_t at = row * length + places.first;
  if (call.in.size() <= 2 || !given(call.in[2]) || places.count == 0)
    return {.places = places, .first = at};
  const int64_t first = call.in[2].as<const int32_t>()[at];
  const int64_t room = call.in[0].dim(1) - first;
  places.count = first < 0 ? 0 : std::clamp<int64_t>(room, 0, places.count);
  return {.places = places, .first = first};
}

void launch(const LaunchCall& call) {
  const int64_t padding = decode<ZeroPaddingAttrs>(call.attrs).padding;
  const TensorArg &x = call.in[0], &y = call.out[0];
  const int64_t batch = y.dim(0), length = y.dim(1);
  if (y.elems() == 0) return;
  const auto width = static_cast<size_t>(y.elems() / (batch * length)) * size_bytes(y.dtype);
  call.execution.threads->parallel_for(batch, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row) {
      const auto& [places, first] = tokens_of(call, row, padding);
      std::byte* to = y.data + static_cast<size_t>(row * length) * width;
      const size_t front = static_cast<size_t>(places.first) * width,
                   bytes = static_cast<size_t>(places.count) * width;
      std::memset(to, 0, front);
      if (bytes > 0) std::memcpy(to + front, x.data + static_cast<size_t>(first) * width, bytes);
      std::memset(to + front + bytes, 0, static_cast<size_t>(length) * width - front - bytes);
    }
  });
}

}  // namespace

extern const KernelBody zero_padding_rows;
constexpr KernelBody zero_padding_rows{
    .supports = &keeps_type,
    .numerics = &exact_numerics,
    .launch = &launch,
};

}  // namespace vernier::backend::cpu
