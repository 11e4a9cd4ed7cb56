// Attribute bytes of an operator to text and back, by OpKind (expanded from ops.def).
#pragma once
#include "core/attr_codec.h"
#include "core/op_kind.h"

namespace vernier {

/// "{axis=1}", or "" for an operator without attributes.
std::string print_attrs(OpKind kind, AttrView attrs);
/// Inverse; text may be empty (defaults). Throws Error(kInput) on bad or unknown fields.
AttrBytes parse_attrs(OpKind kind, std::string_view text);
/// The bytes of the operator's default attributes.
AttrBytes default_attrs(OpKind kind);
/// Throws Error(kInput) unless `attrs` decodes as this operator's attributes.
void check_attrs(OpKind kind, AttrView attrs);

}  // namespace vernier
