// Where the tables of tests/ops/*_cases.cpp are kept: see op_tables.h.
#include "backend/op_tables.h"

namespace vernier::test {

std::vector<OpTable>& op_tables() {
  static std::vector<OpTable> tables;
  return tables;
}

OpCases::OpCases(const std::string& table, std::vector<OpCase> rows) {
  op_tables().push_back({table, std::move(rows)});
}
// Symbolic rows mean nothing to a kernel.
ShapeCases::ShapeCases(const std::string&, std::vector<ShapeCase>) {}

}  // namespace vernier::test
