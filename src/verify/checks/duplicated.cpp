// Is the first row the same in every place?
#include "verify/checks/rows_agree.h"
#include "verify/checks/table.h"

namespace vernier::verify::checks {
namespace {

Findings ask_duplicated(Context& context, const CopiedRows& rows) {
  return {rows_agree(context, rows.base, rows.other, rows.moves)};
}

}  // namespace

constexpr Check duplicated{.ask = &ask_duplicated, .why_not = &no_rows};

}  // namespace vernier::verify::checks
