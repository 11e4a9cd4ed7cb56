// Outputs that are 0 at padding (--unpad zero-fill), so that padding need not be computed for them.
// Contract: docs/unpadding.md.
#pragma once
#include <string>
#include <vector>

#include "ir/graph.h"
#include "plan/plan.h"

namespace vernier::compiler {

/// The float outputs [B, S, …] of an imported graph whose places are those of one of its padding
/// masks [B, S]. Adds a note that names them, or says why there are none.
std::vector<plan::ZeroFilled> zero_fillable(const ir::Graph& imported,
                                            std::vector<std::string>& notes);
/// Sets these outputs to 0 after the last token of each row of the mask (core/token_rows.h), in
/// the graph. Throws Error(kInput) if the graph has no such outputs or masks.
void zero_fill(ir::Graph& imported, const std::vector<plan::ZeroFilled>& outputs);

}  // namespace vernier::compiler
