// A cell run again in other ways, of which none may change a bit. Contract:
// docs/verification_checks.md "Rows" and "Checks".
#pragma once
#include <array>
#include <optional>
#include <vector>

#include "verify/evidence.h"
#include "verify/sweep/context.h"

namespace vernier::verify {

/// The rows of a cell placed otherwise, and what the engine made of them.
struct Placement {
  CellRun run;
  std::vector<RowMove> moves;  ///< rows of the cell that must have the same bits there
};
/// Reversed, the first row copied over all, the first row beside rows of NaN.
struct Placements {
  Placement reversed, copied, poisoned;
  std::array<Placement*, 3> all() { return {&reversed, &copied, &poisoned}; }
};
/// Their inputs; the runs are empty.
Placements placements_of(const Context& context, const Group& group, const CellRun& run);

/// Can rows be compared with the rows of other runs, by all outputs of the engine?
bool compares_rows(const Context& context, const NamedTensors& answers);

/// Runs a cell again: on one thread with other numbers in memory, and unwatched, with other inputs
/// in between: the placements, whose answers are filled in, or, without them, other rows. Where
/// something differs it runs on until it is known what makes the difference.
RepeatedRuns run_again(Context& context, const Group& group, const CellRun& run,
                       Placements* placements);

/// Runs every cell on one thread, with other numbers in memory, and every row alone, all beside
/// each other. Nothing where memory is limited, and on devices whose runs do not belong to threads:
/// they run when they are asked for.
void run_beside(Context& context);
/// Fills the first `rows` of `group.alone`.
void run_rows_alone(Context& context, Group& group, int64_t rows);

}  // namespace vernier::verify
