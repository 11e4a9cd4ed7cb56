// cpu.zero_padding.rows: padding behind a row's tokens becomes 0, and packed tokens go back to
// their places. Contract: ZeroPaddingAttrs in core/attrs.h. All arrays dense.
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
  int64_t first = 0, count = 0;  // rows of x
};

Tokens tokens_of(const LaunchCall& call, int64_t row, int64_t padding) {
  const TensorArg& mask = call.in[1];
  const int64_t length = mask.dim(1);
  if (call.in.size() > 2 && given(call.in[2])) {
    const auto* starts = call.in[2].as<const int32_t>();
    const int64_t first = starts[row], end = std::min<int64_t>(starts[row + 1], call.in[0].dim(1));
    return {.first = first, .count = first < 0 ? 0 : std::clamp<int64_t>(end - first, 0, length)};
  }
  const auto bytes = static_cast<size_t>(length) * size_bytes(mask.dtype);
  const int64_t count = count_tokens(
      mask.dtype, static_cast<const std::byte*>(mask.data) + static_cast<size_t>(row) * bytes, 1,
      length, padding);
  return {.first = row * length, .count = count};
}

void launch(const LaunchCall& call) {
  const int64_t padding = decode<ZeroPaddingAttrs>(call.attrs).padding;
  const TensorArg &x = call.in[0], &y = call.out[0];
  const int64_t batch = y.dim(0), length = y.dim(1);
  if (y.elems() == 0) return;
  const auto width = static_cast<size_t>(y.elems() / (batch * length)) * size_bytes(y.dtype);
  call.execution.threads->parallel_for(batch, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row) {
      const Tokens tokens = tokens_of(call, row, padding);
      std::byte* to = y.data + static_cast<size_t>(row * length) * width;
      const size_t bytes = static_cast<size_t>(tokens.count) * width;
      if (bytes > 0) std::memcpy(to, x.data + static_cast<size_t>(tokens.first) * width, bytes);
      std::memset(to + bytes, 0, static_cast<size_t>(length) * width - bytes);
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
