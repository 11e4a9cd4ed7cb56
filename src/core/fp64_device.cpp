// The device in use: see fp64_device.h.
#include "core/fp64_device.h"

namespace vernier {
namespace {

Fp64Device* in_use = nullptr;

}  // namespace

WithFp64Device::WithFp64Device(std::unique_ptr<Fp64Device> device) : device_(std::move(device)) {
  if (in_use == nullptr) in_use = device_.get();
}
WithFp64Device::~WithFp64Device() {
  if (in_use == device_.get()) in_use = nullptr;
}

Fp64Device* fp64_device() { return in_use; }

double least_on_device() { return in_use != nullptr ? in_use->least() : 0; }

bool multiply_on_device(int64_t m, int64_t n, int64_t k, const double* a, const double* b,
                        double* c) {
  if (in_use == nullptr) return false;
  if (static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k) < in_use->least())
    return false;
  in_use->multiply_add(m, n, k, a, b, c);
  return true;
}

void keep_on_device(const double* b, int64_t elems) {
  if (in_use != nullptr) in_use->keep(b, elems);
}
void forget_on_device(const double* b) {
  if (in_use != nullptr) in_use->forget(b);
}

}  // namespace vernier
