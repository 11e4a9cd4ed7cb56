// Rows by their bits: see rows_agree.h.
#include "verify/checks/rows_agree.h"

#include <fmt/format.h>

#include "verify/replay.h"

namespace vernier::verify::checks {
namespace {

Finding difference(Context& context, const CellRun& base, const CellRun& other, RowMove move,
                   const std::string& output) {
  Recorder before, after;
  context.runs.several.run(base.inputs, before);
  context.runs.several.run(other.inputs, after);
  const RowPair pair{
      .row_a = move.from, .rows_a = base.rows, .row_b = move.to, .rows_b = other.rows};
  const std::string where = first_difference(context.subject.plan, before, after, pair);
  return failure(
      Verdict::kNeighbours,
      fmt::format("row {} of output '{}' has other bits; the first step that differs is {}",
                  move.from, output, where.empty() ? "not one with rows of its own" : where));
}

}  // namespace

Finding rows_agree(Context& context, const CellRun& base, const CellRun& other,
                   const std::vector<RowMove>& moves) {
  for (const auto& [name, tensor] : base.answers) {
    const int axis = context.inputs.axes.of(name);
    if (axis == kNoAxis || context.inputs.mixed.contains(name)) continue;
    const Tensor* there = find(other.answers, name);
    for (const RowMove& move : moves) {
      if (there && same_bits(take_row(tensor, axis, move.from), take_row(*there, axis, move.to)))
        continue;
      return difference(context, base, other, move, name);
    }
  }
  return {};
}

std::string no_rows(const Context& context) {
  return context.inputs.axes.known() ? "" : "no axis counts rows";
}

}  // namespace vernier::verify::checks
