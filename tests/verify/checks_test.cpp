// The table of checks and the manual agree: docs/verification.md names every check of checks.def
// and every verdict, in their order.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "verify/check.h"
#include "vernier/verdict.h"

namespace vernier::verify {
namespace {

// The first column of a table of the manual, as far as it is in code type.
std::vector<std::string> first_column(const std::string& heading) {
  std::ifstream manual(std::string(VERNIER_SOURCE_DIR) + "/docs/verification.md");
  std::vector<std::string> names;
  bool inside = false;
  for (std::string line; std::getline(manual, line);) {
    if (line.starts_with("## ")) inside = line == "## " + heading;
    if (inside && line.starts_with("| `")) names.push_back(line.substr(3, line.find('`', 3) - 3));
  }
  return names;
}

TEST(Checks, AreThoseOfTheManual) {
  std::vector<std::string> names;
  for (const CheckRow& row : check_table()) {
    EXPECT_NE(row.check, nullptr) << row.name;
    if (std::ranges::find(names, row.name) == names.end()) names.emplace_back(row.name);
  }
  EXPECT_EQ(first_column("Checks"), names);
}

TEST(Verdicts, AreThoseOfTheManualByRank) {
  std::vector<std::string> names;
  for (int rank = 0; rank <= static_cast<int>(Verdict::kPass); ++rank) {
    const auto verdict = static_cast<Verdict>(rank);
    names.emplace_back(name(verdict));
    EXPECT_FALSE(advice(verdict).empty()) << name(verdict);
    EXPECT_EQ(exit_code(verdict), verdict == Verdict::kPass ? 0 : 1) << name(verdict);
  }
  EXPECT_EQ(first_column("Verdicts"), names);
}

}  // namespace
}  // namespace vernier::verify
