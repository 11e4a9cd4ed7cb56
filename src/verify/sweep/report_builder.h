// ReportBuilder: findings of checks as a Report: counts, the first failure of each check, the
// verdict of each cell and of all.
#pragma once
#include <string>

#include "verify/check.h"
#include "vernier/verify.h"

namespace vernier::verify {

class ReportBuilder {
 public:
  /// The report has a row of this check, below those listed before.
  void list(const CheckRow& row);
  /// What a check found, in the order it was found; `cell`: where, null: not in one cell. The
  /// gravest verdict counts, and of several the first.
  void add(const CheckRow& row, const Findings& findings, CellResult* cell);
  /// The row of a check that found nothing to look at says why.
  void explain_nothing(const CheckRow& row, const std::string& why);
  /// The line of an output, which is added where there is none.
  OutputResult& output(const std::string& name);
  /// The words that go with what passed.
  void finish();

  Report report;

 private:
  CheckResult& result_of(const CheckRow& row);
  void add_failure(CheckResult& check, const Finding& finding, CellResult* cell);
};

}  // namespace vernier::verify
