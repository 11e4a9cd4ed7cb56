// Is a row of a batch what it is alone?
#include <fmt/format.h>

#include "verify/checks/rows_agree.h"
#include "verify/checks/table.h"

namespace vernier::verify::checks {
namespace {

std::string why_not(const Context& context) {
  const BatchAxes& axes = context.inputs.axes;
  if (!axes.known() || runs_alone(context)) return no_rows(context);
  return axes.symbol.empty() ? fmt::format("the model fixes the batch at {}", axes.fixed_rows)
                             : "the engine cannot run '" + axes.symbol + "' at 1";
}

// One finding for each row, up to the first that differs.
Findings ask_alone(Context& context, const RowsAlone& rows) {
  Findings findings;
  for (int64_t row = 0; row < rows.batch.rows; ++row) {
    const auto at = static_cast<size_t>(row);
    const CellRun one{.rows = 1, .inputs = rows.inputs[at], .answers = rows.answers[at]};
    findings.push_back(rows_agree(context, rows.batch, one, {{row, 0}}));
    if (findings.back().verdict != Verdict::kPass) break;
  }
  return findings;
}

}  // namespace

constexpr Check alone{.ask = &ask_alone, .why_not = &why_not};

}  // namespace vernier::verify::checks
