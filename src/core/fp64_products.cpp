// The device for FP64 products that is in use: see fp64_products.h.
#include "core/fp64_products.h"

namespace vernier {
namespace {

Fp64Products* in_use = nullptr;

}  // namespace

WithFp64Products::WithFp64Products(std::unique_ptr<Fp64Products> device)
    : device_(std::move(device)) {
  if (in_use == nullptr) in_use = device_.get();
}
WithFp64Products::~WithFp64Products() {
  if (in_use == device_.get()) in_use = nullptr;
}

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
