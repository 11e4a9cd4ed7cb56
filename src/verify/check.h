// The contract of the checks of verify. A check is one file of checks/ and one row of
// checks/checks.def, which is their only list. It is asked about evidence that the sweep has made
// (evidence.h), and returns what it found; the sweep puts that into the report. How to write one:
// docs/adding_a_check.md.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "verify/evidence.h"
#include "vernier/verify.h"

namespace vernier::verify {

/// One thing that a check looked at. The report counts findings, so that a check returns one for
/// whatever passed, too.
struct Finding {
  Verdict verdict = Verdict::kPass;
  std::string why = {};  ///< of a failure: what is wrong, where, and which step is to blame
  std::string output =
      {};                 ///< the output it is about, if any: its line of the report shows it, too
  std::string note = {};  ///< of a pass: what the check's row says about it
  Cause cause = {};       ///< of a failure: the step, value and rules, where they are known
  /// Tells more about an earlier finding of the same verdict in this cell, and replaces its text.
  bool explains = false;
  /// A value that F and R both have; one that fails is in the list of rewrites of the report.
  std::optional<ValueResult> value = {};
};
using Findings = std::vector<Finding>;

inline Finding failure(Verdict verdict, std::string why) {
  return {.verdict = verdict, .why = std::move(why)};
}

/// A check asked about evidence of this kind, which says how often: see evidence.h. It may run the
/// engine and evaluate the model through the context. It throws Error for what is no verdict:
/// wrong usage, limits that are reached.
template <class Evidence>
using AskedAbout = Findings (*)(Context& context, const Evidence& evidence);

/// The kinds of evidence, in the order in which the sweep makes them. Checks that are asked about
/// the same kind are asked in the order of checks.def.
using Ask =
    std::variant<AskedAbout<EngineConstants>, AskedAbout<GroupValues>, AskedAbout<RepeatedRuns>,
                 AskedAbout<ProjectedProducts>, AskedAbout<MeasuredAnswers>, AskedAbout<RowsAlone>,
                 AskedAbout<ReversedRows>, AskedAbout<CopiedRows>, AskedAbout<PoisonedRows>,
                 AskedAbout<ReplayedSteps>, AskedAbout<ExtremeSteps>, AskedAbout<FinishedGroup>,
                 AskedAbout<FinishedSweep>>;

struct Check {
  Ask ask;
  /// Empty, or why this model and engine give the check nothing to do; it is not asked then. Null:
  /// it always applies.
  std::string (*why_not)(const Context& context) = nullptr;
  /// Did the user ask for it? If not, the report has no row of it. Null: it is always made.
  bool (*requested)(const Request& request) = nullptr;
  /// What its row says where all findings passed without a note.
  std::string_view passed_note = {};
};

/// A row of checks.def. Rows of the same name are one row of the report.
struct CheckRow {
  std::string_view name;  ///< as it is printed, and in JSON
  const Check* check = nullptr;
};
/// checks.def, in its order, which is that of the report.
std::span<const CheckRow> check_table();

}  // namespace vernier::verify
