// The tile shapes of products on the GPU, for tests that run a row in each of them.
#pragma once
#include <string>
#include <vector>

#include "backend/harness.h"

namespace vernier::backend::test {

/// A tuning for each tile shape that the row has for the case; empty: it has no choice.
std::vector<std::string> tunings_of(const KernelDef& kernel, const OpCase& c);

/// Runs the row as it is, compares a sample with the evaluator, and then runs it in each tile
/// shape: all give the same bits. Returns how many there are.
int check_tile_shapes(const KernelDef& kernel, const OpCase& c);

}  // namespace vernier::backend::test
