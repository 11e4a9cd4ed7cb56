// The evaluator's own tables (tests/ops/*_cases.cpp) in a test program of a backend: their rows are
// kept here, for the kernel rows (cuda/op_tables.cpp) and as seeds of the differential test
// (rules_test.cpp).
#pragma once
#include <string>
#include <vector>

#include "ops/case.h"

namespace vernier::test {

struct OpTable {
  std::string name;
  std::vector<OpCase> rows;
};
/// All tables of the program; complete when main() begins.
std::vector<OpTable>& op_tables();

}  // namespace vernier::test
