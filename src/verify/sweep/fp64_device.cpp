// The device that helps with the FP64 evaluation: see fp64_device.h.
#include "verify/sweep/fp64_device.h"

#include "core/error.h"
#include "runtime/backends.h"

namespace vernier::verify {

std::unique_ptr<Fp64Products> fp64_device(const Request& request, const backend::Backend& backend) {
  const std::string& asked = request.evaluate_on;
  if (asked == "cpu") return nullptr;
  if (asked.empty()) {
    const bool here = backend.fp64_products && (!backend.available || backend.available());
    return here ? backend.fp64_products() : nullptr;
  }
  if (asked != "cuda")
    throw Error(ErrorCode::kInput, "--evaluate-on " + asked + ": expected cpu or cuda");
  const backend::Backend& device = runtime::backend_named(asked, "--evaluate-on");
  if (const Support support = device.available ? device.available() : yes(); !support)
    throw Error(ErrorCode::kMachine,
                "--evaluate-on cuda: " + support.reason + "; evaluate on the CPU instead");
  return device.fp64_products();
}

}  // namespace vernier::verify
