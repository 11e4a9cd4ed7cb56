// Do NaN, infinities and other ids in other rows matter?
#include "verify/checks/rows_agree.h"
#include "verify/checks/table.h"

namespace vernier::verify::checks {
namespace {

Findings ask_beside_poison(Context& context, const PoisonedRows& rows) {
  return {rows_agree(context, rows.base, rows.other, rows.moves)};
}

}  // namespace

constexpr Check beside_poison{.ask = &ask_beside_poison, .why_not = &no_rows};

}  // namespace vernier::verify::checks
