// Which values of an operator's inputs its definition refuses. Each operator says it once, in its
// CHECKED row of ops.def; inference (constants and sizes), the runtime (arrays of the caller),
// verify and the tests ask here. Shapes, types and attributes are the rules' (rules/rules.h).
#pragma once
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/attr_codec.h"
#include "core/op_kind.h"

namespace vernier {

/// What every element of input `input` must be. Sizes are those of axis `axis` of input `table`.
struct ValueRule {
  enum class Kind : uint8_t {
    kIndex,    ///< in [-size, size): negative counts from the end
    kClass,    ///< in [0, size), or `ignored`
    kLength,   ///< in [0, size]
    kStarts,   ///< the first 0, none less than the one before it, the last at most size
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
/// Is there any rule, whatever the attributes?
bool has_value_rules(OpKind op);

/// Numbers from `low` to `high`, both included.
struct ValueRange {
  int64_t low, high;
  bool holds(int64_t value) const { return value >= low && value <= high; }
};
/// What a rule allows where its size (kAxis: its rank) is `size`; kNonZero has no range.
ValueRange allowed_values(ValueRule::Kind kind, int64_t size);

}  // namespace vernier
