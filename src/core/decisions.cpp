// Which results are decisions: see decisions.h.
#include "core/decisions.h"

#include <algorithm>

namespace vernier {

bool is_decision(OpKind kind, std::span<const DType> in, DType out) {
  if (std::ranges::none_of(in, [](DType type) { return is_float(type); })) return false;
  const bool discrete = (flags(kind) & kDiscrete) != 0;
  if (!is_float(out)) return discrete || kind == OpKind::kCast;
  return discrete && kind != OpKind::kTopK;
}

}  // namespace vernier
