// What the rows of EmbedNorm share.
#pragma once
#include "backend/cuda/body.h"

namespace vernier::backend::cuda {

/// Yes if there are at most `most` tables, with ids of i32 or i64.
Support supports_tables(const Problem& problem, int64_t most);
/// The index in `ids` of the id of row r of `out`, which are broadcast to the rows.
StridedIndex id_index(TensorArg ids, const TensorArg& out);

}  // namespace vernier::backend::cuda
