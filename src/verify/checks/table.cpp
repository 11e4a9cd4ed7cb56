// The table of checks: checks.def.
#include "verify/checks/table.h"

namespace vernier::verify {
namespace {

constexpr CheckRow kTable[] = {
#define CHECK(name, check) {name, &checks::check},
#include "verify/checks/checks.def"
#undef CHECK
};

}  // namespace

std::span<const CheckRow> check_table() { return kTable; }

}  // namespace vernier::verify
