// The checks of checks.def, each defined in a file of its own. For these files.
#pragma once
#include "verify/check.h"

namespace vernier::verify::checks {

#define CHECK(name, check) extern const Check check;
#include "verify/checks/checks.def"
#undef CHECK

}  // namespace vernier::verify::checks
