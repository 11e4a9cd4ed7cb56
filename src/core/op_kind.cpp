// Names, flags and rounding points of the operators: see op_kind.h.
#include "core/op_kind.h"

#include <array>

#include "core/rounding.h"

namespace vernier {
namespace {

struct Row {
  std::string_view name;
  Arity arity;
  uint32_t flags;
  std::span<const std::string_view> points;
};
constexpr std::array kRows{
#define OP(kind, min_in, max_in, max_out, flags, attrs, points, ...) \
  Row{#kind, Arity{min_in, max_in, max_out}, flags, points},
#include "ops/ops.def"
#undef OP
};
const Row& row(OpKind kind) { return kRows[static_cast<size_t>(kind)]; }

}  // namespace

std::string_view name(OpKind kind) { return row(kind).name; }
Arity arity(OpKind kind) { return row(kind).arity; }
bool requires_input(OpKind kind, size_t i) {
  constexpr size_t kBias = 2;
  if (i == kBias && (flags(kind) & kOptionalBias) != 0) return false;
  return i < static_cast<size_t>(arity(kind).min_in);
}
uint32_t flags(OpKind kind) { return row(kind).flags; }
bool is_exact(OpKind kind) {
  return rounding_points(kind).empty() && (flags(kind) & kBoolResult) == 0;
}
bool only_reshapes(OpKind kind) {
  using enum OpKind;
  return kind == kReshape || kind == kSqueeze || kind == kUnsqueeze || kind == kFlatten ||
         kind == kIdentity;
}
size_t num_op_kinds() { return kRows.size(); }
std::span<const std::string_view> rounding_points(OpKind kind) { return row(kind).points; }

std::optional<OpKind> parse_op_kind(std::string_view text) {
  for (size_t i = 0; i < kRows.size(); ++i) {
    if (kRows[i].name == text) return static_cast<OpKind>(i);
  }
  return std::nullopt;
}

}  // namespace vernier
