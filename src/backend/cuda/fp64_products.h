// Products of doubles in host memory on the GPU.
#pragma once
#include <memory>

#include "core/fp64_products.h"

namespace vernier::backend::cuda {

/// On the first GPU; throws Error(kMachine). Cost: a·, b and c once over the bus each way; memory
/// of the device for b and two chunks of 1024 rows.
std::unique_ptr<Fp64Products> make_fp64_products();

}  // namespace vernier::backend::cuda
