// Sizes beyond the sweep's grid: the ends of the engine's ranges, and sizes where kernels change
// variant. A kernel may be right at every size of the grid and wrong from the next block of keys
// on.
#pragma once
#include <string>
#include <vector>

#include "backend/kernel.h"
#include "verify/sweep/context.h"

namespace vernier::verify {

/// A cell: so many rows, each of so many positions.
struct FarSize {
  int64_t batch = 1, length = 0;
  friend bool operator==(const FarSize&, const FarSize&) = default;
};

/// Ranges of the sizes, and what the grid visits anyway.
struct SizeRanges {
  plan::Symbol batch, length;                     ///< without a name: the model has no such size
  int64_t largest_batch = 1, largest_length = 1;  ///< of the grid
  std::vector<backend::VariantSize> variants;     ///< of the engine's kernels
};

/// In the order of their worth: one row of the greatest length; three rows one shorter; the largest
/// batch at a short length, and a batch of odd rows above 32; one row of the usual length (`opt`);
/// then cells drawn with the seed: two of rows from 3 to 33 at a power of two or a multiple of 48,
/// 96 or 128, or one beside it, and two at sizes that kernels name, or one beside them (of other
/// lengths where they name none). None twice, none of the grid.
std::vector<FarSize> far_sizes(const SizeRanges& ranges, uint64_t seed);

/// Where the kernels of a plan change variant, each once.
std::vector<backend::VariantSize> variants_of(const plan::Plan& plan,
                                              const backend::Backend& backend);

/// Adds to `context.inputs` a group of rows of length 1, a group of rows without padding, and a
/// group for each of those sizes, the last as far as the FP64 evaluation of all is
/// affordable (`kFarWork` operations; with Depth::kThorough ten times that; within a budget what it
/// leaves), and notes which were left out. Nothing where the user has chosen inputs or sizes, or
/// with Depth::kQuick.
void add_far_groups(Context& context);

}  // namespace vernier::verify
