// Where the arguments of a shape lie.
#pragma once
#include <cstddef>
#include <vector>

#include "runtime/entry_maker.h"

namespace vernier::runtime {

/// Places everything that lives in the arena and says where every argument of `entry` is; addresses
/// of constants are final. The entry has its slots, shape values, and steps with their arguments
/// and shape states. `shape_value_offsets`: in ShapeEntry::shape_values, by value.
void lay_out(const EntryParts& parts, const std::vector<size_t>& shape_value_offsets,
             ShapeEntry& entry);

}  // namespace vernier::runtime
