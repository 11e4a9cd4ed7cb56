// The local rewrites of canonicalise, by file; each file states its formulas and conditions. A rule
// examines one node and returns true if it changed the graph. Contract: rewrite.h.
#pragma once
#include <span>

#include "passes/rewrite.h"

namespace vernier::passes {

std::span<const Rule> shape_rules();       ///< canonicalise_shapes.cpp: shape inputs to attributes
std::span<const Rule> view_rules();        ///< canonicalise_views.cpp: reshape, transpose, slice
std::span<const Rule> expand_rules();      ///< canonicalise_expand.cpp: broadcasts move down
std::span<const Rule> arithmetic_rules();  ///< canonicalise_arithmetic.cpp: neutral elements, …
std::span<const Rule> mask_rules();        ///< canonicalise_masks.cpp: forms of masks
std::span<const Rule> index_rules();       ///< canonicalise_index.cpp: gathers by position

}  // namespace vernier::passes
