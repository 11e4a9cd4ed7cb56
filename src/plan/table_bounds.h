// How far into its tables a model reads, as its sizes decide it: a position table ends, and no
// length in the profile may read past it. Found on the raised graph, never by a name.
#pragma once
#include <string>
#include <vector>

#include "ir/graph.h"

namespace vernier::plan {

/// A Gather on a table of `rows` rows whose largest index is `last`, an expression of input sizes.
struct TableBound {
  Dim last;
  int64_t rows = 0;
  /// Every run at these sizes reads `last`; else only one whose mask has no padding (positions
  /// that are counted over a mask).
  bool always = true;
  std::string where;  ///< the Gather
};

/// The bounds of Gathers whose indices come from Range, sizes, constants that count, arithmetic
/// with constants, and CumSum over a mask. Indices of any other origin are left to run time.
std::vector<TableBound> table_bounds(const ir::Graph& raised);

}  // namespace vernier::plan
