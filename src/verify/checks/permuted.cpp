// Are rows the same in reverse order?
#include "verify/checks/rows_agree.h"
#include "verify/checks/table.h"

namespace vernier::verify::checks {
namespace {

Findings ask_permuted(Context& context, const ReversedRows& rows) {
  return {rows_agree(context, rows.base, rows.other, rows.moves)};
}

}  // namespace

constexpr Check permuted{.ask = &ask_permuted, .why_not = &no_rows};

}  // namespace vernier::verify::checks
