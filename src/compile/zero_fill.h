// Outputs that are 0 at padding (--unpad zero-fill), so that padding need not be computed for them.
// Contract: docs/unpadding.md.
#pragma once
#include <string>
#include <vector>

#include "ir/graph.h"
#include "plan/plan.h"

namespace vernier::compiler {

/// The float outputs [B, S, …] of an imported graph whose places are those of one of its padding
/// masks [B, S], and a note that names them, or says why there is none.
std::vector<plan::ZeroFilled> zero_fillable(const ir::Graph& imported,
                                            std::vector<std::string>& notes);
/// Their padding becomes 0 in the graph, too: behind the last token of each row of the mask
/// (core/token_rows.h). Throws Error(kInput) where the graph has no such outputs and masks.
void zero_fill(ir::Graph& imported, const std::vector<plan::ZeroFilled>& outputs);

}  // namespace vernier::compiler
