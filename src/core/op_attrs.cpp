// Attribute text by OpKind: see op_attrs.h.
#include "core/op_attrs.h"

#include <array>

#include "core/attrs.h"

namespace vernier {
namespace {

struct AttrRow {
  std::string (*print)(AttrView);
  AttrBytes (*parse)(std::string_view);
};
constexpr std::array kRows{
#define OP(kind, min_in, max_in, max_out, flags, attrs, ...) \
  AttrRow{&print_attrs<attrs>, &parse_attrs<attrs>},
#include "ops/ops.def"
#undef OP
};

}  // namespace

std::string print_attrs(OpKind kind, AttrView attrs) {
  return kRows[static_cast<size_t>(kind)].print(attrs);
}
AttrBytes parse_attrs(OpKind kind, std::string_view text) {
  return kRows[static_cast<size_t>(kind)].parse(text);
}
AttrBytes default_attrs(OpKind kind) { return parse_attrs(kind, ""); }
void check_attrs(OpKind kind, AttrView attrs) { (void)print_attrs(kind, attrs); }

}  // namespace vernier
