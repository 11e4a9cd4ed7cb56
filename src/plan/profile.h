// The range of each size symbol: from `--shapes`, or defaults. Contract: design "The command line".
#pragma once
#include <span>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "plan/plan.h"
#include "plan/table_bounds.h"

namespace vernier::plan {

/// Largest size that --shapes takes: the product of two still fits in int64.
inline constexpr int64_t kMaxSize = INT32_MAX;
inline constexpr int64_t kDefaultMaxBatch = 64;
inline constexpr int64_t kDefaultMaxLength = 512;
inline constexpr int64_t kDefaultOptBatch = 1;
inline constexpr int64_t kDefaultOptLength = 128;

/// One Symbol per size symbol of the graph's inputs, in order of first use. `shapes` is a list of
/// NAME=RANGExRANGE… (an input, one range per dimension), INPUT:DIMENSION=RANGE or NAME=RANGE (a
/// named size); a RANGE is N, MIN..MAX (OPT is MAX) or MIN..OPT..MAX. Symbols not named: 1..1..64
/// when they are a first dimension, else 1..128..512, each lowered to the largest size at which the
/// graph's guards hold and no index passes its table (the position table); notes say which. Throws
/// Error(kInput) naming the part of `shapes`, what it is, what was expected. A size that was given
/// may pass a table whose positions skip padding: a note says so.
std::vector<Symbol> make_profile(const ir::Graph& graph, const std::string& shapes,
                                 std::vector<std::string>& notes,
                                 std::span<const TableBound> bounds = {});

}  // namespace vernier::plan
