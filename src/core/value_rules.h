// Which values of an operator's inputs its definition forbids. Defined once per operator, in its
// CHECKED row of ops.def; used by inference (constants and sizes), the runtime (arrays of the
// caller), verify and the tests. Shapes, types and attributes are checked by rules/rules.h.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/attr_codec.h"
#include "core/op_kind.h"

namespace vernier {

/// A condition on every element of input `input`. The size is that of axis `axis` of input `table`.
struct ValueRule {
  enum class Kind : uint8_t {
    kIndex,    ///< in [-size, size): negative counts from the end
    kClass,    ///< in [0, size), or `ignored`
    kLength,   ///< in [0, size]
    kStarts,   ///< the first is 0, ascending, the last is at most size
    kAxis,     ///< in [-rank, rank) of the table
    kNonZero,  ///< not 0, if it is an integer; no table
  };
  Kind kind = Kind::kIndex;
  int input = 0, table = 0;
  int64_t axis = 0;     ///< negative: from the end
  bool tuples = false;  ///< kIndex: element i along the input's last axis indexes axis + i
  std::optional<int64_t> ignored = {};
};

/// The rules of an operator with these attributes and so many inputs; absent inputs have no values.
std::vector<ValueRule> value_rules(OpKind op, AttrView attrs, size_t num_inputs);
/// Does the operator have rules for any attributes?
bool has_value_rules(OpKind op);

/// Numbers from `low` to `high`, both included.
struct ValueRange {
  int64_t low, high;
  bool holds(int64_t value) const { return value >= low && value <= high; }
};
/// The range that a rule allows if its size (kAxis: its rank) is `size`; kNonZero has none.
ValueRange allowed_values(ValueRule::Kind kind, int64_t size);

}  // namespace vernier
