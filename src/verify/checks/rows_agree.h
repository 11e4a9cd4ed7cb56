// Rows of two runs compared by their bits, for the checks of rows.
#pragma once
#include <string>
#include <vector>

#include "verify/check.h"

namespace vernier::verify::checks {

/// The rows of `moves` must have the same bits in both runs, in all outputs but those whose rows
/// the model mixes.
Finding rows_agree(Context& context, const CellRun& base, const CellRun& other,
                   const std::vector<RowMove>& moves);

/// Why there are no rows to compare, or empty.
std::string no_rows(const Context& context);

}  // namespace vernier::verify::checks
