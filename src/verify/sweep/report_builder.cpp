// ReportBuilder: see report_builder.h.
#include "verify/sweep/report_builder.h"

#include <algorithm>

namespace vernier::verify {

void ReportBuilder::list(const CheckRow& row) { result_of(row); }

CheckResult& ReportBuilder::result_of(const CheckRow& row) {
  const auto found = std::ranges::find(report.checks, row.name, &CheckResult::name);
  if (found != report.checks.end()) return *found;
  return report.checks.emplace_back(
      CheckResult{.name = std::string(row.name), .done = 0, .failed = 0, .note = ""});
}

OutputResult& ReportBuilder::output(const std::string& name) {
  const auto found = std::ranges::find(report.outputs, name, &OutputResult::name);
  if (found != report.outputs.end()) return *found;
  report.outputs.emplace_back().name = name;
  return report.outputs.back();
}

void ReportBuilder::add(const CheckRow& row, const Findings& findings, CellResult* cell) {
  if (findings.empty()) return;  // a check that was not requested has no row
  CheckResult& check = result_of(row);
  for (const Finding& finding : findings) {
    ++check.done;
    report.compared_values += finding.value.has_value();
    if (finding.verdict != Verdict::kPass)
      add_failure(check, finding, cell);
    else if (check.failed == 0 && check.note.empty())
      check.note = finding.note;
  }
}

void ReportBuilder::add_failure(CheckResult& check, const Finding& finding, CellResult* cell) {
  const std::string where = cell ? cell->label + ": " : "";
  const std::string why =
      (finding.output.empty() ? "" : "output '" + finding.output + "': ") + finding.why;
  if (check.failed++ == 0) check.note = where + why;
  if (!finding.output.empty() && output(finding.output).verdict == Verdict::kPass) {
    output(finding.output).verdict = finding.verdict;
    output(finding.output).why = where + finding.why;
  }
  if (finding.value) report.rewrites.push_back(*finding.value);
  if (cell &&
      (finding.verdict < cell->verdict || (finding.explains && finding.verdict == cell->verdict))) {
    cell->verdict = finding.verdict;
    cell->why = why;
  }
  const bool same = finding.verdict == report.verdict && report.explanation.starts_with(where);
  if (finding.verdict >= report.verdict && !(finding.explains && same)) return;
  report.verdict = finding.verdict;
  report.explanation = where + why;
  report.cause = finding.cause;
  report.cause.cell = cell ? cell->label : "";
  if (report.cause.reason.empty()) report.cause.reason = why;
}

void ReportBuilder::explain_nothing(const CheckRow& row, const std::string& why) {
  const auto found = std::ranges::find(report.checks, row.name, &CheckResult::name);
  if (found != report.checks.end() && found->done == 0 && found->note.empty()) found->note = why;
}

void ReportBuilder::finish() {
  for (const CheckRow& row : check_table()) {
    const auto found = std::ranges::find(report.checks, row.name, &CheckResult::name);
    if (found == report.checks.end() || found->done == 0 || !found->note.empty()) continue;
    found->note = row.check->passed_note;
  }
  if (report.passed())
    report.explanation = "the engine agrees with the FP64 evaluation of the original model";
}

}  // namespace vernier::verify
