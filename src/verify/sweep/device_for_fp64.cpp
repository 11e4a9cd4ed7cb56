// The device that helps with the FP64 evaluation: see device_for_fp64.h.
#include "verify/sweep/device_for_fp64.h"

#include "core/error.h"
#include "runtime/backends.h"

namespace vernier::verify {

std::unique_ptr<Fp64Device> device_for_fp64(const Request& request,
                                            const backend::Backend& backend) {
  const std::string& asked = request.evaluate_on;
  if (asked == "cpu") return nullptr;
  if (asked.empty()) {
    const bool here = backend.fp64_device && (!backend.available || backend.available());
    return here ? backend.fp64_device() : nullptr;
  }
  if (asked != "cuda")
    throw Error(ErrorCode::kInput, "--evaluate-on " + asked + ": expected cpu or cuda");
  const backend::Backend& device = runtime::backend_named(asked, "--evaluate-on");
  if (const Support support = device.available ? device.available() : yes(); !support)
    throw Error(ErrorCode::kMachine,
                "--evaluate-on cuda: " + support.reason + "; evaluate on the CPU instead");
  return device.fp64_device();
}

}  // namespace vernier::verify
