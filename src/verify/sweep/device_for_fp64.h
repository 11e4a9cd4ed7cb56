// The device that helps with the FP64 evaluation of a request.
#pragma once
#include "backend/kernel.h"
#include "core/fp64_device.h"
#include "vernier/verify.h"

namespace vernier::verify {

/// By Request::evaluate_on, for an engine of `backend`; null: the CPU alone. Throws Error: kInput
/// for a device that nobody knows, kMachine where it is not available.
std::unique_ptr<Fp64Device> device_for_fp64(const Request& request,
                                            const backend::Backend& backend);

}  // namespace vernier::verify
