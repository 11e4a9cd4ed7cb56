// Inputs of a sweep: their domains, the axis that counts rows, sizes, rows. Contract:
// docs/verification_inputs.md "Inputs".
#pragma once
#include <vector>

#include "verify/sweep/context.h"

namespace vernier::verify {

/// Fills `context.inputs`, with notes. Throws Error(kInput) where the engine is not one of the
/// model, and for sizes and arrays that it does not take.
void make_inputs(Context& context);

/// The sizes of a run but for the batch, each as near `length` as its range allows.
std::map<std::string, int64_t> sizes_at(const Context& context, int64_t length);

/// Rows of a cell beyond the grid repeat after so many, as many as the grid has: their noise is
/// that of the grid's rows, of which a larger sample would have rarer ones.
inline constexpr int64_t kDistinctFarRows = 8;

/// How many rows of this length are evaluated together, where the batch is free: named values of
/// 512 positions lie in memory together. At least 1.
int64_t rows_evaluated_together(int64_t length);

/// Rows beyond those that the grid has.
enum class OtherRows : uint8_t {
  kNone,
  kFull,  ///< no row has padding
  kEmpty  ///< the last of the distinct rows is nothing but padding, if R of it is finite
};
/// Adds a group of so many seeded rows, which are run as one batch only. False, with a note, if the
/// engine refuses such sizes.
bool add_seeded_rows(Context& context, int64_t length, int64_t rows,
                     OtherRows others = OtherRows::kNone);

/// The batches that a group is run at.
std::vector<int64_t> batches_of(const Context& context, const Group& group);

}  // namespace vernier::verify
