// The devices that this program was built with.
#pragma once
#include <string>

#include "backend/kernel.h"

namespace vernier::runtime {

/// The backend called `device`. Throws Error(kInput): `what` (who asks: "--device", "the engine was
/// built for device"), what it got, and the devices there are.
const backend::Backend& backend_named(const std::string& device, const std::string& what);

}  // namespace vernier::runtime
