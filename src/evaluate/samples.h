// Samples: seeded rows of input inside their domains, and what may stand beside a row. Contract:
// docs/verification_inputs.md "Inputs".
#pragma once
#include <cstdint>
#include <map>
#include <string>

#include "evaluate/domain.h"
#include "evaluate/rows.h"

namespace vernier::evaluate {

/// Which positions of a row are valid.
enum class RowFill : uint8_t { kByIndex, kAll, kNone };

/// Which row of a sweep: its values depend on these numbers only, not on the batch it is put in.
struct RowId {
  uint64_t seed = 1;
  int64_t index = 0;
  RowFill fill = RowFill::kByIndex;
};

/// Do the inputs say which positions of a row are valid?
bool masks_somewhere(const Domains& domains);

/// The sizes of one row: 1 for the symbol `batch`, for every other one `length`, or what is nearest
/// in its range.
std::map<std::string, int64_t> sizes_of_row(const plan::Plan& plan, const std::string& batch,
                                            int64_t length);

/// One row (batch size 1) for these sizes of all symbols. Row 0 is full, row 1 has one valid
/// position, row 2 half of them, row 5 a hole in its mask; the others end where their seed says.
/// Arrays without a batch axis are equal in all rows of a seed.
NamedTensors sample_row(const Domains& domains, const BatchAxes& axes,
                        const std::map<std::string, int64_t>& sizes, const RowId& id);

/// Neighbors that must not matter: `row` with its floats replaced by NaN, infinities and the
/// largest finite values in turn, its ids by other ids of the domain, its masks by ones.
NamedTensors poisoned_row(const NamedTensors& row, const Domains& domains, const BatchAxes& axes);

}  // namespace vernier::evaluate
